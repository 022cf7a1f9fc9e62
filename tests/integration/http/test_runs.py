"""Runs and their event streams over HTTP (A7, Q10): replay from any index, follow, end, and come back."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from pagegate.http.backend import sse
from pagegate.storage import external, runs
from pagegate.storage.objects import picture_key, sha256_of
from tests.integration.http.conftest import LIMITS, Person, World
from tests.integration.http.test_gate import create, step


async def start_run(world: World) -> int:
    answer = await world.editor.post(f"{world.project}/tool-calls", step(create()))
    return int(answer.body["run_id"])


async def say(world: World, run_id: int, kind: str, *, publish: bool = True, **data: Any) -> int:
    async with world.db.write() as tx:
        index = await runs.append_event(tx, run_id, kind, data)
    if publish:
        world.parts.feed.publish(run_id)
    return index


async def end(world: World, run_id: int) -> None:
    async with world.db.write() as tx:
        await runs.append_event(tx, run_id, "run.finished", {"status": "succeeded"})
        assert await runs.finish_run(tx, run_id, "finish")
    world.parts.feed.publish(run_id)


class Stream:
    """An open stream, event by event."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self._events = self._read()

    async def _read(self) -> AsyncIterator[dict[str, str]]:
        event: dict[str, str] = {}
        async for line in self.answer.content:
            text = line.decode().rstrip("\n")
            if not text and "data" in event:
                yield event
            if not text:
                event = {}
                continue
            name, _, value = text.partition(": ")
            event[name] = value

    async def next(self) -> dict[str, str]:
        return await asyncio.wait_for(anext(self._events), 10)

    async def rest(self) -> list[dict[str, str]]:
        async with asyncio.timeout(10):
            return [event async for event in self._events]

    def close(self) -> None:
        self.answer.close()


async def open_stream(person: Person, run_id: int, query: str = "", last_event_id: str | None = None) -> Stream:
    more = {"Last-Event-ID": last_event_id} if last_event_id is not None else None
    answer = await person.http.get(f"{person.base}/runs/{run_id}/events{query}", headers=person.headers(more))
    assert answer.status == 200, await answer.text()
    assert answer.content_type == "text/event-stream"
    return Stream(answer)


async def test_a_stream_replays_follows_and_ends_with_the_run(world: World) -> None:
    run_id = await start_run(world)
    stream = await open_stream(world.viewer, run_id)
    first = await stream.next()
    assert (first["id"], first["event"]) == ("1", "run.submitted")
    await say(world, run_id, "tool.progress", stage="compile")
    second = await stream.next()
    shown = json.loads(second["data"])
    assert (shown["index"], shown["kind"], shown["data"]) == (2, "tool.progress", {"stage": "compile"})
    await end(world, run_id)
    assert [event["event"] for event in await stream.rest()] == ["run.finished"]


@pytest.mark.parametrize(("query", "header"), [("?after=7", None), ("", "7"), ("?after=7", "2")])
async def test_a_client_that_comes_back_gets_the_rest_once_each(world: World, query: str, header: str | None) -> None:
    run_id = await start_run(world)
    for number in range(2, 11):
        await say(world, run_id, "tool.progress", number=number)
    await end(world, run_id)
    stream = await open_stream(world.viewer, run_id, query, header)
    assert [event["id"] for event in await stream.rest()] == ["8", "9", "10", "11"]


async def test_more_events_than_one_read_takes_arrive_in_order(world: World) -> None:
    run_id = await start_run(world)
    async with world.db.write() as tx:
        for _ in range(450):
            await runs.append_event(tx, run_id, "tool.progress", {})
    await end(world, run_id)
    stream = await open_stream(world.viewer, run_id)
    assert [int(event["id"]) for event in await stream.rest()] == list(range(1, 453))


@pytest.mark.parametrize(("query", "header"), [("?after=5", None), ("", "5"), ("", "nonsense"), ("", "-1")])
async def test_an_index_that_does_not_exist_gets_a_clear_answer(world: World, query: str, header: str | None) -> None:
    run_id = await start_run(world)
    more = {"Last-Event-ID": header} if header is not None else {}
    answer = await world.viewer.get(f"/runs/{run_id}/events{query}", headers=more)
    assert (answer.status, answer.code) == (404, "RUN_EVENT_NOT_FOUND")


async def test_a_finished_run_with_nothing_new_says_so_without_a_stream(world: World) -> None:
    run_id = await start_run(world)
    await end(world, run_id)
    assert (await world.viewer.get(f"/runs/{run_id}/events?after=2")).status == 204


async def test_events_are_found_without_any_hint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "POLL_S", 0.01)  # another replica's events come with no hint at all
    run_id = await start_run(world)
    stream = await open_stream(world.viewer, run_id)
    await stream.next()
    await say(world, run_id, "tool.progress", publish=False)
    assert (await stream.next())["id"] == "2"
    stream.close()


async def test_a_hint_wakes_the_stream_long_before_its_poll(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "POLL_S", 3600.0)
    run_id = await start_run(world)
    stream = await open_stream(world.viewer, run_id)
    await stream.next()
    await say(world, run_id, "tool.progress")
    assert (await stream.next())["id"] == "2"
    stream.close()


async def test_a_quiet_stream_is_kept_alive(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "POLL_S", 0.01)
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.02)
    run_id = await start_run(world)
    stream = await open_stream(world.viewer, run_id, "?after=1")
    async with asyncio.timeout(10):
        seen = b""
        while b": still here" not in seen:
            seen += await stream.answer.content.readany()
    stream.close()


