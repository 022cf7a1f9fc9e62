"""The backfill of asset ratios: which files are to be measured, the jobs that do it, what came of them (V9, Q1).

Owns the inserts into `asset_ratio_backfill_jobs` and, of `asset_versions`, what is known of a version's measuring after
it was saved. `measure_at_ms` is the whole memory of it: due files are found by a small index of their own, each job
that is made moves it on, and whatever settles the question clears it. So nothing is tried for ever: a file that cannot
be measured is asked about once, and one for which infrastructure failed gets `JOBS_MAX` jobs in about eight days.

Survives: any number of replicas that look at once. Each passes by the rows that another is just taking, and among live
jobs there is one for a file, kept by a unique index. How a job then moves is `jobs`'.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, and_, exists, select, update

from pagegate.storage import hints, jobs, schema
from pagegate.storage.assets import AssetSize, AssetVersion, current_versions, version_of
from pagegate.storage.engine import Tx
from pagegate.storage.upsert import insert_live_unless_there

ASSET_RATIO_BACKFILL = schema.asset_ratio_backfill_jobs.name

_HOUR_MS = 3600 * 1000
_NEXT_JOB_AFTER_MS = (_HOUR_MS, 6 * _HOUR_MS, 24 * _HOUR_MS, 7 * 24 * _HOUR_MS)
JOBS_MAX = len(_NEXT_JOB_AFTER_MS) + 1
_SUBMIT = "asset_ratio_backfill.submit"

_jobs = schema.asset_ratio_backfill_jobs
_assets, _versions = schema.assets, schema.asset_versions

STALE = {
    "code": "ASSET_RATIO_JOB_STALE",
    "message": "The file was replaced, deleted or measured before this job measured it.",
    "hint": "Nothing is to be done: a replaced file is measured by a job of its own.",
}


@dataclass(frozen=True)
class Queued:
    """What one look made. `more`: there are due files that were left for the next one, for want of room or time."""

    job_ids: list[int]
    more: bool


async def is_due(tx: Tx) -> bool:
    """Whether any file is to be measured by now; one look at an index that holds nothing else."""
    return (await tx.execute(_due(tx).with_only_columns(_versions.c.id).limit(1))).first() is not None


async def queue_due(tx: Tx, *, limit: int, active_jobs_max: int, deadline_ms: int) -> Queued:
    """Make jobs for up to `limit` files that are due, the longest due first; wakes the lane. `deadline_ms` from now.

    Never more live jobs than `active_jobs_max` (Q9): the rest stays due.
    """
    await tx.serialize(_SUBMIT)
    room = min(limit, active_jobs_max - await jobs.count_active(tx, ASSET_RATIO_BACKFILL))
    if room <= 0:
        return Queued([], more=True)
    found = _due(tx).order_by(_versions.c.measure_at_ms, _versions.c.id).limit(room + 1)
    rows = (await tx.execute(found.with_for_update(skip_locked=True, of=_versions))).all()
    now_ms = await tx.now_ms()
    made = [await _make_job(tx, row, now_ms, deadline_ms) for row in rows[:room]]
    if any(made):
        await hints.send(tx, hints.jobs_of(ASSET_RATIO_BACKFILL))
    return Queued([job_id for job_id in made if job_id is not None], more=len(rows) > room)


async def find_unmeasured(tx: Tx, asset_id: int, version: int) -> AssetVersion | None:
    """That version of a file, if it is the current one, not deleted, and nobody knows yet what it measures."""
    wanted = and_(
        _versions.c.asset_id == asset_id,
        _versions.c.number == version,
        _versions.c.ratio.is_(None),
        _versions.c.unmeasured.is_(None),
    )
    row = (await tx.execute(current_versions().where(wanted))).first()
    return version_of(row) if row else None


async def record_size(tx: Tx, asset_id: int, version: int, size: AssetSize) -> bool:
    """Write what a file measures; False when it is not that version any more, or is known already."""
    sides = {"width_px": size.width_px, "height_px": size.height_px, "ratio": size.ratio}
    return await _record(tx, asset_id, version, **sides)


async def record_unmeasurable(tx: Tx, asset_id: int, version: int, error: Mapping[str, Any]) -> bool:
    """Write why a file cannot be measured (an error body), so that nobody tries its bytes again; False as above."""
    return await _record(tx, asset_id, version, unmeasured=dict(error))


async def find_live_twin(tx: Tx, asset_id: int) -> int | None:
    """The live job that measures this very file."""
    live = select(_jobs.c.id).where(_jobs.c.asset_id == asset_id, schema.live(_jobs))
    found: int | None = (await tx.execute(live)).scalar()
    return found


def _due(tx: Tx) -> Select[Any]:
    """Files that wait to be measured and whose time has come. One with a live job is that job's."""
    busy = exists().where(_jobs.c.asset_id == _versions.c.asset_id, schema.live(_jobs))
    columns = (_versions.c.id, _versions.c.asset_id, _versions.c.number, _versions.c.measure_jobs)
    return (
        select(*columns, _versions.c.created_by, _assets.c.name, _assets.c.project_id, schema.projects.c.workspace_id)
        .join(_assets, _assets.c.id == _versions.c.asset_id)
        .join(schema.projects, schema.projects.c.id == _assets.c.project_id)
        .where(_versions.c.measure_at_ms.is_not(None), _versions.c.measure_at_ms <= tx.now, ~busy)
    )


async def _make_job(tx: Tx, due: Row[Any], now_ms: int, deadline_ms: int) -> int | None:
    job_id = await insert_live_unless_there(
        tx,
        _jobs,
        unique="asset_id",
        workspace_id=due.workspace_id,
        project_id=due.project_id,
        user_id=due.created_by,
        asset_id=due.asset_id,
        asset_name=due.name,
        asset_version=due.number,
        available_at=now_ms,
        deadline_at=now_ms + deadline_ms,
        created_at_ms=now_ms,
    )
    if job_id is not None:
        again_ms = dict(enumerate(_NEXT_JOB_AFTER_MS)).get(due.measure_jobs)
        moved = {
            "measure_jobs": due.measure_jobs + 1,
            "measure_at_ms": None if again_ms is None else now_ms + again_ms,
        }
        await tx.execute(update(_versions).where(_versions.c.id == due.id).values(**moved))
    return job_id


async def _record(tx: Tx, asset_id: int, version: int, **values: Any) -> bool:
    current = exists().where(
        _assets.c.id == asset_id, _assets.c.current_version_number == version, _assets.c.deleted_at_ms.is_(None)
    )
    unknown = and_(_versions.c.ratio.is_(None), _versions.c.unmeasured.is_(None))
    changed = await tx.execute(
        update(_versions)
        .where(_versions.c.asset_id == asset_id, _versions.c.number == version, unknown, current)
        .values(**values, measure_at_ms=None)
        .returning(_versions.c.id)
    )
    return changed.first() is not None
