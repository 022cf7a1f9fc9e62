"""AgentRuns: the way in. One step's calls become a run, its jobs and its external tasks in one transaction (A2, A9).

Owns no run: runs are rows. Hears `StartApiRun` and `CancelRun`; tells the job queue that there is work, or that a
running job was asked to stop. Survives everything, because what it answered is committed: the same idempotency key
answers the same run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pykka

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.tools import (
    ApplyPageEditsCall,
    CreateProjectPageCall,
    derive_page_code,
    refuse_step,
    request_digest,
)
from pagegate.actors.kernel import Actor, Asks
from pagegate.actors.queues.queue import CancelHint, JobsSubmitted
from pagegate.storage import jobs, pages, runs
from pagegate.storage.engine import Database, Tx
from pagegate.storage.projects import find_project
from pagegate.storage.runs import CallSubmission, StepSubmission
from pagegate.storage.transitions import RunState

ToolCall = CreateProjectPageCall | ApplyPageEditsCall


@dataclass(frozen=True)
class RunLimits:
    """Q9: counts, bytes, seconds. A job that has not ended within its deadline is not tried again."""

    active_jobs_max: int = 16
    batch_size_max: int = 16
    source_bytes_max: int = 1024 * 1024
    job_deadline_s: float = 1800.0


@dataclass(frozen=True)
class RunStarted:
    run_id: int
    created: bool


@dataclass(frozen=True)
class StartApiRun(Asks[RunStarted]):
    """Accept a step of an agent of its own (`source=api`). Whether the user may write there is checked at the door.

    Raises `ToolCallsRefused`, `runs.BatchTooLarge`, `runs.JobQueueFull`, `runs.IdempotencyKeyReused`; then nothing was
    written.
    """

    user_id: int
    project_id: int
    calls: tuple[ToolCall, ...]
    idempotency_key: str | None = None
    skip_visual_verification: bool = False


@dataclass(frozen=True)
class CancelRun(Asks[RunState]):
    """Stop a run (A7); answers the state it is in afterwards. Raises `runs.RunNotFound`."""

    run_id: int
    user_id: int


class AgentRuns(Actor):
    def __init__(self, db: Database, queue: pykka.ActorRef[Any], feed: RunFeed, limits: RunLimits) -> None:
        super().__init__()
        self._db, self._queue, self._feed, self._limits = db, queue, feed, limits

    async def on_receive(self, message: Any) -> Any:
        match message:
            case StartApiRun():
                return await self._start(message)
            case CancelRun(run_id, _):
                return await self._cancel(run_id)
            case _:
                return await super().on_receive(message)

    async def _start(self, asked: StartApiRun) -> RunStarted:
        limits = self._limits
        refuse_step(asked.calls, batch_size_max=limits.batch_size_max, source_bytes_max=limits.source_bytes_max)
        async with self._db.write() as tx:
            project = await find_project(tx, asked.project_id)
            assert project is not None, "the door has looked the project up"
            submitted = await runs.submit_step(
                tx,
                StepSubmission(
                    workspace_id=project.workspace_id,
                    project_id=project.id,
                    user_id=asked.user_id,
                    calls=await _submissions(tx, project.id, asked.calls),
                    idempotency_key=asked.idempotency_key,
                    request_digest=request_digest(project.id, asked.calls, asked.skip_visual_verification),
                    skip_visual_verification=asked.skip_visual_verification,
                    job_deadline_ms=int(limits.job_deadline_s * 1000),
                    active_jobs_max=limits.active_jobs_max,
                    batch_size_max=limits.batch_size_max,
                ),
            )
        self._queue.tell(JobsSubmitted())
        self._feed.publish(submitted.run_id)
        return RunStarted(submitted.run_id, submitted.created)

    async def _cancel(self, run_id: int) -> RunState:
        async with self._db.write() as tx:
            state = await runs.cancel_run(tx, run_id)
            calls = await runs.list_tool_calls(tx, run_id)
        for call in calls:
            if call.job_id is not None and call.status == "pending":
                self._queue.tell(CancelHint(call.job_id))
        self._feed.publish(run_id)
        return state


async def _submissions(tx: Tx, project_id: int, calls: Sequence[ToolCall]) -> list[CallSubmission]:
    """Each call with the page it is about; a new page gets its code here and keeps it (S4)."""
    taken = await pages.list_codes(tx, project_id) | await jobs.list_candidate_codes(tx, project_id)
    # A code that a call names outright is not for another call of the step to derive.
    taken |= {call.arguments.code for call in calls if isinstance(call, CreateProjectPageCall) and call.arguments.code}
    submissions = []
    for call in calls:
        candidate = None
        if isinstance(call, CreateProjectPageCall):
            candidate = call.arguments.code or derive_page_code(call.arguments.title, taken.__contains__)
            taken.add(candidate)
        submissions.append(
            CallSubmission(
                call_id=call.call_id,
                tool_name=call.tool,
                arguments=call.arguments.model_dump(mode="json"),
                page_code=candidate or call.arguments.page,  # type: ignore[union-attr]  # no candidate: an edit
                candidate_code=candidate,
            )
        )
    return submissions
