"""Users, tokens, workspaces, roles: who may come in, and what exists for whom (O8, X5)."""

import pytest

from pagegate.storage.users import find_caller, find_user_by_name
from tests.integration.http.conftest import World


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "TOKEN_MISSING"),
        ("", "TOKEN_MISSING"),
        ("Basic cGFnZTpnYXRl", "TOKEN_MISSING"),
        ("Bearer", "TOKEN_MISSING"),
        ("Bearer pg_unknown", "TOKEN_INVALID"),
        ("Bearer somethingelse", "TOKEN_INVALID"),
        ("Bearer pg_" + "x" * 4000, "TOKEN_INVALID"),
        ("Bearer pg_\u00e9", "TOKEN_INVALID"),
    ],
)
async def test_a_request_without_a_good_token_is_refused(world: World, header: str | None, code: str) -> None:
    answer = await world.nobody.get("/me", headers={"Authorization": header} if header is not None else None)
    assert (answer.status, answer.code) == (401, code)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_an_administrator_creates_a_user_who_can_come_in(world: World) -> None:
    made = await world.admin.post("/users", {"name": "Mira Okafor"})
    assert made.status == 201
    assert made.body["user"]["is_admin"] is False
    token = made.body["token"]["token"]
    assert token.startswith("pg_")
    me = await world.nobody.get("/me", headers={"Authorization": f"Bearer {token}"})
    assert (me.status, me.body["name"]) == (200, "Mira Okafor")


async def test_the_database_holds_no_token(world: World, tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = await world.admin.post("/users", {"name": "mira"})
    token = made.body["token"]["token"]
    await world.nobody.get("/me", headers={"Authorization": f"Bearer {token}"})
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("pagegate.db*"))
    assert b"mira" in kept
    assert token.encode() not in kept
    assert token.removeprefix("pg_").encode() not in kept


async def test_a_name_is_given_once(world: World) -> None:
    assert (await world.admin.post("/users", {"name": "mira"})).status == 201
    again = await world.admin.post("/users", {"name": " mira "})
    assert (again.status, again.code) == (409, "LOGIN_TAKEN")


@pytest.mark.parametrize("name", ["", "   ", "two\nlines", "nul\x00", "x" * 201, "tab\there", 7, None])
async def test_a_user_needs_a_usable_name(world: World, name: object) -> None:
    answer = await world.admin.post("/users", {"name": name})
    assert (answer.status, answer.code) == (422, "REQUEST_INVALID")
    assert answer.body["details"][0]["location"] == "name"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/users"),
        ("GET", "/users"),
        ("POST", "/users/1/disable"),
        ("POST", "/users/1/enable"),
        ("POST", "/users/1/tokens"),
    ],
)
async def test_only_administrators_manage_users(world: World, method: str, path: str) -> None:
    answer = await world.owner.ask(method, path, json={"name": "x"})
    assert (answer.status, answer.code) == (403, "ADMIN_REQUIRED")


async def test_a_disabled_user_is_refused_at_once_and_comes_back_when_enabled(world: World) -> None:
    assert (await world.editor.get("/me")).status == 200
    disabled = await world.admin.post(f"/users/{world.editor.user_id}/disable")
    assert disabled.body["disabled"] is True
    refused = await world.editor.get("/me")
    assert (refused.status, refused.code) == (403, "USER_DISABLED")
    await world.admin.post(f"/users/{world.editor.user_id}/enable")
    assert (await world.editor.get("/me")).status == 200


async def test_the_last_administrator_stays_enabled(world: World) -> None:
    refused = await world.admin.post(f"/users/{world.admin.user_id}/disable")
    assert (refused.status, refused.code) == (409, "LAST_ADMIN")
    assert (await world.admin.get("/me")).body["disabled"] is False
    await world.admin.post("/users", {"name": "second", "is_admin": True})
    assert (await world.admin.post(f"/users/{world.admin.user_id}/disable")).status == 200


async def test_a_revoked_token_opens_nothing_and_others_still_do(world: World) -> None:
    second = await world.admin.post(f"/users/{world.editor.user_id}/tokens", {"name": "laptop"})
    listed = await world.editor.get(f"/users/{world.editor.user_id}/tokens")
    assert [token["name"] for token in listed.body["tokens"]] == ["test", "laptop"]
    assert "pg_" not in listed.raw.decode()
    assert (await world.editor.delete(f"/tokens/{second.body['id']}")).status == 204
    assert (await world.editor.delete(f"/tokens/{second.body['id']}")).status == 204
    refused = await world.nobody.get("/me", headers={"Authorization": f"Bearer {second.body['token']}"})
    assert (refused.status, refused.code) == (401, "TOKEN_INVALID")
    assert (await world.editor.get("/me")).status == 200


