"""`pagegate bench build`: what a site costs beside a plain `vite build` of it, and the memory of an upload (B1, B2).

Owns the measuring and its goals, which hold within one run. The sites are built in turns. Ours is a task of the build
lane from its start to the whole zip: a Node process of its own in its sandbox, the inspection of every source, each
page by itself as its check compiled it, packing. Theirs is `vite build` as a process, once, with every page as an
entry: chunks are shared, nothing is inspected or packed. The same sources, packages and plugins; both minify.
"""

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.table import Table

from pagegate.actors.compiling.site_build import SiteBuildTask
from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.deploy.bench.measure import Series
from pagegate.deploy.bench.uploads import MB, OwnBackend, UploadsFailed, make_archive
from pagegate.deploy.bench.usual import BuildFailed, ViteProject
from pagegate.deploy.build import LocalSource
from pagegate.deploy.deck import Deck
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.pages import local_pages, parse_canvas
from pagegate.deploy.report import console_of
from pagegate.runtime.build_client import AttemptOver, UploadFailed
from pagegate.runtime.node_worker import NodeMissing, find_node, runtime_home
from pagegate.runtime.refusals import CompileUnavailable

OVER_VITE_MAX = 1.5
UPLOAD_GROWTH_MAX_MIB = 32.0
SMALL_MB = 2
_UPLOAD_ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """`copies`: how many times over the sample's passed pages make the site."""

    rounds: int = 7
    copies: int = 1
    upload_mb: int = 200


@dataclass
class Figures:
    """Everything that was measured, in ms and MiB."""

    pages: int = 0
    upload_mb: int = 0
    ours: Series = field(default_factory=lambda: Series("a site in the build lane"))
    vite: Series = field(default_factory=lambda: Series("vite build as a process"))
    small_mib: list[float] = field(default_factory=list)
    large_mib: list[float] = field(default_factory=list)

    def goals(self) -> Iterator[tuple[str, str, str, bool]]:
        """Name, what is wanted, what was measured, met."""
        over = self.ours.p50_ms / self.vite.p50_ms
        name = f"a site of {self.pages} pages over vite build"
        yield name, f"at most {OVER_VITE_MAX} x", f"{over:.2f} x", over <= OVER_VITE_MAX
        growth = max(large - small for small, large in zip(self.small_mib, self.large_mib, strict=True))
        name = f"peak of the Backend, {self.upload_mb} MB over {SMALL_MB} MB"
        yield name, f"under {UPLOAD_GROWTH_MAX_MIB:.0f} MiB", f"{growth:.1f} MiB", growth < UPLOAD_GROWTH_MAX_MIB


async def measure(plan: Plan, say: Callable[[str], None]) -> Figures:
    """Both parts. Raises `BuildFailed`, `NodeMissing`, `UploadsFailed` and what a build or an upload raises."""
    figures = Figures(upload_mb=plan.upload_mb)
    with tempfile.TemporaryDirectory(prefix="pagegate-bench-") as temporary:
        folder = Path(temporary)
        pages = await asyncio.to_thread(_write_pages, folder / "deck", plan.copies)
        figures.pages = len(pages)
        say(f"{plan.rounds} rounds: a site of {len(pages)} pages, and vite build of the same, in turns")
        await _measure_builds(pages, folder, figures, plan.rounds)
        say(f"{_UPLOAD_ROUNDS} rounds: {SMALL_MB} MB and {plan.upload_mb} MB through a Backend of its own")
        await _measure_uploads(folder, figures, plan.upload_mb)
    return figures


def _write_pages(folder: Path, copies: int) -> list[Path]:
    """The sample's passed pages; a copy has another name and a class of its own, so that none is like another."""
    deck = Deck()
    for name in ("components", "assets"):
        shutil.copytree(deck.folder / name, folder / name)
    (folder / "pages").mkdir()
    written = []
    for copy in range(copies):
        for page in deck.pages:
            if page.expect != "passed":
                continue
            file = folder / "pages" / f"{page.code}-{copy}{page.file.suffix}"
            file.write_text(page.source.replace('class="', f'class="z-[{copy}] ', 1), encoding="utf-8")
            written.append(file)
    return written


