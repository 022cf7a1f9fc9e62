"""What every job of a deferred tool call does around its own work: read the call, tell its run, re-check, end (A2, A3).

Owns the refusals that are the call's own fault, the last look before a commit (Q7, A6), and the events of the run. What
a call wants and what it writes is its kind's. Keeps nothing; survives a kill at any await, because what is told is told
in the transaction that it is about, or under the job's fence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.tools import AnyToolCall, parse_tool_call
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.storage import jobs, lease, runs
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.projects import Project, find_project
from pagegate.storage.transitions import RUN
from pagegate.storage.workspaces import is_active_editor

# The run has them; an event is short.
_NOT_IN_EVENTS = {"findings", "timings_ms", "picture_key", "contract", "affected"}


@dataclass(frozen=True)
class Refused:
    """Why a call cannot be done. Nothing of it is saved."""

    code: str
    message: str
    hint: str

    @property
    def error(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "hint": self.hint}

    def end(self, about: Mapping[str, str]) -> End:
        """`about`: what the call is about, as results name it."""
        told = {"status": "refused", "success": False, **about, "summary": self.message}
        return End("fail", result={**told, "code": self.code, "next": self.hint}, error=self.error)


@dataclass(frozen=True)
class StoredCall:
    """A job's call as it was made, with its run and its project as they are now."""

    call_id: str
    call: AnyToolCall
    run: Row[Any]
    project: Project


def about_of(job: ClaimedJob) -> dict[str, str]:
    """What the job is about, under the name that results and events give it."""
    column = jobs.SUBJECTS[job.lease.table]
    return {column: job.row._mapping[column]}


def unreadable(message: str) -> Refused:
    """What the job points at is damaged or gone: it fails alone, at once, and nobody else is held up."""
    return Refused(
        "TOOL_CALL_UNREADABLE",
        message,
        "Submit the call again; if that fails too, report it: the service was changed under a live call.",
    )


async def read_call(tx: Tx, job: ClaimedJob) -> StoredCall | Refused:
    """Read what the job is to carry out."""
    project = await find_project(tx, job.row.project_id)
    try:
        call = await runs.get_call(tx, job.row.tool_call_id)
        run = await runs.get_run(tx, job.row.run_id)
        parsed = parse_tool_call(call.call_id, call.tool_name, call.arguments)
    except ValidationError:
        return unreadable("The stored arguments of this call cannot be read.")
    except LookupError:
        return unreadable("What was stored of this call is gone.")
    if project is None:
        return unreadable("The project of this call is gone.")
    return StoredCall(call.call_id, parsed, run, project)


def ending(job: ClaimedJob, end_or_write: End | Settle) -> Settle:
    """The final transaction, after the fence: re-check (Q7), then write what there is to write."""

    async def settle(tx: Tx) -> End:
        end = await why_stopped(tx, job)
        if end is None:
            end = end_or_write if isinstance(end_or_write, End) else await end_or_write(tx)
        return end

    return settle


async def why_stopped(tx: Tx, job: ClaimedJob) -> End | None:
    """Why nothing may be written any more, whatever the work came to (Q7, A6); before it, why it need not begin."""
    try:
        run = await runs.get_run(tx, job.row.run_id)
    except runs.RunNotFound:
        return unreadable("The run of this call is gone.").end(about_of(job))
    if run.status in RUN.terminal or await jobs.is_cancel_requested(tx, job.lease.table, job.id):
        return End("cancel", error=jobs.CANCELLED)
    if not await is_active_editor(tx, job.row.workspace_id, job.row.user_id):
        gone = Refused(
            "PERMISSION_REVOKED",
            "The user of this run may no longer write in this workspace.",
            "Ask an owner of the workspace for the role of an editor.",
        )
        return gone.end(about_of(job))
    return None


class CallTeller:
    """Tells a job's run what becomes of it. `on_end` is called when an end is durable: a hint to the coordinator."""

    def __init__(self, db: Database, feed: RunFeed, on_end: Callable[[], None]) -> None:
        self._db, self._feed, self._on_end = db, feed, on_end

    async def news(self, tx: Tx, job: ClaimedJob, news: End | TryLater) -> None:
        """An end or a retry, in its transaction."""
        if isinstance(news, TryLater):
            waiting = {"stage": "waiting", "code": news.code, "attempt": job.lease.fence}
            await runs.append_call_event(tx, job.id, job.row, "tool.progress", waiting)
            return
        short = {key: value for key, value in news.result.items() if key not in _NOT_IN_EVENTS}
        await runs.append_call_event(tx, job.id, job.row, "tool.ended", {"end": news.event, **short})

    async def progress(self, job: ClaimedJob, call_id: str, about: Mapping[str, str], stage: str) -> None:
        """A run event under the job's fence: a worker that lost its lease tells nothing (Q3, O3)."""
        data = {"call_id": call_id, **about, "stage": stage, "attempt": job.lease.fence}
        async with self._db.write() as tx:
            await lease.require_held(tx, job.lease)
            await runs.append_event(tx, job.row.run_id, "tool.progress", data)
        self._feed.publish(job.row.run_id)

    def ended(self, job: ClaimedJob) -> None:
        """The end is durable, or no longer ours to write."""
        self._feed.publish(job.row.run_id)
        self._on_end()
