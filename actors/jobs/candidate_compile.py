"""A candidate compiled in the check lane: artifact, ticket, compile, and the end of all three (P3, V5, V6, V8).

Owns what must be tidied after a compile, whatever happened: the artifact and the compiled output. Holds no transaction.
What is asked of the compile, and what follows from its answer, is the caller's. Survives a kill: artifact and output
have a TTL.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

import pykka

from pagegate.actors.compiling.admission import Compile, Compiled, DropOutput, ForgetCompile, RuntimeAdmission
from pagegate.actors.jobs.candidate import Candidate
from pagegate.actors.jobs.snapshot import Snapshot
from pagegate.actors.kernel import ask
from pagegate.actors.queues.kinds import TryLater
from pagegate.actors.tickets import CHECK_TICKET_TTL_S, Tickets
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import ArtifactManifest, AssetRef, CompileRequest
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.runtime_state import StateFull, StateUnavailable

_NAMES_KNOWN_MAX = 1000  # for hints of the compile; they travel with every artifact


@dataclass(frozen=True)
class CheckLimits:
    """Seconds; queue sizes count waiting requests (V5, R3)."""

    compile_deadline_s: float = 120.0
    compile_request_timeout_s: float = 180.0
    artifact_ttl_s: float = 3600.0
    render_queue_max: int = 64
    render_workspace_queue_max: int = 32
    picture_ttl_s: float = 600.0  # of a temporary picture, as the coordinator collects them


class CandidateCompiler:
    """`backend_url` is where the Runtime reaches the internal endpoints of this deployment."""

    def __init__(
        self,
        artifacts: PreviewArtifacts,
        tickets: Tickets,
        admission: pykka.ActorRef[RuntimeAdmission],
        backend_url: str,
        limits: CheckLimits,
    ) -> None:
        self._artifacts, self._tickets, self._admission = artifacts, tickets, admission
        self.backend_url, self._limits = backend_url.rstrip("/"), limits

    @contextlib.asynccontextmanager
    async def opened(self, candidate: Candidate, snapshot: Snapshot) -> AsyncIterator["OpenArtifact"]:
        """An artifact of the candidate, for as long as its check takes. Raises `TryLater`."""
        artifact_id = await self._create(candidate, snapshot)
        opened = OpenArtifact(artifact_id, self)
        try:
            opened.ticket = self._tickets.issue(artifact_id, CHECK_TICKET_TTL_S)
            yield opened
        finally:
            await asyncio.shield(self._tidy(opened))

    async def compile(
        self, artifact: "OpenArtifact", *, background: bool, contract: bool, uses_of: str | None
    ) -> Compiled:
        """See `OpenArtifact.compile`."""
        request = CompileRequest(
            task_id=uuid4().hex,
            artifact_id=artifact.artifact_id,
            backend_url=self.backend_url,
            ticket=artifact.ticket,
            deadline_s=self._limits.compile_deadline_s,
            background=background,
            contract=contract,
            uses_of=uses_of,
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

    async def _create(self, candidate: Candidate, snapshot: Snapshot) -> str:
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
            known_modules=sorted(candidate.modules)[:_NAMES_KNOWN_MAX],
            known_assets=sorted(candidate.assets)[:_NAMES_KNOWN_MAX],
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

    async def _tidy(self, opened: "OpenArtifact") -> None:
        """Best effort: what cannot be deleted now is gone after its TTL (P3, V8)."""
        with contextlib.suppress(Exception):
            await self._artifacts.delete(opened.artifact_id)
        compiled = opened.compiled
        if compiled is not None and compiled.result.output is not None and self._admission.is_alive():
            # Told, not asked: the commit does not wait for it.
            self._admission.tell(DropOutput(compiled.runtime_url, compiled.result.output.output_id))


@dataclass
class OpenArtifact:
    """One artifact and what was compiled of it."""

    artifact_id: str
    _compiler: CandidateCompiler
    ticket: str = ""
    compiled: Compiled | None = None

    async def compile(
        self, *, background: bool = False, contract: bool = False, uses_of: str | None = None
    ) -> Compiled:
        """Compile it, once. Raises `TryLater`: no verdict came, which says nothing about the source (R9)."""
        self.compiled = await self._compiler.compile(self, background=background, contract=contract, uses_of=uses_of)
        return self.compiled
