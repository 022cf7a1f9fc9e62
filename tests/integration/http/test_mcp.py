"""The agent's tools over MCP, spoken with the official client over a real door (A9); jobs are ended by the test."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from sqlalchemy import select, update

from pagegate.http.backend import mcp_server  # noqa: F401  imported once, and in no test's time
from pagegate.storage import jobs, lease, runs, schema
from pagegate.storage.jobs import COMPONENT_MUTATION, PAGE_MUTATION
from pagegate.storage.objects import picture_key, sha256_of
from tests.integration.http.conftest import LIMITS, Person, World
from tests.integration.http.test_gate import SOURCE

PAGE = {"title": "Costs", "code": "costs", "source": SOURCE}
TOOLS = [
    "list_project_pages",
    "get_page_content",
    "list_workspace_components",
    "create_project_page",
    "apply_page_edits",
    "create_component",
    "apply_component_edits",
    "generate_image",
    "get_verdict",
]


@asynccontextmanager
async def speaking(person: Person, path: str, *, base: str | None = None, mode: Any = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=person.headers(), timeout=30) as http,
        Client(streamable_http_client(f"{base or person.base}{path}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def job_of(world: World, number: int = 0, kind: str = PAGE_MUTATION) -> Any:
    """The job of this number, as soon as there is one."""
    table = schema.metadata.tables[kind]
    async with asyncio.timeout(10):
        while True:
            async with world.db.read() as tx:
                rows = (await tx.execute(select(table).order_by(table.c.id))).all()
            if len(rows) > number:
                return rows[number]
            await asyncio.sleep(0.01)


async def end_job(world: World, number: int = 0, end: Any = "finish", kind: str = PAGE_MUTATION, **result: Any) -> int:
    """End a job as a worker would; the id of its run."""
    job, table = await job_of(world, number, kind), schema.metadata.tables[kind]
    async with world.db.write() as tx:
        leased = {"status": "running", "worker_id": "w", "attempt": 1, "lease_expires_at": tx.now + 60_000}
        await tx.execute(update(table).where(table.c.id == job.id).values(**leased))
        subject = jobs.SUBJECTS[kind]
        told = {subject: job._mapping[subject], "status": "passed", "version": 1, **result}
        await jobs.finish_job(tx, lease.Lease(kind, job.id, "w", 1, 0), end, result=told)
    world.parts.feed.publish(job.run_id)
    return int(job.run_id)


def said(result: Any) -> dict[str, Any]:
    """What a call answered; the text says the same as the structured content."""
    assert json.loads(result.content[0].text) == result.structured_content
    return dict(result.structured_content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_either_age_sees_the_tools_and_submits_a_page(world: World, mode: str) -> None:
    async with speaking(world.editor, world.project, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        assert "You write pages" in (client.instructions or "")
        heard: list[str | None] = []

        async def progress(_: float, __: float | None, message: str | None) -> None:
            heard.append(message)
            if len(heard) == 1:
                async with world.db.write() as tx:
                    job = {"page_code": "costs", "stage": "compile", "attempt": 1}
                    run_id = (await job_of(world)).run_id
                    await runs.append_event(tx, run_id, "tool.progress", job)
                world.parts.feed.publish(run_id)
            else:
                await end_job(world)

        made = said(await client.call_tool("create_project_page", PAGE, progress_callback=progress))
    assert heard == ["waits for its turn", "costs: compile"]
    assert (made["saved"], made["page_code"], made["version"]) == (True, "costs", 1)
    run = (await world.viewer.get(f"/runs/{made['run_id']}")).body
    assert (run["source"], [call["tool"] for call in run["calls"]]) == ("api", ["create_project_page"])


async def test_a_long_check_is_answered_with_a_handle_and_goes_on(world: World) -> None:
    async with (
        world.another_door(limits=replace(LIMITS, mcp_wait_s=0.2)) as base,
        speaking(world.editor, world.project, base=base) as client,
    ):
        waiting = said(await client.call_tool("create_project_page", PAGE))
        assert (waiting["status"], waiting["page_code"]) == ("pending", "costs")
        handle = {"page": "costs", "run_id": waiting["run_id"]}
        still = said(await client.call_tool("get_verdict", handle))
        assert (still["status"], still["run_id"]) == ("pending", waiting["run_id"])
        key = picture_key(world.project_id, sha256_of(b"PNG"))
        await world.parts.objects.put(key, b"PNG")
        await end_job(world, 0, "fail", status="failed", picture_key=key, findings=[{"code": "OVERFLOW"}])
        verdict = await client.call_tool("get_verdict", handle)
    assert (verdict.is_error, said(verdict)["status"], said(verdict)["findings"]) == (
        False,
        "failed",
        [{"code": "OVERFLOW"}],
    )
    assert "picture_key" not in said(verdict)
    (picture,) = [one for one in verdict.content if one.type == "image"]
    assert (base64.b64decode(picture.data), picture.mime_type) == (b"PNG", "image/png")


async def test_a_component_is_submitted_waited_for_and_asked_about_like_a_page(world: World) -> None:
    tile = {"name": "Tile.vue", "source": "<template><p>tile</p></template>"}
    async with (
        world.another_door(limits=replace(LIMITS, mcp_wait_s=0.2)) as base,
        speaking(world.editor, world.project, base=base) as client,
    ):
        waiting = said(await client.call_tool("create_component", tile))
        assert (waiting["status"], waiting["component_name"]) == ("pending", "Tile.vue")
        assert "component 'Tile.vue'" in waiting["next"]
        handle = {"component": "Tile.vue", "run_id": waiting["run_id"]}
        assert said(await client.call_tool("get_verdict", handle))["status"] == "pending"
        await end_job(world, kind=COMPONENT_MUTATION, contract={"props": []})
        verdict = said(await client.call_tool("get_verdict", handle))
        assert (verdict["status"], verdict["version"], verdict["contract"]) == ("passed", 1, {"props": []})

        missing = await client.call_tool("get_verdict", {"component": "Tile.vue"})
        assert (missing.is_error, said(missing)["error"]) == (True, "COMPONENT_NOT_FOUND")
        await world.editor.put(f"{world.project}/components/Tile.vue", {"source": tile["source"]})
        saved = said(await client.call_tool("get_verdict", {"component": "Tile.vue"}))
        assert (saved["status"], saved["source"], saved["contract"]) == ("unchecked", tile["source"], None)
        for wrong in ({}, {"page": "a", "component": "Tile.vue"}):
            refused = await client.call_tool("get_verdict", wrong)
            assert (refused.is_error, said(refused)["error"]) == (True, "REQUEST_INVALID")
        bad = await client.call_tool("create_component", {**tile, "name": "tile.vue"})
        assert (bad.is_error, said(bad)["error"]) == (True, "COMPONENT_NAME_INVALID")


async def test_a_refused_page_is_an_answer_and_no_error_of_the_tool(world: World) -> None:
    async with speaking(world.editor, world.project) as client:
        ending = asyncio.create_task(end_job(world, 0, "fail", status="failed", version=None, next="Repair it."))
        refused = await client.call_tool("create_project_page", PAGE)
        await ending
        cut = {**PAGE, "source": "<template>\n<!-- rest unchanged -->\n</template>"}
        truncated = await client.call_tool("create_project_page", cut)
    assert (refused.is_error, said(refused)["saved"], said(refused)["next"]) == (False, False, "Repair it.")
    assert said(truncated)["code"] == "PAGE_SOURCE_TRUNCATED"


async def test_the_same_key_is_answered_from_the_first_call(world: World) -> None:
    keyed = {**PAGE, "idempotency_key": "k1"}
    async with speaking(world.editor, world.project) as client:
        ending = asyncio.create_task(end_job(world))
        first = await client.call_tool("create_project_page", keyed)
        await ending
        again = await client.call_tool("create_project_page", keyed)
        other = await client.call_tool("create_project_page", {**keyed, "title": "Other"})
    assert said(again) == said(first)
    assert (other.is_error, said(other)["error"]) == (True, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_hangs_up_stops_the_wait_and_not_the_job(world: World, mode: str) -> None:
    async with speaking(world.editor, world.project, mode=mode) as client:
        calling = asyncio.create_task(client.call_tool("create_project_page", PAGE))
        run_id = (await job_of(world)).run_id
        assert world.parts.feed.streams == 1
        calling.cancel()
        await asyncio.wait({calling})
    async with asyncio.timeout(10):
        while world.parts.feed.streams:
            await asyncio.sleep(0.02)
    run = (await world.viewer.get(f"/runs/{run_id}")).body
    assert (run["status"], run["cancel_requested_at_ms"]) == ("waiting_external", None)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("drop_project", {}, "TOOL_UNKNOWN"),
        ("create_project_page", {}, "REQUEST_INVALID"),
        ("create_project_page", {**PAGE, "code": "No!"}, "PAGE_CODE_INVALID"),
        ("create_project_page", {**PAGE, "source": "x" * (LIMITS.source_bytes_max + 1)}, "PAGE_SOURCE_TOO_LARGE"),
        ("apply_page_edits", {"page": "costs", "base_version": "1", "edits": []}, "REQUEST_INVALID"),
        ("list_project_pages", {"page": "costs"}, "REQUEST_INVALID"),
        ("get_page_content", {"page": "nowhere"}, "PAGE_NOT_FOUND"),
        ("get_verdict", {"page": "nowhere"}, "PAGE_NOT_FOUND"),
        ("get_verdict", {"page": "costs", "run_id": 99}, "RUN_NOT_FOUND"),
    ],
)
async def test_what_is_wrong_with_a_call_is_told_with_its_code(
    world: World, tool: str, arguments: dict[str, Any], code: str
) -> None:
    async with speaking(world.editor, world.project) as client:
        wrong = await client.call_tool(tool, arguments)
    assert (wrong.is_error, said(wrong)["error"]) == (True, code)
    assert said(wrong)["message"]
    assert said(wrong)["next"]


async def test_a_viewer_looks_and_does_not_write(world: World) -> None:
    async with speaking(world.viewer, world.project) as client:
        assert said(await client.call_tool("list_project_pages", {})) == {"pages": []}
        refused = await client.call_tool("create_project_page", PAGE)
    assert (refused.is_error, said(refused)["error"]) == (True, "ROLE_REQUIRED")


async def test_another_projects_run_does_not_exist(world: World) -> None:
    other = await world.editor.post(f"/workspaces/{world.workspace_id}/projects", {"name": "Other"})
    step = {"calls": [{"call_id": "c", "tool": "create_project_page", "arguments": PAGE}]}
    run_id = (await world.editor.post(f"/projects/{other.body['id']}/tool-calls", step)).body["run_id"]
    async with speaking(world.editor, world.project) as client:
        refused = await client.call_tool("get_verdict", {"page": "costs", "run_id": run_id})
    assert said(refused)["error"] == "RUN_NOT_FOUND"


async def test_strangers_do_not_come_in(world: World) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    path = f"{world.project}/mcp"
    for person, status, code in ((world.nobody, 401, "TOKEN_MISSING"), (world.stranger, 404, "PROJECT_NOT_FOUND")):
        answer = await person.post(path, hello)
        assert (answer.status, answer.code) == (status, code)
    assert (await world.editor.get(path)).code == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}'])
async def test_what_is_no_message_is_refused_as_json_rpc(world: World, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    answer = await world.editor.ask("POST", f"{world.project}/mcp", data=body, headers=headers)
    assert answer.status < 500
    assert b'"error"' in answer.raw
    assert b"Traceback" not in answer.raw


async def test_a_body_that_is_too_large_is_not_read(world: World) -> None:
    answer = await world.editor.ask("POST", f"{world.project}/mcp", data=b" " * (LIMITS.source_body_bytes_max() + 1))
    assert (answer.status, answer.code) == (413, "REQUEST_BODY_TOO_LARGE")


async def test_who_waits_when_the_process_stops_gets_the_handle(world: World) -> None:
    async with speaking(world.editor, world.project) as client:
        calling = asyncio.create_task(client.call_tool("create_project_page", PAGE))
        await job_of(world)
        world.parts.feed.close()
        assert said(await calling)["status"] == "pending"


async def test_where_too_many_wait_the_handle_comes_at_once(world: World) -> None:
    async with (
        world.another_door(limits=replace(LIMITS, streams_max=0)) as base,
        speaking(world.editor, world.project, base=base) as client,
    ):
        assert said(await client.call_tool("create_project_page", PAGE))["status"] == "pending"
