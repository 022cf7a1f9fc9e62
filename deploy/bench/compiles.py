"""`pagegate bench compile`: what a compile costs, what a rotation of the worker costs, and whether memory grows.

Owns the measuring and its goals, all of them ratios within one run. Three parts, one after the other: a warm compile
through the lane, the slot and the worker beside Vite's own `build()` in a process and beside `vite build` as one, in
turns; the compile right after a rotation beside the others; the peak of memory in each cycle of a worker's life.
"""

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
from rich.table import Table

from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.deploy.bench.measure import Series, pss_mb_by_role
from pagegate.deploy.bench.usual import BuildFailed, ViteProject
from pagegate.deploy.deck import Deck
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.pages import LocalPage
from pagegate.deploy.report import console_of
from pagegate.runtime.contract import ArtifactManifest, Canvas
from pagegate.runtime.node_worker import NodeMissing, find_node, runtime_home
from pagegate.runtime.sources import MemoryModuleSource

OVER_BUILD_MAX = 1.3
UNDER_PROCESS_MIN = 8.0
AFTER_ROTATION_MAX = 1.2
GROWTH_MAX = 1.15
FIXTURE = "q3-title"

_PAUSE_S = 0.01  # between two compiles, so that what a slot does after a task is its own time
_WARM_UPS = 5
_NEIGHBOURS = 6  # compiles before and after a rotation that it is held against
_CYCLES_SETTLED = 3  # the heap of the first workers and of this process is still finding its size


@dataclass(frozen=True)
class Plan:
    """How much is measured: rounds in turns, rotations, and compiles under the eye of the memory."""

    rounds: int = 20
    rotations: int = 30
    compiles: int = 200


@dataclass
class Figures:
    """Everything that was measured, in ms and MiB."""

    compile: Series = field(default_factory=lambda: Series("warm compile"))
    in_process: Series = field(default_factory=lambda: Series("build() in a process"))
    process: Series = field(default_factory=lambda: Series("vite build as a process"))
    after_rotation: Series = field(default_factory=lambda: Series("the first compile of a new worker"))
    between: Series = field(default_factory=lambda: Series("the compiles around it"))
    peaks_mb: list[float] = field(default_factory=list)

    def series(self) -> list[Series]:
        return [self.compile, self.in_process, self.process, self.after_rotation, self.between]

    @property
    def growth(self) -> float | None:
        """The peak of the last whole cycle over that of the third; None when there were too few."""
        if len(self.peaks_mb) <= _CYCLES_SETTLED:
            return None
        return self.peaks_mb[-1] / self.peaks_mb[_CYCLES_SETTLED - 1]

    def goals(self) -> Iterator[tuple[str, str, str, bool]]:
        """Name, what is wanted, what was measured, met."""
        over = self.compile.p50_ms / self.in_process.p50_ms
        yield "warm compile over build()", f"at most {OVER_BUILD_MAX} x", f"{over:.2f} x", over <= OVER_BUILD_MAX
        under = self.process.p50_ms / self.compile.p50_ms
        yield (
            "warm compile against vite build",
            f"at least {UNDER_PROCESS_MIN} x",
            f"{under:.1f} x",
            (under >= UNDER_PROCESS_MIN),
        )
        after = statistics.median(self.after_rotation.values_ms) / statistics.median(self.between.values_ms)
        wanted = f"within {AFTER_ROTATION_MAX} x"
        yield "compile after a rotation over the others", wanted, f"{after:.2f} x", after <= AFTER_ROTATION_MAX
        if self.growth is not None:
            wanted = f"at most {GROWTH_MAX} x"
            yield "peak of the last cycle over the third", wanted, f"{self.growth:.2f} x", self.growth <= GROWTH_MAX


class InProcess:
    """Vite's `build()` in a warm Node process that has nothing else to do."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def start(cls, project: ViteProject) -> AsyncIterator[Self]:
        """Warm when it is there. Raises `BuildFailed`."""
        process = await asyncio.create_subprocess_exec(
            str(project.node),
            "--max-old-space-size=512",
            "--max-semi-space-size=8",
            str(Path(__file__).with_name("in_process.mjs")),
            cwd=project.root,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            built = cls(process)
            await built._line()
            yield built
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def build(self) -> float:
        """The time of one build, as the process itself saw it: no pipe is counted against it."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return float(await self._line())

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise BuildFailed("Vite's build() ended in the benchmark's own process")
        return line.decode().strip()


class Pages:
    """The fixture page, each time a little different: no cache may know it."""

    def __init__(self) -> None:
        sample = Deck().page(FIXTURE)
        self._page = LocalPage(sample.file, Deck().folder)
        source = self._page.source
        assert isinstance(source, str), "the sample is a page"
        self._source = source
        self._count = 0

    def next(self) -> MemoryModuleSource:
        self._count += 1
        source = self._source.replace("</template>", f'<i class="p-[{self._count}px]"></i></template>')
        snapshot = self._page.snapshot(source)
        manifest: ArtifactManifest = self._page.manifest(snapshot, f"bench-{self._count}", Canvas(width_px=1280))
        return MemoryModuleSource(manifest, snapshot.modules)


