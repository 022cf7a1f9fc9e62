"""BuildPuller: takes builds from Backends and makes them, as many at once as the build lane has slots (B1, V5).

Owns the builds under way in this Runtime. Hears offers (there may be work) and pulls until there is none. While a build
runs, its lease is renewed; one that is asked to stop, whose lease is lost or whose time is over stops fetch, Vite and
upload alike. Survives nothing: an attempt that ends with this process ends at the Backend with its lease (B3).
"""

import asyncio
import contextlib
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import structlog

from pagegate.actors.compiling.site_build import Built, SiteBuildTask, Step
from pagegate.actors.compiling.tasks import BUILD_DEADLINE_S
from pagegate.runtime.build_client import AttemptOver, UploadFailed
from pagegate.runtime.build_contract import (
    BuildClaim,
    BuildClaimed,
    BuildFailure,
    BuildFault,
    BuildHeartbeat,
    BuildOffer,
    BuildOrders,
    BuildSnapshot,
)
from pagegate.runtime.contract import ErrorBody
from pagegate.runtime.refusals import BuildAssetMissing, BuildTimedOut, CompileUnavailable, SourceUnavailable

log = structlog.get_logger()

_LEASE_BEATS = 3  # without an answer for this many heartbeats the lease may be over, and the build stops
_UPLOAD_PAUSES_S = (1.0, 5.0)  # between one try of an upload and the next
_FINAL_REFUSALS = frozenset({"PROJECT_BUILD_ARTIFACT_TOO_LARGE", "PROJECT_BUILD_ARCHIVE_REFUSED"})
_ASSET_CODES = frozenset({"PAGE_ASSET_NOT_FOUND", "PAGE_ASSET_NOT_ALLOWED"})


class Attempt(Protocol):
    """One claimed build at its Backend; see `runtime.build_client.BuildAttempt`."""

    async def snapshot(self) -> BuildSnapshot: ...
    def asset(self, name: str) -> Any: ...
    async def heartbeat(self, beat: BuildHeartbeat) -> BuildOrders: ...
    async def fail(self, failure: BuildFailure) -> None: ...
    async def upload(self, archive: Path) -> None: ...


Claim = Callable[[BuildOffer, BuildClaim], Awaitable[tuple[BuildClaimed, Attempt] | None]]
Build = Callable[[SiteBuildTask, float], Awaitable[Built]]


