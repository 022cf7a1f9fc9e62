"""A failed job, once more (Q11).

Owns how a failed job becomes a new one that points back at it (`retry_of`): the same arguments, new budgets, a new
deadline. The failed job itself stays as it is (Q2). What changes is its external task: it is re-opened in the same
transaction and from then on belongs to the new job, so that a call still has one result and a batch is resumed once.

Survives two people who retry at once (a job is retried once: unique `retry_of`), and a coordinator that is just about
to deliver the results: the batch's row decides who was first.

Locks are taken in the order of `external.py`: job, task, tool call, batch, run.
"""

from dataclasses import dataclass

from sqlalchemy import select

from pagegate.storage import asset_ratios, external, hints, jobs, runs, schema, screenshots
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import JobNotFound
from pagegate.storage.runs import JobQueueFull
from pagegate.storage.transitions import JOB

# What a new attempt at the same work begins without; everything else is the work itself.
_OF_ONE_LIFE = frozenset(
    {
        "id",
        "status",
        "attempt",
        "worker_id",
        "lease_expires_at",
        "heartbeat_at",
        "available_at",
        "deadline_at",
        "infra_failures",
        "lease_losses",
        "cancel_requested_at",
        "retry_of",
        "error_code",
        "error",
        "result",
        "created_at_ms",
        "started_at_ms",
        "finished_at_ms",
        # A retry is a person's word that it may be asked again.
        "sent_at_ms",
        "sent_to",
    }
)


class JobNotFailed(Exception):
    """JOB_NOT_FAILED: only a failed job can be retried."""


class JobAlreadyRetried(Exception):
    """JOB_ALREADY_RETRIED: there is a later job for the same call; that one is to be looked at."""


@dataclass(frozen=True)
class Retried:
    """`job_id` is the new job; `run_id` None for a job without a run."""

    job_id: int
    run_id: int | None


async def retry_failed_job(
    tx: Tx, kind: str, job_id: int, *, active_jobs_max: int, deadline_ms: int | None, user_id: int
) -> Retried:
    """Make a new job of a failed one and hand it the failed one's external task; all or nothing.

    Raises `JobNotFound`, `JobNotFailed`, `JobAlreadyRetried`, `JobQueueFull` (Q9), and `external.ResultDelivered` once
    the agent was told, or is being told, what became of the call. `deadline_ms` counts from now.
    """
    table = schema.metadata.tables[kind]
    await tx.serialize(runs.SUBMIT)
    failed = (await tx.execute(select(table).where(table.c.id == job_id).with_for_update())).first()
    if failed is None:
        raise JobNotFound(f"{kind} {job_id}")
    if failed.status != JOB.target("fail"):
        raise JobNotFailed(f"The job is {failed.status}; only a failed job can be retried.")
    later = (await tx.execute(select(table.c.id, table.c.status).where(table.c.retry_of == job_id))).first()
    if later is not None:
        raise JobAlreadyRetried(f"The job was retried as job {later.id}, which is {later.status}.")
    if kind == screenshots.PAGE_SCREENSHOT and (twin := await screenshots.find_live_twin(tx, failed.capture_key)):
        raise JobAlreadyRetried(f"The same screenshot is being taken by job {twin}.")
    if kind == asset_ratios.ASSET_RATIO_BACKFILL and (twin := await asset_ratios.find_live_twin(tx, failed.asset_id)):
        raise JobAlreadyRetried(f"The same file is being measured by job {twin}.")
    active = await jobs.count_active(tx, kind)
    if active >= active_jobs_max:
        raise JobQueueFull(f"{active} jobs are live; one more would be over {active_jobs_max}", kind)
    work = {name: value for name, value in failed._mapping.items() if name not in _OF_ONE_LIFE}
    now_ms = await tx.now_ms()
    new_id = await tx.insert(
        table,
        **work,
        retry_of=job_id,
        available_at=now_ms,
        deadline_at=None if deadline_ms is None else now_ms + deadline_ms,
        created_at_ms=now_ms,
    )
    await external.reopen_task(tx, kind, job_id, new_id)
    if kind == screenshots.PAGE_SCREENSHOT:
        await screenshots.follow_retry(tx, job_id, new_id)
    if failed.run_id is not None:
        news = {"retry_of": job_id, "user_id": user_id}
        await runs.append_call_event(tx, new_id, failed, "tool.retried", news)
    await hints.send(tx, hints.jobs_of(kind))
    return Retried(new_id, failed.run_id)
