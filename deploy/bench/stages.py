"""What the benchmark measures of pagegate itself: a warm compile, a warm attempt, and enqueue to commit on a server.

Owns nothing that lasts: a local gate for the first two, a `pagegate lite` on a temporary folder for the third.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pagegate.deploy.bench.measure import Series, in_turns
from pagegate.deploy.bench.usual import UsualBrowser, ViteProject
from pagegate.deploy.client import Api
from pagegate.deploy.deck import Deck, DeckPage, create_project, send_calls
from pagegate.deploy.demo import Lite, create_administrator, lite
from pagegate.deploy.gate import Compiled, LocalGate
from pagegate.deploy.pages import local_pages
from pagegate.runtime.contract import Canvas

FIXTURE = "q3-numbers"  # a Vue page with two components, a table and Tailwind
WARM_UPS = 2
# A spare browser is launched after each attempt; a page that comes later than this finds it ready.
BREATH_S = 1.0
STAGES = ("snapshot_ms", "artifact_ms", "compile_ms", "render_ms", "save_ms")


@dataclass
class GateFigures:
    """Ours and theirs, in turns."""

    compile: Series
    vite_build: Series
    attempt: Series
    usual_attempt: Series


@dataclass
class CommitFigures:
    """Enqueue to commit, its stages, and a plain script that does the same without a gate."""

    commit: Series
    stages: dict[str, Series]
    script: Series


async def measure_gate(project: ViteProject, rounds: int) -> GateFigures:
    """A warm compile beside `vite build`, then a warm attempt beside Playwright on demand."""
    page = Deck().page(FIXTURE)
    width_px, height_px = page.canvas
    local = local_pages([page.file], None)[0]
    figures = GateFigures(
        Series("pagegate: warm compile"),
        Series("vite build, as a process"),
        Series("pagegate: warm attempt"),
        Series("Playwright, full Chromium on demand"),
    )
    async with LocalGate(Canvas(width_px=width_px, height_px=height_px)) as gate:

        async def compile_once(series: Series) -> None:
            with series.timed():
                compiled = await gate.compile(local)
            _expect_good(compiled)

        async def build_once(series: Series) -> None:
            with series.timed():
                await project.build()

        await in_turns(rounds, WARM_UPS, (figures.compile, compile_once), (figures.vite_build, build_once))
        async with UsualBrowser(project.root / "dist") as usual:

            async def look_once(series: Series) -> None:
                compiled = await gate.compile(local)
                await asyncio.sleep(BREATH_S)
                with series.timed():
                    report, png = await gate.look(compiled)
                assert report.status == "passed", report
                assert png is not None
                await asyncio.sleep(BREATH_S)

            async def usual_once(series: Series) -> None:
                with series.timed():
                    await usual.attempt(width_px, height_px)

            await in_turns(rounds, WARM_UPS, (figures.attempt, look_once), (figures.usual_attempt, usual_once))
    return figures


def _expect_good(compiled: Compiled) -> None:
    assert compiled.result is not None, compiled.unavailable
    assert compiled.result.ok, compiled.result.errors


@asynccontextmanager
async def bench_server(data: Path) -> AsyncIterator[tuple[Lite, Api, int]]:
    """A server with the deck's project: (server, client, project id)."""
    async with lite(data) as server, Api(server.url, await create_administrator(server)) as api:
        yield server, api, await create_project(api, Deck())


async def measure_commits(api: Api, project_id: int, project: ViteProject, rounds: int) -> CommitFigures:
    """From the row of the job to the commit of its page, as the run's events tell it, beside a plain script."""
    page = Deck().page(FIXTURE)
    figures = CommitFigures(
        Series("pagegate: enqueue to commit"),
        {name: Series(name) for name in STAGES},
        Series("a script: vite build, then Playwright"),
    )
    count = 0

    async def commit_once(series: Series) -> None:
        nonlocal count
        count += 1
        total_ms, stages = await _one_commit(api, project_id, page, f"{FIXTURE}-{count}")
        series.values_ms.append(total_ms)
        if count > WARM_UPS:
            for name, value in stages.items():
                if name in figures.stages:
                    figures.stages[name].values_ms.append(value)
        await asyncio.sleep(BREATH_S)

    async with UsualBrowser(project.root / "dist") as usual:

        async def script_once(series: Series) -> None:
            with series.timed():
                await project.build()
                await usual.attempt(*page.canvas)

        await in_turns(rounds, WARM_UPS, (figures.commit, commit_once), (figures.script, script_once))
    return figures


async def _one_commit(api: Api, project_id: int, page: DeckPage, code: str) -> tuple[float, dict[str, float]]:
    call = page.create_call()
    call["arguments"]["code"] = code
    run_id = await send_calls(api, project_id, [call])
    at_ms = {event["kind"]: event["at_ms"] async for event in api.events(run_id)}
    run = await api.call("GET", f"/runs/{run_id}")
    result = run["calls"][0]["result"]
    assert result["status"] == "passed", result
    return float(at_ms["tool.ended"] - at_ms["run.submitted"]), result["timings_ms"]