class BuildPuller:
    """`claim` asks a Backend, `build` runs a task in the build lane."""

    def __init__(self, claim: Claim, build: Build, *, slots: int, runtime_build: str) -> None:
        self._claim, self._build = claim, build
        self._slots, self._runtime_build = slots, runtime_build
        self._worker_id = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._under_way: set[asyncio.Task[None]] = set()

    def offered(self, offer: BuildOffer) -> bool:
        """There may be work at this Backend; False when every slot has its own already."""
        if len(self._under_way) >= self._slots:
            return False
        task = asyncio.create_task(self._pull(offer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return True

    async def close(self) -> None:
        """Stop what is under way; the Backend is told that it was interrupted, if it still listens."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pull(self, offer: BuildOffer) -> None:
        try:
            while got := await self._claim(
                offer, BuildClaim(worker_id=self._worker_id, runtime_build=self._runtime_build)
            ):
                await self._make(*got)
        except CompileUnavailable as error:
            log.warning("runtime.build.claim_failed", reason=str(error))
        except Exception:
            log.exception("runtime.build.failed")

    async def _make(self, claimed: BuildClaimed, attempt: Attempt) -> None:
        say = log.bind(job_id=claimed.job_id, attempt=claimed.attempt)
        run = _Run(claimed, attempt)
        work = asyncio.create_task(self._work(run))
        beat = asyncio.create_task(run.keep())
        say.info("runtime.build.claimed", deadline_s=round(claimed.deadline_s, 1))
        failure: BuildFailure | None = None
        try:
            async with asyncio.timeout(claimed.deadline_s):
                await asyncio.wait({work, beat}, return_when=asyncio.FIRST_COMPLETED)
            failure = run.stopped(beat.result()) if beat.done() else work.result()
        except TimeoutError:
            failure = run.failure("PROJECT_BUILD_DEADLINE_EXCEEDED", "The build did not end before its deadline.")
        except AttemptOver:
            failure = None
        except asyncio.CancelledError:
            failure = run.failure("PROJECT_BUILD_INTERRUPTED", "The Runtime was stopped.")
            raise
        except Exception:
            say.exception("runtime.build.failed")
            failure = run.failure("PROJECT_BUILD_RUNTIME_UNAVAILABLE", "The Runtime failed.")
        finally:
            for task in (work, beat):
                task.cancel()
            await asyncio.gather(work, beat, return_exceptions=True)
            if failure is not None:
                with contextlib.suppress(AttemptOver, SourceUnavailable, TimeoutError):
                    async with asyncio.timeout(10.0):
                        await attempt.fail(failure.model_copy(update={"log": run.lines}))
            say.info("runtime.build.ended", code=failure.code if failure else "")

    async def _work(self, run: "_Run") -> BuildFailure | None:
        """Build and upload; why there is no artifact, or None."""
        claimed = run.claimed
        with tempfile.TemporaryDirectory(prefix="pagegate-artifact-") as folder:
            archive = Path(folder) / "site.zip"
            task = SiteBuildTask(
                f"build/{claimed.job_id}/{claimed.attempt}", run.attempt, archive, self._runtime_build, run.tell
            )
            try:
                built = await self._build(task, min(BUILD_DEADLINE_S, claimed.deadline_s))
            except BuildAssetMissing as error:
                return run.failure("PROJECT_BUILD_ASSET_MISSING", f"{error}.", error.hint)
            except BuildTimedOut as error:
                return run.failure("PROJECT_BUILD_DEADLINE_EXCEEDED", f"{error}.", error.hint)
            except CompileUnavailable as error:
                return run.failure("PROJECT_BUILD_RUNTIME_UNAVAILABLE", f"{error.code}: {error}.", error.hint)
            if built.packed is None:
                return _refused(built)
            run.say(f"{built.pages} pages, {built.packed.files} files, {built.packed.size_bytes} bytes")
            if built.packed.size_bytes > claimed.artifact_bytes_max:
                text = f"The site has {built.packed.size_bytes} bytes, {claimed.artifact_bytes_max} are allowed."
                return run.failure("PROJECT_BUILD_ARTIFACT_TOO_LARGE", text, "Use smaller assets.")
            return await self._upload(run, archive)

    async def _upload(self, run: "_Run", archive: Path) -> BuildFailure | None:
        """Send the archive, again when it did not get through: the build is made, and only its way back failed."""
        run.tell("uploading")
        for pause_s in (*_UPLOAD_PAUSES_S, None):
            try:
                await run.beat()  # what was said so far is kept with the job, whatever becomes of the upload
                await run.attempt.upload(archive)
                return None
            except SourceUnavailable as error:
                failure = run.failure("PROJECT_BUILD_UPLOAD_FAILED", f"{error}.")
            except UploadFailed as error:
                too_large = error.body.code == "PROJECT_BUILD_ARTIFACT_TOO_LARGE"
                code: BuildFault = "PROJECT_BUILD_ARTIFACT_TOO_LARGE" if too_large else "PROJECT_BUILD_UPLOAD_FAILED"
                failure = run.failure(code, error.body.message, error.body.hint or "Start the build again.")
                if error.body.code in _FINAL_REFUSALS:
                    return failure
            if pause_s is not None:
                run.say(f"the upload failed ({failure.error.message})")
                await asyncio.sleep(min(pause_s, run.claimed.heartbeat_s))
        return failure


class _Run:
    """One build under way: how far it is, and what is said of it."""

    def __init__(self, claimed: BuildClaimed, attempt: Attempt) -> None:
        self.claimed, self.attempt = claimed, attempt
        self.lines: list[str] = []
        self._step: Step = "fetching"
        self._began_s = time.monotonic()

    def say(self, line: str) -> None:
        self.lines.append(f"{time.monotonic() - self._began_s:.1f} s  {line}")

    def tell(self, step: Step) -> None:
        self._step = step
        self.say(step)

    def failure(self, code: BuildFault, message: str, hint: str = "Start the build again.") -> BuildFailure:
        return BuildFailure(code=code, error=ErrorBody(code=code, message=message, hint=hint))

    def stopped(self, why: Literal["cancel", "lost"]) -> BuildFailure | None:
        """What the Backend is told of a build that was stopped; nothing when it no longer listens."""
        if why == "lost":
            return None
        return self.failure("PROJECT_BUILD_CANCELLED", "The build was cancelled.")

    async def beat(self) -> BuildOrders:
        """Renew once. Raises `AttemptOver` or `SourceUnavailable`."""
        return await self.attempt.heartbeat(BuildHeartbeat(step=self._step, log=list(self.lines)))

    async def keep(self) -> Literal["cancel", "lost"]:
        """Renew the lease until the build has to stop."""
        heard_s = time.monotonic()
        while True:
            try:
                orders = await self.beat()
                heard_s = time.monotonic()
                if orders.cancel:
                    return "cancel"
            except AttemptOver:
                return "lost"
            except SourceUnavailable as error:
                log.warning("runtime.build.heartbeat_failed", job_id=self.claimed.job_id, reason=str(error))
                if time.monotonic() - heard_s > _LEASE_BEATS * self.claimed.heartbeat_s:
                    return "lost"
            await asyncio.sleep(self.claimed.heartbeat_s)


def _refused(built: Built) -> BuildFailure:
    """Errors in the sources; when every one is about an asset that is not there, that is what is missing."""
    only_assets = all(error.code in _ASSET_CODES for error in built.errors)
    code: BuildFault = "PROJECT_BUILD_ASSET_MISSING" if only_assets else "PROJECT_BUILD_SOURCE_ERROR"
    first = built.errors[0]
    where = f" ({first.file})" if first.file else ""
    hint = (
        "Upload the asset, or take it out of the page." if only_assets else "Correct the sources at the places named."
    )
    return BuildFailure(
        code=code, error=ErrorBody(code=code, message=f"{first.message}{where}", hint=hint), errors=built.errors
    )
