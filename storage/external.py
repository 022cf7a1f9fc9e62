"""External tasks and their batches: how a run that waits for jobs is resumed exactly once (A3-A5).

Owns the statements on `ai_agent_external_tasks` and `ai_agent_external_batches`. Whoever makes a job terminal calls
`write_task_result` in the same transaction; the last result of a batch makes it `ready`. The coordinator claims a ready
batch, and its `lease_generation` is the fence of everything that it then writes.

Locks are taken in the order job, task, tool call, batch, run; keep to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, exists, or_, select, update

from pagegate.storage import hints, schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, fenced_update
from pagegate.storage.transitions import EXTERNAL_BATCH, EXTERNAL_TASK, JOB, RUN

_batches = schema.ai_agent_external_batches
_tasks = schema.ai_agent_external_tasks
_calls = schema.ai_agent_tool_calls
_runs = schema.ai_agent_runs


class ResultDelivered(Exception):
    """JOB_RESULT_DELIVERED: the agent was told, or is just being told, what became of the call."""


@dataclass(frozen=True)
class ClaimedBatch:
    """One batch whose run may now be resumed, under `lease`."""

    lease: Lease
    batch_id: int
    run_id: int
    run_step: int
    source: str = "api"  # of its run: who has to be asked when it is resumed


@dataclass(frozen=True)
class ExternalResult:
    """What came of one call. `state` is an end of `EXTERNAL_TASK`; `result` is what the agent is told."""

    call_id: str
    tool_name: str
    position: int
    state: str
    result: Mapping[str, Any] | None
    job_kind: str | None
    job_id: int | None


async def write_task_result(tx: Tx, job_kind: str, job_id: int, state: str, result: Mapping[str, Any] | None) -> bool:
    """Write the end of a job through to its external task, in the job's own transaction (A3).

    Answers whether the batch became ready by it. A job without a task (screenshots, builds) is fine, and so is a task
    that has ended already: the first end stands.
    """
    ended = (
        update(_tasks)
        .where(_tasks.c.job_kind == job_kind, _tasks.c.job_id == job_id, _tasks.c.state == EXTERNAL_TASK.initial)
        .values(state=state, result=result, finished_at_ms=tx.now)
        .returning(_tasks.c.batch_id, _tasks.c.tool_call_id)
    )
    task = (await tx.execute(ended)).first()
    if task is None:
        return False
    await tx.execute(update(_calls).where(_calls.c.id == task.tool_call_id).values(status=state))
    return await settle_batch(tx, task.batch_id)


async def settle_batch(tx: Tx, batch_id: int) -> bool:
    """Make a waiting batch ready if no task of it is pending; answers whether it did.

    The lock comes first, in a statement of its own: two jobs that end at once would each still see the other's task
    pending, and neither would settle the batch.
    """
    await tx.execute(select(_batches.c.id).where(_batches.c.id == batch_id).with_for_update(key_share=True))
    pending = exists().where(_tasks.c.batch_id == batch_id, _tasks.c.state == EXTERNAL_TASK.initial)
    settled = (
        update(_batches)
        .where(_batches.c.id == batch_id, _batches.c.state.in_(EXTERNAL_BATCH.sources("settle")), ~pending)
        .values(state=EXTERNAL_BATCH.target("settle"))
        .returning(_batches.c.id)
    )
    if (await tx.execute(settled)).first() is None:
        return False
    await hints.send(tx, hints.BATCHES)
    return True


async def reopen_task(tx: Tx, job_kind: str, job_id: int, retry_id: int) -> None:
    """Give the task of a failed job to the job's retry; a job without a task is fine (Q11).

    The task is pending again, and a batch that was ready waits again. Raises `ResultDelivered` when a coordinator has
    claimed the batch or the run is over: the batch's row is locked, so one of the two comes first.
    """
    mine = and_(_tasks.c.job_kind == job_kind, _tasks.c.job_id == job_id)
    if (await tx.execute(select(_tasks.c.id).where(mine))).first() is None:
        return
    reopened = (
        update(_tasks)
        .where(mine, _tasks.c.state.in_(EXTERNAL_TASK.sources("reopen")))
        .values(state=EXTERNAL_TASK.target("reopen"), job_id=retry_id, result=None, finished_at_ms=None)
        .returning(_tasks.c.batch_id, _tasks.c.tool_call_id)
    )
    task = (await tx.execute(reopened)).first()
    if task is None:
        raise ResultDelivered("The call has another result than the job's failure.")
    reopened_call = update(_calls).where(_calls.c.id == task.tool_call_id)
    await tx.execute(reopened_call.values(status=EXTERNAL_TASK.target("reopen")))
    locked = select(_batches.c.state, _batches.c.run_id).where(_batches.c.id == task.batch_id)
    batch = (await tx.execute(locked.with_for_update(key_share=True))).one()
    if batch.state in EXTERNAL_BATCH.sources("reopen"):
        again = update(_batches).where(_batches.c.id == task.batch_id)
        await tx.execute(again.values(state=EXTERNAL_BATCH.target("reopen")))
    elif batch.state != EXTERNAL_BATCH.target("reopen"):
        raise ResultDelivered("What became of the call was told, or is just being told, to its agent.")
    run = await tx.execute(select(_runs.c.status).where(_runs.c.id == batch.run_id))
    if run.scalar_one() in RUN.terminal:
        raise ResultDelivered("The run of the call is over.")


async def claim_ready_batch(
    tx: Tx, worker_id: str, ttl_ms: int, sources: Sequence[str] = ("api", "agent")
) -> ClaimedBatch | None:
    """Claim the oldest batch that is ready, or whose coordinator's lease ran out; adds 1 to the generation (A4, K6).

    `sources`: of which runs. A coordinator that is busy with models still takes what needs none.
    """
    abandoned = and_(_batches.c.state == "resuming", _batches.c.lease_expires_at <= tx.now)
    wanted = exists().where(_runs.c.id == _batches.c.run_id, _runs.c.source.in_(sources))
    claimable = and_(schema.live(_batches), or_(_batches.c.state == "ready", abandoned), wanted)
    oldest = select(_batches.c.id).where(claimable).order_by(_batches.c.id).limit(1).with_for_update(skip_locked=True)
    claimed = (
        update(_batches)
        .where(_batches.c.id == oldest.scalar_subquery(), claimable)
        .values(
            state="resuming",
            worker_id=worker_id,
            lease_generation=_batches.c.lease_generation + 1,
            lease_expires_at=tx.now + ttl_ms,
            heartbeat_at=tx.now,
        )
        .returning(_batches)
    )
    row = (await tx.execute(claimed)).first()
    if row is None:
        return None
    lease = Lease(_batches.name, row.id, worker_id, row.lease_generation, row.lease_expires_at)
    source = (await tx.execute(select(_runs.c.source).where(_runs.c.id == row.run_id))).scalar_one()
    return ClaimedBatch(lease, row.id, row.run_id, row.run_step, source)


async def finish_batch(tx: Tx, lease: Lease) -> None:
    """End a batch whose results were delivered; the first statement of the resume's last transaction (A4).

    Raises `LeaseLost` for a stale coordinator, whose model's answer then changes nothing.
    """
    await fenced_update(tx, lease, state=EXTERNAL_BATCH.target("finish"), completed_at_ms=tx.now, lease_expires_at=None)


async def release_batch(tx: Tx, lease: Lease) -> None:
    """Give a batch back undelivered, at a shutdown (A7); raises `LeaseLost`."""
    await fenced_update(tx, lease, state=EXTERNAL_BATCH.target("release"), worker_id=None, lease_expires_at=None)


async def close_batches(tx: Tx, run_id: int) -> int:
    """Complete every open batch of a run that ended some other way; a resume in progress loses its lease by it."""
    closed = (
        update(_batches)
        .where(_batches.c.run_id == run_id, _batches.c.state.in_(EXTERNAL_BATCH.sources("close")))
        .values(state=EXTERNAL_BATCH.target("close"), completed_at_ms=tx.now, lease_expires_at=None)
        .returning(_batches.c.id)
    )
    return len((await tx.execute(closed)).all())


async def list_results(tx: Tx, batch_id: int) -> list[ExternalResult]:
    """The results of a batch, in the order of its calls."""
    rows = await tx.execute(
        select(
            _calls.c.call_id,
            _calls.c.tool_name,
            _calls.c.position,
            _tasks.c.state,
            _tasks.c.result,
            _tasks.c.job_kind,
            _tasks.c.job_id,
        )
        .join(_calls, _calls.c.id == _tasks.c.tool_call_id)
        .where(_tasks.c.batch_id == batch_id)
        .order_by(_calls.c.position)
    )
    return [ExternalResult(**row) for row in rows.mappings()]


async def synchronize_external_task_states(tx: Tx) -> int:
    """Repair after a crash (A5); never the main path. Answers how many rows were put right.

    Tasks whose job ended without them, batches whose last task ended without them, and open batches of runs that are
    over (among them old ones left in `resuming`). Run again, it finds nothing to do.
    """
    repaired = 0
    for table in _job_tables():
        late = await tx.execute(
            select(table.c.id, table.c.status, table.c.result, table.c.error)
            .join(_tasks, and_(_tasks.c.job_kind == table.name, _tasks.c.job_id == table.c.id))
            .where(_tasks.c.state == EXTERNAL_TASK.initial, table.c.status.in_(JOB.terminal))
            .order_by(table.c.id)
        )
        for job in late.all():
            await write_task_result(tx, table.name, job.id, job.status, job.result or job.error)
            repaired += 1
    for batch in (
        await tx.execute(select(_batches.c.id).where(schema.live(_batches), _batches.c.state == "waiting"))
    ).all():
        repaired += await settle_batch(tx, batch.id)
    over = (
        select(_batches.c.run_id)
        .distinct()
        .join(_runs, _runs.c.id == _batches.c.run_id)
        .where(schema.live(_batches), _runs.c.status.in_(RUN.terminal))
    )
    for run in (await tx.execute(over)).all():
        repaired += await close_batches(tx, run.run_id)
    return repaired


def _job_tables() -> list[Any]:
    return [schema.metadata.tables[name] for name in schema.JOB_KINDS]
