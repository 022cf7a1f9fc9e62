"""Builds of projects: the snapshot, the claims of the Runtimes, the ends, the releases (B1, B3, B5).

Owns `project_releases` and `project_sites`, and what `project_build_jobs` has beyond any job. A build is claimed by a
Runtime and lives as long as its lease is renewed; one whose lease ran out is over (B3): nothing of it is tried again,
who wants it asks again. A release is made in the transaction that ends its job, after the job's fence.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Row, case, literal, select, update

from pagegate.storage import hints, jobs, schema
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.lease import Lease, LeaseLost, fenced_update, held
from pagegate.storage.objects import StoredAsset
from pagegate.storage.preview_snapshots import load_pinned
from pagegate.storage.transitions import JOB
from pagegate.storage.upsert import insert_unless_there

PROJECT_BUILD = schema.project_build_jobs.name
_jobs = schema.project_build_jobs
_releases = schema.project_releases
_sites = schema.project_sites
_SUBMIT = "project builds"

INTERRUPTED = {
    "code": "PROJECT_BUILD_INTERRUPTED",
    "message": "The Runtime that made this build went away, was restarted, or could not reach a Backend any more.",
    "hint": "This says nothing about the sources. Start the build again; earlier releases are as they were.",
}
NOBODY = {
    "code": "PROJECT_BUILD_RUNTIME_UNAVAILABLE",
    "message": "No Runtime took this build before its deadline.",
    "hint": "See that a Runtime is running and reachable, then start the build again.",
}

OVERDUE = {
    "code": "PROJECT_BUILD_DEADLINE_EXCEEDED",
    "message": "The build did not end before its deadline.",
    "hint": "Start the build again.",
}


class BuildOverdue(LeaseLost):
    """The time of the build is over; its lease may still be held."""


class BuildLaneFull(Exception):
    """There are too many builds that have not ended (Q9)."""


class ReleaseNotFound(LookupError):
    """The project has no release of this number."""


@dataclass(frozen=True)
class FixedPage:
    """One page of a snapshot: `modules` is logical path → (origin, version id) (D4)."""

    code: str
    title: str
    speaker_notes: str
    framework: str
    entry: str
    canvas_width_px: int
    canvas_height_px: int | None
    modules: Mapping[str, tuple[str, int]]
    assets: Sequence[str]


@dataclass(frozen=True)
class FixedProject:
    """All that a build reads, by what never changes: ids of versions and keys of objects (B1)."""

    project_name: str
    theme: Any
    pages: Sequence[FixedPage]
    assets: Mapping[str, StoredAsset]

    def as_json(self) -> dict[str, Any]:
        return {
            "project_name": self.project_name,
            "theme": self.theme,
            "pages": [
                {**asdict(page), "modules": {p: list(v) for p, v in page.modules.items()}} for page in self.pages
            ],
            "assets": {name: asdict(asset) for name, asset in self.assets.items()},
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> "FixedProject":
        return cls(
            project_name=said["project_name"],
            theme=said["theme"],
            pages=[
                FixedPage(
                    **{**page, "modules": {path: (kind, number) for path, (kind, number) in page["modules"].items()}}
                )
                for page in said["pages"]
            ],
            assets={name: StoredAsset(**asset) for name, asset in said["assets"].items()},
        )


@dataclass(frozen=True)
class Artifact:
    """A checked archive and its files, all of them in the object store. `files`: path → (sha256, size)."""

    object_key: str
    sha256: str
    size_bytes: int
    files: Mapping[str, tuple[str, int]]


@dataclass(frozen=True)
class Interrupted:
    """A build that ended because its lease had run out; `code` says as what."""

    project_id: int
    job_id: int
    code: str


def archive_key(upload_prefix: str) -> str:
    """Where the zip of an upload is. It is written while it arrives, so its content cannot name it; its upload does."""
    return f"{upload_prefix}site.zip"


def file_key(object_key: str, sha256: str) -> str:
    """Where a file of a release is, beside its zip: by content, so that no name of a file is a name of an object."""
    return f"{object_key.rpartition('/')[0]}/files/{sha256}"


def upload_prefix(project_id: int, job_id: int, upload: str) -> str:
    """All objects of one upload: a second one of the same attempt touches nothing of the first."""
    return f"{build_prefix(project_id, job_id)}{upload}/"


def build_prefix(project_id: int, job_id: int) -> str:
    """All objects of one build, and of no other."""
    return f"builds/{project_id}/{job_id}/"


async def submit_build(
    tx: Tx,
    *,
    workspace_id: int,
    project_id: int,
    user_id: int,
    fixed: FixedProject,
    routes: str,
    deadline_ms: int,
    active_jobs_max: int,
) -> int:
    """Make the job; answers its id. Raises `BuildLaneFull`."""
    await tx.serialize(_SUBMIT)
    if (active := await jobs.count_active(tx, PROJECT_BUILD)) >= active_jobs_max:
        raise BuildLaneFull(f"{active} builds are waiting or running; {active_jobs_max} may be")
    job_id = await tx.insert(
        _jobs,
        workspace_id=workspace_id,
        project_id=project_id,
        user_id=user_id,
        snapshot=fixed.as_json(),
        routes=routes,
        available_at=tx.now,
        deadline_at=tx.now + deadline_ms,
        created_at_ms=tx.now,
    )
    await hints.send(tx, hints.jobs_of(PROJECT_BUILD))
    return job_id


async def claim_build(tx: Tx, worker_id: str, lease_ttl_ms: int, runtime_build: str) -> tuple[ClaimedJob, int] | None:
    """Claim the build that comes first (B1), and the ms it has left; None when there is none.

    One whose time is over, or that was asked to stop meanwhile, is ended here.
    """
    while (job := await jobs.claim_job(tx, PROJECT_BUILD, worker_id, lease_ttl_ms)) is not None:
        left_ms = int(job.row.deadline_at) - await tx.now_ms()
        if left_ms > 0:
            await fenced_update(tx, job.lease, runtime_build=runtime_build)
            return job, left_ms
        await jobs.finish_job(tx, job.lease, "fail", error=NOBODY)
    return None


async def load_sources(tx: Tx, fixed: FixedProject) -> dict[tuple[str, int], str]:
    """The sources of a snapshot. A version that is gone is absent."""
    found: dict[tuple[str, int], str] = {}
    wanted = {version for page in fixed.pages for version in page.modules.values()}
    pinned = await load_pinned(tx, {number for kind, number in wanted if kind == "component"})
    found |= {("component", number): saved.source for number, saved in pinned.items()}
    versions = schema.page_versions
    ids = [number for kind, number in wanted if kind == "page"]
    rows = await tx.execute(select(versions.c.id, versions.c.source).where(versions.c.id.in_(ids)))
    return found | {("page", row.id): row.source for row in rows}


async def find_build(tx: Tx, job_id: int) -> Row[Any] | None:
    """Every column of a job."""
    return (await tx.execute(select(_jobs).where(_jobs.c.id == job_id))).first()


async def list_builds(tx: Tx, project_id: int, limit: int) -> Sequence[Row[Any]]:
    """The newest builds of a project."""
    found = select(_jobs).where(_jobs.c.project_id == project_id).order_by(_jobs.c.id.desc()).limit(limit)
    return (await tx.execute(found)).all()


def lease_of(job_id: int, attempt: int, worker_id: str) -> Lease:
    """The lease that a build token stands for."""
    return Lease(PROJECT_BUILD, job_id, worker_id, attempt, 0)


async def is_held_now(tx: Tx, lease: Lease) -> bool:
    """Whether the attempt is still its Runtime's. Locks nothing: what is written later asks again."""
    return (await tx.execute(select(_jobs.c.id).where(held(tx, lease)))).first() is not None


