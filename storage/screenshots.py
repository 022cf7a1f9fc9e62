"""Screenshot jobs and the groups that wait for them (S1).

Owns the inserts into `page_screenshot_jobs` and the tables of groups. A job fixes page version, configuration and
viewport; among live jobs there is one of each, kept by a unique index, so that requests at the same moment, on any
replica, share it. A group only points: at jobs, which other groups may share, or at pictures that were there already.
How a job then moves is `jobs.py`'s.

Survives a job that ends between being found and being pointed at: its picture, or its error, is what the group sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Row, and_, delete, exists, func, or_, select, update

from pagegate.storage import hints, schema
from pagegate.storage.engine import Tx
from pagegate.storage.screenshot_context import capture_key
from pagegate.storage.transitions import JOB
from pagegate.storage.upsert import insert_live_unless_there

PAGE_SCREENSHOT = schema.page_screenshot_jobs.name

_jobs = schema.page_screenshot_jobs
_groups, _members = schema.page_screenshot_groups, schema.page_screenshot_group_members
_artifacts = schema.page_screenshot_artifacts
_SUBMIT = "page_screenshots.submit"

MemberState = Literal["pending", "running", "succeeded", "failed", "cancelled", "skipped"]

STALE = {
    "code": "PAGE_SCREENSHOT_JOB_STALE",
    "message": "The page or its configuration changed before the picture was finished.",
    "hint": "Ask for a new screenshot; the page's newer picture stays as it is.",
}


class ScreenshotLaneFull(Exception):
    """PAGE_SCREENSHOT_ACTIVE_JOBS_LIMIT: with this group more jobs would be live than may be; all of it is refused."""


class GroupNotFound(LookupError):
    """There is no such group; old ones are pruned."""


@dataclass(frozen=True)
class Wanted:
    """One screenshot: which version of a page, in which configuration, in which viewport."""

    page_id: int
    page_code: str
    page_version: int
    config_fingerprint: str
    viewport: str

    @property
    def capture_key(self) -> str:
        return capture_key(self.page_id, self.page_version, self.config_fingerprint, self.viewport)


@dataclass(frozen=True)
class Asker:
    """Who wants it, and where."""

    workspace_id: int
    project_id: int
    user_id: int


@dataclass(frozen=True)
class Member:
    """What a group waits for. `picture` is the artifact's row when there is one; `error` explains an end without."""

    position: int
    page_id: int
    page_code: str
    page_version: int
    viewport: str
    state: MemberState
    job_id: int | None
    error: Any
    picture: Row[Any] | None

    @property
    def ended(self) -> bool:
        return self.state in JOB.terminal


async def insert_job(tx: Tx, asker: Asker, wanted: Wanted, *, deadline_ms: int | None) -> tuple[int, bool]:
    """The live job for a screenshot: the one there is, or a new one. Answers (job id, made). `deadline_ms` from now.

    Wakes the lane when it made one. The caller has looked at the limit (Q9).
    """
    while True:
        job_id = await insert_live_unless_there(
            tx,
            _jobs,
            unique="capture_key",
            workspace_id=asker.workspace_id,
            project_id=asker.project_id,
            user_id=asker.user_id,
            page_id=wanted.page_id,
            page_code=wanted.page_code,
            page_version=wanted.page_version,
            config_fingerprint=wanted.config_fingerprint,
            viewport=wanted.viewport,
            capture_key=wanted.capture_key,
            available_at=tx.now,
            deadline_at=None if deadline_ms is None else tx.now + deadline_ms,
            created_at_ms=tx.now,
        )
        if job_id is not None:
            await hints.send(tx, hints.jobs_of(PAGE_SCREENSHOT))
            return job_id, True
        live = select(_jobs.c.id).where(_jobs.c.capture_key == wanted.capture_key, schema.live(_jobs))
        found: int | None = (await tx.execute(live)).scalar()
        if found is not None:
            return found, False
        # It ended just now. Its place is free, so the next try makes one or finds another.


async def submit_group(
    tx: Tx, asker: Asker, wanted: Sequence[Wanted], *, active_jobs_max: int, deadline_ms: int | None
) -> int:
    """Make a group for these screenshots; answers its id. Raises `ScreenshotLaneFull`, and then nothing was made.

    Pictures that exist are pointed at; live jobs are shared; the rest is enqueued.
    """
    await tx.serialize(_SUBMIT)
    group_id = await tx.insert(
        _groups,
        workspace_id=asker.workspace_id,
        project_id=asker.project_id,
        user_id=asker.user_id,
        created_at_ms=tx.now,
    )
    made = 0
    for position, one in enumerate(wanted):
        artifact = select(_artifacts.c.id).where(_artifacts.c.capture_key == one.capture_key)
        artifact_id = (await tx.execute(artifact)).scalar()
        job_id = None
        if artifact_id is None:
            job_id, is_new = await insert_job(tx, asker, one, deadline_ms=deadline_ms)
            made += is_new
        await tx.execute(
            _members.insert().values(
                group_id=group_id,
                position=position,
                page_id=one.page_id,
                page_version=one.page_version,
                viewport=one.viewport,
                job_id=job_id,
                artifact_id=artifact_id,
            )
        )
    if made and (active := await _count_live(tx)) > active_jobs_max:
        raise ScreenshotLaneFull(f"{made} more screenshots would make {active} live jobs, over {active_jobs_max}")
    return group_id


