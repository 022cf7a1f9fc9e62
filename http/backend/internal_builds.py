"""What Runtimes ask about builds (B1, B2), each call with a ticket for just that.

The ticket of an offer lets a Runtime claim; the build token opens one attempt of one job for the rest of its deadline.
An artifact goes on into the object store as it comes, is looked at there (`build_uploads.py`), and promoted under the
fence; what is not promoted is deleted again.
"""

import contextlib
import uuid
from typing import Any

import structlog
from aiohttp import web

from pagegate.actors.jobs.build_snapshot import VersionGone, read_again
from pagegate.actors.jobs.project_build import forget_objects, forget_upload
from pagegate.actors.tickets import InvalidTicketError
from pagegate.http.backend.auth import bearer
from pagegate.http.backend.build_uploads import RENEW_S_MAX, receive, unpack, while_held
from pagegate.http.backend.builds import progress_key
from pagegate.http.backend.errors import ApiError, refusal_of
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Id, Params, Shown
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.runtime.build_contract import (
    OFFER_SUBJECT,
    BuildClaim,
    BuildClaimAnswer,
    BuildClaimed,
    BuildFailure,
    BuildHeartbeat,
    BuildOrders,
    BuildSnapshot,
)
from pagegate.storage import builds
from pagegate.storage.builds import Artifact, FixedProject
from pagegate.storage.lease import Lease, LeaseLost
from pagegate.storage.objects import ObjectMissing, ObjectStoreUnavailable
from pagegate.storage.runtime_state import StateFull, StateUnavailable

log = structlog.get_logger()
internal_builds = Noun("internal")

_AT = "/internal/runtime/build-jobs/{job_id}/{attempt}"


class AttemptParams(Params):
    job_id: Id
    attempt: Id


class AttemptAssetParams(AttemptParams):
    name: str


class Uploaded(Shown):
    release: int


@internal_builds.route("POST", "/internal/runtime/build-jobs/claim", access="public", refusals=["TICKET_INVALID"])
async def claim_build(call: Call[Nothing, BuildClaim]) -> BuildClaimAnswer:
    """Claim the next build, if there is one."""
    _verify(call, OFFER_SUBJECT)
    limits = call.parts.limits
    async with call.parts.db.write() as tx:
        claimed = await builds.claim_build(
            tx, call.body.worker_id[:200], int(limits.job_lease_s * 1000), call.body.runtime_build[:200]
        )
    if claimed is None:
        return BuildClaimAnswer()
    job, left_ms = claimed
    log.info("project.build.claimed", job_id=job.id, attempt=job.lease.fence, waited_ms=job.waited_ms)
    answer = BuildClaimed(
        job_id=job.id,
        attempt=job.lease.fence,
        token=call.parts.tickets.issue(_subject(job.id, job.lease.fence), left_ms / 1000 + 1),
        deadline_s=left_ms / 1000,
        heartbeat_s=limits.job_heartbeat_s,
        artifact_bytes_max=limits.build_artifact_bytes_max,
    )
    return BuildClaimAnswer(claimed=answer)


@internal_builds.route("GET", f"{_AT}/snapshot", access="public", refusals=["TICKET_INVALID", "BUILD_ATTEMPT_OVER"])
async def get_build_snapshot(call: Call[AttemptParams, Nothing]) -> BuildSnapshot:
    """All that the build reads."""
    row, lease = await _attempt(call)
    try:
        async with call.parts.db.read() as tx:
            return await read_again(tx, FixedProject.of_json(row.snapshot), row.routes)
    except VersionGone as error:
        log.warning("project.build.version_gone", job_id=lease.id, path=str(error))
        raise ApiError("BUILD_ATTEMPT_OVER", "A version that the build reads is gone.") from None


@internal_builds.route(
    "GET",
    f"{_AT}/assets/{{name}}",
    access="public",
    answer=Bytes("application/octet-stream", "The asset's bytes."),
    refusals=["TICKET_INVALID", "BUILD_ATTEMPT_OVER", "ASSET_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
)
async def get_build_asset(call: Call[AttemptAssetParams, Nothing]) -> web.StreamResponse:
    """One asset, as it was when the build was asked for."""
    row, _ = await _attempt(call)
    name = call.params.name
    asset = FixedProject.of_json(row.snapshot).assets.get(name)
    if asset is None:
        raise ApiError("ASSET_NOT_FOUND", "The build uses no such asset.")
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            asset.key,
            media_type=asset.media_type,
            sha256=asset.sha256,
            name=asset.name,
        )
    except ObjectMissing:
        raise ApiError("ASSET_NOT_FOUND", "The asset's bytes are missing.", "Upload the asset again.") from None


@internal_builds.route("POST", f"{_AT}/heartbeat", access="public", refusals=["TICKET_INVALID", "BUILD_ATTEMPT_OVER"])
async def beat(call: Call[AttemptParams, BuildHeartbeat]) -> BuildOrders:
    """Renew the lease; answers whether the build is to stop."""
    _, lease = await _attempt(call)
    cancel = await _renew(call, lease, call.body.log)
    try:
        step = {"step": call.body.step.encode()}
        await call.parts.state.put({progress_key(lease.id): step}, call.parts.limits.job_lease_s)
    except (StateUnavailable, StateFull) as error:  # display only (B4)
        log.warning("project.build.progress_lost", job_id=lease.id, reason=str(error))
    return BuildOrders(cancel=cancel)


