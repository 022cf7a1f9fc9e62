"""AgentRuns: the way in. One step's calls become a run, its jobs and its external tasks in one transaction (A2, A9).

Owns no run: runs are rows. Hears `StartApiRun`, `StartAgentRun`, `RetryRun`, `CancelRun`; tells the job queue that
there is work, or that a running job was asked to stop, and those who execute runs which to begin and which to let go.
Survives everything, because what it answered is committed: the same idempotency key answers the same run.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pykka

from pagegate.actors.agents.background import ExecuteRun, StopRun
from pagegate.actors.agents.execution import summary_of_calls
from pagegate.actors.agents.external_tasks import StopResume
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.history import prompt_message
from pagegate.actors.agents.limits import RunLimits
from pagegate.actors.agents.submissions import prepare_calls
from pagegate.actors.agents.tools import AnyToolCall, refuse_step, request_digest
from pagegate.actors.kernel import Actor, Asks
from pagegate.actors.queues.queue import CancelHint, JobsSubmitted
from pagegate.storage import runs, sessions
from pagegate.storage.engine import Database
from pagegate.storage.projects import find_project
from pagegate.storage.runs import StepSubmission
from pagegate.storage.sessions import AgentRun
from pagegate.storage.transitions import RUN, RunState

__all__ = ["AgentRuns", "CancelRun", "RetryRun", "RunLimits", "RunStarted", "StartAgentRun", "StartApiRun"]

_NOTE = "\n\n(An earlier attempt at this was cut short: "


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
    calls: tuple[AnyToolCall, ...]
    idempotency_key: str | None = None
    skip_visual_verification: bool = False


@dataclass(frozen=True)
class StartAgentRun(Asks[RunStarted]):
    """Let the built-in agent work on a prompt (A7), in a new session or in an existing one, whose history it inherits.

    `model` is `{"kind": "scripted"}` or names a credential of the user. `focus` None inherits the session's. Raises
    `sessions.SessionNotFound`, `sessions.SessionBusy`, `runs.IdempotencyKeyReused`, `AgentUnavailable`.
    """

    user_id: int
    project_id: int
    prompt: str
    model: Mapping[str, Any]
    session_id: int | None = None
    focus: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    skip_visual_verification: bool = False


@dataclass(frozen=True)
class RetryRun(Asks[RunStarted]):
    """Try an ended run of the built-in agent again, in its session (A7).

    Raises `RunNotEnded`, `RunNotRetryable`, and `AlreadyWrote` unless `written_seen`: who retries is told first what
    the last round had written.
    """

    user_id: int
    run_id: int
    written_seen: bool = False
    model: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CancelRun(Asks[RunState]):
    """Stop a run (A7); answers the state it is in afterwards. Raises `runs.RunNotFound`.

    `force`: its running jobs end at once, whether their workers hear of it or not.
    """

    run_id: int
    user_id: int
    force: bool = False


class AgentUnavailable(Exception):
    """AI_AGENT_UNAVAILABLE: this process executes no runs, or is about to stop."""


class RunNotEnded(Exception):
    """AI_RUN_NOT_ENDED: only a run that is over can be retried."""


class RunNotRetryable(Exception):
    """AI_RUN_NOT_RETRYABLE: an outside agent's run; its agent submits again."""


class AlreadyWrote(Exception):
    """AI_RUN_ALREADY_WROTE: the run had saved pages, components or pictures before it ended."""


