"""Runs: where one stands, and how it ends (A1, A6, A7).

Owns the statements on `ai_agent_runs` itself. Steps, calls and events have files of their own; their names are here
too, for all who speak of runs.
"""

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import Row, func, select, update

from pagegate.storage import external, jobs, renders, schema, webhooks
from pagegate.storage.engine import Tx
from pagegate.storage.run_events import RunEvent, RunNotFound, append_call_event, append_event, list_events
from pagegate.storage.steps import (
    SUBMIT,
    BatchTooLarge,
    CallSubmission,
    IdempotencyKeyReused,
    JobQueueFull,
    StepSubmission,
    Submitted,
    find_run_by_key,
    submit_step,
)
from pagegate.storage.tool_calls import ToolCall, get_arguments, get_call, list_tool_calls
from pagegate.storage.transitions import JOB, RUN, RunState

__all__ = [
    "SUBMIT",
    "BatchTooLarge",
    "CallSubmission",
    "IdempotencyKeyReused",
    "JobQueueFull",
    "RunEvent",
    "RunNotFound",
    "StepSubmission",
    "Submitted",
    "ToolCall",
    "append_call_event",
    "append_event",
    "cancel_run",
    "find_run_by_key",
    "finish_run",
    "force_cancel_run",
    "get_arguments",
    "get_call",
    "get_run",
    "list_events",
    "list_tool_calls",
    "move_run",
    "submit_step",
]

_runs = schema.ai_agent_runs


async def get_run(tx: Tx, run_id: int) -> Row[Any]:
    """Every column of a run; raises `RunNotFound`. Whether the caller may see it is the caller's to check (X5)."""
    row = (await tx.execute(select(_runs).where(_runs.c.id == run_id))).first()
    if row is None:
        raise RunNotFound(f"run {run_id}")
    return row


async def move_run(tx: Tx, run_id: int, event: Literal["start", "submit", "wait", "resume"]) -> bool:
    """Take a run from one live state to the next (A1); answers whether it was in a state to be taken there."""
    moved = (
        update(_runs)
        .where(_runs.c.id == run_id, _runs.c.status.in_(RUN.sources(event)))
        .values(status=RUN.target(event), started_at_ms=func.coalesce(_runs.c.started_at_ms, tx.now))
        .returning(_runs.c.id)
    )
    return (await tx.execute(moved)).first() is not None


async def finish_run(
    tx: Tx,
    run_id: int,
    event: Literal["finish", "fail", "cancel"],
    *,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> bool:
    """End a run unless it has ended already, and let its webhook be told of it (A9); answers whether this did it.

    A resumed run ends after `external.finish_batch` in the same transaction, which is its fence (A4).
    """
    ended = (
        update(_runs)
        .where(_runs.c.id == run_id, _runs.c.status.in_(RUN.sources(event)))
        .values(status=RUN.target(event), finished_at_ms=tx.now, result=result, error=error)
        .returning(_runs.c.id)
    )
    if (await tx.execute(ended)).first() is None:
        return False
    await webhooks.order_delivery(tx, run_id)
    return True


async def cancel_run(tx: Tx, run_id: int) -> RunState:
    """Stop a run (A7): it is cancelled now; its pending jobs end, its running ones are asked to stop.

    Answers the state it is in afterwards, which is an earlier end if it had one. Raises `RunNotFound`.
    """
    for kind, job_id in await _live_jobs(tx, run_id):
        await jobs.request_cancel(tx, kind, job_id)
    await external.close_batches(tx, run_id)
    asked = update(_runs).where(_runs.c.id == run_id, _runs.c.status.in_(RUN.live)).values(cancel_requested_at=tx.now)
    await tx.execute(asked)
    if await finish_run(tx, run_id, "cancel"):
        await append_event(tx, run_id, "run.cancelled", {})
    return (await get_run(tx, run_id)).status  # type: ignore[no-any-return]  # rows are untyped; the CHECK holds the states


async def force_cancel_run(tx: Tx, run_id: int) -> RunState:
    """Stop a run without anybody's help (A7): its running jobs end now too, and whoever works on them finds no lease.

    For a worker that does not hear of a stop any more. Answers the state afterwards; raises `RunNotFound`.
    """
    for kind, job_id in await _live_jobs(tx, run_id):
        table = schema.metadata.tables[kind]
        ended = (
            update(table)
            .where(table.c.id == job_id, table.c.status.in_(JOB.sources("cancel")))
            .values(
                status=JOB.target("cancel"),
                cancel_requested_at=func.coalesce(table.c.cancel_requested_at, tx.now),
                finished_at_ms=tx.now,
                lease_expires_at=None,
                error=jobs.CANCELLED,
                error_code=jobs.CANCELLED["code"],
            )
            .returning(table.c.attempt)
        )
        row = (await tx.execute(ended)).first()
        if row is not None:
            await external.write_task_result(tx, kind, job_id, JOB.target("cancel"), jobs.CANCELLED)
            await renders.cancel_requests_of_job(tx, kind, job_id, attempt_max=row.attempt)
    return await cancel_run(tx, run_id)


async def _live_jobs(tx: Tx, run_id: int) -> list[tuple[str, int]]:
    """The jobs of the run's deferred calls that have not ended: (kind, id), kind by kind."""
    found = []
    for kind in jobs.SUBJECTS:
        table = schema.metadata.tables[kind]
        live = select(table.c.id).where(table.c.run_id == run_id, schema.live(table)).order_by(table.c.id)
        found += [(kind, job_id) for job_id in (await tx.execute(live)).scalars()]
    return found
