"""Projects, components, assets and pages over HTTP (D1-D4, X4, X5)."""

import asyncio
import hashlib

import aiohttp
import pytest

from pagegate.storage.objects import ObjectStoreUnavailable, picture_key
from pagegate.storage.pages import NewVersion, add_page_version, insert_page_with_first_version
from tests.integration.http.conftest import LIMITS, Person, World

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><path d="M0 0h8v8H0z"/></svg>'
TILE = "<template><p>tile</p></template>\n"


async def test_a_project_has_a_canvas(world: World) -> None:
    assert (await world.viewer.get(world.project)).body["canvas"] == {"width_px": 1280, "height_px": 720}
    changed = await world.editor.ask("PATCH", world.project, json={"canvas": {"width_px": 1920, "height_px": None}})
    assert changed.body["canvas"] == {"width_px": 1920, "height_px": None}
    assert changed.body["name"] == "Q3 review"
    renamed = await world.editor.ask("PATCH", world.project, json={"name": "C# 50%? 文件"})
    assert (renamed.body["name"], renamed.body["canvas"]["width_px"]) == ("C# 50%? 文件", 1920)


@pytest.mark.parametrize(
    "canvas",
    [
        {},
        {"width_px": 1280},
        {"width_px": 0, "height_px": 720},
        {"width_px": 1280, "height_px": 100_000},
        {"width_px": "wide", "height_px": 720},
        {"width": 1280, "height": 720},
        [1280, 720],
        "1280x720",
    ],
)
async def test_a_canvas_must_be_whole_and_sensible(world: World, canvas: object) -> None:
    answer = await world.editor.post(
        f"/workspaces/{world.workspace_id}/projects", {"name": "Odd canvas", "canvas": canvas}
    )
    assert (answer.status, answer.code) == (422, "REQUEST_INVALID")
    listed = await world.editor.get(f"/workspaces/{world.workspace_id}/projects")
    assert [project["name"] for project in listed.body["projects"]] == ["Q3 review"]


PATHS_TO_READ = ["", "/components", "/components/Tile.vue", "/assets", "/assets/logo.svg", "/pages"]


@pytest.mark.parametrize("path", PATHS_TO_READ)
async def test_another_workspaces_project_does_not_exist(world: World, path: str) -> None:
    for person in (world.stranger, world.admin):
        answer = await person.get(world.project + path)
        assert (answer.status, answer.code) == (404, "PROJECT_NOT_FOUND")


@pytest.mark.parametrize("project_id", ["0", "-1", "x", "1.5", "9" * 30, "1%20OR%201"])
async def test_a_malformed_id_names_nothing(world: World, project_id: str) -> None:
    answer = await world.editor.get(f"/projects/{project_id}")
    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


async def test_viewers_read_and_do_not_write(world: World) -> None:
    project = world.project
    for answer in (
        await world.viewer.ask("PATCH", project, json={"name": "Mine"}),
        await world.viewer.put(f"{project}/components/Tile.vue", {"source": TILE}),
        await world.viewer.put(f"{project}/assets/logo.svg", data=SVG),
        await world.viewer.delete(f"{project}/components/Tile.vue"),
        await world.viewer.delete(f"{project}/assets/logo.svg"),
    ):
        assert (answer.status, answer.code) == (403, "ROLE_REQUIRED")
    assert (await world.viewer.get(f"{project}/components")).body == {"components": []}
    assert (await world.viewer.get(f"{project}/assets")).body == {"assets": []}


# --- components -----------------------------------------------------------------------------------------------------


async def test_a_saved_component_is_a_new_version_and_old_ones_stay(world: World) -> None:
    path = f"{world.project}/components/StatTile.vue"
    first = await world.editor.put(path, {"source": TILE})
    second = await world.editor.put(path, {"source": TILE + "<!-- two -->"})
    same = await world.editor.put(path, {"source": TILE + "<!-- two -->"})
    assert [(a.body["number"], a.body["added"]) for a in (first, second, same)] == [(1, True), (2, True), (2, False)]
    assert (await world.viewer.get(path)).body["source"].endswith("<!-- two -->")
    assert (await world.viewer.get(f"{path}/versions/1")).body["source"] == TILE
    listed = await world.viewer.get(f"{path}/versions")
    assert [version["number"] for version in listed.body["versions"]] == [1, 2]
    assert (await world.viewer.get(f"{path}/versions/3")).code == "COMPONENT_NOT_FOUND"


