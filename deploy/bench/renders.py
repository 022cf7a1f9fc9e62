"""`pagegate bench render`: what an attempt costs beside the usual way, and what the slot costs a saturated machine.

Owns the measuring and its goals, both ratios within one run, in turns. First: a warm attempt (a spare browser waits,
the isolation is the best of this host) beside full Chromium launched on demand with the same probes, the load event and
300 ms. Then: attempts back to back through the slot beside the same browser steps in a bare loop, which is the floor.
A second bare loop launches the next browser while the last one looks; it shows what knowing the next task is worth.
"""

import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.table import Table

from pagegate.actors.systems.renderer import RendererOptions, RendererSystem
from pagegate.deploy.bench.measure import Series
from pagegate.deploy.bench.usual import FULL_CHROMIUM, BuildFailed, UsualBrowser, ViteProject
from pagegate.deploy.deck import Deck
from pagegate.deploy.gate import LocalGate
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.pages import local_pages
from pagegate.deploy.report import console_of
from pagegate.renderer.attempt import Attempt
from pagegate.renderer.browser import BrowserHouse
from pagegate.renderer.contract import PageBases, RenderTask, Viewport
from pagegate.renderer.diagnosis import diagnose
from pagegate.renderer.egress import MemoryOrigin
from pagegate.renderer.engine import find_browser
from pagegate.renderer.probes import probe_steps
from pagegate.renderer.stage import Stage, prepare
from pagegate.runtime.contract import Canvas
from pagegate.runtime.node_worker import NodeMissing, find_node, runtime_home

UNDER_USUAL_MIN = 4.0
OF_THE_FLOOR_MIN = 0.9
FIXTURE = "q3-numbers"
BATCH = 8
BATCH_ROUNDS_MIN = 3

_WARM_UPS = 2
_BREATH_S = 1.0  # for the spare browser to come up: who comes later finds it ready
_NOWHERE = "https://gate.invalid/"


@dataclass
class Figures:
    """Durations in ms; throughputs in attempts a minute, one a batch."""

    isolation: str = ""
    attempt: Series = field(default_factory=lambda: Series("warm attempt"))
    usual: Series = field(default_factory=lambda: Series("full Chromium on demand"))
    slot: list[float] = field(default_factory=list)
    one_by_one: list[float] = field(default_factory=list)
    launching_ahead: list[float] = field(default_factory=list)

    @property
    def under_usual(self) -> float:
        return self.usual.p50_ms / self.attempt.p50_ms

    @property
    def of_the_floor(self) -> float:
        return _mean(self.slot) / _mean(self.one_by_one)


def run_render_bench(json_file: Path | None, rounds: int) -> int:
    """The whole command: 0 when both goals are met, 1 when not, 2 when the machine lacks something."""
    console = console_of(sys.stdout)
    configure_logs("bench", level="error", stream=sys.stderr)
    if not FULL_CHROMIUM.exists():
        sys.stderr.write(
            f"pagegate bench: the opponent, {FULL_CHROMIUM}, is missing; bash deploy/setup.sh installs it\n"
        )
        return 2
    try:
        figures = asyncio.run(_measure(rounds))
    except (BuildFailed, NodeMissing) as error:
        sys.stderr.write(f"pagegate bench: {error}\n")
        return 2
    for table in _tables(figures):
        console.print()
        console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps(_as_json(figures), indent=2) + "\n", encoding="utf-8")
    met = figures.under_usual >= UNDER_USUAL_MIN and figures.of_the_floor >= OF_THE_FLOOR_MIN
    return 0 if met else 1


