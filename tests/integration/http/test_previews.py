"""Opening a preview over the API: who may, what it holds, and what it never is (P1, P4, X5, D4)."""

from dataclasses import replace
from typing import Any

import jwt

from pagegate.actors.previews import Previews
from pagegate.storage import components, pages
from pagegate.storage.pages import NewVersion
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.runtime_state import MemoryState, StateUnavailable
from tests.integration.http.conftest import Answer, Person, World

TILE = '<script setup lang="ts">\nimport T from "@components/Tile.vue"\n</script>\n<template><T /></template>'


async def save(world: World, code: str, source: str = "<template/>", **more: Any) -> int:
    """A saved page, without a gate; its id."""
    version = NewVersion(
        source=source,
        title=more.get("title", code.upper()),
        speaker_notes=more.get("notes", ""),
        component_pins=more.get("pins", {}),
        status="passed",
        verdict=None,
        picture_key=None,
        job_id=None,
        created_by=world.editor.user_id,
    )
    async with world.db.write() as tx:
        if "again" in more:
            await pages.add_page_version(tx, more["again"], more["on"], version)
            return int(more["again"])
        return await pages.insert_page_with_first_version(
            tx, world.project_id, code=code, framework="vue", version=version, canvas_width_px=more.get("width")
        )


async def component(world: World, source: str) -> int:
    async with world.db.write() as tx:
        saved, _ = await components.put_component(tx, world.project_id, "Tile.vue", source, world.editor.user_id)
        return saved.id


async def opened(world: World, page_id: int, body: dict[str, Any] | None = None) -> Answer:
    return await world.viewer.post(f"/pages/{page_id}/previews", body or {})


def runtime_of(world: World, answer: Answer) -> Person:
    """Someone who has the link, and asks the internal addresses as the Runtime does."""
    return Person(world.http, world.viewer.base, 0, answer.body["url"].rstrip("/").rpartition("/")[2])


def address(artifact_id: str, rest: str) -> str:
    return f"/internal/runtime/preview-artifacts/{artifact_id}{rest}"


async def test_a_viewer_opens_a_page_with_those_around_it(world: World) -> None:
    one = await save(world, "one", notes="Slowly.")
    two = await save(world, "two", TILE, width=800)
    await component(world, "<template>tile</template>")
    answer = await opened(world, two)
    assert answer.status == 201, answer.body
    assert answer.body["url"].startswith("http://runtime.test/previews/")
    claims = jwt.decode(answer.body["url"].split("/")[-2], options={"verify_signature": False})
    assert (claims["sub"], claims["exp"] - claims["iat"]) == (answer.body["artifact_id"], 3600)
    runtime = runtime_of(world, answer)
    manifest = (await runtime.get(address(answer.body["artifact_id"], "/manifest"))).body
    assert (manifest["entry"], manifest["base"], manifest["modules"]) == (
        "pages/two.vue",
        "./",
        ["components/Tile.vue", "pages/two.vue"],
    )
    assert manifest["canvas"] == {"width_px": 800, "height_px": None}
    shown = [(page["code"], page["title"], page["speaker_notes"]) for page in manifest["pages"]]
    assert shown == [("one", "ONE", "Slowly."), ("two", "TWO", "")]
    first, second = (page["artifact_id"] for page in manifest["pages"])
    assert second == answer.body["artifact_id"]
    around = await runtime.get(address(first, "/manifest"))
    assert (around.body["entry"], around.body["pages"]) == ("pages/one.vue", [])
    assert one != two


async def test_a_link_opens_its_own_preview_only(world: World) -> None:
    page = await save(world, "one")
    mine, other = await opened(world, page), await opened(world, page)
    assert mine.body["artifact_id"] != other.body["artifact_id"]
    stolen = await runtime_of(world, mine).get(address(other.body["artifact_id"], "/manifest"))
    assert (stolen.status, stolen.code) == (401, "TICKET_INVALID")
    assert (await runtime_of(world, mine).get(f"/pages/{page}")).code == "TOKEN_INVALID"


async def test_who_is_not_a_member_opens_nothing(world: World) -> None:
    page = await save(world, "one")
    assert (await world.stranger.post(f"/pages/{page}/previews", {})).code == "PAGE_NOT_FOUND"
    assert (await world.nobody.post(f"/pages/{page}/previews", {})).code == "TOKEN_MISSING"
    assert (await world.viewer.post("/pages/999/previews", {})).code == "PAGE_NOT_FOUND"
    assert (await world.viewer.post(f"/pages/{page}/previews", {"number": 1})).code == "REQUEST_INVALID"