async def _measure_builds(pages: Sequence[Path], folder: Path, figures: Figures, rounds: int) -> None:
    node, modules = await asyncio.to_thread(find_node, None), runtime_home() / "node_modules"
    (folder / "vite").mkdir()
    project = ViteProject.create_site(folder / "vite", folder / "deck", pages, node, modules)
    source = LocalSource(local_pages(list(pages), None), "deck", "clean", parse_canvas("1280x720"))
    async with RuntimeSystem(RuntimeOptions()) as system:
        await system.ready.wait()

        async def build(name: str) -> None:
            task = SiteBuildTask(name, source, folder / f"{name}.zip", system.runtime_build)
            built = await system.build(task)
            if built.packed is None:
                raise BuildFailed(f"the sample does not build: {built.errors[0].message}")

        await build("warm-up")
        await project.build()
        for number in range(rounds):
            with figures.ours.timed():
                await build(f"site-{number}")
            with figures.vite.timed():
                await project.build()


async def _measure_uploads(folder: Path, figures: Figures, upload_mb: int) -> None:
    """The same process takes small and large ones in turns, after a small one that finds everything unused."""
    small, large = folder / "small.zip", folder / "large.zip"
    for file, size_mb in ((small, SMALL_MB), (large, upload_mb)):
        await asyncio.to_thread(make_archive, file, size_mb * MB)
    async with OwnBackend.start(folder, 2 * _UPLOAD_ROUNDS + 1) as backend:
        await backend.upload(small)
        for _ in range(_UPLOAD_ROUNDS):
            figures.small_mib.append(await backend.upload(small))
            figures.large_mib.append(await backend.upload(large))


def run_build_bench(json_file: Path | None, plan: Plan) -> int:
    """The whole command; 2 when the machine lacks something. A goal that is missed is told, and is no error."""
    console = console_of(sys.stdout)
    configure_logs("bench", level="error", stream=sys.stderr)
    try:
        figures = asyncio.run(measure(plan, lambda line: console.print(f"bench  {line}", markup=False)))
    except (BuildFailed, NodeMissing, UploadsFailed, UploadFailed, AttemptOver, CompileUnavailable) as error:
        sys.stderr.write(f"pagegate bench build: {error}\n")
        return 2
    times = Table("", "P50 ms", "P95 ms", "runs", box=None, header_style="bold", title="times", title_justify="left")
    for series in (figures.ours, figures.vite):
        times.add_row(series.name, f"{series.p50_ms:.0f}", f"{series.p95_ms:.0f}", str(len(series.values_ms)))
    peaks = Table("", "lowest MiB", "highest MiB", box=None, header_style="bold", title="peaks", title_justify="left")
    for name, found in ((f"{SMALL_MB} MB", figures.small_mib), (f"{plan.upload_mb} MB", figures.large_mib)):
        peaks.add_row(f"the Backend's peak while {name} come", f"{min(found):.1f}", f"{max(found):.1f}")
    goals = Table("goal", "wanted", "measured", "", box=None, header_style="bold", title="goals", title_justify="left")
    for name, wanted, measured, met in figures.goals():
        goals.add_row(name, wanted, measured, "met" if met else "NOT MET", style="" if met else "red")
    for table in (times, peaks, goals):
        console.print()
        console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps(_as_json(figures), indent=2) + "\n", encoding="utf-8")
        console.print(f"figures in {json_file}", markup=False)
    return 0


def _as_json(figures: Figures) -> dict[str, Any]:
    return {
        "pages": figures.pages,
        "times": {series.name: series.as_json() for series in (figures.ours, figures.vite)},
        "peaks_mib": {"small": figures.small_mib, "large": figures.large_mib, "large_mb": figures.upload_mb},
        "goals": [
            {"name": name, "goal": wanted, "measured": measured, "met": met}
            for name, wanted, measured, met in figures.goals()
        ],
        "cores": psutil.cpu_count(),
    }
