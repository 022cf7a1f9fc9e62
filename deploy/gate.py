"""The gate without a server: one Runtime and one Renderer in this process, for pages on disk (`pagegate check`).

Owns both systems while it is entered. A page is compiled, then looked at; two pages may be in different steps at once.
Infrastructure that fails is tried again a few times; what is left of it is a report without a verdict, never a fault of
the page (R9). Survives nothing; when the process dies, its Node and its browser die with it.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar
from uuid import uuid4

import pykka

from pagegate.actors.jobs.verdict import PageFinding, Verdict, judge
from pagegate.actors.systems.renderer import RendererOptions, RendererSystem
from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.deploy.pages import LocalPage
from pagegate.deploy.report import PageReport
from pagegate.renderer.contract import PageBases, RenderResult, RenderTask, Viewport
from pagegate.renderer.egress import MemoryOrigin, OriginResponse
from pagegate.runtime.contract import ArtifactManifest, Canvas, CompileResult, LocatedError
from pagegate.runtime.outputs import CONTENT_TYPES
from pagegate.runtime.refusals import CompileUnavailable
from pagegate.runtime.sources import MemoryModuleSource

T = TypeVar("T")

TRIES_MAX = 3
READY_WAIT_S = 30.0
RETRY_WAIT_S = 0.5
COMPILE_DEADLINE_S = 120.0
RENDER_DEADLINE_S = 60.0
_NOWHERE = "https://gate.invalid/"  # everything of a local page comes from memory


class Unavailable(Exception):
    """Nothing is known about the page; `code` is the infrastructure's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Compiled:
    """What became of a page's compile: a result, or why there is none."""

    page: LocalPage
    result: CompileResult | None
    manifest: ArtifactManifest | None
    unavailable: Unavailable | None
    elapsed_ms: float


