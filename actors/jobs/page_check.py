"""One look at one candidate page: snapshot, artifact, compile, render; a verdict or a picture (R8, R9, S1, V5, V6, P3).

Owns the order of the steps and the end of a render nobody waits for any more; the artifact and the compile are
`candidate_compile`'s. Holds no transaction while Runtime or Renderer works (Q7). Survives a kill: artifact and output
have a TTL, and the rescue of the job cancels its render request.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pykka
import structlog
from sqlalchemy import Row

from pagegate.actors.compiling.admission import Compiled, RuntimeAdmission
from pagegate.actors.jobs.asset_bytes import Lost, find_lost, looking, something_missing
from pagegate.actors.jobs.candidate import Candidate, context_of, snapshot_of
from pagegate.actors.jobs.candidate_compile import CandidateCompiler, CheckLimits, OpenArtifact
from pagegate.actors.jobs.snapshot import Snapshot
from pagegate.actors.jobs.verdict import Verdict, judge
from pagegate.actors.kernel import ask
from pagegate.actors.queues.kinds import TryLater
from pagegate.actors.rendering.coordinator import AwaitRender, CancelRender, CoordinatorRef, RenderWanted
from pagegate.actors.tickets import Tickets
from pagegate.renderer.contract import Operation, PageBases, RenderResult, Viewport
from pagegate.runtime.contract import CompileResult
from pagegate.storage import renders
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.lease import Lease
from pagegate.storage.objects import Objects, StoredAsset
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.renders import RenderQueueFull
from pagegate.storage.screenshot_context import CaptureContext, viewport_text
from pagegate.storage.screenshot_pictures import TemporaryPicture
from pagegate.storage.transitions import RENDER_REQUEST

log = structlog.get_logger()

T = TypeVar("T")
Progress = Callable[[str], Awaitable[None]]
_ASK_AGAIN_S = 0.2


@dataclass
class Checked:
    """`picture`: a temporary PNG in the object store (S5). `used`: the logical paths of the snapshot.

    `context`: what the picture shows, and what it depends on.
    """

    verdict: Verdict
    used: frozenset[str]
    context: CaptureContext
    picture: TemporaryPicture | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    lost: Lost | None = None  # why it is unavailable, when that is for its assets


@dataclass(frozen=True)
class Captured:
    """What came of a screenshot: a picture; or what is wrong with the page, for a person; or why it was unavailable."""

    context: CaptureContext
    picture: TemporaryPicture | None = None
    content_error: str | None = None
    unavailable: tuple[str, str] | None = None  # an infrastructure code and its message (R9)
    hint: str = ""  # what to do about that, where it is known


@dataclass(frozen=True)
class _Look:
    """What is asked of the Renderer, and in which class of the two lanes (R3, V1)."""

    operation: Operation
    klass: Literal["interactive", "background"]
    viewport: Viewport

    @property
    def background(self) -> bool:
        return self.klass == "background"


@dataclass(frozen=True)
class _Looked:
    """`rendered` None: the compile failed, or bytes of the page's assets are `lost` and nobody looked."""

    compiled: CompileResult
    rendered: Row[Any] | None
    snapshot: Snapshot
    laps_ms: dict[str, float]
    lost: Lost | None = None


