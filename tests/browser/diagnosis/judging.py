"""Pages on disk, compiled by a real Runtime and looked at by real browsers, two at a time.

`canvas: 1280xauto` in a page's first line lets it decide its height. An address below `/never/` never answers.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from playwright.async_api import Error as PlaywrightError

from pagegate.actors.systems.runtime import LaneSize, RuntimeOptions, RuntimeSystem
from pagegate.renderer import isolation
from pagegate.renderer.attempt import Attempt, Seen
from pagegate.renderer.browser import BrowserHouse, FreshBrowser, page_in
from pagegate.renderer.contract import Diagnosis, Viewport
from pagegate.renderer.diagnosis import diagnose
from pagegate.renderer.egress import MemoryOrigin, OriginResponse
from pagegate.renderer.observation import Observation
from pagegate.renderer.options import BrowserOptions
from pagegate.renderer.probes import probe_steps
from pagegate.renderer.stage import prepare
from pagegate.runtime.contract import (
    FRAMEWORK_OF_SUFFIX,
    ArtifactManifest,
    AssetRef,
    Canvas,
    CompileResult,
    EntryPage,
)
from pagegate.runtime.sources import MemoryModuleSource

LOOKS_AT_ONCE = 2
ATTEMPTS_MAX = 4
CLOSED_WITHIN_S = 5.0
MEDIA_TYPES = {".svg": "image/svg+xml", ".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


@dataclass(frozen=True)
class Judged:
    """What became of one page: its compile, and the look at it when that succeeded."""

    compiled: CompileResult
    seen: Observation | None = None
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True)
class Project:
    """A folder with `pages/`, `components/` and `assets/`; `changed` modules have another text than their file."""

    folder: Path
    changed: Mapping[str, str] = field(default_factory=dict)

    @property
    def pages(self) -> list[str]:
        return sorted(f"pages/{path.name}" for path in (self.folder / "pages").iterdir())

    def source(self, page: str) -> MemoryModuleSource:
        paths = [path for kind in ("pages", "components") for path in (self.folder / kind).iterdir()]
        names = [f"{path.parent.name}/{path.name}" for path in paths]
        modules = {name: self.read(name) for name in names}
        manifest = ArtifactManifest(
            artifact_id=page,
            entry=page,
            framework=FRAMEWORK_OF_SUFFIX[Path(page).suffix],
            modules=list(modules),
            assets={path.name: _asset(path) for path in (self.folder / "assets").iterdir()},
            entry_page=EntryPage(code=Path(page).stem),
            canvas=Canvas(width_px=1280, height_px=self.height_px(page)),
        )
        return MemoryModuleSource(manifest, modules)

    def read(self, name: str) -> str:
        """A module's text, by its logical path."""
        return self.changed.get(name) or (self.folder / name).read_text(encoding="utf-8")

    def height_px(self, page: str) -> int | None:
        first_line = self.read(page).partition("\n")[0]
        return None if "canvas: 1280xauto" in first_line else 720

    def served(self) -> dict[str, OriginResponse]:
        return {f"/assets/{path.name}": _file(path) for path in (self.folder / "assets").iterdir()}


def _asset(path: Path) -> AssetRef:
    return AssetRef(media_type=MEDIA_TYPES[path.suffix], sha256="0" * 64, size_bytes=path.stat().st_size)


def _file(path: Path) -> OriginResponse:
    return OriginResponse(200, MEDIA_TYPES.get(path.suffix, "application/octet-stream"), path.read_bytes())


class PatientOrigin(MemoryOrigin):
    """Answers what it has, and nothing at all for `/never/…`."""

    async def get(self, path_and_query: str) -> OriginResponse:
        if path_and_query.startswith("/never/"):
            await asyncio.Event().wait()
        return await super().get(path_and_query)


