"""The demo's run while something is killed in its middle: every verdict arrives, and nothing happens twice.

A whole `pagegate lite` with real Vite, real Chromium and a real SQLite file; only the lease is shortened, so that a
rescue takes seconds.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from pagegate.deploy.client import Api
from pagegate.deploy.deck import Deck, create_project, report_of_call, send_calls
from pagegate.deploy.demo import Lite, create_administrator, lite

DECK = Deck()
QUICK_LEASES = {"DURABLE_JOB_LEASE_SECONDS": "6", "DURABLE_JOB_HEARTBEAT_SECONDS": "1"}
RUN_LIMIT_S = 240
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 3 2"/>'


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Lite]:
    async with lite(tmp_path / "data", environment=QUICK_LEASES) as running:
        tree = psutil.Process(running.pid).children(recursive=True)
        yield running
    _, alive = await asyncio.to_thread(psutil.wait_procs, tree, 15)
    assert alive == [], "the server left processes behind"


def child_of(server: Lite, command: str) -> psutil.Process:
    """The child that runs as `pagegate <command>` now."""
    return next(child for child in psutil.Process(server.pid).children() if child.cmdline()[-1:] == [command])


async def run_the_deck(
    server: Lite, on_event: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, int], str]:
    """(the run, its events, number of versions by page code, token)."""
    token = await create_administrator(server)
    async with Api(server.url, token) as api:
        project_id = await create_project(api, DECK)
        run_id = await send_calls(api, project_id, [page.create_call() for page in DECK.pages], key="one")
        events = []
        async with asyncio.timeout(RUN_LIMIT_S):
            async for event in api.events(run_id):
                events.append(event)
                on_event(event)
        run = await api.call("GET", f"/runs/{run_id}")
        listed = await api.call("GET", f"/projects/{project_id}/pages")
        versions = {}
        for page in listed["pages"]:
            versions[page["code"]] = len((await api.call("GET", f"/pages/{page['id']}/versions"))["versions"])
        return run, events, versions, token


def expect_every_verdict_once(run: dict[str, Any], events: list[dict[str, Any]], versions: dict[str, int]) -> None:
    calls = {call["call_id"]: call for call in run["calls"]}
    reports = {page.code: report_of_call(calls[page.code], page) for page in DECK.pages}
    wrong = {page.code: reports[page.code] for page in DECK.pages if not page.is_met_by(reports[page.code])}
    assert wrong == {}
    assert versions == {page.code: 1 for page in DECK.pages if page.expect != "failed"}
    assert run["status"] == "succeeded"
    kinds = Counter(event["kind"] for event in events)
    assert kinds["run.finished"] == 1, "the run was resumed exactly once"
    assert kinds["tool.ended"] == len(DECK.pages), "each call ended exactly once"
    assert [event["index"] for event in events] == list(range(1, len(events) + 1)), "no event is missing or doubled"


@pytest.mark.parametrize(
    ("command", "stage"), [("renderer", "render"), ("runtime", "compile"), ("serve", "render"), ("serve", "compile")]
)
async def test_a_killed_process_costs_the_run_nothing_but_time(server: Lite, command: str, stage: str) -> None:
    killed: list[int] = []
    seen = 0

    def kill_at_the_third(event: dict[str, Any]) -> None:
        nonlocal seen
        seen += event["kind"] == "tool.progress" and event["data"]["stage"] == stage
        if seen == 3 and not killed:
            victim = child_of(server, command)
            os.kill(victim.pid, signal.SIGKILL)
            killed.append(victim.pid)

    run, events, versions, _ = await run_the_deck(server, kill_at_the_third)
    assert killed, "nothing was killed"
    expect_every_verdict_once(run, events, versions)
    assert child_of(server, command).pid != killed[0]


async def test_a_picture_saved_while_the_runtime_is_gone_is_measured_when_there_is_one_again(server: Lite) -> None:
    token = await create_administrator(server)
    async with Api(server.url, token) as api:
        assets = f"/projects/{await create_project(api, DECK)}/assets"
        os.kill(child_of(server, "runtime").pid, signal.SIGKILL)
        saved = await api.call("PUT", f"{assets}/new.svg", data=SVG)
        assert saved["ratio"] is None
        assert saved["unmeasured"]["code"].startswith("RUNTIME_")
        lane = "/jobs?lane=asset_ratio_backfill_jobs"
        async with asyncio.timeout(RUN_LIMIT_S):
            while not (found := (await api.call("GET", lane))["jobs"]) or found[0]["status"] in {"pending", "running"}:
                await asyncio.sleep(0.1)
        listed = (await api.call("GET", assets))["assets"]
        assert found[0]["status"] == "succeeded"
        assert {asset["name"]: asset["ratio"] for asset in listed}["new.svg"] == 1.5
        assert all(asset["ratio"] and asset["unmeasured"] is None for asset in listed)


async def test_a_run_goes_on_after_the_whole_server_was_killed(tmp_path: Path) -> None:
    """`kill -9` of the supervisor: its children end, and the next start on the same folder finishes the run."""
    data = tmp_path / "data"
    async with lite(data, environment=QUICK_LEASES) as first:
        token = await create_administrator(first)
        tree = psutil.Process(first.pid).children(recursive=True)
        async with Api(first.url, token) as api:
            project_id = await create_project(api, DECK)
            run_id = await send_calls(api, project_id, [page.create_call() for page in DECK.pages], key="one")
            async for event in api.events(run_id):
                if event["kind"] == "tool.ended":
                    break
        os.kill(first.pid, signal.SIGKILL)
        _, alive = await asyncio.to_thread(psutil.wait_procs, tree, 40)
        assert alive == []
    async with lite(data, environment=QUICK_LEASES) as second, Api(second.url, token) as api:
        assert await send_calls(api, project_id, [page.create_call() for page in DECK.pages], key="one") == run_id
        async with asyncio.timeout(RUN_LIMIT_S):
            events = [event async for event in api.events(run_id)]
        run = await api.call("GET", f"/runs/{run_id}")
        listed = await api.call("GET", f"/projects/{project_id}/pages")
        versions = {page["code"]: page["version"] for page in listed["pages"]}
    expect_every_verdict_once(run, events, versions)