class PageCheck:
    """`backend_url` is where the Runtime and the Renderer reach the internal endpoints of this deployment."""

    def __init__(
        self,
        db: Database,
        objects: Objects,
        artifacts: PreviewArtifacts,
        tickets: Tickets,
        admission: pykka.ActorRef[RuntimeAdmission],
        coordinator: CoordinatorRef,
        backend_url: str,
        limits: CheckLimits,
    ) -> None:
        self._db, self._objects, self._coordinator, self._limits = db, objects, coordinator, limits
        self._compiler = CandidateCompiler(artifacts, tickets, admission, backend_url, limits)

    async def run(self, job: Lease, candidate: Candidate, progress: Progress) -> Checked:
        """Check the candidate under the job's lease; `progress(stage)` tells that `compile` and `render` begin.

        Raises `TryLater` when the compile could not be done; a render that could not be done is `unavailable`.
        """
        canvas = candidate.canvas
        viewport = Viewport(width_px=canvas.width_px, height_px=canvas.height_px)
        looked = await self._look(job, candidate, _Look("page.diagnose", "interactive", viewport), progress)
        checked = self._checked(candidate, looked)
        if looked.rendered is not None:
            log.info(
                "runtime.diagnostics.render.finished",
                job_id=job.id,
                status=checked.verdict.stages.render,
                ms=looked.laps_ms["render_ms"],
            )
        return checked

    async def capture(self, job: Lease, candidate: Candidate, viewport: Viewport) -> Captured:
        """Take a picture of a saved page under the job's lease, behind the checks (S1). Raises `TryLater`."""
        looked = await self._look(job, candidate, _Look("page.screenshot", "background", viewport), _tell_nobody)
        if looked.lost is not None:
            unavailable = (looked.lost.code, looked.lost.message)
            return Captured(context_of(candidate, looked.snapshot), unavailable=unavailable, hint=looked.lost.hint)
        if looked.rendered is None:
            error = looked.compiled.errors[0].message if looked.compiled.errors else "it does not compile"
            return Captured(context_of(candidate, looked.snapshot), content_error=f"The page does not compile: {error}")
        if looked.rendered.status != RENDER_REQUEST.target("finish"):
            said = looked.rendered.error or {}
            code = said.get("code", "RENDER_SERVICE_UNAVAILABLE")
            unavailable = (code, said.get("message", "the page could not be looked at"))
            return Captured(context_of(candidate, looked.snapshot), unavailable=unavailable)
        result = RenderResult.model_validate(looked.rendered.result)
        context = _context(candidate, looked, result, viewport)
        picture = self._picture_of(looked.rendered, result)
        if picture is not None:
            return Captured(context, picture)
        return Captured(context, content_error=f"The page cannot be photographed ({result.picture_error}).")

    async def _look(self, job: Lease, candidate: Candidate, look: _Look, progress: Progress) -> _Looked:
        watch = Stopwatch()
        snapshot = snapshot_of(candidate)
        watch.lap("snapshot_ms")
        async with self._compiler.opened(candidate, snapshot) as artifact:
            watch.lap("artifact_ms")
            about = {"job_id": job.id, "artifact_id": artifact.artifact_id}
            log.info("preview.artifact.created", **about, full=snapshot.full, **watch.laps)
            # A full snapshot may hold far more than the page uses: its assets are looked at when one did not arrive.
            used = () if snapshot.full else _used_assets(candidate, snapshot)
            async with looking(self._objects, used) as find_lost_before:
                compiled = await _beside(progress("compile"), artifact.compile(background=look.background))
                watch.lap("compile_ms")
                log.info(
                    "runtime.diagnostics.compile.finished",
                    job_id=job.id,
                    ok=compiled.result.ok,
                    ms=watch.laps["compile_ms"],
                )
                if not compiled.result.ok:
                    return _Looked(compiled.result, None, snapshot, watch.laps)
                lost = await find_lost_before()
            if lost is not None:
                log.warning("preview.assets.lost", **about, code=lost.code, reason=lost.message)
                return _Looked(compiled.result, None, snapshot, watch.laps, lost)
            rendered = await _beside(
                progress("render"), self._render(job, candidate.workspace_id, look, artifact, compiled)
            )
            watch.lap("render_ms")
            lost = await self._lost_meanwhile(candidate, snapshot, rendered)
            return _Looked(compiled.result, rendered, snapshot, watch.laps, lost)

    async def _lost_meanwhile(self, candidate: Candidate, snapshot: Snapshot, rendered: Row[Any]) -> Lost | None:
        """When something did not arrive in the browser: whether that is for the object store."""
        if rendered.status != RENDER_REQUEST.target("finish") or not snapshot.assets:
            return None
        diagnosis = RenderResult.model_validate(rendered.result).diagnosis
        if diagnosis is None or not something_missing(diagnosis.findings):
            return None
        return await find_lost(self._objects, _used_assets(candidate, snapshot))

    def _checked(self, candidate: Candidate, looked: _Looked) -> Checked:
        used, rendered = frozenset(looked.snapshot.modules), looked.rendered
        bare = context_of(candidate, looked.snapshot, runtime_build=looked.compiled.runtime_build)
        if looked.lost is not None:
            verdict = judge(looked.compiled, None, looked.lost.code, looked.lost.message)
            return Checked(verdict, used, bare, None, looked.laps_ms, looked.lost)
        if rendered is None:
            return Checked(judge(looked.compiled, None), used, bare, None, looked.laps_ms)
        if rendered.status != RENDER_REQUEST.target("finish"):
            code = (rendered.error or {}).get("code", "RENDER_SERVICE_UNAVAILABLE")
            return Checked(judge(looked.compiled, None, code), used, bare, None, looked.laps_ms)
        result = RenderResult.model_validate(rendered.result)
        canvas = candidate.canvas
        viewport = Viewport(width_px=canvas.width_px, height_px=canvas.height_px)
        context = _context(candidate, looked, result, viewport)
        verdict = judge(looked.compiled, result.diagnosis)
        return Checked(verdict, used, context, self._picture_of(rendered, result), looked.laps_ms)

    def _picture_of(self, rendered: Row[Any], result: RenderResult) -> TemporaryPicture | None:
        if rendered.picture_key is None or result.picture is None:
            return None
        return TemporaryPicture(
            key=rendered.picture_key,
            workspace_id=rendered.workspace_id,
            request_id=rendered.id,
            attempt=rendered.attempt,
            sha256=result.picture.sha256,
            size_bytes=result.picture.size_bytes,
            expires_at_ms=rendered.finished_at_ms + int(self._limits.picture_ttl_s * 1000),
            width_px=result.picture.width_px,
            height_px=result.picture.height_px,
            cut=result.picture.cut,
        )

    async def _render(
        self, job: Lease, workspace_id: int, look: _Look, artifact: OpenArtifact, compiled: Compiled
    ) -> Row[Any]:
        assert compiled.result.output is not None, "a compile that succeeded has an output"
        artifacts_url = f"{self._compiler.backend_url}/internal/runtime/preview-artifacts"
        bases = PageBases(
            navigation_url=compiled.result.output.navigation_url,
            vendor_url=compiled.result.output.vendor_url,
            assets_url=f"{artifacts_url}/{artifact.artifact_id}/assets/",
            ticket=artifact.ticket,
        )
        payload = {"bases": bases.model_dump(), "viewport": look.viewport.model_dump(), "picture": True}
        try:
            async with self._db.write() as tx:
                request_id = await renders.enqueue_request(
                    tx,
                    job,
                    workspace_id=workspace_id,
                    klass=look.klass,
                    operation=look.operation,
                    payload=payload,
                    queue_size_max=self._limits.render_queue_max,
                    workspace_queue_size_max=self._limits.render_workspace_queue_max,
                )
        except RenderQueueFull as error:
            raise TryLater(error.code, str(error), counts=False) from error
        log.info("render.request.created", job_id=job.id, request_id=request_id)
        try:
            return await self._await_render(request_id)
        except BaseException:
            await asyncio.shield(self._cancel_render(request_id))
            raise

    async def _await_render(self, request_id: int) -> Row[Any]:
        while True:
            try:
                self._coordinator.tell(RenderWanted())
                return await ask(self._coordinator, AwaitRender(request_id))
            except pykka.ActorDeadError:
                if not self._coordinator.is_alive():
                    raise TryLater("RENDER_COORDINATOR_LOST", "the process is stopping", counts=False) from None
                await asyncio.sleep(_ASK_AGAIN_S)  # it crashed and lives again; the request is a row

    async def _cancel_render(self, request_id: int) -> None:
        """Best effort, so that it hides no other error: the job's end, retry or rescue cancels it too (Q5)."""
        try:
            async with self._db.write() as tx:
                await renders.cancel_request(tx, request_id)
        except DatabaseUnavailable as error:
            log.warning("render.request.not_cancelled", request_id=request_id, reason=str(error))
        if self._coordinator.is_alive():
            self._coordinator.tell(CancelRender(request_id))


