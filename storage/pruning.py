"""What has ended long ago, deleted (Q11).

Owns which runs and jobs may go, and the deletion of one with all that hangs on it: events, calls, batches, external
tasks, jobs, render requests and their attempts, its webhook's delivery, and its session with the last run of it. A run
goes as a whole, once it has ended, none of its jobs must still be kept and its webhook waits no more. Page versions
stay for ever; their `job_id` is a number that may name a job that is gone.

Survives several pruners at once (a run is locked by one, the others pass it by) and a kill between any two
transactions: what is left is found again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Table, and_, case, delete, exists, select, tuple_

from pagegate.storage import schema, screenshot_pictures, screenshots
from pagegate.storage.engine import Tx
from pagegate.storage.transitions import JOB, RUN

_runs = schema.ai_agent_runs
_calls = schema.ai_agent_tool_calls
_batches = schema.ai_agent_external_batches
_tasks = schema.ai_agent_external_tasks
_requests = schema.render_requests
_attempts = schema.render_attempts
_prompts = schema.ai_agent_prompts
_sessions = schema.ai_agent_sessions
_messages = schema.ai_agent_messages
_deliveries = schema.webhook_deliveries


@dataclass(frozen=True)
class Retention:
    """How long an end is kept, in ms from the moment of it. Skipped is kept as cancelled is: nothing came of it."""

    succeeded_ms: int
    cancelled_ms: int
    failed_ms: int

    @property
    def least_ms(self) -> int:
        return min(self.succeeded_ms, self.cancelled_ms, self.failed_ms)


@dataclass(frozen=True)
class Place:
    """How far a pass has come, oldest end first."""

    finished_at_ms: int
    run_id: int


START = Place(0, 0)


@dataclass(frozen=True)
class Page:
    """`run_ids` may go. `after` is where the next page begins, None at the end of the pass."""

    run_ids: Sequence[int]
    after: Place | None


async def list_prunable_runs(tx: Tx, retention: Retention, after: Place, limit: int) -> Page:
    """Look at the next `limit` runs that ended, oldest first, and name those that may go.

    Runs that must stay are passed by, so they hide nothing behind them and no page costs more than `limit` rows.
    """
    ended = (
        select(_runs.c.id, _runs.c.finished_at_ms, _may_go(tx, retention).label("may_go"))
        .where(
            _runs.c.finished_at_ms <= tx.now - retention.least_ms,
            tuple_(_runs.c.finished_at_ms, _runs.c.id) > tuple_(after.finished_at_ms, after.run_id),
        )
        .order_by(_runs.c.finished_at_ms, _runs.c.id)
        .limit(limit)
    )
    rows = (await tx.execute(ended)).all()
    rest = Place(rows[-1].finished_at_ms, rows[-1].id) if len(rows) == limit else None
    return Page([row.id for row in rows if row.may_go], rest)


async def prune_runs(tx: Tx, retention: Retention, run_ids: Sequence[int]) -> int:
    """Delete those of the runs that may still go and that nobody else is deleting; answers how many."""
    mine = (
        select(_runs.c.id)
        .where(_runs.c.id.in_(run_ids), _may_go(tx, retention))
        .order_by(_runs.c.id)
        .with_for_update(skip_locked=True)
    )
    ids = list((await tx.execute(mine)).scalars())
    if not ids:
        return 0
    batches = select(_batches.c.id).where(_batches.c.run_id.in_(ids))
    for table in _job_tables():
        await _delete_renders(
            tx, table, list((await tx.execute(select(table.c.id).where(table.c.run_id.in_(ids)))).scalars())
        )
    await tx.execute(delete(_tasks).where(_tasks.c.batch_id.in_(batches)))
    own = (schema.ai_page_mutation_batches, _calls, schema.ai_agent_run_events, _deliveries)
    for table in (_batches, *_job_tables(), *own):
        await tx.execute(delete(table).where(table.c.run_id.in_(ids)))
    gone = delete(_prompts).where(_prompts.c.run_id.in_(ids)).returning(_prompts.c.session_id)
    session_ids = set((await tx.execute(gone)).scalars())
    await tx.execute(delete(_runs).where(_runs.c.id.in_(ids)))
    await _delete_empty_sessions(tx, session_ids)
    return len(ids)


async def _delete_empty_sessions(tx: Tx, session_ids: set[int]) -> None:
    """A session goes with its last run, and its history with it. One that is just getting a run is passed by."""
    empty = (
        select(_sessions.c.id)
        .where(_sessions.c.id.in_(session_ids), ~exists().where(_prompts.c.session_id == _sessions.c.id))
        .order_by(_sessions.c.id)
        .with_for_update(skip_locked=True)
    )
    ids = list((await tx.execute(empty)).scalars()) if session_ids else []
    if ids:
        await tx.execute(delete(_messages).where(_messages.c.session_id.in_(ids)))
        await tx.execute(delete(_sessions).where(_sessions.c.id.in_(ids)))


async def prune_loose_jobs(tx: Tx, kind: str, retention: Retention, limit: int) -> int:
    """Delete up to `limit` old jobs that belong to no run, oldest first; answers how many.

    A job that was retried goes after its retry, which points at it; a build, after its leftovers, which it names.
    """
    table = schema.metadata.tables[kind]
    later = table.alias("later")
    mine = (
        select(table.c.id)
        .where(
            table.c.run_id.is_(None),
            table.c.finished_at_ms <= tx.now - retention.least_ms,
            _is_old(tx, table, retention),
            ~exists().where(later.c.retry_of == table.c.id),
            *([table.c.swept_at_ms.is_not(None)] if "swept_at_ms" in table.c else []),
        )
        .order_by(table.c.finished_at_ms, table.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True, of=table)
    )
    ids = list((await tx.execute(mine)).scalars())
    if kind == screenshots.PAGE_SCREENSHOT:
        await screenshots.forget_jobs(tx, ids, older_than_ms=retention.least_ms)
    if ids:
        await _delete_renders(tx, table, ids)
        await tx.execute(delete(table).where(table.c.id.in_(ids)))
    return len(ids)


def _may_go(tx: Tx, retention: Retention) -> ColumnElement[bool]:
    kept = [exists().where(table.c.run_id == _runs.c.id, ~_is_old(tx, table, retention)) for table in _job_tables()]
    kept.append(exists().where(_deliveries.c.run_id == _runs.c.id, schema.live(_deliveries)))
    undelivered = exists().where(_batches.c.run_id == _runs.c.id, schema.live(_batches))
    return and_(_runs.c.status.in_(RUN.terminal), _is_old(tx, _runs, retention), ~undelivered, *[~one for one in kept])


def _is_old(tx: Tx, table: Table, retention: Retention) -> ColumnElement[bool]:
    """The row has ended, and longer ago than its end is kept. Never NULL, so that its negation is not either."""
    kept_ms = case(
        (table.c.status == JOB.target("finish"), retention.succeeded_ms),
        (table.c.status == JOB.target("fail"), retention.failed_ms),
        else_=retention.cancelled_ms,
    )
    return and_(table.c.finished_at_ms.is_not(None), table.c.finished_at_ms <= tx.now - kept_ms)


async def _delete_renders(tx: Tx, table: Table, job_ids: Sequence[int]) -> None:
    of_jobs = and_(_requests.c.job_kind == table.name, _requests.c.job_id.in_(job_ids))
    requests = select(_requests.c.id).where(of_jobs)
    await screenshot_pictures.release_holds_of_jobs(tx, table.name, job_ids)
    await tx.execute(delete(_attempts).where(_attempts.c.request_id.in_(requests)))
    await tx.execute(delete(_requests).where(of_jobs))


def _job_tables() -> list[Table]:
    return [schema.metadata.tables[name] for name in schema.JOB_KINDS]