async def _measure(rounds: int) -> Figures:
    figures = Figures()
    page = Deck().page(FIXTURE)
    width_px, height_px = page.canvas
    viewport = Viewport(width_px=width_px, height_px=height_px)
    with tempfile.TemporaryDirectory(prefix="pagegate-bench-") as temporary:
        node = await asyncio.to_thread(find_node, None)
        root = Path(temporary)
        vite = ViteProject.create(root, Deck().folder, page.file.name, node, runtime_home() / "node_modules")
        dist = await vite.build()
        async with LocalGate(Canvas(width_px=width_px, height_px=height_px)) as gate, UsualBrowser(dist) as usual:
            compiled = await gate.compile(local_pages([page.file], None)[0])
            origin = await asyncio.to_thread(gate.origin_of, compiled)
            figures.isolation = str(gate.renderer.profile["isolation"])
            for number in range(_WARM_UPS + rounds):
                if number == _WARM_UPS:
                    figures.attempt.values_ms.clear()
                    figures.usual.values_ms.clear()
                await asyncio.sleep(_BREATH_S)
                with figures.attempt.timed():
                    await _through_the_slot(gate.renderer, origin, viewport)
                await asyncio.sleep(_BREATH_S)
                with figures.usual.timed():
                    await usual.attempt(width_px, height_px)
        await _measure_saturated(figures, origin, viewport, max(BATCH_ROUNDS_MIN, rounds // 4))
    return figures


async def _measure_saturated(figures: Figures, origin: MemoryOrigin, viewport: Viewport, rounds: int) -> None:
    async def one() -> None:
        await _through_the_slot(renderer, origin, viewport)

    bare = await BareLoop.open(origin, viewport)
    try:
        for _ in range(rounds):
            # The Renderer is there only while it is measured: its spare browser would cost the others memory.
            async with RendererSystem(RendererOptions()) as renderer:
                await one()
                figures.slot.append(await _per_minute(lambda: _repeat(one)))
            figures.one_by_one.append(await _per_minute(lambda: _repeat(bare.one)))
            figures.launching_ahead.append(await _per_minute(bare.ahead))
    finally:
        await bare.house.close()


async def _through_the_slot(renderer: RendererSystem, origin: MemoryOrigin, viewport: Viewport) -> None:
    bases = PageBases(navigation_url=_NOWHERE, vendor_url=_NOWHERE, assets_url=_NOWHERE)
    task = RenderTask(attempt_id=uuid4().hex, request_id="bench", bases=bases, viewport=viewport)
    result, png = await renderer.render(task, origin)
    assert result.error is None, result.error
    assert png is not None


class BareLoop:
    """The browser steps of an attempt and nothing around them: launch, prepare, look, judge, hash, close."""

    def __init__(self, house: BrowserHouse, origin: MemoryOrigin, viewport: Viewport) -> None:
        self.house, self._origin, self._viewport = house, origin, viewport

    @classmethod
    async def open(cls, origin: MemoryOrigin, viewport: Viewport) -> "BareLoop":
        options = RendererOptions().browser
        house = BrowserHouse(options, *(await find_browser(options)))
        await house.open()
        return cls(house, origin, viewport)

    async def one(self) -> None:
        await self._look(await self._stage())

    async def ahead(self) -> None:
        """A batch in which the next browser is launched while the last one looks and closes."""
        coming = asyncio.create_task(self._stage())
        for number in range(BATCH):
            stage = await coming
            if number + 1 < BATCH:
                coming = asyncio.create_task(self._stage())
            await self._look(stage)

    async def _stage(self) -> Stage:
        return await prepare(await self.house.launch())

    async def _look(self, stage: Stage) -> None:
        attempt = Attempt(stage, self._origin, self._viewport, options=self.house.options, steps=probe_steps())
        seen = await attempt.run(60.0)
        assert seen.observation is not None, seen.error
        assert seen.observation.png is not None
        await asyncio.to_thread(diagnose, seen.observation)
        hashlib.sha256(seen.observation.png).hexdigest()
        await stage.fresh.close(self.house.options.cleanup_grace_s)


async def _repeat(once: Callable[[], Awaitable[None]]) -> None:
    for _ in range(BATCH):
        await once()


async def _per_minute(batch: Callable[[], Awaitable[None]]) -> float:
    started_s = time.perf_counter()
    await batch()
    return BATCH * 60 / (time.perf_counter() - started_s)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _tables(figures: Figures) -> list[Table]:
    times = Table(
        "", "P50 ms", "P95 ms", "runs", box=None, title=f"one attempt ({figures.isolation})", title_justify="left"
    )
    for series in (figures.attempt, figures.usual):
        times.add_row(series.name, f"{series.p50_ms:.1f}", f"{series.p95_ms:.1f}", str(len(series.values_ms)))
    rates = Table("", "attempts a minute", box=None, title="saturated", title_justify="left")
    rates.add_row("through the slot", f"{_mean(figures.slot):.0f}")
    rates.add_row("the floor: a bare loop", f"{_mean(figures.one_by_one):.0f}")
    rates.add_row("a bare loop that launches ahead", f"{_mean(figures.launching_ahead):.0f}")
    goals = Table("goal", "wanted", "measured", "", box=None, title="goals", title_justify="left")
    for name, wanted, measured, minimum in (
        ("warm attempt against full Chromium on demand", "at least 4 x", figures.under_usual, UNDER_USUAL_MIN),
        ("saturated throughput of the floor", "at least 0.9 x", figures.of_the_floor, OF_THE_FLOOR_MIN),
    ):
        goals.add_row(name, wanted, f"{measured:.2f} x", "met" if measured >= minimum else "NOT MET")
    return [times, rates, goals]


def _as_json(figures: Figures) -> dict[str, Any]:
    return {
        "isolation": figures.isolation,
        "times": {series.name: series.as_json() for series in (figures.attempt, figures.usual)},
        "attempts_per_minute": {
            "slot": figures.slot,
            "bare, one by one": figures.one_by_one,
            "bare, launching ahead": figures.launching_ahead,
        },
        "ratios": {"under_usual": round(figures.under_usual, 2), "of_the_floor": round(figures.of_the_floor, 3)},
    }