async def test_a_member_taken_out_is_cut_off_from_an_open_stream(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "POLL_S", 0.01)
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.02)
    run_id = await start_run(world)
    stream = await open_stream(world.viewer, run_id, "?after=1")
    await world.owner.delete(f"/workspaces/{world.workspace_id}/members/{world.viewer.user_id}")
    assert await stream.rest() == []


async def test_closing_the_stream_stops_nothing(world: World) -> None:
    run_id = await start_run(world)
    stream = await open_stream(world.viewer, run_id)
    await stream.next()
    stream.close()
    await say(world, run_id, "tool.progress")
    run = await world.viewer.get(f"/runs/{run_id}")
    assert (run.body["status"], run.body["last_event_index"]) == ("waiting_external", 2)


async def test_a_client_that_hangs_up_gives_its_place_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "POLL_S", 0.01)
    run_id = await start_run(world)
    for _ in range(LIMITS.streams_max):
        stream = await open_stream(world.viewer, run_id)
        await stream.next()
        stream.close()
    async with asyncio.timeout(10):
        while world.parts.feed.streams:
            await asyncio.sleep(0)


async def test_a_client_that_reads_nothing_is_let_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "WRITE_WAIT_S", 0.05)
    run_id = await start_run(world)
    async with world.db.write() as tx:
        for _ in range(300):
            await runs.append_event(tx, run_id, "tool.progress", {"text": "x" * 64_000})
    reader, writer = await asyncio.open_connection(world.server.host, world.server.port, limit=1024)
    head = f"GET /runs/{run_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.viewer.token}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"event: run.submitted")
    assert world.parts.feed.streams == 1
    async with asyncio.timeout(10):
        while world.parts.feed.streams:
            await asyncio.sleep(0)
    writer.close()


async def test_every_stream_closes_at_once_on_shutdown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "POLL_S", 3600.0)
    run_id = await start_run(world)
    streams = [await open_stream(world.viewer, run_id) for _ in range(5)]
    for stream in streams:
        await stream.next()
    closing = asyncio.create_task(world.server.close())
    for stream in streams:
        assert await stream.rest() == []
    await asyncio.wait_for(closing, 10)
    assert world.parts.feed.streams == 0


async def test_streams_are_bounded(world: World) -> None:
    run_id = await start_run(world)
    streams = [await open_stream(world.viewer, run_id) for _ in range(LIMITS.streams_max)]
    for stream in streams:
        await stream.next()
    refused = await world.viewer.get(f"/runs/{run_id}/events")
    assert (refused.status, refused.code) == (429, "TOO_MANY_STREAMS")
    for stream in streams:
        stream.close()


async def test_events_as_a_list_come_in_pages(world: World) -> None:
    run_id = await start_run(world)
    for _ in range(3):
        await say(world, run_id, "tool.progress")
    first = await world.viewer.get(f"/runs/{run_id}/events?format=json&limit=2")
    assert [event["index"] for event in first.body["events"]] == [1, 2]
    assert (first.body["last_event_index"], first.body["finished"]) == (4, False)
    rest = await world.viewer.get(f"/runs/{run_id}/events?format=json&after=2")
    assert [event["index"] for event in rest.body["events"]] == [3, 4]


async def test_a_run_can_be_stopped_and_stopping_again_is_fine(world: World) -> None:
    run_id = await start_run(world)
    refused = await world.viewer.post(f"/runs/{run_id}/cancel")
    assert (refused.status, refused.code) == (403, "ROLE_REQUIRED")
    for _ in range(2):
        stopped = await world.editor.post(f"/runs/{run_id}/cancel")
        assert (stopped.body["status"], stopped.body["finished"]) == ("cancelled", True)
    events = await world.viewer.get(f"/runs/{run_id}/events?format=json")
    assert [event["kind"] for event in events.body["events"]].count("run.cancelled") == 1


async def test_another_workspaces_run_does_not_exist(world: World) -> None:
    run_id = await start_run(world)
    for person in (world.stranger, world.admin):
        for answer in (
            await person.get(f"/runs/{run_id}"),
            await person.get(f"/runs/{run_id}/events"),
            await person.get(f"/runs/{run_id}/events?format=json"),
            await person.post(f"/runs/{run_id}/cancel"),
        ):
            assert (answer.status, answer.code) == (404, "RUN_NOT_FOUND")
    assert (await world.viewer.get("/runs/999")).code == "RUN_NOT_FOUND"
    assert (await world.viewer.get(f"/runs/{run_id}")).body["status"] == "waiting_external"


async def test_a_call_shows_its_picture_by_address_and_not_where_it_is_stored(world: World) -> None:
    run_id = await start_run(world)
    path = f"/runs/{run_id}/calls/c1/picture"
    assert (await world.viewer.get(path)).code == "PICTURE_NOT_FOUND"
    key = picture_key(world.project_id, sha256_of(b"PNG"))
    await world.parts.objects.put(key, b"PNG")
    async with world.db.write() as tx:
        (call,) = await runs.list_tool_calls(tx, run_id)
        assert call.job_kind is not None
        assert call.job_id is not None
        told = {"status": "failed", "picture_key": key}
        await external.write_task_result(tx, call.job_kind, call.job_id, "failed", told)
    (shown,) = (await world.viewer.get(f"/runs/{run_id}")).body["calls"]
    assert shown["result"] == {"status": "failed", "picture": path}
    picture = await world.viewer.get(path)
    assert (picture.raw, picture.headers["Content-Type"]) == (b"PNG", "image/png")
    assert (await world.viewer.get(f"/runs/{run_id}/calls/other/picture")).code == "PICTURE_NOT_FOUND"
    assert (await world.stranger.get(path)).code == "RUN_NOT_FOUND"
