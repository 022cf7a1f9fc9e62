"""What Runtimes ask about builds and sites (B1, B2, B5), each call with a ticket for just that.

The ticket of an offer lets a Runtime claim; the build token opens one attempt of one job for the rest of its deadline.
An artifact is received into a temporary file, measured block by block while the lease is renewed, checked, put into the
object store, and promoted under the fence; what is not promoted is deleted again.
"""

import asyncio
import hashlib
import mimetypes
import tempfile
import time
import uuid
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from pydantic import Field

from pagegate.actors.jobs.build_snapshot import VersionGone, read_again
from pagegate.actors.jobs.project_build import forget_objects, forget_upload
from pagegate.actors.tickets import InvalidTicketError
from pagegate.http.backend.auth import bearer
from pagegate.http.backend.builds import progress_key
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Id, Params, Shown, VersionNumber
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.runtime.archive import ArchiveLimits, ArchiveRefused, check_archive
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
from pagegate.storage.objects import ObjectMissing
from pagegate.storage.runtime_state import StateFull, StateUnavailable

log = structlog.get_logger()
internal_builds = Noun("internal")

_AT = "/internal/runtime/build-jobs/{job_id}/{attempt}"
_UNPACKED_TIMES = 4  # of the artifact's limit: text packs to a quarter
_BLOCK_WAIT_S = 60.0


class AttemptParams(Params):
    job_id: Id
    attempt: Id


class AttemptAssetParams(AttemptParams):
    name: str


class SiteParams(Params):
    site: str = Field(max_length=100)


class SiteFileParams(SiteParams):
    number: VersionNumber
    path: str = Field(max_length=2000)


class SiteView(Shown):
    release: int


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
    except LeaseLost:
        raise ApiError("BUILD_ATTEMPT_OVER") from None
    log.warning("project.build.failed", job_id=lease.id, code=failure.code)
    await forget_objects(call.parts.db, call.parts.objects, row.project_id, lease.id)
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
    limits = call.parts.limits
    async with _received(call, lease) as (archive, sha256, size_bytes):
        bounds = ArchiveLimits(_UNPACKED_TIMES * limits.build_artifact_bytes_max)
        try:
            entries = await asyncio.to_thread(check_archive, archive, bounds)
        except ArchiveRefused as error:
            raise ApiError("PROJECT_BUILD_ARCHIVE_REFUSED", f"The archive is refused: {error}.") from None
        prefix = builds.upload_prefix(row.project_id, lease.id, uuid.uuid4().hex)
        key, kept = builds.archive_key(prefix, sha256), False
        try:
            await call.parts.objects.put(key, archive)
            files = await _unpack(call, lease, key, archive, entries)
            async with call.parts.db.write() as tx:
                artifact = Artifact(key, sha256, size_bytes, files)
                number = await builds.promote(tx, lease, artifact)
            kept = True
        except LeaseLost:
            raise ApiError("BUILD_ATTEMPT_OVER") from None
        finally:
            if not kept:
                await forget_upload(call.parts.db, call.parts.objects, prefix, key)
    log.info("project.build.promoted", job_id=lease.id, release=number, size_bytes=size_bytes, files=len(files))
    return Uploaded(release=number)


@asynccontextmanager
async def _received(call: Call[AttemptParams, Nothing], lease: Lease) -> AsyncIterator[tuple[Path, str, int]]:
    """The body as a file, its digest and its size; stopped at once when over, cancelled, or out of lease (B2)."""
    request, bytes_max = call.request, call.parts.limits.build_artifact_bytes_max
    too_large = ApiError(
        "PROJECT_BUILD_ARTIFACT_TOO_LARGE", f"The site is larger than the {bytes_max} bytes that are allowed."
    )
    if request.content_length is not None and request.content_length > bytes_max:
        raise too_large
    digest, size_bytes, renewed_s = hashlib.sha256(), 0, time.monotonic()
    with tempfile.NamedTemporaryFile(prefix="pagegate-artifact-") as file:
        while True:
            try:
                async with asyncio.timeout(_BLOCK_WAIT_S):
                    block = await request.content.readany()
            except (TimeoutError, ConnectionError, web.HTTPException) as error:
                raise ApiError("PROJECT_BUILD_UPLOAD_FAILED", headers={"Connection": "close"}) from error
            if not block:
                break
            size_bytes += len(block)
            if size_bytes > bytes_max:
                raise too_large
            digest.update(block)
            await asyncio.to_thread(file.write, block)
            if time.monotonic() - renewed_s > min(2.0, call.parts.limits.job_heartbeat_s):
                renewed_s = time.monotonic()
                if await _renew(call, lease, None):
                    raise ApiError("BUILD_ATTEMPT_OVER", "The build was cancelled.")
        if request.content_length is not None and size_bytes != request.content_length:
            raise ApiError("PROJECT_BUILD_UPLOAD_FAILED")
        file.flush()
        yield Path(file.name), digest.hexdigest(), size_bytes