async def measure(plan: Plan, say: Callable[[str], None]) -> Figures:
    """All three parts; `say` hears when each begins. Raises `BuildFailed` and `NodeMissing`."""
    figures, pages = Figures(), Pages()
    async with RuntimeSystem(RuntimeOptions()) as system:
        await system.ready.wait()
        for _ in range(_WARM_UPS):
            await _compile(system, pages)
        say(f"{plan.rounds} rounds: a compile, build() in a process, vite build as a process, in turns")
        await _measure_in_turns(system, pages, figures, plan.rounds)
        say(f"{plan.rotations} rotations of the worker")
        await _measure_rotations(system, pages, figures, plan.rotations)
    async with RuntimeSystem(RuntimeOptions()) as system:
        await system.ready.wait()
        say(f"memory over {plan.compiles} compiles")
        await _measure_memory(system, pages, figures, plan.compiles)
    return figures


async def _measure_in_turns(system: RuntimeSystem, pages: Pages, figures: Figures, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="pagegate-bench-") as temporary:
        root = Path(temporary)
        node, modules = await asyncio.to_thread(find_node, None), runtime_home() / "node_modules"
        project = ViteProject.create(root, Deck().folder, Deck().page(FIXTURE).file.name, node, modules)
        await project.build()
        async with InProcess.start(project) as in_process:
            for _ in range(rounds):
                with figures.compile.timed():
                    await _compile(system, pages)
                figures.in_process.values_ms.append(await in_process.build())
                with figures.process.timed():
                    await project.build()


async def _measure_rotations(system: RuntimeSystem, pages: Pages, figures: Figures, rotations: int) -> None:
    """Each first compile beside its neighbours, so that a machine that grows busier or quieter weighs on both alike."""
    seen = _rotations(system)
    times, firsts = Series("all"), list[int]()
    while len(firsts) < rotations or len(times.values_ms) <= firsts[-1] + _NEIGHBOURS:
        await asyncio.sleep(_PAUSE_S)
        if (now := _rotations(system)) != seen:
            seen = now
            firsts.append(len(times.values_ms))
        with times.timed():
            await _compile(system, pages)
    near = {place for first in firsts for place in range(first - _NEIGHBOURS, first + _NEIGHBOURS + 1)}
    figures.after_rotation.values_ms = [times.values_ms[first] for first in firsts]
    figures.between.values_ms = [times.values_ms[place] for place in sorted(near.difference(firsts)) if place >= 0]


async def _measure_memory(system: RuntimeSystem, pages: Pages, figures: Figures, compiles: int) -> None:
    seen, peak_mb = _rotations(system), 0.0
    for _ in range(compiles):
        await _compile(system, pages)
        peak_mb = max(peak_mb, _memory_mb())
        await asyncio.sleep(_PAUSE_S)
        if (now := _rotations(system)) != seen:
            figures.peaks_mb.append(peak_mb)
            seen, peak_mb = now, 0.0


async def _compile(system: RuntimeSystem, pages: Pages) -> None:
    result = await system.compile("bench", pages.next())
    if result.output is None:
        raise BuildFailed("the sample page does not compile")
    system.outputs.delete(result.output.output_id)  # as a check does when it is over


def _rotations(system: RuntimeSystem) -> float:
    name = "pagegate_vite_worker_endings_total"
    return system.registry.get_sample_value(name, {"lane": "check", "reason": "tasks"}) or 0.0


def _memory_mb() -> float:
    """This process, which is the Runtime here, and all of its workers."""
    return sum(pss_mb_by_role(psutil.Process().pid).values())


def run_compile_bench(json_file: Path | None, plan: Plan) -> int:
    """The whole command; 2 when the machine lacks something. A goal that is missed is told, and is no error."""
    console = console_of(sys.stdout)
    configure_logs("bench", level="error", stream=sys.stderr)
    try:
        figures = asyncio.run(measure(plan, lambda line: console.print(f"bench  {line}", markup=False)))
    except (BuildFailed, NodeMissing) as error:
        sys.stderr.write(f"pagegate bench compile: {error}\n")
        return 2
    times = Table("", "P50 ms", "P95 ms", "runs", box=None, header_style="bold", title="times", title_justify="left")
    for series in figures.series():
        times.add_row(series.name, f"{series.p50_ms:.1f}", f"{series.p95_ms:.1f}", str(len(series.values_ms)))
    goals = Table("goal", "wanted", "measured", "", box=None, header_style="bold", title="goals", title_justify="left")
    for name, wanted, measured, met in figures.goals():
        goals.add_row(name, wanted, measured, "met" if met else "NOT MET", style="" if met else "red")
    for table in (times, goals):
        console.print()
        console.print(table)
    if figures.growth is None:
        console.print(f"peaks: {len(figures.peaks_mb)} cycles are too few to judge; give --compiles a larger number")
    if json_file is not None:
        json_file.write_text(json.dumps(_as_json(figures), indent=2) + "\n", encoding="utf-8")
        console.print(f"figures in {json_file}", markup=False)
    return 0


def _as_json(figures: Figures) -> dict[str, Any]:
    return {
        "times": {series.name: series.as_json() for series in figures.series()},
        "peaks_mb": [round(mb, 1) for mb in figures.peaks_mb],
        "goals": [
            {"name": name, "goal": wanted, "measured": measured, "met": met}
            for name, wanted, measured, met in figures.goals()
        ],
    }