async def renew_build(tx: Tx, lease: Lease, lease_ttl_ms: int, log: Sequence[str] | None = None) -> bool:
    """Renew, and keep the log so far; answers whether the build is asked to stop.

    Raises `LeaseLost` (Q4), or `BuildOverdue` when the build's deadline is over.
    """
    said = {} if log is None else {"log": list(log)}
    row = await fenced_update(tx, lease, lease_expires_at=tx.now + lease_ttl_ms, heartbeat_at=tx.now, **said)
    if row.deadline_at is not None and row.deadline_at <= await tx.now_ms():
        raise BuildOverdue(f"{PROJECT_BUILD} {lease.id}: its time is over")
    return row.cancel_requested_at is not None


async def promote(tx: Tx, lease: Lease, artifact: Artifact) -> int:
    """End the build with its release, and show that on the site; answers the release's number (B2, B5).

    Raises `LeaseLost`, and then nothing is promoted.
    """
    row = await fenced_update(tx, lease, heartbeat_at=tx.now)
    if row.cancel_requested_at is not None:
        raise LeaseLost(f"{PROJECT_BUILD} {lease.id}: it was asked to stop")
    await tx.serialize(f"releases of {row.project_id}")
    newest = select(_releases.c.number).where(_releases.c.project_id == row.project_id)
    number = int((await tx.execute(newest.order_by(_releases.c.number.desc()).limit(1))).scalar() or 0) + 1
    await tx.insert(
        _releases,
        project_id=row.project_id,
        number=number,
        job_id=lease.id,
        object_key=artifact.object_key,
        sha256=artifact.sha256,
        size_bytes=artifact.size_bytes,
        files={path: list(file) for path, file in artifact.files.items()},
        created_by=row.user_id,
        created_at_ms=tx.now,
    )
    made = await insert_unless_there(
        tx,
        _sites,
        unique=("project_id",),
        project_id=row.project_id,
        site_key=secrets.token_urlsafe(16),
        release_number=number,
        updated_at_ms=tx.now,
    )
    if not made:
        await _point(tx, row.project_id, number)
    result = {
        "release": number,
        "sha256": artifact.sha256,
        "size_bytes": artifact.size_bytes,
        "files": len(artifact.files),
    }
    await jobs.finish_job(tx, lease, "finish", result=result)
    return number