async def test_an_earlier_version_is_shown_as_it_was_and_others_as_they_are(world: World) -> None:
    page = await save(world, "one", "first")
    await save(world, "one", "second", again=page, on=1)
    for body, source in (({}, "second"), ({"version": 1}, "first"), ({"version": 2}, "second")):
        answer = await opened(world, page, body)
        module = await runtime_of(world, answer).get(address(answer.body["artifact_id"], "/modules?path=pages/one.vue"))
        assert module.raw.decode() == source
    assert (await opened(world, page, {"version": 3})).code == "PAGE_VERSION_NOT_FOUND"


async def test_a_page_is_shown_with_the_components_it_was_checked_with(world: World) -> None:
    old = await component(world, "old tile")
    pinned = await save(world, "pinned", TILE, pins={"Tile.vue": old})
    await component(world, "new tile")
    loose = await save(world, "loose", TILE)
    async with world.db.write() as tx:
        await components.delete_component(tx, world.project_id, "Tile.vue")
    await component(world, "newest tile")
    for page, tile in ((pinned, "old tile"), (loose, "newest tile")):
        answer = await opened(world, page)
        module = await runtime_of(world, answer).get(
            address(answer.body["artifact_id"], "/modules?path=components/Tile.vue")
        )
        assert module.raw.decode() == tile


async def test_a_preview_stays_as_it_was_opened(world: World) -> None:
    page = await save(world, "one", "first")
    answer = await opened(world, page)
    await save(world, "one", "second", again=page, on=1)
    path = address(answer.body["artifact_id"], "/modules?path=pages/one.vue")
    assert (await runtime_of(world, answer).get(path)).raw == b"first"


async def test_in_memory_a_lost_preview_is_gone_and_says_what_to_do(world: World) -> None:
    answer = await opened(world, await save(world, "one"))
    await world.parts.artifacts.delete(answer.body["artifact_id"])
    gone = await runtime_of(world, answer).get(address(answer.body["artifact_id"], "/manifest"))
    assert (gone.status, gone.code) == (404, "PREVIEW_ARTIFACT_UNAVAILABLE")
    assert "Open the preview again" in gone.body["hint"]


class Away(MemoryState):
    async def put(self, *_: Any, **__: Any) -> None:
        raise StateUnavailable("away")


async def test_a_preview_that_does_not_fit_is_refused_whole(world: World) -> None:
    page = await save(world, "one", "x" * 3000)
    await save(world, "two", "x" * 3000)
    for state, code in ((MemoryState(max_bytes=5000), "RUNTIME_STATE_FULL"), (Away(9999), "RUNTIME_STATE_UNAVAILABLE")):
        previews = Previews(world.db, PreviewArtifacts(state), world.parts.tickets, "http://runtime.test")
        async with world.another_door(previews=previews) as base:
            someone = Person(world.http, base, 0, world.viewer.token)
            refused = await someone.post(f"/pages/{page}/previews", {})
            assert (refused.status, refused.code) == (503, code)
        assert state.bytes_used() == 0


async def test_a_deleted_page_is_in_no_preview(world: World) -> None:
    one, two = await save(world, "one"), await save(world, "two")
    async with world.db.write() as tx:
        await pages.delete_page(tx, one)
    assert (await opened(world, one)).code == "PAGE_NOT_FOUND"
    answer = await opened(world, two)
    manifest = (await runtime_of(world, answer).get(address(answer.body["artifact_id"], "/manifest"))).body
    assert [page["code"] for page in manifest["pages"]] == ["two"]


def test_of_a_large_project_the_pages_around_are_shown() -> None:
    from pagegate.actors.previews import PAGES_MAX, around
    from pagegate.storage.preview_snapshots import DeckPage, SavedSource

    one = DeckPage(1, "a", "vue", "", "", None, None, 1, {}, SavedSource("page", 1, ""))
    deck = [replace(one, page_id=at) for at in range(1000)]
    for at in (0, 1, 500, 998, 999):
        shown = [page.page_id for page in around(deck, at)]
        assert at in shown
        assert shown == list(range(shown[0], shown[0] + PAGES_MAX))
    assert around(deck[:3], 2) == deck[:3]
    assert around([], 2) == []
