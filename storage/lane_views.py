"""What people see of lanes and of their jobs (Q11, O2). Reads only.

Owns the two views: a lane (depths, ages, who works on what, what is waited for) and a job (its state and its retries,
no page source and no verdict in it). Both read live rows by their index, and lists from the newest on, so an old
database answers as quickly as a new one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Table, func, literal_column, select

from pagegate.storage import jobs, lanes, schema
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import JobNotFound, QueueCounts
from pagegate.storage.lanes import LaneState
from pagegate.storage.transitions import JOB

RUNNING_MAX = 200  # a lane that works on more shows the oldest ones


@dataclass(frozen=True)
class RunningJob:
    """A job that a worker has. `lease_valid` False: its lease has run out, and the next sweep takes it away."""

    id: int
    workspace_id: int
    worker_id: str
    attempt: int
    started_at_ms: int
    lease_expires_at_ms: int
    lease_valid: bool
    cancel_requested: bool


@dataclass(frozen=True)
class LaneView:
    """One lane now. `lag_ms`: how long the job that has waited longest could have run; None when none could.

    `waiting_for`: how many pending jobs an infrastructure failure put back, by its code.
    """

    kind: str
    state: LaneState
    counts: QueueCounts
    lag_ms: int | None
    waiting_for: Mapping[str, int]
    running: Sequence[RunningJob]


@dataclass(frozen=True)
class JobView:
    """One job. Times in ms; `lease_valid` is None unless it runs; `retried_as` is the job that took its place."""

    id: int
    kind: str
    workspace_id: int
    project_id: int
    user_id: int
    run_id: int | None
    page_code: str | None  # what it is about: each kind of job has one of these three, or none
    component_name: str | None
    asset_name: str | None
    status: str
    attempt: int
    worker_id: str | None
    lease_expires_at_ms: int | None
    lease_valid: bool | None
    available_at_ms: int
    deadline_at_ms: int | None
    infra_failures: int
    lease_losses: int
    cancel_requested_at_ms: int | None
    error: Mapping[str, Any] | None
    retry_of: int | None
    retried_as: int | None
    created_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None


async def look_at_lane(tx: Tx, kind: str) -> LaneView:
    """Everything about one lane; `KeyError` for an unknown one."""
    table = schema.metadata.tables[kind]
    lag = select(tx.now - func.min(table.c.available_at)).where(jobs.runnable(table, tx.now))
    return LaneView(
        kind=kind,
        state=await lanes.get_lane_state(tx, kind),
        counts=await jobs.queue_counts(tx, kind),
        lag_ms=(await tx.execute(lag)).scalar(),
        waiting_for=await _waiting_for(tx, table),
        running=await _running(tx, table),
    )


async def list_jobs(
    tx: Tx,
    kind: str,
    *,
    workspace_ids: Collection[int] | None,
    status: str | None,
    before_id: int | None,
    limit: int,
) -> list[JobView]:
    """Jobs of a lane, newest first; of some workspaces, or of all for None."""
    table = schema.metadata.tables[kind]
    wanted: list[ColumnElement[bool]] = []
    if workspace_ids is not None:
        wanted.append(table.c.workspace_id.in_(workspace_ids))
    if status in JOB.live:
        wanted.append(schema.live(table))
    if status is not None:
        assert status in JOB.states, status
        # Written out: from a parameter no database can see that the index of the failed ones would do.
        wanted.append(table.c.status == literal_column(repr(status)))
    if before_id is not None:
        wanted.append(table.c.id < before_id)
    newest = _views(tx, table).where(*wanted).order_by(table.c.id.desc()).limit(limit)
    return [_view(kind, row) for row in (await tx.execute(newest)).all()]


async def get_job_view(tx: Tx, kind: str, job_id: int) -> JobView:
    """One job; raises `JobNotFound`. Whether the caller may see it is the caller's to check (X5)."""
    table = schema.metadata.tables[kind]
    row = (await tx.execute(_views(tx, table).where(table.c.id == job_id))).first()
    if row is None:
        raise JobNotFound(f"{kind} {job_id}")
    return _view(kind, row)


async def _waiting_for(tx: Tx, table: Table) -> dict[str, int]:
    put_back = (
        select(table.c.error_code, func.count().label("jobs"))
        .where(schema.live(table), table.c.status == "pending", table.c.error_code.is_not(None))
        .group_by(table.c.error_code)
        .order_by(table.c.error_code)
    )
    return {row.error_code: row.jobs for row in await tx.execute(put_back)}


async def _running(tx: Tx, table: Table) -> list[RunningJob]:
    oldest = (
        select(
            *[table.c[name] for name in ("id", "workspace_id", "worker_id", "attempt", "started_at_ms")],
            table.c.lease_expires_at.label("lease_expires_at_ms"),
            (table.c.lease_expires_at > tx.now).label("lease_valid"),
            table.c.cancel_requested_at.is_not(None).label("cancel_requested"),
        )
        .where(schema.live(table), table.c.status == "running")
        .order_by(table.c.started_at_ms, table.c.id)
        .limit(RUNNING_MAX)
    )
    return [RunningJob(**row) for row in (await tx.execute(oldest)).mappings()]


def _views(tx: Tx, table: Table) -> Select[Any]:
    later = table.alias("later")
    retried_as = select(later.c.id).where(later.c.retry_of == table.c.id).scalar_subquery()
    return select(
        *[column for column in table.c if column.name not in _NOT_SHOWN],
        retried_as.label("retried_as"),
        (table.c.lease_expires_at > tx.now).label("lease_valid"),
    )


def _view(kind: str, row: Row[Any]) -> JobView:
    running = row.status == "running"
    return JobView(
        **{name: row._mapping[name] for name in _AS_THEY_ARE},
        kind=kind,
        page_code=row._mapping.get("page_code"),
        component_name=row._mapping.get("component_name"),
        asset_name=row._mapping.get("asset_name"),
        lease_expires_at_ms=row.lease_expires_at if running else None,
        lease_valid=bool(row.lease_valid) if running else None,
        available_at_ms=row.available_at,
        deadline_at_ms=row.deadline_at,
        cancel_requested_at_ms=row.cancel_requested_at,
    )


_NOT_SHOWN = {"result"}  # verdicts are large, and not for everybody who may look at a queue
_AS_THEY_ARE = (
    "id",
    "workspace_id",
    "project_id",
    "user_id",
    "run_id",
    "status",
    "attempt",
    "worker_id",
    "infra_failures",
    "lease_losses",
    "error",
    "retry_of",
    "retried_as",
    "created_at_ms",
    "started_at_ms",
    "finished_at_ms",
)