async def _unpack(
    call: Call[Any, Any], lease: Lease, object_key: str, archive: Path, entries: list[zipfile.ZipInfo]
) -> dict[str, tuple[str, int]]:
    """Put each file of the archive into the object store; answers path → (digest, size)."""
    files: dict[str, tuple[str, int]] = {}
    renewed_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pagegate-unpacked-") as folder:
        target = Path(folder) / "file"
        for entry in entries:
            sha256 = await asyncio.to_thread(_extract, archive, entry, target)
            await call.parts.objects.put(builds.file_key(object_key, sha256), target)
            files[entry.filename] = (sha256, entry.file_size)
            if time.monotonic() - renewed_s > call.parts.limits.job_heartbeat_s:
                renewed_s = time.monotonic()
                await _renew(call, lease, None)
    return files


def _extract(archive: Path, entry: zipfile.ZipInfo, target: Path) -> str:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(entry) as source, target.open("wb") as file:
            while block := source.read(1024 * 1024):  # never more than the entry says it has
                digest.update(block)
                file.write(block)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ApiError("PROJECT_BUILD_ARCHIVE_REFUSED", "The archive is damaged.") from error
    return digest.hexdigest()


# -- sites -------------------------------------------------------------------------------------------------------------


@internal_builds.route("GET", "/internal/runtime/sites/{site}", access="public", refusals=["RELEASE_NOT_FOUND"])
async def get_site(call: Call[SiteParams, Nothing]) -> SiteView:
    """Which release a site shows. Who knows the site's key may look at it."""
    async with call.parts.db.read() as tx:
        site = await builds.find_site_by_key(tx, call.params.site)
    if site is None:
        raise ApiError("RELEASE_NOT_FOUND", "There is no such site.")
    return SiteView(release=site.release_number)


@internal_builds.route(
    "GET",
    "/internal/runtime/sites/{site}/releases/{number}/file",
    access="public",
    answer=Bytes("application/octet-stream", "The file, with the media type of its ending."),
    refusals=["RELEASE_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
    headers={"Range": "A part of it."},
)
async def get_site_file(call: Call[SiteFileParams, Nothing]) -> web.StreamResponse:
    """One file of a release."""
    async with call.parts.db.read() as tx:
        site = await builds.find_site_by_key(tx, call.params.site)
        if site is None:
            raise ApiError("RELEASE_NOT_FOUND", "There is no such site.")
        release = await builds.get_release(tx, site.project_id, call.params.number)
    found = release.files.get(call.params.path)
    if found is None:
        raise ApiError("RELEASE_NOT_FOUND", "The release has no such file.")
    sha256, _ = found
    media_type = _MEDIA_TYPES.get(Path(call.params.path).suffix.lower()) or mimetypes.guess_type(call.params.path)[0]
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            builds.file_key(release.object_key, sha256),
            media_type=media_type or "application/octet-stream",
            sha256=sha256,
            name=Path(call.params.path).name,
            inline=True,
        )
    except ObjectMissing:
        raise ApiError("RELEASE_NOT_FOUND", "The file's bytes are missing.") from None


# What browsers insist on, whatever this machine's own table says.
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".woff2": "font/woff2",
    ".json": "application/json",
}


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
    try:
        async with call.parts.db.write() as tx:
            return await builds.renew_build(tx, lease, int(call.parts.limits.job_lease_s * 1000), said)
    except LeaseLost:
        raise ApiError("BUILD_ATTEMPT_OVER") from None