async def fail_build(tx: Tx, lease: Lease, error: Mapping[str, Any], log: Sequence[str], *, cancelled: bool) -> None:
    """End the build without a release. Raises `LeaseLost`."""
    await fenced_update(tx, lease, log=list(log))
    if cancelled:
        await jobs.finish_job(tx, lease, "cancel")
    else:
        await jobs.finish_job(tx, lease, "fail", error=error)


async def end_overdue(tx: Tx, lease: Lease) -> None:
    """End a build whose time is over (B3). Raises `LeaseLost`."""
    await jobs.finish_job(tx, lease, "fail", error=OVERDUE)


async def interrupt_expired(tx: Tx, limit: int = 50) -> list[Interrupted]:
    """End builds whose lease ran out (B3); answers which. A build that lives is never touched (Q5).

    One that was asked to stop is cancelled: its Runtime may have heard of that and gone silent, as it should.
    """
    ended: list[Interrupted] = []
    asked = _jobs.c.cancel_requested_at.is_not(None)
    for expired in await jobs.list_expired(tx, PROJECT_BUILD, limit):
        over = (
            update(_jobs)
            .where(
                _jobs.c.id == expired.id,
                _jobs.c.status == "running",
                _jobs.c.attempt == expired.fence,
                _jobs.c.lease_expires_at <= tx.now,
            )
            .values(
                status=case((asked, JOB.target("cancel")), else_=JOB.target("exhaust")),
                finished_at_ms=tx.now,
                lease_expires_at=None,
                error=case((asked, literal(jobs.CANCELLED, schema.Json)), else_=literal(INTERRUPTED, schema.Json)),
                error_code=case((asked, jobs.CANCELLED["code"]), else_=INTERRUPTED["code"]),
            )
            .returning(_jobs.c.project_id, _jobs.c.error_code)
        )
        row = (await tx.execute(over)).first()
        if row is not None:
            ended.append(Interrupted(row.project_id, expired.id, row.error_code))
    return ended


