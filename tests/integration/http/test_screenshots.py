"""Screenshots over HTTP: asking for them, following a group, a page's history; who may do what (S1, S2, X5)."""

import asyncio
import hashlib
import json
from typing import Any

import pytest

from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.storage import jobs, pages
from pagegate.storage import screenshot_pictures as pictures
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.pages import NewVersion
from pagegate.storage.screenshot_context import CaptureContext
from pagegate.storage.screenshot_pictures import Publication, TemporaryPicture
from pagegate.storage.screenshots import PAGE_SCREENSHOT, STALE
from tests.integration.http.conftest import Person, World

PNG = b"\x89PNG, or nearly"
PHONE, DESK = {"width_px": 390}, {"width_px": 1280, "height_px": 720}


async def add_page(world: World, code: str) -> int:
    version = NewVersion("<template/>", code, "", {}, "passed", None, None, None, world.editor.user_id)
    async with world.db.write() as tx:
        return await pages.insert_page_with_first_version(
            tx, world.project_id, code=code, framework="vue", version=version
        )


async def ask_for(world: World, status: int = 202, **body: Any) -> dict[str, Any]:
    answer = await world.editor.post(f"{world.project}/screenshot-groups", body)
    assert answer.status == status, answer.body
    group: dict[str, Any] = answer.body
    return group


async def claim(world: World) -> ClaimedJob:
    async with world.db.write() as tx:
        job = await jobs.claim_job(tx, PAGE_SCREENSHOT, "host:1:x:0", 60_000)
    assert job is not None
    return job


async def take(world: World, job: ClaimedJob) -> None:
    """What the job would do: a picture of its page, published."""
    digest = hashlib.sha256(PNG).hexdigest()
    temporary = TemporaryPicture("renders/1", 1, 1, 1, digest, len(PNG), 10**14, 390, 720, False)
    context = CaptureContext("s", {}, {}, {}, "", {}, job.row.viewport)
    async with world.db.write() as tx:
        held = await pictures.hold_picture(tx, job.lease, job.row.project_id, temporary, 600_000)
    await world.parts.objects.put(held.object_key, PNG)
    async with world.db.write() as tx:
        what = Publication(job.row.workspace_id, job.row.project_id, job.row.page_id, 1, job.row.viewport, context)
        await pictures.publish_picture(tx, job.lease, held, what)
        artifacts = await pictures.list_history(tx, job.row.page_id, 1)
        # The played context has another fingerprint than the real one; the job's key is what its group looks for.
        table = pictures._artifacts
        await tx.execute(table.update().where(table.c.id == artifacts[0].id).values(capture_key=job.row.capture_key))
        await jobs.finish_job(tx, job.lease, "finish")
    world.parts.screenshot_feed.publish(job.row.project_id)


async def test_a_group_from_the_request_to_its_pictures(world: World) -> None:
    home = await add_page(world, "home")
    group = await ask_for(world, viewports=[PHONE, DESK])
    assert (group["project_id"], group["ended"]) == (world.project_id, False)
    shown = [(member["page_code"], member["viewport"], member["state"]) for member in group["members"]]
    assert shown == [("home", "390xauto", "pending"), ("home", "1280x720", "pending")]
    await take(world, await claim(world))
    job = await claim(world)
    async with world.db.write() as tx:
        await jobs.finish_job(tx, job.lease, "skip", error=STALE)
    seen = (await world.viewer.get(f"/screenshot-groups/{group['id']}")).body
    first, second = seen["members"]
    assert (seen["ended"], first["state"], second["state"]) == (True, "succeeded", "skipped")
    assert (second["picture"], second["error"]["code"]) == (None, "PAGE_SCREENSHOT_JOB_STALE")
    picture = await world.viewer.get(first["picture"]["url"])
    assert (picture.status, picture.raw, picture.headers["Content-Type"]) == (200, PNG, "image/png")
    history = (await world.viewer.get(f"/pages/{home}/screenshots")).body["screenshots"]
    assert [(one["page_version"], one["viewport"], one["is_current"]) for one in history] == [(1, "390xauto", True)]
    again = await ask_for(world, viewports=[PHONE])
    assert (again["ended"], again["members"][0]["job_id"]) == (True, None), "the picture was there"


async def test_equal_requests_share_their_jobs_and_wake_the_lane(world: World) -> None:
    await add_page(world, "home")
    woken: list[str] = []
    async with world.another_door(wake_screenshots=lambda: woken.append("woken")) as base:
        other = Person(world.http, base, world.editor.user_id, world.editor.token)
        answer = await other.post(f"{world.project}/screenshot-groups", {"viewports": [PHONE]})
    mine = await ask_for(world, viewports=[PHONE, PHONE])
    assert woken == ["woken"]
    assert [member["job_id"] for member in mine["members"]] == [answer.body["members"][0]["job_id"]]
    assert mine["id"] != answer.body["id"]