class LocalGate:
    """`async with LocalGate(canvas) as gate: report, png = await gate.look(await gate.compile(page))`."""

    def __init__(
        self, canvas: Canvas, runtime: RuntimeOptions | None = None, renderer: RendererOptions | None = None
    ) -> None:
        self._canvas = canvas
        self.runtime = RuntimeSystem(runtime or RuntimeOptions())
        self.renderer = RendererSystem(renderer or RendererOptions())
        self._vendor: dict[str, OriginResponse] = {}

    async def __aenter__(self) -> Self:
        """Warm when it returns. Raises `NodeMissing` or `NoBrowser` when this machine lacks something."""
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def _start(self) -> None:
        # Together: each takes a few hundred ms, most of it waiting for a process.
        started = await asyncio.gather(self.runtime.start(), self.renderer.start(), return_exceptions=True)
        for outcome in started:
            if isinstance(outcome, BaseException):
                raise outcome
        with contextlib.suppress(TimeoutError):  # then the first compile says what is wrong
            async with asyncio.timeout(READY_WAIT_S):
                await self.runtime.ready.wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await asyncio.gather(self.runtime.stop(), self.renderer.stop(), return_exceptions=True)

    async def compile(self, page: LocalPage) -> Compiled:
        """Never raises for what a page or the infrastructure does."""
        started_s = time.perf_counter()
        source = page.source
        if isinstance(source, LocatedError):
            return Compiled(page, CompileResult(ok=False, errors=[source]), None, None, _ms_since(started_s))
        snapshot = page.snapshot(source)
        manifest = page.manifest(snapshot, uuid4().hex, self._canvas)
        modules = MemoryModuleSource(manifest, snapshot.modules)
        try:
            result = await _try_again(lambda: self._compile_once(modules))
        except Unavailable as unavailable:
            return Compiled(page, None, manifest, unavailable, _ms_since(started_s))
        return Compiled(page, result, manifest, None, _ms_since(started_s))

    async def _compile_once(self, modules: MemoryModuleSource) -> CompileResult:
        try:
            return await self.runtime.compile(uuid4().hex, modules, deadline_s=COMPILE_DEADLINE_S)
        except CompileUnavailable as error:
            raise Unavailable(error.code, str(error)) from error

    async def look(self, compiled: Compiled) -> tuple[PageReport, bytes | None]:
        """Render what compiled, and judge both steps; the report and the picture."""
        started_s = time.perf_counter()
        if compiled.result is None:
            return _without_verdict(compiled, "unavailable"), None
        if not compiled.result.ok:
            return _report(compiled, judge(compiled.result, None), compiled.elapsed_ms), None
        try:
            rendered, png = await _try_again(lambda: self._render_once(compiled))
        except Unavailable as unavailable:
            verdict = judge(compiled.result, None, unavailable.code)
            elapsed_ms = compiled.elapsed_ms + _ms_since(started_s)
            return _report(compiled, verdict, elapsed_ms, error=str(unavailable)), None
        finally:
            if compiled.result.output is not None:
                self.runtime.outputs.delete(compiled.result.output.output_id)
        verdict = judge(compiled.result, rendered.diagnosis)
        return _report(compiled, verdict, compiled.elapsed_ms + _ms_since(started_s)), png

    async def _render_once(self, compiled: Compiled) -> tuple[RenderResult, bytes | None]:
        task = RenderTask(
            attempt_id=uuid4().hex,
            request_id=uuid4().hex,
            bases=PageBases(navigation_url=_NOWHERE, vendor_url=_NOWHERE, assets_url=_NOWHERE),
            viewport=Viewport(width_px=self._canvas.width_px, height_px=self._canvas.height_px),
            deadline_s=RENDER_DEADLINE_S,
        )
        origin = await asyncio.to_thread(self.origin_of, compiled)
        try:
            result, png = await self.renderer.render(task, origin)
        except (pykka.ActorDeadError, TimeoutError) as error:
            raise Unavailable("RENDER_SERVICE_UNAVAILABLE", "the Renderer did not answer") from error
        if result.diagnosis is None:
            code, message = (result.error.code, result.error.message) if result.error else ("RENDER_FAULT", "no result")
            raise Unavailable(code, message)
        return result, png

    def origin_of(self, compiled: Compiled) -> MemoryOrigin:
        """Everything the page may load: its output, the frameworks, its assets."""
        assert compiled.manifest is not None
        assert compiled.result is not None
        assert compiled.result.output is not None
        output = self.runtime.outputs.find(compiled.result.output.output_id)
        if output is None:
            raise Unavailable("RUNTIME_OUTPUT_UNAVAILABLE", "the compiled page is gone")
        if not self._vendor:
            assert self.runtime.vendor_dir is not None, "a page has been compiled"
            files = sorted(self.runtime.vendor_dir.glob("*.js"))
            self._vendor = {f"/vendor/{file.name}": _response(file.name, file.read_bytes()) for file in files}
        found = {f"/{name}": _response(name, content) for name, content in output.files.items()}
        found["/"] = found["/index.html"]
        for name, asset in compiled.manifest.assets.items():
            content = compiled.page.asset_file(name).read_bytes()
            found[f"/assets/{name}"] = OriginResponse(200, asset.media_type, content)
        return MemoryOrigin({**self._vendor, **found})


async def _try_again(once: Callable[[], Awaitable[T]]) -> T:
    """A few tries for infrastructure that fails. Raises the last `Unavailable`."""
    for number in range(1, TRIES_MAX + 1):
        try:
            return await once()
        except Unavailable:
            if number == TRIES_MAX:
                raise
            await asyncio.sleep(RETRY_WAIT_S * number)
    raise AssertionError("unreachable")


def _report(compiled: Compiled, verdict: Verdict, elapsed_ms: float, error: str | None = None) -> PageReport:
    page = compiled.page
    findings = [_shown(page, finding) for finding in verdict.findings]
    stages: dict[str, str] = {"compile": verdict.stages.compile, "render": verdict.stages.render}
    return PageReport(str(page.file), verdict.status, stages, findings, elapsed_ms=elapsed_ms, error=error)


def _without_verdict(compiled: Compiled, stage: str) -> PageReport:
    stages = {"compile": stage, "render": "skipped"}
    return PageReport(
        str(compiled.page.file),
        "unavailable",
        stages,
        elapsed_ms=compiled.elapsed_ms,
        error=str(compiled.unavailable),
    )


def _shown(page: LocalPage, finding: PageFinding) -> PageFinding:
    """With paths that a person can click on instead of logical ones."""
    return finding.model_copy(update={"file": page.shown(finding.file)})


def _response(name: str, content: bytes) -> OriginResponse:
    media_type = CONTENT_TYPES.get(name.rsplit(".", 1)[-1], "application/octet-stream")
    return OriginResponse(200, f"{media_type}; charset=utf-8", content)


def _ms_since(started_s: float) -> float:
    return (time.perf_counter() - started_s) * 1000