class UsedBrowsers:
    """Browsers that serve one look after the other, each look with a context of its own.

    To start one takes a third of what a look costs. A fault that was made in a page is found in any browser; that a
    good page has none is asked in a fresh one, as the Renderer does it.
    """

    def __init__(self, house: BrowserHouse) -> None:
        self._house = house
        self._idle: list[FreshBrowser] = []

    async def take(self) -> FreshBrowser:
        if not self._idle:
            return await self._house.launch()
        used = self._idle.pop()
        context, page, cdp, frame_id = await page_in(used.browser)
        return replace(used, context=context, page=page, cdp=cdp, frame_id=frame_id)

    async def give_back(self, used: FreshBrowser, seen: Observation | None) -> None:
        """For the next look, unless this one's page may still trouble it."""
        if seen is not None and used.alive and not (seen.stuck or seen.crashed or seen.killed_by_memory):
            with contextlib.suppress(PlaywrightError, TimeoutError):
                async with asyncio.timeout(CLOSED_WITHIN_S):
                    await used.context.close()
                self._idle.append(used)
                return
        await used.close(1.0)

    async def close(self) -> None:
        for used in self._idle:
            await used.close(1.0)


class Judges:
    """One Runtime and one house of browsers for every page."""

    def __init__(self, runtime: RuntimeSystem, house: BrowserHouse, used: UsedBrowsers) -> None:
        self._runtime, self._house, self._used = runtime, house, used
        self._looks = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def judge(self, project: Project, page: str, *, fresh: bool) -> Judged:
        async with self._looks:
            compiled = await self._runtime.compile(page, project.source(page))
            if compiled.output is None:
                return Judged(compiled)
            output = self._runtime.outputs.find(compiled.output.output_id)
            assert output is not None
            served = {f"/{name}": self._answer(name, body) for name, body in output.files.items()}
            seen = await self._observe(project, page, served | {"/": served["/index.html"]}, fresh=fresh)
            return Judged(compiled, seen, diagnose(seen))

    async def _observe(
        self, project: Project, page: str, served: Mapping[str, OriginResponse], *, fresh: bool
    ) -> Observation:
        """A machine that is busy with other things loses an attempt now and then; that says nothing about the page."""
        for _ in range(ATTEMPTS_MAX):
            seen = await (self._look_freshly if fresh else self._look_again)(project, page, served)
            if seen.observation is not None:
                return seen.observation
        raise AssertionError(f"{page}: {seen.error}")

    async def _look_freshly(self, project: Project, page: str, served: Mapping[str, OriginResponse]) -> Seen:
        fresh = await self._house.launch()
        try:
            return await self._look(fresh, project, page, served)
        finally:
            await fresh.close(1.0)

    async def _look_again(self, project: Project, page: str, served: Mapping[str, OriginResponse]) -> Seen:
        used, seen = await self._used.take(), Seen()
        try:
            seen = await self._look(used, project, page, served)
            return seen
        finally:
            await self._used.give_back(used, seen.observation)

    async def _look(
        self, browser: FreshBrowser, project: Project, page: str, served: Mapping[str, OriginResponse]
    ) -> Seen:
        assert self._runtime.vendor_dir is not None
        files = [path for path in self._runtime.vendor_dir.iterdir() if path.is_file()]
        vendor = {f"/vendor/{path.name}": _file(path) for path in files}
        attempt = Attempt(
            await prepare(browser),
            PatientOrigin(dict(served) | vendor | project.served()),
            Viewport(width_px=1280, height_px=project.height_px(page)),
            options=self._house.options,
            steps=probe_steps(),
        )
        return await attempt.run(deadline_s=60.0)

    @staticmethod
    def _answer(name: str, body: bytes) -> OriginResponse:
        return OriginResponse(200, MEDIA_TYPES.get(Path(name).suffix, "application/json"), body)


async def judge_all(
    wanted: Mapping[str, tuple[Project, str]], faulty: Mapping[str, tuple[Project, str]] | None = None
) -> dict[str, Judged]:
    """Compile and look at each (project, page), by the key it was given under; the `faulty` ones in used browsers."""
    options = BrowserOptions(stuck_after_s=6.0, origin_timeout_s=1.0)
    chromium = isolation.find_chromium()
    house = BrowserHouse(options, chromium, await isolation.probe(chromium))
    await house.open()
    used = UsedBrowsers(house)
    try:
        async with RuntimeSystem(RuntimeOptions(check=LaneSize(queue_size_max=400))) as runtime:
            judges = Judges(runtime, house, used)
            async with asyncio.TaskGroup() as group:
                tasks = {key: group.create_task(judges.judge(*which, fresh=True)) for key, which in wanted.items()}
                for key, which in (faulty or {}).items():
                    tasks[key] = group.create_task(judges.judge(*which, fresh=False))
            return {key: task.result() for key, task in tasks.items()}
    finally:
        await used.close()
        await house.close()
