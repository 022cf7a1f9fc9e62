"""Everything that is known of a run, read in one transaction (A8). Read-only: nothing here changes a row.

Owns the reading for `diagnose_ai_run`: the run, its batches with their leases, its calls with their jobs and whether a
worker holds them, the last progress that was heard of, and the newest events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, select

from pagegate.storage import jobs, run_events, runs, schema, sessions, webhooks
from pagegate.storage.engine import Tx
from pagegate.storage.run_events import RunEvent

_batches = schema.ai_agent_external_batches
_tasks = schema.ai_agent_external_tasks
_calls = schema.ai_agent_tool_calls
_events = schema.ai_agent_run_events

EVENTS_SHOWN = 20


@dataclass(frozen=True)
class BatchState:
    """`lease_valid` None: nobody has to hold it."""

    run_step: int
    state: str
    generation: int
    worker_id: str | None
    lease_expires_at_ms: int | None
    lease_valid: bool | None


@dataclass(frozen=True)
class CallState:
    """One call, its external task and its job. `lease_valid` None: no worker has to hold the job."""

    run_step: int
    call_id: str
    tool_name: str
    task_state: str | None
    result_code: str | None
    job_id: int | None
    job_status: str | None
    page_code: str | None
    component_name: str | None
    asset_name: str | None
    attempt: int | None
    infra_failures: int | None
    lease_losses: int | None
    worker_id: str | None
    lease_expires_at_ms: int | None
    lease_valid: bool | None
    error_code: str | None


@dataclass(frozen=True)
class RunDiagnosis:
    run: Row[Any]
    prompt: Row[Any] | None
    now_ms: int
    batches: Sequence[BatchState]
    calls: Sequence[CallState]
    last_progress: RunEvent | None
    events: Sequence[RunEvent]
    delivery: Row[Any] | None


async def diagnose_ai_run(tx: Tx, run_id: int) -> RunDiagnosis:
    """Raises `RunNotFound`."""
    run = await runs.get_run(tx, run_id)
    now_ms = await tx.now_ms()
    newest = await run_events.list_events(tx, run_id, max(0, run.last_event_index - EVENTS_SHOWN), EVENTS_SHOWN)
    return RunDiagnosis(
        run=run,
        prompt=await sessions.find_prompt(tx, run_id),
        now_ms=now_ms,
        batches=await _read_batches(tx, run_id, now_ms),
        calls=await _read_calls(tx, run_id, now_ms),
        last_progress=await _last_progress(tx, run_id),
        events=newest,
        delivery=await webhooks.find_delivery(tx, run_id),
    )


async def _read_batches(tx: Tx, run_id: int, now_ms: int) -> list[BatchState]:
    found = select(_batches).where(_batches.c.run_id == run_id).order_by(_batches.c.run_step)
    return [
        BatchState(
            row.run_step,
            row.state,
            row.lease_generation,
            row.worker_id,
            row.lease_expires_at,
            row.lease_expires_at > now_ms if row.state == "resuming" else None,
        )
        for row in (await tx.execute(found)).all()
    ]


async def _read_calls(tx: Tx, run_id: int, now_ms: int) -> list[CallState]:
    of_job = ("status", "attempt", "infra_failures", "lease_losses", "worker_id", "lease_expires_at")
    made = jobs.jobs_of_run(run_id, (*of_job, "error_code"))
    found = (
        select(
            *[_calls.c[name] for name in ("run_step", "call_id", "tool_name")],
            _tasks.c.state.label("task_state"),
            _tasks.c.result.label("result"),
            _tasks.c.job_id,
            made.c.kind.label("job_kind"),
            made.c.subject,
            *[made.c[name].label(f"job_{name}") for name in of_job],
            made.c.error_code,
        )
        .outerjoin(_tasks, _tasks.c.tool_call_id == _calls.c.id)
        .outerjoin(made, and_(_tasks.c.job_kind == made.c.kind, _tasks.c.job_id == made.c.id))
        .where(_calls.c.run_id == run_id)
        .order_by(_calls.c.run_step, _calls.c.position)
    )
    states = []
    for row in (await tx.execute(found)).all():
        result = row.result if isinstance(row.result, Mapping) else {}
        held = row.job_lease_expires_at is not None and row.job_lease_expires_at > now_ms
        states.append(
            CallState(
                run_step=row.run_step,
                call_id=row.call_id,
                tool_name=row.tool_name,
                task_state=row.task_state,
                result_code=result.get("code"),
                job_id=row.job_id,
                job_status=row.job_status,
                page_code=row.subject if row.job_kind == jobs.PAGE_MUTATION else None,
                component_name=row.subject if row.job_kind == jobs.COMPONENT_MUTATION else None,
                asset_name=row.subject if row.job_kind == jobs.IMAGE_GENERATION else None,
                attempt=row.job_attempt,
                infra_failures=row.job_infra_failures,
                lease_losses=row.job_lease_losses,
                worker_id=row.job_worker_id,
                lease_expires_at_ms=row.job_lease_expires_at,
                lease_valid=held if row.job_status == "running" else None,
                error_code=row.error_code,
            )
        )
    return states


async def _last_progress(tx: Tx, run_id: int) -> RunEvent | None:
    last = (
        select(_events.c.event_index.label("index"), _events.c.kind, _events.c.data, _events.c.at_ms)
        .where(_events.c.run_id == run_id, _events.c.kind == "tool.progress")
        .order_by(_events.c.event_index.desc())
        .limit(1)
    )
    row = (await tx.execute(last)).mappings().first()
    return None if row is None else RunEvent(**row)