async def test_a_stream_tells_every_member_and_ends_with_the_group(world: World) -> None:
    await add_page(world, "home")
    group = await ask_for(world, viewports=[PHONE])
    job = await claim(world)
    url = f"{world.viewer.base}/screenshot-groups/{group['id']}/events"
    answer = await world.http.get(url, headers=world.viewer.headers())
    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    events: list[tuple[str, dict[str, Any]]] = []
    async with asyncio.timeout(20):
        while block := (await answer.content.readuntil(b"\n\n")).decode().strip():
            if not block.startswith("event: "):
                continue
            kind, data = block.removeprefix("event: ").split("\ndata: ")
            events.append((kind, json.loads(data)))
            if len(events) == 1:
                assert (kind, events[0][1]["state"]) == ("screenshot", "running")
                await take(world, job)
            if kind == "group.ended":
                break
        assert await answer.content.read() == b""
    assert [kind for kind, _ in events] == ["screenshot", "screenshot", "group.ended"]
    assert events[1][1]["picture"]["sha256"] == hashlib.sha256(PNG).hexdigest()
    whole = await world.viewer.get(f"/screenshot-groups/{group['id']}/events")
    assert whole.raw.count(b"event: ") == 2, "who comes later hears the state and the end"
    assert world.parts.screenshot_feed.streams == 0


async def test_cancelling_a_group_leaves_what_others_wait_for(world: World) -> None:
    await add_page(world, "home")
    mine = await ask_for(world, viewports=[PHONE, DESK])
    await ask_for(world, viewports=[DESK])
    left = await world.editor.delete(f"/screenshot-groups/{mine['id']}")
    assert left.status == 202, left.body
    assert [member["state"] for member in left.body["members"]] == ["cancelled", "pending"]
    assert left.body["members"][0]["error"]["code"] == "JOB_CANCELLED"
    assert JobsSubmitted() in world.queue_heard


async def test_too_many_pictures_are_refused_as_a_whole(world: World) -> None:
    for code in ("a", "b", "c"):
        await add_page(world, code)
    widths = [{"width_px": width} for width in (320, 390, 800)]
    refused = await ask_for(world, 422, viewports=widths)
    assert refused["code"] == "PAGE_SCREENSHOT_GROUP_TOO_LARGE"
    await ask_for(world, viewports=widths[:2])  # six of six
    full = await ask_for(world, 429, viewports=widths[2:])
    assert full["code"] == "PAGE_SCREENSHOT_ACTIVE_JOBS_LIMIT"


@pytest.mark.parametrize(
    "wrong",
    [
        {"viewports": [{"width_px": 3}]},
        {"viewports": [{"width_px": 390, "height_px": 100_000}]},
        {"viewports": [{"width": 390}]},
        {"pages": ["home"]},
        {"page": [1]},
    ],
)
async def test_a_malformed_request_is_refused(world: World, wrong: dict[str, Any]) -> None:
    refused = await ask_for(world, 422, **wrong)
    assert refused["code"] == "REQUEST_INVALID"


async def test_screenshots_of_strangers_do_not_exist_and_viewers_ask_for_none(world: World) -> None:
    home = await add_page(world, "home")
    group = await ask_for(world, viewports=[PHONE])
    await take(world, await claim(world))
    picture = (await world.editor.get(f"/screenshot-groups/{group['id']}")).body["members"][0]["picture"]["url"]
    for path, code in {
        f"/screenshot-groups/{group['id']}": "SCREENSHOT_GROUP_NOT_FOUND",
        f"/screenshot-groups/{group['id']}/events": "SCREENSHOT_GROUP_NOT_FOUND",
        "/screenshot-groups/999": "SCREENSHOT_GROUP_NOT_FOUND",
        f"/pages/{home}/screenshots": "PAGE_NOT_FOUND",
        picture: "SCREENSHOT_NOT_FOUND",
    }.items():
        answer = await world.stranger.get(path)
        assert (answer.status, answer.code) == (404, code)
        assert (await world.nobody.get(path)).status == 401
    asked = f"{world.project}/screenshot-groups"
    assert (await world.stranger.post(asked, {})).code == "PROJECT_NOT_FOUND"
    assert (await world.viewer.post(asked, {})).code == "ROLE_REQUIRED"
    assert (await world.viewer.delete(f"/screenshot-groups/{group['id']}")).code == "ROLE_REQUIRED"
    elsewhere = await world.editor.post(asked, {"pages": [home + 99]})
    assert (elsewhere.status, elsewhere.code) == (404, "PAGE_NOT_FOUND")
