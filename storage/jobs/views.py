"""Looks at jobs: one of them, the lost ones, and the depths and ages of a lane (Q5, Q9, O2). Reads only.

What is asked all day touches live rows only, so an old database answers as quickly as a new one.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, case, func, select

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.jobs.kinds import JobNotFound, table_of


@dataclass(frozen=True)
class ExpiredJob:
    """A running job whose lease has run out, as a rescuer saw it. `fence` is the attempt that was seen (Q5)."""

    id: int
    fence: int
    worker_id: str
    lease_expires_at: int


@dataclass(frozen=True)
class QueueCounts:
    """A lane's live jobs (O2). Ages in ms, None when there is nothing to be old; `runnable`: may be claimed by time."""

    pending: int
    runnable: int
    running: int
    oldest_pending_age_ms: int | None
    oldest_running_age_ms: int | None


async def get_job(tx: Tx, kind: str, job_id: int) -> Row[Any]:
    """Every column of a job; raises `JobNotFound`."""
    table = table_of(kind)
    row = (await tx.execute(select(table).where(table.c.id == job_id))).first()
    if row is None:
        raise JobNotFound(f"{kind} {job_id}")
    return row


async def is_cancel_requested(tx: Tx, kind: str, job_id: int) -> bool:
    """Whether the job was asked to stop, or has already ended as cancelled. Raises `JobNotFound`."""
    table = table_of(kind)
    row = (await tx.execute(select(table.c.cancel_requested_at).where(table.c.id == job_id))).first()
    if row is None:
        raise JobNotFound(f"{kind} {job_id}")
    return row.cancel_requested_at is not None


async def list_expired(tx: Tx, kind: str, limit: int, after_id: int = 0) -> list[ExpiredJob]:
    """Running jobs whose lease has run out, by id after `after_id` (Q5).

    Go through the pages by id, not by rescuing until the first page is empty: rows that cannot be rescued stay, and
    must not hide the rows behind them.
    """
    table = table_of(kind)
    expired = (
        select(table.c.id, table.c.attempt.label("fence"), table.c.worker_id, table.c.lease_expires_at)
        .where(
            schema.live(table),
            table.c.status == "running",
            table.c.lease_expires_at <= tx.now,
            table.c.id > after_id,
        )
        .order_by(table.c.id)
        .limit(limit)
    )
    return [ExpiredJob(**row) for row in (await tx.execute(expired)).mappings()]


async def queue_counts(tx: Tx, kind: str) -> QueueCounts:
    """Depths and ages of a lane (O2). Reads live rows only, so it costs the same on an old database."""
    table = table_of(kind)
    pending = table.c.status == "pending"
    running = table.c.status == "running"
    counted = select(
        func.count(case((pending, 1))).label("pending"),
        func.count(case((and_(pending, table.c.available_at <= tx.now), 1))).label("runnable"),
        func.count(case((running, 1))).label("running"),
        (tx.now - func.min(case((pending, table.c.created_at_ms)))).label("oldest_pending_age_ms"),
        (tx.now - func.min(case((running, table.c.started_at_ms)))).label("oldest_running_age_ms"),
    ).where(schema.live(table))
    return QueueCounts(**(await tx.execute(counted)).mappings().one())


async def count_active(tx: Tx, kind: str) -> int:
    """Jobs that have not ended: what AI_PAGE_MUTATION_MAX_ACTIVE_JOBS limits (Q9)."""
    table = table_of(kind)
    counted = select(func.count()).select_from(table).where(schema.live(table))
    return int((await tx.execute(counted)).scalar_one())


async def next_available_at(tx: Tx, kind: str) -> int | None:
    """When the next pending job may run, in ms; in the past when one may now; None when there is none (Q8)."""
    table = table_of(kind)
    following = select(func.min(table.c.available_at)).where(schema.live(table), table.c.status == "pending")
    return (await tx.execute(following)).scalar()
