"""The lease, once (Q3, Q4).

A row that somebody works on carries who (a worker column), until when (`lease_expires_at`) and a number that grows with
every claim (the fence). Owns the one predicate, `is_held`, that every later write of that work has in its WHERE, and
the statements that need nothing else: `renew`, `fenced_update`, `require_held`.

Survives: an owner that was paused past its lease and comes back. Its next fenced statement finds no row and raises
`LeaseLost`, even if nobody else has claimed the row meanwhile: an expired lease is lost, not dormant.
"""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, ColumnElement, FromClause, Row, Table, and_, select, update

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.present import word


class LeaseLost(Exception):
    """The caller no longer owns the row: stop, write nothing, and let the transaction roll back (Q3)."""


@dataclass(frozen=True)
class Lease:
    """One claim of one row. `fence` grows with every claim; `expires_at` is in ms of the clock that decides (Q6)."""

    table: str
    id: int
    worker_id: str
    fence: int
    expires_at: int


@dataclass(frozen=True)
class _Leased:
    table: Table
    worker: Column[str]
    fence: Column[int]
    active: ColumnElement[bool]


def _leased(name: str) -> _Leased:
    """Where a table keeps its lease. Every kind of job keeps it in the columns of `schema.job_columns`."""
    table = schema.metadata.tables[name]
    columns = table.c
    if table is schema.render_attempts:
        return _Leased(table, columns.owner, columns.number, columns.released_at.is_(None))
    if table is schema.ai_agent_external_batches:
        return _Leased(table, columns.worker_id, columns.lease_generation, columns.state == word("resuming"))
    if table is schema.webhook_deliveries:
        return _Leased(table, columns.worker_id, columns.attempt, columns.state == word("delivering"))
    return _Leased(table, columns.worker_id, columns.attempt, columns.status == word("running"))


def is_held(leased: _Leased, lease: Any, present: ColumnElement[int]) -> ColumnElement[bool]:
    """The predicate (Q3). `lease`: anything with `id`, `worker_id` and `fence`; values, or columns with such values."""
    return and_(
        leased.table.c.id == lease.id,
        leased.worker == lease.worker_id,
        leased.fence == lease.fence,
        leased.active,
        leased.table.c.lease_expires_at > present,
    )


def held(tx: Tx, lease: Lease) -> ColumnElement[bool]:
    """True for the leased row while the lease is the caller's, active and unexpired (Q3)."""
    return is_held(_leased(lease.table), lease, tx.now)


def held_as_given(table: str, given: FromClause, present: ColumnElement[int]) -> ColumnElement[bool]:
    """The same for the leases of one table that are rows themselves: `id`, `worker_id`, `fence` (`given.py`)."""
    return is_held(_leased(table), given.c, present)


async def fenced_update(tx: Tx, lease: Lease, **values: Any) -> Row[Any]:
    """Change the leased row under its fence and answer it as it is now; raises `LeaseLost` (Q3).

    In a transaction that writes more, this comes first: it takes the row's lock, so a rescue waits for the commit.
    """
    table = _leased(lease.table).table
    statement = update(table).where(held(tx, lease)).values(**values).returning(table)
    row = (await tx.execute(statement)).first()
    if row is None:
        raise LeaseLost(f"{lease.table} {lease.id}, fence {lease.fence}")
    return row


async def renew(tx: Tx, lease: Lease, ttl_ms: int) -> Lease:
    """Extend the lease to `ttl_ms` from now, only while it is still held; raises `LeaseLost` (Q4)."""
    row = await fenced_update(tx, lease, lease_expires_at=tx.now + ttl_ms, heartbeat_at=tx.now)
    return replace(lease, expires_at=row.lease_expires_at)


async def require_held(tx: Tx, lease: Lease) -> None:
    """Lock the leased row for the rest of the transaction without changing it; raises `LeaseLost` (Q3).

    For a first step of writes that belong to the work but are other rows, such as a render request.
    """
    table = _leased(lease.table).table
    locked = select(table.c.id).where(held(tx, lease)).with_for_update(key_share=True)
    if (await tx.execute(locked)).first() is None:
        raise LeaseLost(f"{lease.table} {lease.id}, fence {lease.fence}")