async def has_room(tx: Tx, active_jobs_max: int) -> bool:
    """Whether one more job may be made (Q9). Not exact over replicas: a picture that is left out is no harm."""
    return await _count_live(tx) < active_jobs_max


async def get_group(tx: Tx, group_id: int) -> Row[Any]:
    """Every column of a group; raises `GroupNotFound`. Whether the caller may see it is the caller's to check (X5)."""
    row = (await tx.execute(select(_groups).where(_groups.c.id == group_id))).first()
    if row is None:
        raise GroupNotFound(f"screenshot group {group_id}")
    return row


async def list_members(tx: Tx, group_id: int) -> list[Member]:
    """What the group waits for, in its order. A retried job's retry is what counts (Q11)."""
    joined = (
        select(
            *_members.c["position", "page_id", "page_version", "viewport", "job_id", "artifact_id"],
            schema.pages.c.code,
            _jobs.c.status,
            _jobs.c.error,
            _jobs.c.capture_key,
        )
        .join(schema.pages, schema.pages.c.id == _members.c.page_id)
        .outerjoin(_jobs, _jobs.c.id == _members.c.job_id)
        .where(_members.c.group_id == group_id)
        .order_by(_members.c.position)
    )
    rows = (await tx.execute(joined)).all()
    pictures = await _pictures_of(tx, rows)
    return [
        Member(
            position=row.position,
            page_id=row.page_id,
            page_code=row.code,
            page_version=row.page_version,
            viewport=row.viewport,
            state=cast("MemberState", row.status or JOB.target("finish")),
            job_id=row.job_id,
            error=row.error if row.status in JOB.terminal else None,
            picture=pictures.get(row.artifact_id or row.capture_key),
        )
        for row in rows
    ]


async def is_wanted(tx: Tx, job_id: int, workspace_id: int, user_id: int) -> bool:
    """Whether anybody who asked for it is still an enabled member of the workspace: the first one, or any group's."""
    askers = select(_groups.c.user_id).join(_members, _members.c.group_id == _groups.c.id)
    of_groups = schema.members.c.user_id.in_(askers.where(_members.c.job_id == job_id))
    somebody = (
        exists()
        .where(schema.members.c.workspace_id == workspace_id)
        .where(schema.users.c.id == schema.members.c.user_id, schema.users.c.disabled_at_ms.is_(None))
        .where(or_(schema.members.c.user_id == user_id, of_groups))
    )
    return bool((await tx.execute(select(somebody))).scalar())


async def list_only_of_group(tx: Tx, group_id: int) -> list[int]:
    """The group's live jobs that no other group waits for: what may be cancelled with it."""
    others = _members.alias("others")
    shared = exists().where(others.c.job_id == _members.c.job_id, others.c.group_id != group_id)
    mine = (
        select(_members.c.job_id)
        .join(_jobs, _jobs.c.id == _members.c.job_id)
        .where(_members.c.group_id == group_id, schema.live(_jobs), ~shared)
        .order_by(_members.c.job_id)
    )
    return list(dict.fromkeys((await tx.execute(mine)).scalars()))


async def follow_retry(tx: Tx, job_id: int, retry_id: int) -> None:
    """Groups that waited for a failed job wait for its retry (Q11)."""
    await tx.execute(update(_members).where(_members.c.job_id == job_id).values(job_id=retry_id))


async def find_live_twin(tx: Tx, capture_key: str) -> int | None:
    """The live job that takes this very screenshot."""
    live = select(_jobs.c.id).where(_jobs.c.capture_key == capture_key, schema.live(_jobs))
    found: int | None = (await tx.execute(live)).scalar()
    return found


async def forget_jobs(tx: Tx, job_ids: Sequence[int], older_than_ms: int) -> None:
    """The jobs are being pruned: groups forget them, and groups of that age that wait for nothing are gone."""
    await tx.execute(delete(_members).where(_members.c.job_id.in_(job_ids)))
    waits = exists().where(_members.c.group_id == _groups.c.id, _members.c.job_id.is_not(None))
    old = select(_groups.c.id).where(_groups.c.created_at_ms <= tx.now - older_than_ms, ~waits).limit(200)
    ids = list((await tx.execute(old)).scalars())
    if ids:
        await tx.execute(delete(_members).where(_members.c.group_id.in_(ids)))
        await tx.execute(delete(_groups).where(_groups.c.id.in_(ids)))


async def _count_live(tx: Tx) -> int:
    counted = select(func.count()).select_from(_jobs).where(schema.live(_jobs))
    return int((await tx.execute(counted)).scalar_one())


async def _pictures_of(tx: Tx, rows: Sequence[Row[Any]]) -> dict[int | str, Row[Any]]:
    """By artifact id, and by capture key for what a job made."""
    ids = {row.artifact_id for row in rows if row.artifact_id is not None}
    keys = {row.capture_key for row in rows if row.status == JOB.target("finish")}
    if not ids and not keys:
        return {}
    found = select(_artifacts).where(or_(_artifacts.c.id.in_(ids), and_(_artifacts.c.capture_key.in_(keys))))
    pictures: dict[int | str, Row[Any]] = {}
    for row in (await tx.execute(found)).all():
        pictures[row.id] = pictures[row.capture_key] = row
    return pictures