async def test_tokens_of_other_users_do_not_exist(world: World) -> None:
    async with world.db.read() as tx:
        caller = await find_caller(tx, world.owner.token or "")
    assert caller is not None
    assert (await world.editor.delete(f"/tokens/{caller.token_id}")).code == "TOKEN_NOT_FOUND"
    assert (await world.editor.get(f"/users/{world.owner.user_id}/tokens")).code == "USER_NOT_FOUND"
    assert (await world.owner.get("/me")).status == 200


async def test_users_are_listed_in_pages(world: World) -> None:
    first = await world.admin.get("/users?limit=2")
    assert len(first.body["users"]) == 2
    rest = await world.admin.get(f"/users?limit=100&after_id={first.body['next_after_id']}")
    assert rest.body["next_after_id"] is None
    names = [user["name"] for user in first.body["users"] + rest.body["users"]]
    assert names == ["admin", "owner", "editor", "viewer", "stranger"]


async def test_whoever_makes_a_workspace_owns_it(world: World) -> None:
    made = await world.stranger.post("/workspaces", {"name": "Own things"})
    assert (made.status, made.body["role"]) == (201, "owner")
    listed = await world.stranger.get("/workspaces")
    assert [workspace["id"] for workspace in listed.body["workspaces"]] == [made.body["id"]]


async def test_a_workspace_does_not_exist_for_strangers_and_administrators_are_strangers_too(world: World) -> None:
    for person in (world.stranger, world.admin):
        for path in ("", "/members", "/projects"):
            answer = await person.get(f"/workspaces/{world.workspace_id}{path}")
            assert (answer.status, answer.code) == (404, "WORKSPACE_NOT_FOUND")
    made_up = await world.owner.get("/workspaces/999")
    assert (made_up.status, made_up.code) == (404, "WORKSPACE_NOT_FOUND")


async def test_owners_give_roles_and_a_role_counts_from_the_next_request_on(world: World) -> None:
    path = f"/workspaces/{world.workspace_id}/members/{world.viewer.user_id}"
    refused = await world.viewer.post(f"/workspaces/{world.workspace_id}/projects", {"name": "Mine"})
    assert (refused.status, refused.code) == (403, "ROLE_REQUIRED")
    assert (await world.editor.put(path, {"role": "editor"})).code == "ROLE_REQUIRED"
    changed = await world.owner.put(path, {"role": "editor"})
    assert {member["name"]: member["role"] for member in changed.body["members"]}["viewer"] == "editor"
    assert (await world.viewer.post(f"/workspaces/{world.workspace_id}/projects", {"name": "Mine"})).status == 201


async def test_a_member_who_was_taken_out_sees_nothing_any_more(world: World) -> None:
    path = f"/workspaces/{world.workspace_id}/members/{world.viewer.user_id}"
    assert (await world.viewer.get(world.project)).status == 200
    assert (await world.owner.delete(path)).status == 204
    assert (await world.viewer.get(world.project)).code == "PROJECT_NOT_FOUND"
    assert (await world.owner.delete(path)).code == "MEMBER_NOT_FOUND"


async def test_anyone_may_leave_but_the_last_owner(world: World) -> None:
    members = f"/workspaces/{world.workspace_id}/members"
    assert (await world.viewer.delete(f"{members}/{world.viewer.user_id}")).status == 204
    for answer in (
        await world.owner.delete(f"{members}/{world.owner.user_id}"),
        await world.owner.put(f"{members}/{world.owner.user_id}", {"role": "viewer"}),
    ):
        assert (answer.status, answer.code) == (409, "LAST_OWNER")
    assert (await world.owner.get(f"/workspaces/{world.workspace_id}")).body["role"] == "owner"


@pytest.mark.parametrize("role", ["admin", "", None, 1])
async def test_a_role_is_one_of_three(world: World, role: object) -> None:
    answer = await world.owner.put(f"/workspaces/{world.workspace_id}/members/{world.viewer.user_id}", {"role": role})
    assert (answer.status, answer.code) == (422, "REQUEST_INVALID")


async def test_when_a_token_was_used_is_noted(world: World) -> None:
    await world.editor.get("/me")
    listed = await world.editor.get(f"/users/{world.editor.user_id}/tokens")
    assert listed.body["tokens"][0]["last_used_at_ms"] is not None


async def test_a_refused_change_leaves_nothing_behind(world: World) -> None:
    await world.admin.post("/users", {"name": "mira", "is_admin": "no idea"})
    async with world.db.read() as tx:
        assert await find_user_by_name(tx, "mira") is None