async def _beside(telling: Awaitable[None], work: Awaitable[T]) -> T:
    """Do the work while others are told of it: the telling is a write that the work need not wait for."""
    told = asyncio.ensure_future(telling)
    try:
        return await work
    finally:
        await told


async def _tell_nobody(_stage: str) -> None:
    return


def _context(candidate: Candidate, looked: _Looked, result: RenderResult, viewport: Viewport) -> CaptureContext:
    return context_of(
        candidate,
        looked.snapshot,
        runtime_build=looked.compiled.runtime_build,
        policy=capture_policy(viewport, result.profile_digest),
    )


def _used_assets(candidate: Candidate, snapshot: Snapshot) -> list[StoredAsset]:
    return [candidate.assets[name] for name in sorted(snapshot.assets)]


def capture_policy(viewport: Viewport, profile_digest: str) -> str:
    """How a picture is taken: in which viewport, by which kind of Renderer."""
    return f"{viewport_text(viewport.width_px, viewport.height_px)} {profile_digest}"


class Stopwatch:
    """Laps in milliseconds of the loop's clock; it runs from its making."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since_s = asyncio.get_running_loop().time()

    def lap(self, name: str) -> None:
        now_s = asyncio.get_running_loop().time()
        self.laps[name] = round((now_s - self._since_s) * 1000, 1)
        self._since_s = now_s
