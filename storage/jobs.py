"""Durable jobs: the statements of every kind (Q1-Q5, Q10).

A kind is the table that its jobs live in. Owns how a job moves: claim, retry, release, finish, cancel, rescue; which
states there are is `transitions.JOB`. Whatever makes a job terminal writes its external task through, and whatever
takes it from an attempt cancels the renders that this attempt asked for, in the same transaction.

Survives: any number of claimers and rescuers, workers that come back late, a process that dies between two statements.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, Table, and_, case, func, literal, select, update
from sqlalchemy.sql.selectable import NamedFromClause

from pagegate.storage import external, lanes, renders, schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, LeaseLost, fenced_update, held
from pagegate.storage.transitions import JOB, JobState

# The kinds that exist, for callers to name.
PAGE_MUTATION = schema.ai_page_mutation_jobs.name

End = Literal["finish", "fail", "skip", "cancel"]

CANCELLED = {
    "code": "JOB_CANCELLED",
    "message": "The job was cancelled before it wrote anything.",
    "hint": "Submit it again if it is still wanted.",
}
LEASE_LOST = {
    "code": "JOB_LEASE_LOST",
    "message": "The worker of this job was lost too often.",
    "hint": "This says nothing about the source. Look at the service's logs, then retry the job.",
}

# Jobs of one batch that agree in these columns run one after another, by `position` (A2).
_ORDERED_WITHIN = {PAGE_MUTATION: ("batch_id", "page_code")}


class JobNotFound(LookupError):
    """There is no such job of this kind."""


@dataclass(frozen=True)
class ClaimedJob:
    """One claim of one job. `row` holds every column of the kind's table, as of the claim."""

    lease: Lease
    row: Row[Any]

    @property
    def id(self) -> int:
        return self.lease.id

    @property
    def waited_ms(self) -> int:
        """From the moment it could first run until this claim."""
        return int(self.row.heartbeat_at - self.row.available_at)


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


async def claim_job(tx: Tx, kind: str, worker_id: str, lease_ttl_ms: int) -> ClaimedJob | None:
    """Claim the next job that may run, in one conditional UPDATE that adds 1 to the fence (Q3).

    Next: smallest `priority`, then oldest. Skipped are jobs whose `available_at` lies ahead, and those with an earlier
    live job of the same batch on the same page (A2). A paused lane has none (Q11): that is asked in this very
    statement, since a pause that a replica merely remembers is one that it may not have heard of.
    """
    table = _table(kind)
    # A scalar subquery is evaluated once; in a join, SKIP LOCKED could lock more rows than it returns.
    following = (
        select(table.c.id)
        .where(runnable(tx, table), lanes.is_open(kind))
        .order_by(table.c.priority, table.c.id)
        .limit(1)
        .with_for_update(skip_locked=True, of=table)
    )
    claimed = (
        update(table)
        .where(table.c.id == following.scalar_subquery(), table.c.status.in_(JOB.sources("claim")))
        .values(
            status=JOB.target("claim"),
            attempt=table.c.attempt + 1,
            worker_id=worker_id,
            lease_expires_at=tx.now + lease_ttl_ms,
            heartbeat_at=tx.now,
            started_at_ms=func.coalesce(table.c.started_at_ms, tx.now),
        )
        .returning(table)
    )
    row = (await tx.execute(claimed)).first()
    if row is None:
        return None
    return ClaimedJob(Lease(kind, row.id, worker_id, row.attempt, row.lease_expires_at), row)


async def finish_job(
    tx: Tx,
    lease: Lease,
    event: End,
    *,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
    told: Mapping[str, Any] | None = None,
) -> JobState:
    """End the job under its fence, and its external task with it (A3). First in its transaction (Q3); `LeaseLost`.

    `error` has the shape of an error body; its `code` becomes `error_code`. What the agent is told is `told`, else
    `result`, else `error`. Renders that the job still waits for are cancelled.
    """
    state = JOB.target(event)
    if event == "cancel" and error is None:
        error = CANCELLED
    await fenced_update(
        tx,
        lease,
        status=state,
        finished_at_ms=tx.now,
        lease_expires_at=None,
        result=result,
        error=error,
        error_code=error["code"] if error else None,
    )
    await external.write_task_result(tx, lease.table, lease.id, state, told or result or error)
    await renders.cancel_requests_of_job(tx, lease.table, lease.id, attempt_max=lease.fence)
    return state  # type: ignore[return-value]  # the machine's states are plain strings


