"""One check of one candidate page: snapshot, artifact, compile, render, verdict (R8, R9, V5, V6, P3).

Owns the order of the steps and what must be tidied after them, whatever happened: the artifact, the compiled output, a
render nobody waits for any more. Holds no transaction while Runtime or Renderer works (Q7). Survives a kill: artifact
and output have a TTL, and the rescue of the job cancels its render request.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

import pykka
import structlog
from sqlalchemy import Row

from pagegate.actors.compiling.admission import Compile, Compiled, DropOutput, ForgetCompile, RuntimeAdmission
from pagegate.actors.jobs.snapshot import Snapshot, take_snapshot
from pagegate.actors.jobs.verdict import Verdict, judge
from pagegate.actors.kernel import ask
from pagegate.actors.queues.kinds import TryLater
from pagegate.actors.rendering.coordinator import AwaitRender, CancelRender, CoordinatorRef, RenderWanted
from pagegate.actors.tickets import CHECK_TICKET_TTL_S, Tickets
from pagegate.renderer.contract import PageBases, RenderResult, Viewport
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import ArtifactManifest, AssetRef, Canvas, CompileRequest, EntryPage, Framework
from pagegate.storage import renders
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.lease import Lease
from pagegate.storage.objects import StoredAsset
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.renders import RenderQueueFull
from pagegate.storage.runtime_state import StateFull, StateUnavailable
from pagegate.storage.transitions import RENDER_REQUEST

log = structlog.get_logger()

T = TypeVar("T")
Progress = Callable[[str], Awaitable[None]]
_ASK_AGAIN_S = 0.2


@dataclass(frozen=True)
class CheckLimits:
    """Seconds; queue sizes count waiting requests (V5, R3)."""

    compile_deadline_s: float = 120.0
    compile_request_timeout_s: float = 180.0
    artifact_ttl_s: float = 3600.0
    render_queue_max: int = 64
    render_workspace_queue_max: int = 32


@dataclass(frozen=True)
class Candidate:
    """A page as it would be saved, and everything that it may import. Sources by logical path."""

    workspace_id: int
    entry: str
    framework: Framework
    source: str
    entry_page: EntryPage
    canvas: Canvas
    modules: Mapping[str, str]
    assets: Mapping[str, StoredAsset]


@dataclass
class Checked:
    """`picture_key`: a temporary PNG in the object store (S5). `used`: the logical paths of the snapshot."""

    verdict: Verdict
    used: frozenset[str]
    picture_key: str | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)


class PageCheck:
    """`backend_url` is where the Runtime and the Renderer reach the internal endpoints of this deployment."""

    def __init__(
        self,
        db: Database,
        artifacts: PreviewArtifacts,
        tickets: Tickets,
        admission: pykka.ActorRef[RuntimeAdmission],
        coordinator: CoordinatorRef,
        backend_url: str,
        limits: CheckLimits,
    ) -> None:
        self._db, self._artifacts, self._tickets = db, artifacts, tickets
        self._admission, self._coordinator = admission, coordinator
        self._backend_url, self._limits = backend_url.rstrip("/"), limits

    async def run(self, job: Lease, candidate: Candidate, progress: Progress) -> Checked:
        """Check the candidate under the job's lease; `progress(stage)` tells that `compile` and `render` begin.

        Raises `TryLater` when the compile could not be done; a render that could not be done is `unavailable`.
        """
        watch = Stopwatch()
        snapshot = take_snapshot(
            candidate.entry,
            candidate.source,
            read=candidate.modules.get,
            every_module=candidate.modules.keys,
            assets=candidate.assets.keys(),
        )
        watch.lap("snapshot_ms")
        artifact_id = await self._create_artifact(candidate, snapshot)
        watch.lap("artifact_ms")
        log.info("preview.artifact.created", job_id=job.id, artifact_id=artifact_id, full=snapshot.full, **watch.laps)
        compiled: Compiled | None = None
        try:
            ticket = self._tickets.issue(artifact_id, CHECK_TICKET_TTL_S)
            compiled = await _beside(progress("compile"), self._compile(artifact_id, ticket))
            watch.lap("compile_ms")
            log.info(
                "runtime.diagnostics.compile.finished",
                job_id=job.id,
                ok=compiled.result.ok,
                ms=watch.laps["compile_ms"],
            )
            if not compiled.result.ok:
                return Checked(judge(compiled.result, None), frozenset(snapshot.modules), None, watch.laps)
            rendered = await _beside(progress("render"), self._render(job, candidate, artifact_id, ticket, compiled))
            watch.lap("render_ms")
            checked = _checked(compiled, rendered, snapshot, watch.laps)
            log.info(
                "runtime.diagnostics.render.finished",
                job_id=job.id,
                status=checked.verdict.stages.render,
                ms=watch.laps["render_ms"],
            )
            return checked
        finally:
            await asyncio.shield(self._tidy(artifact_id, compiled))

    async def _create_artifact(self, candidate: Candidate, snapshot: Snapshot) -> str:
        assets = {name: candidate.assets[name] for name in snapshot.assets}
        manifest = ArtifactManifest(
            artifact_id="",  # the store gives it
            entry=candidate.entry,
            framework=candidate.framework,
            modules=sorted(snapshot.modules),
            assets={
                name: AssetRef(media_type=asset.media_type, sha256=asset.sha256, size_bytes=asset.size_bytes)
                for name, asset in assets.items()
            },
            entry_page=candidate.entry_page,
            canvas=candidate.canvas,
        )
        try:
            return await self._artifacts.create(
                manifest.model_dump(), snapshot.modules, assets, ttl_s=self._limits.artifact_ttl_s
            )
        except StateFull as error:
            raise TryLater(
                "RUNTIME_STATE_FULL", "the state store has no room for the artifact", counts=False
            ) from error
        except StateUnavailable as error:
            raise TryLater("RUNTIME_STATE_UNAVAILABLE", "the state store does not answer") from error

    async def _compile(self, artifact_id: str, ticket: str) -> Compiled:
        request = CompileRequest(
            task_id=uuid4().hex,
            artifact_id=artifact_id,
            backend_url=self._backend_url,
            ticket=ticket,
            deadline_s=self._limits.compile_deadline_s,
        )
        try:
            return await ask(self._admission, Compile(request, self._limits.compile_request_timeout_s))
        except RuntimeUnavailable as error:
            raise TryLater(error.code, error.message, counts=not error.full) from error
        except pykka.ActorDeadError as error:
            raise TryLater("RUNTIME_ADMISSION_LOST", "the admission restarted") from error
        except asyncio.CancelledError:
            if self._admission.is_alive():
                self._admission.tell(ForgetCompile(request.task_id))
            raise

    async def _render(
        self, job: Lease, candidate: Candidate, artifact_id: str, ticket: str, compiled: Compiled
    ) -> Row[Any]:
        assert compiled.result.output is not None, "a compile that succeeded has an output"
        assets_url = f"{self._backend_url}/internal/runtime/preview-artifacts/{artifact_id}/assets/"
        bases = PageBases(
            navigation_url=compiled.result.output.navigation_url,
            vendor_url=compiled.result.output.vendor_url,
            assets_url=assets_url,
            ticket=ticket,
        )
        viewport = Viewport(width_px=candidate.canvas.width_px, height_px=candidate.canvas.height_px)
        payload = {"bases": bases.model_dump(), "viewport": viewport.model_dump(), "picture": True}
        try:
            async with self._db.write() as tx:
                request_id = await renders.enqueue_request(
                    tx,
                    job,
                    workspace_id=candidate.workspace_id,
                    klass="interactive",
                    operation="page.diagnose",
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

    async def _tidy(self, artifact_id: str, compiled: Compiled | None) -> None:
        """Best effort: what cannot be deleted now is gone after its TTL (P3, V8)."""
        with contextlib.suppress(Exception):
            await self._artifacts.delete(artifact_id)
        if compiled is not None and compiled.result.output is not None and self._admission.is_alive():
            # Told, not asked: the commit does not wait for it.
            self._admission.tell(DropOutput(compiled.runtime_url, compiled.result.output.output_id))


async def _beside(telling: Awaitable[None], work: Awaitable[T]) -> T:
    """Do the work while others are told of it: the telling is a write that the work need not wait for."""
    told = asyncio.ensure_future(telling)
    try:
        return await work
    finally:
        await told


def _checked(compiled: Compiled, rendered: Row[Any], snapshot: Snapshot, laps: dict[str, float]) -> Checked:
    used = frozenset(snapshot.modules)
    if rendered.status == RENDER_REQUEST.target("finish"):
        result = RenderResult.model_validate(rendered.result)
        return Checked(judge(compiled.result, result.diagnosis), used, rendered.picture_key, laps)
    code = (rendered.error or {}).get("code", "RENDER_SERVICE_UNAVAILABLE")
    return Checked(judge(compiled.result, None, code), used, None, laps)


class Stopwatch:
    """Laps in milliseconds of the loop's clock; it runs from its making."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since_s = asyncio.get_running_loop().time()

    def lap(self, name: str) -> None:
        now_s = asyncio.get_running_loop().time()
        self.laps[name] = round((now_s - self._since_s) * 1000, 1)
        self._since_s = now_s