class AgentRuns(Actor):
    """`queues` by kind. `background` executes runs of the built-in agent for the process `owner`, `external` resumes
    them."""

    def __init__(
        self,
        db: Database,
        queues: Mapping[str, pykka.ActorRef[Any]],
        feed: RunFeed,
        limits: RunLimits,
        *,
        owner: str = "",
        background: pykka.ActorRef[Any] | None = None,
        external: pykka.ActorRef[Any] | None = None,
    ) -> None:
        super().__init__()
        self._db, self._queues, self._feed, self._limits = db, queues, feed, limits
        self._owner, self._background, self._external = owner, background, external

    async def on_receive(self, message: Any) -> Any:
        match message:
            case StartApiRun():
                return await self._start(message)
            case StartAgentRun():
                return await self._start_agent(message)
            case RetryRun():
                return await self._retry(message)
            case CancelRun():
                return await self._cancel(message)
            case _:
                return await super().on_receive(message)

    async def _start(self, asked: StartApiRun) -> RunStarted:
        limits = self._limits
        refuse_step(asked.calls, batch_size_max=limits.batch_size_max, source_bytes_max=limits.source_bytes_max)
        async with self._db.write() as tx:
            project = await find_project(tx, asked.project_id)
            assert project is not None, "the door has looked the project up"
            calls = await prepare_calls(tx, project.id, asked.calls)
            submitted = await runs.submit_step(
                tx,
                StepSubmission(
                    workspace_id=project.workspace_id,
                    project_id=project.id,
                    user_id=asked.user_id,
                    calls=calls,
                    idempotency_key=asked.idempotency_key,
                    request_digest=request_digest(project.id, asked.calls, asked.skip_visual_verification),
                    skip_visual_verification=asked.skip_visual_verification,
                    job_deadline_ms=int(limits.job_deadline_s * 1000),
                    active_jobs_max=limits.active_jobs_max,
                    active_jobs_max_of=limits.active_jobs_max_of,
                    batch_size_max=limits.batch_size_max,
                ),
            )
        for kind in {call.kind for call in calls}:
            self._queues[kind].tell(JobsSubmitted())
        self._feed.publish(submitted.run_id)
        return RunStarted(submitted.run_id, submitted.created)

    async def _start_agent(self, asked: StartAgentRun, retry_of: int | None = None) -> RunStarted:
        background = self._background
        if background is None or not background.is_alive():
            raise AgentUnavailable("This server executes no runs of its own just now.")
        async with self._db.write() as tx:
            project = await find_project(tx, asked.project_id)
            assert project is not None, "the door has looked the project up"
            started = await sessions.start_agent_run(
                tx,
                AgentRun(
                    workspace_id=project.workspace_id,
                    project_id=project.id,
                    user_id=asked.user_id,
                    prompt=asked.prompt,
                    first_message=prompt_message(asked.prompt),
                    model=asked.model,
                    owner=self._owner,
                    session_id=asked.session_id,
                    focus=asked.focus,
                    retry_of=retry_of,
                    idempotency_key=asked.idempotency_key,
                    request_digest=_digest(asked),
                    skip_visual_verification=asked.skip_visual_verification,
                ),
            )
        if started.created:
            background.tell(ExecuteRun(started.run_id))
        self._feed.publish(started.run_id)
        return RunStarted(started.run_id, started.created)

    async def _retry(self, asked: RetryRun) -> RunStarted:
        async with self._db.read() as tx:
            run = await runs.get_run(tx, asked.run_id)
            prompt = await sessions.find_prompt(tx, run.id)
            summary = summary_of_calls(await runs.list_tool_calls(tx, run.id))
        if prompt is None:
            raise RunNotRetryable("The run was an outside agent's; its agent submits again.")
        if run.status not in RUN.terminal:
            raise RunNotEnded(f"The run is {run.status}.")
        written = [(one["page"], one["version"]) for one in summary["pages"]]
        written += [(one["component"], one["version"]) for one in summary["components"]]
        written += [(one["asset"], one["version"]) for one in summary["assets"]]
        said = ", ".join(f"{subject} (version {version})" for subject, version in written)
        if written and not asked.written_seen:
            raise AlreadyWrote(f"The run had saved {said}.")
        words = prompt.prompt.partition(_NOTE)[0]
        if written:
            words += f"{_NOTE}it had saved {said}. Read what is there before you write it again.)"
        again = StartAgentRun(
            user_id=asked.user_id,
            project_id=run.project_id,
            prompt=words,
            model=asked.model or prompt.model,
            session_id=prompt.session_id,
            skip_visual_verification=run.skip_visual_verification,
        )
        return await self._start_agent(again, retry_of=run.id)

    async def _cancel(self, asked: CancelRun) -> RunState:
        run_id = asked.run_id
        async with self._db.write() as tx:
            state = await (runs.force_cancel_run if asked.force else runs.cancel_run)(tx, run_id)
            calls = await runs.list_tool_calls(tx, run_id)
        for actor, stop in ((self._background, StopRun(run_id)), (self._external, StopResume(run_id))):
            if actor is not None and actor.is_alive():
                actor.tell(stop)
        for call in calls:
            if call.job_kind is not None and call.job_id is not None and call.status == "pending":
                self._queues[call.job_kind].tell(CancelHint(call.job_id))
        self._feed.publish(run_id)
        return state


def _digest(asked: StartAgentRun) -> str:
    """What an idempotency key was used for (A9). Hex sha256."""
    said = {
        "project_id": asked.project_id,
        "prompt": asked.prompt,
        "model": dict(asked.model),
        "session_id": asked.session_id,
        "focus": asked.focus,
        "skip_visual_verification": asked.skip_visual_verification,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
