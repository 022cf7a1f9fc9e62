"""Renewals and ends: everything that a claimed job becomes (Q2-Q5, Q10).

Owns how a job moves on: renew, finish, retry, release, cancel, rescue; which states there are is `transitions.JOB`.
Whatever makes a job terminal writes its external task through, and whatever takes it from an attempt cancels the
renders that this attempt asked for, in the same transaction. What may be said of many jobs at once is one statement for
all of them, and a lost lease among them is the loss of its own job only.

Survives: any number of rescuers, workers that come back late, a process that dies between two statements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    func,
    literal,
    select,
    union_all,
    update,
)
from sqlalchemy import cast as sql_cast

from pagegate.storage import external, lanes, renders, schema
from pagegate.storage.engine import Tx
from pagegate.storage.given import Columns, given_rows, parameters_of
from pagegate.storage.jobs.kinds import table_of
from pagegate.storage.jobs.views import get_job
from pagegate.storage.lease import Lease, LeaseLost, held, held_as_given
from pagegate.storage.present import built_once, present_of
from pagegate.storage.stored_json import write_json
from pagegate.storage.transitions import EXTERNAL_TASK, JOB, JobState

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

_LEASES: Columns = {"id": BigInteger(), "worker_id": Text(), "fence": Integer()}
_ENDINGS: Columns = {**_LEASES, "status": Text(), "result": Text(), "error": Text(), "error_code": Text()}
_RENEWED = ("id", "worker_id", "attempt", "lease_expires_at", "cancel_requested_at")
_IDS: Columns = {"id": BigInteger()}


@dataclass(frozen=True)
class Ending:
    """How a claimed job ends.

    `error` has the shape of an error body; its `code` becomes `error_code`. What the agent is told is `told`, else
    `result`, else `error`.
    """

    lease: Lease
    event: End
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    told: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Renewal:
    """What a renewed job is told: its lease, and whether it was asked to stop (Q4, Q10)."""

    lease: Lease
    cancel_requested: bool

    def is_of(self, lease: Lease) -> bool:
        """Whether it is this claim that was renewed, and not another one of the same job."""
        return (self.lease.id, self.lease.worker_id, self.lease.fence) == (lease.id, lease.worker_id, lease.fence)


async def renew_jobs(tx: Tx, leases: Sequence[Lease], ttl_ms: int) -> dict[int, Renewal]:
    """Extend the leases of one kind to `ttl_ms` from now, each only while it is still held (Q4); by the job's id.

    A job that is not among the answers has lost its lease, and so has a claim whose answer `is_of` another one: a
    process that slept may have claimed a job again that it still works on. The rows are locked until the transaction
    ends.
    """
    kind = leases[0].table
    given = parameters_of(tx.dialect, _LEASES, [(one.id, one.worker_id, one.fence) for one in leases])
    rows = await tx.run(_renewal(kind, tx.dialect), ttl_ms=ttl_ms, **given)
    return {
        row.id: Renewal(
            Lease(kind, row.id, row.worker_id, row.attempt, row.lease_expires_at), row.cancel_requested_at is not None
        )
        for row in rows
    }


async def finish_jobs(tx: Tx, endings: Sequence[Ending], *, last: bool = False) -> list[JobState]:
    """End jobs of one kind under their fences, and their external tasks with them (A3); raises `LeaseLost`.

    All of them or none: when one lease is lost, the transaction has to be rolled back. Comes first in it, or after
    `renew_jobs` (Q3). Renders that the jobs still wait for are cancelled.

    `last`: nothing comes after it in the transaction, so where nobody else is concerned it is ended in the same hop.
    """
    kind = endings[0].lease.table
    states = [JOB.target(ending.event) for ending in endings]
    errors = [CANCELLED if one.event == "cancel" and one.error is None else one.error for one in endings]
    rows = [
        (
            one.lease.id,
            one.lease.worker_id,
            one.lease.fence,
            state,
            write_json(one.result),
            write_json(error),
            error["code"] if error else None,
        )
        for one, state, error in zip(endings, states, errors, strict=True)
    ]
    given = parameters_of(tx.dialect, _ENDINGS, rows)
    ids = parameters_of(tx.dialect, _IDS, [(one.lease.id,) for one in endings])
    finished, others = await tx.run_all(
        (_finish(kind, tx.dialect), given),
        (_others(kind, tx.dialect), ids),
        last=lambda found: last and len(found[0]) == len(endings) and not found[1],
    )
    ended = {(row.id, row.attempt) for row in finished}
    if lost := [one.lease for one in endings if (one.lease.id, one.lease.fence) not in ended]:
        raise LeaseLost(", ".join(f"{kind} {one.id}, fence {one.fence}" for one in lost))
    told, asked = set[int](), set[int]()
    for other in others:
        (told if other.what == "task" else asked).add(other.job_id)
    for one, state, error in zip(endings, states, errors, strict=True):
        if one.lease.id in told:
            await external.write_task_result(tx, kind, one.lease.id, state, one.told or one.result or error)
        if one.lease.id in asked:
            await renders.cancel_requests_of_job(tx, kind, one.lease.id, attempt_max=one.lease.fence)
    return states  # type: ignore[return-value]  # the machine's states are plain strings


async def finish_job(
    tx: Tx,
    lease: Lease,
    event: End,
    *,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
    told: Mapping[str, Any] | None = None,
) -> JobState:
    """`finish_jobs` for one."""
    (state,) = await finish_jobs(tx, [Ending(lease, event, result, error, told)])
    return state


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
    table = table_of(lease.table)
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
    table = table_of(kind)
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


async def rescue_job(tx: Tx, kind: str, job_id: int, fence: int, lease_losses_max: int) -> JobState | None:
    """Take the job from the very attempt that was seen expired (Q5); None when that attempt is no longer running.

    Back to pending; failed once it has lost more than `lease_losses_max` leases (Q2); cancelled if it was asked to
    stop. One transaction a job, so that a bad row costs nothing but itself.
    """
    table = table_of(kind)
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
    table = table_of(kind)
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


@built_once
def _renewal(kind: str, dialect: str) -> Executable:
    table, present, given = table_of(kind), present_of(dialect), given_rows(dialect, _LEASES)
    return (
        update(table)
        .where(held_as_given(kind, given, present))
        .values(lease_expires_at=present + bindparam("ttl_ms"), heartbeat_at=present)
        .returning(
            table.c.id, table.c.worker_id, table.c.attempt, table.c.lease_expires_at, table.c.cancel_requested_at
        )
    )


@built_once
def _finish(kind: str, dialect: str) -> Executable:
    table, present, given = table_of(kind), present_of(dialect), given_rows(dialect, _ENDINGS)

    def as_json(text: ColumnElement[Any]) -> ColumnElement[Any]:
        return sql_cast(text, schema.Json) if dialect == "postgresql" else text

    return (
        update(table)
        .where(held_as_given(kind, given, present))
        .values(
            status=given.c.status,
            finished_at_ms=present,
            lease_expires_at=None,
            result=as_json(given.c.result),
            error=as_json(given.c.error),
            error_code=given.c.error_code,
        )
        .returning(table.c.id, table.c.attempt)
    )


@built_once
def _others(kind: str, dialect: str) -> Executable:
    """Who else is concerned by the ends of these jobs: tasks that wait for them, renders that they wait for."""
    tasks, requests, given = schema.ai_agent_external_tasks, schema.render_requests, given_rows(dialect, _IDS)
    ids = select(given.c.id)
    waiting = select(literal("task").label("what"), tasks.c.job_id).where(
        tasks.c.job_kind == kind, tasks.c.job_id.in_(ids), tasks.c.state == EXTERNAL_TASK.initial
    )
    asked = select(literal("render").label("what"), requests.c.job_id).where(
        requests.c.job_kind == kind, requests.c.job_id.in_(ids), schema.live(requests)
    )
    return union_all(waiting, asked)