async def retry_job(
    tx: Tx,
    lease: Lease,
    delay_ms: int,
    counts: Literal["infra", "none"],
    error: Mapping[str, Any] | None = None,
) -> JobState:
    """Put the job back for a later attempt, `delay_ms` from now (Q2). First in its transaction; raises `LeaseLost`.

    `counts="infra"` uses up one infrastructure failure; a full queue or a busy worker counts as nothing. Whether there
    is budget and time left is the caller's decision. A job that was asked to stop is cancelled instead (Q10).
    """
    table = _table(lease.table)
    return await _put_back(
        tx,
        lease.table,
        "retry",
        held(tx, lease),
        available_at=tx.now + delay_ms,
        infra_failures=table.c.infra_failures + (1 if counts == "infra" else 0),
        error=error,
    )


async def release_job(tx: Tx, lease: Lease) -> JobState:
    """Put the job back at a shutdown, uncounted and at once claimable (Q10); raises `LeaseLost`."""
    return await _put_back(tx, lease.table, "release", held(tx, lease))


async def request_cancel(tx: Tx, kind: str, job_id: int) -> Literal["cancelled", "requested", "already_terminal"]:
    """Cancel a job (Q10): a pending one ends now, a running one is asked to stop. Raises `JobNotFound`.

    One statement decides, so a claim at the same moment makes it `requested` and loses nothing.
    """
    table = _table(kind)
    pending = table.c.status == "pending"
    asked = (
        update(table)
        .where(table.c.id == job_id, table.c.status.in_(JOB.sources("cancel")))
        .values(
            cancel_requested_at=func.coalesce(table.c.cancel_requested_at, tx.now),
            status=case((pending, JOB.target("cancel")), else_=table.c.status),
            finished_at_ms=case((pending, tx.now)),
            error=case((pending, literal(CANCELLED, schema.Json)), else_=table.c.error),
            error_code=case((pending, CANCELLED["code"]), else_=table.c.error_code),
        )
        .returning(table.c.status)
    )
    status = (await tx.execute(asked)).scalar()
    if status is None:
        await get_job(tx, kind, job_id)
        return "already_terminal"
    if status == "running":
        return "requested"
    await external.write_task_result(tx, kind, job_id, status, CANCELLED)
    return "cancelled"


async def is_cancel_requested(tx: Tx, kind: str, job_id: int) -> bool:
    """Whether the job was asked to stop, or has already ended as cancelled. Raises `JobNotFound`."""
    table = _table(kind)
    row = (await tx.execute(select(table.c.cancel_requested_at).where(table.c.id == job_id))).first()
    if row is None:
        raise JobNotFound(f"{kind} {job_id}")
    return row.cancel_requested_at is not None


async def list_expired(tx: Tx, kind: str, limit: int, after_id: int = 0) -> list[ExpiredJob]:
    """Running jobs whose lease has run out, by id after `after_id` (Q5).

    Go through the pages by id, not by rescuing until the first page is empty: rows that cannot be rescued stay, and
    must not hide the rows behind them.
    """
    table = _table(kind)
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


async def rescue_job(tx: Tx, kind: str, job_id: int, fence: int, lease_losses_max: int) -> JobState | None:
    """Take the job from the very attempt that was seen expired (Q5); None when that attempt is no longer running.

    Back to pending; failed once it has lost more than `lease_losses_max` leases (Q2); cancelled if it was asked to
    stop. One transaction a job, so that a bad row costs nothing but itself.
    """
    table = _table(kind)
    seen = and_(
        table.c.id == job_id,
        table.c.status == "running",
        table.c.attempt == fence,
        table.c.lease_expires_at <= tx.now,
    )
    try:
        state = await _put_back(
            tx,
            kind,
            "rescue",
            seen,
            exhausted=table.c.lease_losses >= lease_losses_max,
            lease_losses=table.c.lease_losses + 1,
        )
    except LeaseLost:
        return None
    await lanes.count_rescue(tx, kind)
    return state


async def get_job(tx: Tx, kind: str, job_id: int) -> Row[Any]:
    """Every column of a job; raises `JobNotFound`."""
    table = _table(kind)
    row = (await tx.execute(select(table).where(table.c.id == job_id))).first()
    if row is None:
        raise JobNotFound(f"{kind} {job_id}")
    return row


async def queue_counts(tx: Tx, kind: str) -> QueueCounts:
    """Depths and ages of a lane (O2). Reads live rows only, so it costs the same on an old database."""
    table = _table(kind)
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
    table = _table(kind)
    counted = select(func.count()).select_from(table).where(schema.live(table))
    return int((await tx.execute(counted)).scalar_one())


