"""People, components, assets and pages on both databases: what may happen at the same moment, and what must not."""

import asyncio
from typing import Any

import pytest

from pagegate.storage import assets, components, pages, users, workspaces
from pagegate.storage.objects import StoredAsset
from pagegate.storage.pages import NewVersion
from tests.world import World


def version(world: World, source: str, **changed: Any) -> NewVersion:
    given: dict[str, Any] = {
        "source": source,
        "title": "Costs",
        "speaker_notes": "",
        "component_pins": {},
        "status": "passed",
        "verdict": {"status": "passed"},
        "picture_key": None,
        "job_id": None,
        "created_by": world.user_id,
    }
    return NewVersion(**(given | changed))


async def new_page(world: World, code: str = "q3-costs", **changed: Any) -> int:
    return await world.write(
        pages.insert_page_with_first_version,
        world.projects[0],
        code=code,
        framework="vue",
        version=version(world, "one", **changed),
    )


async def outcomes(*work: Any) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


async def test_of_two_saves_from_one_base_one_wins(world: World) -> None:
    page_id = await new_page(world)
    ended = await outcomes(
        *(world.write(pages.add_page_version, page_id, 1, version(world, f"save {n}")) for n in range(4))
    )
    assert [one for one in ended if not isinstance(one, Exception)] == [2]
    assert sum(isinstance(one, pages.PageChanged) for one in ended) == 3
    found = await world.read(pages.list_versions, page_id)
    assert [one.number for one in found] == [2, 1]
    page = await world.read(pages.find_page, page_id)
    assert page is not None
    assert page.number == 2


async def test_a_save_from_a_stale_base_writes_nothing(world: World) -> None:
    page_id = await new_page(world)
    await world.write(pages.add_page_version, page_id, 1, version(world, "two", title="New title"))
    for base in (0, 1, 3):
        with pytest.raises(pages.PageChanged):
            await world.write(pages.add_page_version, page_id, base, version(world, "late", title="Late"))
    page = await world.read(pages.find_page, page_id)
    assert page is not None
    assert (page.number, page.title) == (2, "New title")


async def test_a_deleted_page_takes_no_save(world: World) -> None:
    page_id = await new_page(world)
    assert await world.write(pages.delete_page, page_id)
    with pytest.raises(pages.PageChanged):
        await world.write(pages.add_page_version, page_id, 1, version(world, "late"))
    assert not await world.write(pages.delete_page, page_id)
    assert await world.write(pages.bring_back_page, page_id)
    assert await world.write(pages.add_page_version, page_id, 1, version(world, "two")) == 2


async def test_a_code_is_given_once_even_at_the_same_moment(world: World) -> None:
    ended = await outcomes(*(new_page(world, "same") for _ in range(4)))
    assert sum(isinstance(one, int) for one in ended) == 1
    assert sum(isinstance(one, pages.PageCodeTaken) for one in ended) == 3
    assert len(await world.read(pages.list_pages, world.projects[0])) == 1


async def test_a_deleted_page_keeps_its_code_and_is_not_imported(world: World) -> None:
    page_id = await new_page(world)
    project_id = world.projects[0]
    assert await world.read(pages.load_page_sources, project_id) == {"q3-costs.vue": "one"}
    await world.write(pages.delete_page, page_id)
    assert await world.read(pages.code_taken, project_id, "q3-costs")
    assert await world.read(pages.list_codes, project_id) == {"q3-costs"}
    assert await world.read(pages.load_page_sources, project_id) == {}
    with pytest.raises(pages.PageMissing):
        await world.read(pages.get_page_by_code, project_id, "q3-costs")
    with pytest.raises(pages.PageCodeTaken):
        await new_page(world)
    assert not await world.read(pages.code_taken, world.projects[1], "q3-costs"), "codes are a project's own"


async def test_a_job_writes_one_version_whatever_happens(world: World) -> None:
    page_id = await new_page(world, job_id=41)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await world.write(pages.add_page_version, page_id, 1, version(world, "again", job_id=41))
    page = await world.read(pages.find_page, page_id)
    assert page is not None
    assert page.number == 1


async def test_a_version_keeps_what_it_was_saved_with(world: World) -> None:
    pins = {"StatTile.vue": 7}
    verdict = {"status": "warning", "findings": [{"code": "TEXT_CLIPPED", "message": "页 \u2028"}]}
    page_id = await new_page(world, component_pins=pins, verdict=verdict, status="warning", picture_key="pages/1/a.png")
    found = await world.read(pages.find_version, page_id, 1)
    assert found is not None
    assert (found.component_pins, found.verdict, found.picture_key) == (pins, verdict, "pages/1/a.png")
    assert await world.read(pages.find_version, page_id, 2) is None
    (entry,) = await world.read(pages.list_pages, world.projects[0])
    assert (entry.status, entry.has_picture) == ("warning", True)


