"""How a step is submitted: calls, batch, jobs, external tasks and event come into being together or not at all.

Owns the statements that bring them into being, whoever sends the step: an agent over HTTP or MCP (A9), or the built-in
one (A1, A2). Survives the same request sent twice, also at the same moment: the idempotency key is unique for its user.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Row, select, update
from sqlalchemy.dialects import postgresql, sqlite

from pagegate.storage import external, hints, jobs, schema
from pagegate.storage.engine import Tx
from pagegate.storage.run_events import RunNotFound, append_event
from pagegate.storage.transitions import EXTERNAL_TASK

_runs = schema.ai_agent_runs
_calls = schema.ai_agent_tool_calls
_tasks = schema.ai_agent_external_tasks

SUBMIT = "page_mutation.submit"  # what is serialised: the count of live jobs, and the jobs that it lets in (Q9)


class IdempotencyKeyReused(Exception):
    """The key belongs to a run that was asked for with other content (A9)."""


class BatchTooLarge(Exception):
    """More calls in one step than AI_PAGE_MUTATION_MAX_BATCH_SIZE; the whole batch is refused (Q9)."""


class JobQueueFull(Exception):
    """More live jobs of a kind than it may have, AI_PAGE_MUTATION_MAX_ACTIVE_JOBS and its like; all is refused (Q9)."""

    def __init__(self, message: str, kind: str = jobs.PAGE_MUTATION) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def code(self) -> str:
        """`AI_PAGE_MUTATION_ACTIVE_JOBS_LIMIT` and its like, by the kind."""
        return f"{self.kind.removesuffix('_jobs').upper()}_ACTIVE_JOBS_LIMIT"


@dataclass(frozen=True)
class CallSubmission:
    """One tool call of a step, for a job of `kind`. `subject`: what it is about (`jobs.SUBJECTS`), like a page's code.

    `candidate_code`: the code of a page to be made (S4). With `refused` set (what the agent is told), the call is
    answered at the door and gets no job.
    """

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    subject: str = ""
    candidate_code: str | None = None
    refused: Mapping[str, Any] | None = None
    kind: str = jobs.PAGE_MUTATION


@dataclass(frozen=True)
class StepSubmission:
    """The deferred calls of one model step, or one request of an agent over HTTP or MCP (A2, A9).

    `run_id` None makes a new run. `job_deadline_ms` counts from now. Limits are of Q9.
    """

    workspace_id: int
    project_id: int
    user_id: int
    calls: Sequence[CallSubmission]
    source: Literal["api", "agent"] = "api"
    run_id: int | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    skip_visual_verification: bool = False
    priority: int = 0
    job_deadline_ms: int | None = None
    active_jobs_max: int = 64
    active_jobs_max_of: Mapping[str, int] = field(default_factory=dict)  # kinds with another limit
    batch_size_max: int = 16

    def live_max(self, kind: str) -> int:
        return self.active_jobs_max_of.get(kind, self.active_jobs_max)


@dataclass(frozen=True)
class Submitted:
    """What came of a submission. `created` is False when the idempotency key answered with an earlier run."""

    run_id: int
    created: bool
    job_ids: Sequence[int] = field(default=())


async def submit_step(tx: Tx, step: StepSubmission) -> Submitted:
    """Bring a step into being: run (unless given), calls, batch, jobs, external tasks, event; all or nothing.

    Raises `BatchTooLarge`, `JobQueueFull` (nothing was written: let the transaction roll back), `IdempotencyKeyReused`,
    `RunNotFound` for a `run_id` that may not submit (unknown, or over). A key that was seen before, with the same
    `request_digest`, answers the run it made, whatever the limits say now.
    """
    known = await _find_earlier(tx, step)
    if known is not None:
        return known
    if len(step.calls) > step.batch_size_max:
        raise BatchTooLarge(f"{len(step.calls)} calls in one step; at most {step.batch_size_max} are taken")
    await tx.serialize(SUBMIT)
    wanted = Counter(call.kind for call in step.calls if call.refused is None)
    for kind, count in wanted.items():
        active = await jobs.count_active(tx, kind)
        if active + count > step.live_max(kind):
            raise JobQueueFull(f"{active} jobs are live; {count} more would be over {step.live_max(kind)}", kind)
    run_id = step.run_id or await insert_run(
        tx,
        workspace_id=step.workspace_id,
        project_id=step.project_id,
        user_id=step.user_id,
        source=step.source,
        idempotency_key=step.idempotency_key,
        request_digest=step.request_digest,
        skip_visual_verification=step.skip_visual_verification,
    )
    if run_id is None:  # the same key, at the same moment, through another door
        return await _earlier(tx, step)
    run_step = await _advance(tx, run_id)
    of_step = {"run_id": run_id, "run_step": run_step, "created_at_ms": tx.now}
    batch_id = await tx.insert(schema.ai_page_mutation_batches, **of_step, size=len(step.calls))
    external_id = await tx.insert(schema.ai_agent_external_batches, **of_step)
    job_ids: list[int] = []
    told: list[dict[str, Any]] = []
    for position, call in enumerate(step.calls):
        place = _Place(run_id, run_step, position, batch_id, external_id)
        job_id = await _insert_call(tx, step, call, place)
        about = {jobs.SUBJECTS[call.kind]: call.subject}
        told.append({"call_id": call.call_id, "tool_name": call.tool_name, **about, "job_id": job_id})
        if job_id is not None:
            job_ids.append(job_id)
    await append_event(tx, run_id, "run.submitted", {"source": step.source, "run_step": run_step, "calls": told})
    for kind in wanted:
        await hints.send(tx, hints.jobs_of(kind))
    if not job_ids:
        await external.settle_batch(tx, external_id)
    return Submitted(run_id, created=True, job_ids=job_ids)


async def find_run_by_key(tx: Tx, user_id: int, idempotency_key: str) -> Row[Any] | None:
    """The run that this user's key made, if any (A9)."""
    found = select(_runs).where(_runs.c.user_id == user_id, _runs.c.idempotency_key == idempotency_key)
    return (await tx.execute(found)).first()