async def end_unclaimed(tx: Tx) -> int:
    """End pending builds that no Runtime took before their deadline; answers how many (B3)."""
    late = select(_jobs.c.id, _jobs.c.workspace_id).where(
        schema.live(_jobs), _jobs.c.status == "pending", _jobs.c.deadline_at <= tx.now
    )
    ended = 0
    for row in (await tx.execute(late.limit(50))).all():
        for job in await jobs.claim_jobs(tx, PROJECT_BUILD, "deadline", 60_000, workspace_id=row.workspace_id, count=1):
            if job.row.deadline_at > await tx.now_ms():
                await jobs.release_job(tx, job.lease)
                continue
            await jobs.finish_job(tx, job.lease, "fail", error=NOBODY)
            ended += 1
    return ended


async def list_unswept(tx: Tx, age_ms: int, limit: int) -> Sequence[Row[Any]]:
    """Builds (`id`, `project_id`) that ended longer ago than `age_ms`, whose leftovers nobody has looked for yet."""
    wanted = (
        select(_jobs.c.id, _jobs.c.project_id)
        .where(_jobs.c.swept_at_ms.is_(None), _jobs.c.finished_at_ms.is_not(None))
        .where(_jobs.c.finished_at_ms <= tx.now - age_ms)
        .order_by(_jobs.c.finished_at_ms)
        .limit(limit)
    )
    return (await tx.execute(wanted)).all()


async def mark_swept(tx: Tx, job_id: int) -> None:
    """Nothing of this build is in the object store but its release."""
    await tx.execute(update(_jobs).where(_jobs.c.id == job_id).values(swept_at_ms=tx.now))


async def find_released(tx: Tx, job_id: int) -> str | None:
    """The place of the zip that a build was promoted with; None when it was not, which for an ended build is final."""
    return (await tx.execute(select(_releases.c.object_key).where(_releases.c.job_id == job_id))).scalar()


async def list_releases(tx: Tx, project_id: int) -> Sequence[Row[Any]]:
    """The releases of a project, newest first, without their files."""
    columns = [column for column in _releases.c if column.name != "files"]
    found = select(*columns).where(_releases.c.project_id == project_id).order_by(_releases.c.number.desc())
    return (await tx.execute(found)).all()


async def get_release(tx: Tx, project_id: int, number: int) -> Row[Any]:
    """Every column of a release. Raises `ReleaseNotFound`."""
    found = select(_releases).where(_releases.c.project_id == project_id, _releases.c.number == number)
    row = (await tx.execute(found)).first()
    if row is None:
        raise ReleaseNotFound(f"project {project_id} has no release {number}")
    return row


async def is_released(tx: Tx, object_key: str) -> bool:
    """Whether a release has this zip."""
    return (await tx.execute(select(_releases.c.id).where(_releases.c.object_key == object_key))).first() is not None


async def find_site(tx: Tx, project_id: int) -> Row[Any] | None:
    """The site of a project; None before its first release."""
    return (await tx.execute(select(_sites).where(_sites.c.project_id == project_id))).first()


async def find_site_by_key(tx: Tx, site_key: str) -> Row[Any] | None:
    """The site behind an address."""
    return (await tx.execute(select(_sites).where(_sites.c.site_key == site_key))).first()


async def show_release(tx: Tx, project_id: int, number: int) -> None:
    """Let the site show this release, an older one too (B5). Raises `ReleaseNotFound`."""
    await get_release(tx, project_id, number)
    await _point(tx, project_id, number)


async def _point(tx: Tx, project_id: int, number: int) -> None:
    moved = update(_sites).where(_sites.c.project_id == project_id)
    await tx.execute(moved.values(release_number=number, updated_at_ms=tx.now))
