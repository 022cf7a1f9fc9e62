"""What the benchmark measures, in one loop: pagegate's own steps, a whole commit on a server, and the usual way.

Owns nothing that lasts; gate, server and opponent are lent. Every round runs each side once, so that whatever else the
machine does falls on all of them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pagegate.deploy.bench.measure import Series
from pagegate.deploy.bench.usual import UsualBrowser, ViteProject
from pagegate.deploy.client import Api
from pagegate.deploy.deck import Deck, DeckPage, create_project, send_calls
from pagegate.deploy.demo import Lite, create_administrator, lite
from pagegate.deploy.gate import LocalGate
from pagegate.deploy.pages import local_pages

FIXTURE = "q3-numbers"  # a Vue page with two components, a chart and Tailwind
WARM_UPS = 2
# A spare browser is launched after each attempt; a page that comes later than this finds it ready.
BREATH_S = 1.0
STAGES = ("snapshot_ms", "artifact_ms", "compile_ms", "render_ms", "save_ms")


@dataclass
class Figures:
    """Everything that is timed, in ms."""

    compile: Series = field(default_factory=lambda: Series("pagegate: warm compile"))
    build: Series = field(default_factory=lambda: Series("vite build, as a process"))
    attempt: Series = field(default_factory=lambda: Series("pagegate: warm attempt"))
    usual: Series = field(default_factory=lambda: Series("Playwright, full Chromium on demand"))
    commit: Series = field(default_factory=lambda: Series("pagegate: enqueue to commit"))
    script: Series = field(default_factory=lambda: Series("a script: vite build, then Playwright"))
    stages: dict[str, Series] = field(default_factory=lambda: {name: Series(f"  {name}") for name in STAGES})

    def all(self) -> list[Series]:
        """In the order to show them; what was never measured is left out."""
        ordered = [self.compile, self.build, self.attempt, self.usual, self.commit, *self.stages.values(), self.script]
        return [series for series in ordered if series.values_ms]


@asynccontextmanager
async def bench_server(data: Path) -> AsyncIterator[tuple[Lite, Api, int]]:
    """A server with the deck's project: (server, client, project id)."""
    async with lite(data) as server, Api(server.url, await create_administrator(server)) as api:
        yield server, api, await create_project(api, Deck())


class Rounds:
    """The sides of one round."""

    def __init__(self, gate: LocalGate, api: Api, project_id: int, vite: ViteProject, browser: UsualBrowser) -> None:
        self._gate, self._api, self._project_id, self._vite, self._browser = gate, api, project_id, vite, browser
        self._page: DeckPage = Deck().page(FIXTURE)
        self._local = local_pages([self._page.file], None)[0]

    async def run(self, rounds: int) -> Figures:
        """The warm-ups are measured too, and thrown away."""
        figures = Figures()
        for number in range(WARM_UPS + rounds):
            if number == WARM_UPS:
                figures = Figures()
            for side in (self._ours, self._commit, self._script):
                await asyncio.sleep(BREATH_S)
                await side(figures, number)
        return figures

    async def _ours(self, figures: Figures, _: int) -> None:
        with figures.compile.timed():
            compiled = await self._gate.compile(self._local)
        await asyncio.sleep(BREATH_S)
        with figures.attempt.timed():
            report, png = await self._gate.look(compiled)
        assert report.status == "passed", report
        assert png is not None

    async def _script(self, figures: Figures, _: int) -> None:
        """What a plain script does, one step after the other."""
        with figures.script.timed():
            with figures.build.timed():
                await self._vite.build()
            with figures.usual.timed():
                await self._browser.attempt(*self._page.canvas)

    async def _commit(self, figures: Figures, number: int) -> None:
        """From the row of the job to the commit of its page, as the run's events tell it."""
        call = self._page.create_call()
        call["arguments"]["code"] = f"{FIXTURE}-{number}"
        run_id = await send_calls(self._api, self._project_id, [call])
        at_ms = {event["kind"]: event["at_ms"] async for event in self._api.events(run_id)}
        run = await self._api.call("GET", f"/runs/{run_id}")
        result = run["calls"][0]["result"]
        assert result["status"] == "passed", result
        figures.commit.values_ms.append(float(at_ms["tool.ended"] - at_ms["run.submitted"]))
        for name, value in result["timings_ms"].items():
            if name in figures.stages:
                figures.stages[name].values_ms.append(value)