async def _find_earlier(tx: Tx, step: StepSubmission) -> Submitted | None:
    if step.idempotency_key is None or step.run_id is not None:
        return None
    run = await find_run_by_key(tx, step.user_id, step.idempotency_key)
    if run is None:
        return None
    if run.request_digest != step.request_digest:
        raise IdempotencyKeyReused(f"the key has already made run {run.id} from another request")
    return Submitted(run.id, created=False)


async def _earlier(tx: Tx, step: StepSubmission) -> Submitted:
    earlier = await _find_earlier(tx, step)
    assert earlier is not None, "a run conflicted with a key that no run has"
    return earlier


async def insert_run(tx: Tx, **values: Any) -> int | None:
    """A new run, or None when its idempotency key is taken; waits for a transaction that is just taking it."""
    insert = postgresql.insert if tx.dialect == "postgresql" else sqlite.insert
    made = (
        insert(_runs)
        .values(**values, created_at_ms=tx.now)
        .on_conflict_do_nothing(index_elements=["user_id", "idempotency_key"])
        .returning(_runs.c.id)
    )
    return (await tx.execute(made)).scalar()


async def _advance(tx: Tx, run_id: int) -> int:
    """Take the run to its next step, waiting for external tasks (A1)."""
    advanced = (
        update(_runs)
        .where(_runs.c.id == run_id, _runs.c.status.in_(("queued", "running")))
        .values(status="waiting_external", run_step=_runs.c.run_step + 1)
        .returning(_runs.c.run_step)
    )
    run_step = (await tx.execute(advanced)).scalar()
    if run_step is None:
        raise RunNotFound(f"run {run_id} takes no more calls")
    return int(run_step)


@dataclass(frozen=True)
class _Place:
    """Where a call stands: its run and step, its position in the step, and the step's two batches."""

    run_id: int
    run_step: int
    position: int
    batch_id: int
    external_id: int


async def _insert_call(tx: Tx, step: StepSubmission, call: CallSubmission, place: _Place) -> int | None:
    """One call with its job, if it gets one, and its external task; answers the job's id."""
    refused = call.refused is not None
    state = EXTERNAL_TASK.target("refuse") if refused else EXTERNAL_TASK.initial
    tool_call_id = await tx.insert(
        _calls,
        run_id=place.run_id,
        run_step=place.run_step,
        position=place.position,
        call_id=call.call_id,
        tool_name=call.tool_name,
        arguments=call.arguments,
        status=state,
        created_at_ms=tx.now,
    )
    job_id = None if refused else await _insert_job(tx, step, call, place, tool_call_id)
    await tx.insert(
        _tasks,
        batch_id=place.external_id,
        tool_call_id=tool_call_id,
        job_kind=None if refused else call.kind,
        job_id=job_id,
        state=state,
        result=call.refused,
        created_at_ms=tx.now,
        finished_at_ms=tx.now if refused else None,
    )
    return job_id


async def _insert_job(tx: Tx, step: StepSubmission, call: CallSubmission, place: _Place, tool_call_id: int) -> int:
    table = schema.metadata.tables[call.kind]
    of_kind = {
        jobs.SUBJECTS[call.kind]: call.subject,
        "candidate_code": call.candidate_code,
        "batch_id": place.batch_id,
        "position": place.position,
    }
    return await tx.insert(
        table,
        workspace_id=step.workspace_id,
        project_id=step.project_id,
        user_id=step.user_id,
        run_id=place.run_id,
        priority=step.priority,
        tool_call_id=tool_call_id,
        available_at=tx.now,
        deadline_at=None if step.job_deadline_ms is None else tx.now + step.job_deadline_ms,
        created_at_ms=tx.now,
        **{name: value for name, value in of_kind.items() if name in table.c},
    )