@internal_builds.route("POST", f"{_AT}/failure", access="public", refusals=["TICKET_INVALID", "BUILD_ATTEMPT_OVER"])
async def fail(call: Call[AttemptParams, BuildFailure]) -> Nothing:
    """End the build without a release."""
    row, lease = await _attempt(call)
    failure = call.body
    errors = [error.model_dump() for error in failure.errors[:50]]
    error = {**failure.error.model_dump(), "code": failure.code, **({"errors": errors} if errors else {})}
    cancelled = failure.code == "PROJECT_BUILD_CANCELLED"
    try:
        async with call.parts.db.write() as tx:
            await builds.fail_build(tx, lease, error, failure.log, cancelled=cancelled)
            now_ms = await tx.now_ms()
    except LeaseLost:
        raise ApiError("BUILD_ATTEMPT_OVER") from None
    numbers = call.parts.build_numbers
    numbers.ended(failure.code, row, now_ms)
    ran_s = (now_ms - row.started_at_ms) / 1000
    log.warning("project.build.failed", job_id=lease.id, code=failure.code, errors=len(errors), ran_s=ran_s)
    await forget_objects(call.parts.db, call.parts.objects, row.project_id, lease.id, numbers)
    return Nothing()


@internal_builds.route(
    "PUT",
    f"{_AT}/artifact",
    access="public",
    upload=Bytes("application/zip", "The site, as a stream."),
    refusals=[
        "TICKET_INVALID",
        "BUILD_ATTEMPT_OVER",
        "PROJECT_BUILD_ARTIFACT_TOO_LARGE",
        "PROJECT_BUILD_ARCHIVE_REFUSED",
        "PROJECT_BUILD_UPLOAD_FAILED",
        "OBJECT_STORE_UNAVAILABLE",
    ],
)
async def upload_artifact(call: Call[AttemptParams, Nothing]) -> Uploaded:
    """Take the artifact of an attempt, and make it the project's next release."""
    row, lease = await _attempt(call)
    limits, objects, numbers = call.parts.limits, call.parts.objects, call.parts.build_numbers
    prefix = builds.upload_prefix(row.project_id, lease.id, uuid.uuid4().hex)
    key, kept, unheard = builds.archive_key(prefix), False, False

    async def take() -> Artifact:
        received = await receive(call.request, objects, key, limits.build_artifact_bytes_max)
        log.info("project.build.uploaded", job_id=lease.id, attempt=lease.fence, size_bytes=received.size_bytes)
        numbers.uploaded(received.size_bytes)
        return await unpack(objects, received, limits.build_artifact_bytes_max)

    try:
        renew_s = min(RENEW_S_MAX, limits.job_heartbeat_s)
        artifact = await while_held(lambda: _renew(call, lease, None), renew_s, limits.job_lease_s, take())
        unheard = True  # until it is known, the release may be made at any moment; what none is made of is swept
        async with call.parts.db.write() as tx:
            number = await builds.promote(tx, lease, artifact)
            now_ms = await tx.now_ms()
        kept = True
    except (ApiError, LeaseLost, ObjectStoreUnavailable) as error:
        unheard = False
        refusal = refusal_of(error)
        code = refusal.code if refusal is not None else "BUILD_ATTEMPT_OVER"
        log.warning("project.build.upload_refused", job_id=lease.id, attempt=lease.fence, code=code)
        numbers.refused(code)
        if isinstance(error, LeaseLost):
            raise ApiError(code) from None
        raise
    finally:
        if not kept and not unheard:
            await forget_upload(call.parts.db, objects, prefix, key)
    numbers.ended("released", row, now_ms)
    log.info(
        "project.build.promoted",
        job_id=lease.id,
        ran_s=(now_ms - row.started_at_ms) / 1000,
        release=number,
        size_bytes=artifact.size_bytes,
        files=len(artifact.files),
    )
    return Uploaded(release=number)


# -- who asks ----------------------------------------------------------------------------------------------------------


def _subject(job_id: int, attempt: int) -> str:
    return f"build:{job_id}:{attempt}"


def _verify(call: Call[Any, Any], subject: str) -> None:
    try:
        call.parts.tickets.verify(bearer(call.request), subject)
    except InvalidTicketError as error:
        raise ApiError("TICKET_INVALID", f"Not allowed: {error}.") from None


async def _attempt(call: Call[Any, Any]) -> tuple[Any, Lease]:
    """The job and the lease that the token stands for, while it is held. Raises `BUILD_ATTEMPT_OVER`."""
    job_id, attempt = int(call.request.match_info["job_id"]), int(call.request.match_info["attempt"])
    _verify(call, _subject(job_id, attempt))
    async with call.parts.db.read() as tx:
        row = await builds.find_build(tx, job_id)
        if row is None or row.worker_id is None:
            raise ApiError("BUILD_ATTEMPT_OVER")
        lease = builds.lease_of(job_id, attempt, row.worker_id)
        if not await builds.is_held_now(tx, lease):
            raise ApiError("BUILD_ATTEMPT_OVER")
    return row, lease


async def _renew(call: Call[Any, Any], lease: Lease, said: list[str] | None) -> bool:
    """Renew; answers whether the build is to stop. One whose time is over ends here: its Runtime may be dead."""
    try:
        async with call.parts.db.write() as tx:
            return await builds.renew_build(tx, lease, int(call.parts.limits.job_lease_s * 1000), said)
    except builds.BuildOverdue:
        with contextlib.suppress(LeaseLost):
            async with call.parts.db.write() as tx:
                await builds.end_overdue(tx, lease)
            call.parts.build_numbers.ended(builds.OVERDUE["code"])
            log.warning("project.build.overdue", job_id=lease.id, attempt=lease.fence)
        raise ApiError("BUILD_ATTEMPT_OVER", "The build's deadline is over.") from None
    except LeaseLost:
        raise ApiError("BUILD_ATTEMPT_OVER") from None