async def test_saves_of_one_component_at_the_same_moment_are_numbered_one_after_the_other(world: World) -> None:
    saved = await asyncio.gather(
        *(
            world.write(components.put_component, world.projects[0], "Tile.vue", f"source {n}", world.user_id)
            for n in range(5)
        )
    )
    assert sorted(one.number for one, _ in saved) == [1, 2, 3, 4, 5]
    current = await world.read(components.load_component_sources, world.projects[0])
    last = max((one for one, _ in saved), key=lambda one: one.number)
    assert current == {"Tile.vue": (last.id, last.source)}


async def test_the_same_source_twice_is_one_version(world: World) -> None:
    put = (components.put_component, world.projects[0], "Tile.vue", "source", world.user_id)
    first, again = await world.write(*put), await world.write(*put)
    assert (first[1], again[1]) == (True, False)
    assert first[0] == again[0]


async def test_an_old_component_version_stays_readable_after_a_delete(world: World) -> None:
    project_id = world.projects[0]
    await world.write(components.put_component, project_id, "Tile.vue", "one", world.user_id)
    await world.write(components.put_component, project_id, "Tile.vue", "two", world.user_id)
    assert await world.write(components.delete_component, project_id, "Tile.vue")
    assert await world.read(components.load_component_sources, project_id) == {}
    old = await world.read(components.find_component_version, project_id, "Tile.vue", 1)
    assert old is not None
    assert old.source == "one"


async def test_replacing_a_file_changes_what_new_checks_see(world: World) -> None:
    def stored(digest: str) -> StoredAsset:
        return StoredAsset("logo.svg", "image/svg+xml", digest, 10, f"assets/1/{digest}")

    project_id = world.projects[0]
    assert (await world.write(assets.put_asset, project_id, stored("a" * 64), world.user_id))[1]
    assert not (await world.write(assets.put_asset, project_id, stored("a" * 64), world.user_id))[1]
    replaced, added = await world.write(assets.put_asset, project_id, stored("b" * 64), world.user_id)
    assert (replaced.number, added) == (2, True)
    assert await world.read(assets.load_assets, project_id) == {"logo.svg": stored("b" * 64)}
    assert await world.read(assets.load_assets, world.projects[1]) == {}


async def test_a_user_name_is_given_once_even_at_the_same_moment(world: World) -> None:
    ended = await outcomes(*(world.write(users.create_user, "mira") for _ in range(4)))
    assert sum(isinstance(one, int) for one in ended) == 1
    assert sum(isinstance(one, users.LoginTaken) for one in ended) == 3


async def test_two_administrators_cannot_disable_each_other_at_the_same_moment(world: World) -> None:
    one = await world.write(users.create_user, "one", is_admin=True)
    two = await world.write(users.create_user, "two", is_admin=True)
    ended = await outcomes(world.write(users.set_disabled, one, True), world.write(users.set_disabled, two, True))
    assert sum(isinstance(end, users.LastAdmin) for end in ended) == 1
    listed = {user.name: user.disabled for user in await world.read(users.list_users)}
    assert sorted([listed["one"], listed["two"]]) == [False, True]


async def test_two_owners_cannot_leave_at_the_same_moment(world: World) -> None:
    other = await world.write(users.create_user, "other")
    workspace_id = await world.write(workspaces.create_workspace, "W", world.user_id)
    await world.write(workspaces.put_member, workspace_id, other, "owner")
    ended = await outcomes(
        world.write(workspaces.remove_member, workspace_id, world.user_id),
        world.write(workspaces.put_member, workspace_id, other, "viewer"),
    )
    assert sum(isinstance(end, workspaces.LastOwner) for end in ended) == 1
    members = await world.read(workspaces.list_members, workspace_id)
    assert [member.role for member in members].count("owner") == 1


@pytest.mark.parametrize(("role", "may_write"), [("owner", True), ("editor", True), ("viewer", False), (None, False)])
async def test_who_may_still_write_is_asked_of_role_and_user(world: World, role: Any, may_write: bool) -> None:
    user_id = await world.write(users.create_user, "mira")
    workspace_id = await world.write(workspaces.create_workspace, "W", world.user_id)
    if role is not None:
        await world.write(workspaces.put_member, workspace_id, user_id, role)
    assert await world.read(workspaces.is_active_editor, workspace_id, user_id) is may_write
    await world.write(users.set_disabled, user_id, True)
    assert not await world.read(workspaces.is_active_editor, workspace_id, user_id)


async def test_a_token_finds_its_owner_until_it_is_revoked(world: World) -> None:
    token = await world.write(users.issue_token, world.user_id, "laptop")
    caller = await world.read(users.find_caller, token.secret)
    assert caller is not None
    assert (caller.user_id, caller.token_id) == (world.user_id, token.id)
    assert await world.read(users.find_caller, token.secret[:-1]) is None
    assert await world.write(users.revoke_token, token.id)
    assert await world.read(users.find_caller, token.secret) is None
    assert not await world.write(users.revoke_token, 10**6)