async def test_a_deleted_component_leaves_the_list_and_counts_on_when_saved_again(world: World) -> None:
    path = f"{world.project}/components/StatTile.vue"
    await world.editor.put(path, {"source": TILE})
    assert (await world.editor.delete(path)).status == 204
    assert (await world.viewer.get(path)).code == "COMPONENT_NOT_FOUND"
    assert (await world.editor.delete(path)).code == "COMPONENT_NOT_FOUND"
    assert (await world.editor.put(path, {"source": TILE + " "})).body["number"] == 2


@pytest.mark.parametrize(
    "name", ["tile.vue", "Tile", "Tile.js", "Tile.vue.tsx", "..%2FTile.vue", "Ti le.vue", "Tile.vue%00", "Größe.vue"]
)
async def test_a_component_is_named_in_pascal_case(world: World, name: str) -> None:
    answer = await world.editor.put(f"{world.project}/components/{name}", {"source": TILE})
    assert (answer.status, answer.code) == (422, "COMPONENT_NAME_INVALID")


@pytest.mark.parametrize(
    ("source", "status", "code"),
    [
        ("", 422, "PAGE_SOURCE_EMPTY"),
        (" \n\t", 422, "PAGE_SOURCE_EMPTY"),
        ("x" * (LIMITS.source_bytes_max + 1), 413, "PAGE_SOURCE_TOO_LARGE"),
        ("é" * (LIMITS.source_bytes_max // 2 + 1), 413, "PAGE_SOURCE_TOO_LARGE"),
        ("a\x00b", 422, "REQUEST_INVALID"),
        (7, 422, "REQUEST_INVALID"),
        (None, 422, "REQUEST_INVALID"),
    ],
)
async def test_a_bad_component_source_saves_nothing(world: World, source: object, status: int, code: str) -> None:
    answer = await world.editor.put(f"{world.project}/components/Tile.vue", {"source": source})
    assert (answer.status, answer.code) == (status, code)
    assert (await world.viewer.get(f"{world.project}/components")).body == {"components": []}


# --- assets ---------------------------------------------------------------------------------------------------------


async def test_a_file_is_uploaded_downloaded_and_replaced(world: World) -> None:
    path = f"{world.project}/assets/logo.svg"
    saved = await world.editor.put(path, data=SVG)
    assert saved.body == {
        "name": "logo.svg",
        "version": 1,
        "media_type": "image/svg+xml",
        "size_bytes": len(SVG),
        "sha256": hashlib.sha256(SVG).hexdigest(),
        "width_px": None,
        "height_px": None,
        "ratio": None,
        "updated_at_ms": saved.body["updated_at_ms"],
        "added": True,
        "unmeasured": saved.body["unmeasured"],
    }
    assert (await world.editor.put(path, data=SVG)).body["added"] is False
    replaced = await world.editor.put(path, data=SVG + b"\n")
    assert (replaced.body["version"], replaced.body["added"]) == (2, True)
    got = await world.viewer.get(path)
    assert (got.raw, got.headers["Content-Type"]) == (SVG + b"\n", "image/svg+xml")
    again = await world.viewer.get(path, headers={"If-None-Match": got.headers["ETag"]})
    assert (again.status, again.raw) == (304, b"")
    listed = await world.viewer.get(f"{world.project}/assets")
    assert [(asset["name"], asset["version"]) for asset in listed.body["assets"]] == [("logo.svg", 2)]


async def test_an_uploaded_svg_cannot_act_as_a_page_of_ours(world: World) -> None:
    path = f"{world.project}/assets/logo.svg"
    await world.editor.put(path, data=b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    headers = (await world.viewer.get(path)).headers
    assert "sandbox" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    "name", ["图表 一.png", "Übersicht.png", "👩‍🌾 farm.png", "a.b.c.PNG", "with space.png", "it,is(fine).png"]
)
async def test_names_in_any_script_are_fine(world: World, name: str) -> None:
    saved = await world.editor.put(f"{world.project}/assets/{name}", data=b"\x89PNG")
    assert saved.status == 200, saved.body
    assert saved.body["name"] == name
    assert (await world.viewer.get(f"{world.project}/assets/{name}")).raw == b"\x89PNG"


async def test_the_two_unicode_forms_of_a_name_are_one_file(world: World) -> None:
    await world.editor.put(f"{world.project}/assets/U\u0308ber.png", data=b"1")
    await world.editor.put(f"{world.project}/assets/\u00dcber.png", data=b"2")
    listed = await world.viewer.get(f"{world.project}/assets")
    assert [(asset["name"], asset["version"]) for asset in listed.body["assets"]] == [("\u00dcber.png", 2)]


@pytest.mark.parametrize(
    "name",
    [
        "..%2F..%2Fetc%2Fpasswd.png",
        "%2Fetc%2Fpasswd.png",
        "..%5Cup.png",
        ".hidden.png",
        "%2e%2e.png",
        "a%00.png",
        "line%0Abreak.png",
        "q%3F.png",
        "hash%23.png",
        "percent%25.png",
        "quote%22.png",
        "%20lead.png",
        "trail.png%20",
        "%E2%80%AEgnp.evil.png",
        "x" * 201 + ".png",
        "bad%FF.png",
    ],
)
async def test_a_name_that_escapes_or_misleads_is_refused(world: World, name: str) -> None:
    from yarl import URL

    url = URL(world.editor.base + f"{world.project}/assets/{name}", encoded=True)
    async with world.http.put(url, data=b"x", headers=world.editor.headers()) as answer:
        assert answer.status == 422, await answer.text()
        assert (await answer.json())["code"] == "ASSET_NAME_INVALID"
    assert (await world.viewer.get(f"{world.project}/assets")).body == {"assets": []}


@pytest.mark.parametrize("name", ["page.html", "run.js", "run.exe", "none", "a.svgz", "a.png.zip"])
async def test_only_known_kinds_of_files_are_taken(world: World, name: str) -> None:
    answer = await world.editor.put(f"{world.project}/assets/{name}", data=b"x")
    assert (answer.status, answer.code) == (415, "ASSET_TYPE_NOT_ALLOWED")


async def test_a_file_over_the_limit_is_refused_and_not_kept(world: World, tmp_path) -> None:  # type: ignore[no-untyped-def]
    too_large = bytes(LIMITS.asset_bytes_max + 1)
    answer = await world.editor.put(f"{world.project}/assets/big.png", data=too_large)
    assert (answer.status, answer.code) == (413, "ASSET_TOO_LARGE")
    assert [path for path in (tmp_path / "objects").rglob("*") if path.is_file()] == []
    fits = await world.editor.put(f"{world.project}/assets/big.png", data=bytes(LIMITS.asset_bytes_max))
    assert fits.status == 200


async def test_a_file_of_undeclared_length_is_stopped_at_the_limit(world: World) -> None:
    sent = 0

    async def endless():  # type: ignore[no-untyped-def]
        nonlocal sent
        while sent < 100 * LIMITS.asset_bytes_max:
            sent += 64 * 1024
            yield bytes(64 * 1024)

    try:
        answer = await world.editor.put(f"{world.project}/assets/big.png", data=endless())
        assert (answer.status, answer.code) == (413, "ASSET_TOO_LARGE")
    except (ConnectionError, OSError):
        pass  # the server hung up on a client that would not stop
    assert sent < 50 * LIMITS.asset_bytes_max
    assert (await world.viewer.get(f"{world.project}/assets")).body == {"assets": []}


async def test_an_upload_that_is_cut_off_leaves_nothing(world: World, tmp_path) -> None:  # type: ignore[no-untyped-def]
    reader, writer = await asyncio.open_connection(world.server.host, world.server.port)
    writer.write(
        f"PUT {world.project}/assets/cut.png HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
        f"Authorization: Bearer {world.editor.token}\r\n\r\nonly this".encode()
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await world.viewer.get(f"{world.project}/assets")).body == {"assets": []}
    assert [path for path in (tmp_path / "objects").rglob("*") if path.is_file()] == []
    del reader


async def test_an_empty_file_is_refused(world: World) -> None:
    answer = await world.editor.put(f"{world.project}/assets/empty.png", data=b"")
    assert (answer.status, answer.code) == (422, "ASSET_EMPTY")


async def test_a_deleted_file_is_gone_from_the_list(world: World) -> None:
    path = f"{world.project}/assets/logo.svg"
    await world.editor.put(path, data=SVG)
    assert (await world.editor.delete(path)).status == 204
    assert (await world.viewer.get(path)).code == "ASSET_NOT_FOUND"
    assert (await world.editor.delete(path)).code == "ASSET_NOT_FOUND"


async def test_a_store_that_fails_in_the_middle_never_makes_a_short_file_look_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{world.project}/assets/big.png"
    await world.editor.put(path, data=bytes(300_000))

    async def broken(*_: object):  # type: ignore[no-untyped-def]
        yield bytes(1000)
        raise ObjectStoreUnavailable("reading failed")

    monkeypatch.setattr(world.parts.objects, "_chunks", broken)
    with pytest.raises(aiohttp.ClientError):
        await world.viewer.get(path)


async def test_a_store_that_is_away_is_no_fault_of_the_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{world.project}/assets/logo.svg"
    await world.editor.put(path, data=SVG)

    async def away(*_: object) -> None:
        raise ObjectStoreUnavailable("no answer from 10.0.0.9")

    monkeypatch.setattr(world.parts.objects, "open", away)
    answer = await world.viewer.get(path)
    assert (answer.status, answer.code) == (503, "OBJECT_STORE_UNAVAILABLE")
    assert "10.0.0.9" not in answer.raw.decode()


# --- pages ----------------------------------------------------------------------------------------------------------


def version(world: World, source: str, *, picture: str | None = None) -> NewVersion:
    return NewVersion(
        source=source,
        title="Costs",
        speaker_notes="Slowly.",
        component_pins={"StatTile.vue": 1},
        status="warning",
        verdict={"status": "warning", "findings": []},
        picture_key=picture,
        job_id=None,
        created_by=world.editor.user_id,
    )


async def make_page(world: World, picture: bytes = b"\x89PNG one") -> int:
    key = picture_key(world.project_id, hashlib.sha256(picture).hexdigest())
    await world.parts.objects.put(key, picture)
    async with world.db.write() as tx:
        page_id = await insert_page_with_first_version(
            tx, world.project_id, code="q3-costs", framework="vue", version=version(world, "one", picture=key)
        )
        await add_page_version(tx, page_id, 1, version(world, "two"))
    return page_id


async def test_a_page_shows_its_current_version_and_keeps_the_others(world: World) -> None:
    page_id = await make_page(world)
    listed = await world.viewer.get(f"{world.project}/pages")
    assert [(p["id"], p["code"], p["version"], p["status"]) for p in listed.body["pages"]] == [
        (page_id, "q3-costs", 2, "warning")
    ]
    page = await world.viewer.get(f"/pages/{page_id}")
    assert (page.body["version"]["number"], page.body["version"]["source"]) == (2, "two")
    assert page.body["canvas"] == {"width_px": 1280, "height_px": 720}
    assert page.body["version"]["component_pins"] == {"StatTile.vue": 1}
    versions = await world.viewer.get(f"/pages/{page_id}/versions")
    assert [(v["number"], v["has_picture"]) for v in versions.body["versions"]] == [(2, False), (1, True)]
    assert (await world.viewer.get(f"/pages/{page_id}/versions/1")).body["source"] == "one"
    assert (await world.viewer.get(f"/pages/{page_id}/versions/3")).code == "PAGE_VERSION_NOT_FOUND"
    assert (await world.viewer.get(f"/pages/{page_id}/versions/0")).code == "REQUEST_INVALID"


async def test_a_versions_picture_is_a_png(world: World) -> None:
    page_id = await make_page(world)
    picture = await world.viewer.get(f"/pages/{page_id}/versions/1/picture")
    assert (picture.raw, picture.headers["Content-Type"]) == (b"\x89PNG one", "image/png")
    none = await world.viewer.get(f"/pages/{page_id}/versions/2/picture")
    assert (none.status, none.code) == (404, "PICTURE_NOT_FOUND")


async def test_a_picture_whose_bytes_are_lost_says_so(world: World, tmp_path) -> None:  # type: ignore[no-untyped-def]
    page_id = await make_page(world)
    for path in (tmp_path / "objects").rglob("*.png"):
        path.unlink()
    answer = await world.viewer.get(f"/pages/{page_id}/versions/1/picture")
    assert (answer.status, answer.code) == (404, "PICTURE_NOT_FOUND")
    assert str(tmp_path) not in answer.raw.decode()


async def test_another_workspaces_page_does_not_exist(world: World) -> None:
    page_id = await make_page(world)
    for path in ("", "/versions", "/versions/1", "/versions/1/picture"):
        made_up = await world.stranger.get(f"/pages/999{path}")
        real = await world.stranger.get(f"/pages/{page_id}{path}")
        assert (real.status, real.code) == (404, "PAGE_NOT_FOUND")
        assert real.body["message"] == made_up.body["message"]
    for person in (world.stranger, world.admin):
        assert (await person.delete(f"/pages/{page_id}")).code == "PAGE_NOT_FOUND"
        assert (await person.post(f"/pages/{page_id}/bring-back")).code == "PAGE_NOT_FOUND"


async def test_a_deleted_page_can_be_brought_back_with_its_versions(world: World) -> None:
    page_id = await make_page(world)
    assert (await world.viewer.delete(f"/pages/{page_id}")).code == "ROLE_REQUIRED"
    assert (await world.editor.delete(f"/pages/{page_id}")).status == 204
    assert (await world.viewer.get(f"/pages/{page_id}")).code == "PAGE_NOT_FOUND"
    assert (await world.viewer.get(f"{world.project}/pages")).body == {"pages": []}
    back = await world.editor.post(f"/pages/{page_id}/bring-back")
    assert (back.body["code"], back.body["version"]["number"]) == ("q3-costs", 2)
    assert (await world.editor.post(f"/pages/{page_id}/bring-back")).status == 200


async def test_two_people_saving_a_component_at_once_make_two_versions(world: World) -> None:
    async def save(person: Person, source: str) -> int:
        answer = await person.put(f"{world.project}/components/Tile.vue", {"source": source})
        return int(answer.body["number"])

    numbers = await asyncio.gather(*(save(world.editor, TILE + str(n)) for n in range(6)))
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]


async def test_a_restore_is_a_new_version_and_only_from_the_current_one(world: World) -> None:
    page_id = await make_page(world)
    path = f"/pages/{page_id}/versions/1/restore"
    assert (await world.viewer.post(path, {"base_version": 2})).code == "ROLE_REQUIRED"
    assert (await world.stranger.post(path, {"base_version": 2})).code == "PAGE_NOT_FOUND"
    stale = await world.editor.post(path, {"base_version": 1})
    assert (stale.status, stale.code) == (409, "PAGE_CHANGED")
    assert (await world.editor.post(f"/pages/{page_id}/versions/9/restore", {"base_version": 2})).status == 404
    restored = await world.editor.post(path, {"base_version": 2})
    assert (restored.body["version"]["number"], restored.body["version"]["source"]) == (3, "one")
    assert restored.body["version"]["has_picture"] is True
    versions = await world.viewer.get(f"/pages/{page_id}/versions")
    assert [one["number"] for one in versions.body["versions"]] == [3, 2, 1]