async def next_available_at(tx: Tx, kind: str) -> int | None:
    """When the next pending job may run, in ms; in the past when one may now; None when there is none (Q8)."""
    table = _table(kind)
    following = select(func.min(table.c.available_at)).where(schema.live(table), table.c.status == "pending")
    return (await tx.execute(following)).scalar()


async def list_candidate_codes(tx: Tx, project_id: int) -> set[str]:
    """Page codes that live jobs of a project are going to create (S4)."""
    table = schema.ai_page_mutation_jobs
    claimed = select(table.c.candidate_code).where(
        table.c.project_id == project_id, table.c.candidate_code.is_not(None), schema.live(table)
    )
    return set((await tx.execute(claimed)).scalars())


async def find_earlier_version(tx: Tx, batch_id: int, page_code: str, position: int) -> int | None:
    """The page version that the nearest earlier call of the same step wrote, if one did (A2)."""
    table = schema.ai_page_mutation_jobs
    earlier = (
        select(schema.page_versions.c.number)
        .join(table, table.c.id == schema.page_versions.c.job_id)
        .where(table.c.batch_id == batch_id, table.c.page_code == page_code, table.c.position < position)
        .order_by(table.c.position.desc())
        .limit(1)
    )
    return (await tx.execute(earlier)).scalar()


async def change_candidate_code(tx: Tx, lease: Lease, code: str) -> None:
    """Give a creating job another code, because its own was taken meanwhile (S4); raises `LeaseLost`."""
    await fenced_update(tx, lease, candidate_code=code, page_code=code)


async def _put_back(
    tx: Tx,
    kind: str,
    event: str,
    where: ColumnElement[bool],
    *,
    exhausted: ColumnElement[bool] | None = None,
    error: Mapping[str, Any] | None = None,
    **values: Any,
) -> JobState:
    """Take a running job from its attempt; raises `LeaseLost` when `where` finds none.

    It goes where `event` leads, unless it was asked to stop, or its budget is `exhausted`: then it ends here.
    """
    table = _table(kind)
    ends: list[tuple[ColumnElement[bool], str, dict[str, str]]] = [
        (table.c.cancel_requested_at.is_not(None), JOB.target("cancel"), CANCELLED)
    ]
    if exhausted is not None:
        ends.append((exhausted, JOB.target("exhaust"), LEASE_LOST))
    moved = (
        update(table)
        .where(where)
        .values(
            **{"available_at": tx.now} | values,
            worker_id=None,
            lease_expires_at=None,
            status=case(*[(when, state) for when, state, _ in ends], else_=JOB.target(event)),
            finished_at_ms=case(*[(when, tx.now) for when, _, _ in ends]),
            error=case(
                *[(when, literal(end, schema.Json)) for when, _, end in ends],
                else_=literal(error, schema.Json) if error else table.c.error,
            ),
            error_code=case(
                *[(when, end["code"]) for when, _, end in ends],
                else_=error["code"] if error else table.c.error_code,
            ),
        )
        .returning(table.c.id, table.c.attempt, table.c.status, table.c.error)
    )
    row = (await tx.execute(moved)).first()
    if row is None:
        raise LeaseLost(f"{kind}: the attempt is not running any more")
    if row.status in JOB.terminal:
        await external.write_task_result(tx, kind, row.id, row.status, row.error)
    await renders.cancel_requests_of_job(tx, kind, row.id, attempt_max=row.attempt)
    return row.status  # type: ignore[no-any-return]  # rows are untyped; the CHECK constraint holds the states


def _table(kind: str) -> Table:
    if kind not in schema.JOB_KINDS:
        raise KeyError(f"no kind of job is called {kind!r}")
    return schema.metadata.tables[kind]


@cache
def _earlier(table: Table) -> NamedFromClause[Any]:
    """The table once more, for a look beside the row; made once, since copying its columns is dear."""
    return table.alias("earlier")


def runnable(tx: Tx, table: Table) -> ColumnElement[bool]:
    """The job may run now: by time, and by the calls before it (A2).

    The latter can only become true, never false again but by a retry, so a stale look is merely late.
    """
    now = and_(schema.live(table), table.c.status == "pending", table.c.available_at <= tx.now)
    columns = _ORDERED_WITHIN.get(table.name)
    if columns is None:
        return now
    earlier = _earlier(table)
    same = [earlier.c[column] == table.c[column] for column in columns]
    found = select(earlier.c.id).where(*same, earlier.c.position < table.c.position, schema.live(earlier))
    return and_(now, ~found.exists())
