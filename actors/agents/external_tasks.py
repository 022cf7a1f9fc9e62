"""ExternalTasks, the ai-external-task-coordinator: it alone resumes runs that wait for jobs, each batch once (A3-A5).

Owns nothing but the batches in hand. Hears `BatchesMayBeReady` (a hint), `StopResume`, `StopResuming` and its timers. A
ready batch is claimed by compare-and-swap. For `source=api` the resume is the fenced final write of the run and its
event, without a model; for the built-in agent it is a turn of `execution.py` beside the mailbox, under the batch's
lease, and only so many at once: a batch that nobody has hands for stays ready, for another replica too.

Survives a crash or a kill: the claim's lease runs out and any coordinator claims the batch again, one generation later;
what a stale one still writes finds no row. A stop in order gives the batches back.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from pagegate.actors.agents.execution import Execution
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.kernel import Actor, Asks, ChildEnded
from pagegate.storage import external, interrupted_runs, runs, sessions
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.external import ClaimedBatch, ExternalResult
from pagegate.storage.lease import LeaseLost
from pagegate.storage.sessions import Turn

log = structlog.get_logger()

_UNREADABLE = {
    "code": "AI_HISTORY_UNREADABLE",
    "message": "What the run was asked for is gone.",
    "hint": "Begin a new session.",
}


@dataclass(frozen=True)
class BatchesMayBeReady:
    """A job ended: do not wait for the next poll. Losing it costs one poll interval."""


@dataclass(frozen=True)
class StopResume:
    """The run is over, or should be: stop its resume. A hint; the batch's row says so anyway."""

    run_id: int


@dataclass(frozen=True)
class StopResuming(Asks[None]):
    """Give back what is resumed with a model, and take no more of it: the process is going to stop (A7)."""


@dataclass(frozen=True)
class _Resumed:
    run_id: int
    ended: ChildEnded[None]


@dataclass(frozen=True)
class _Poll:
    pass


@dataclass(frozen=True)
class _Reconcile:
    pass


def summary_of(results: list[ExternalResult]) -> dict[str, Any]:
    """The result of an api run: its calls' ends, in order, and whether all of them are saved. Pure."""
    ends = [{"call_id": result.call_id, "state": result.state} for result in results]
    return {"calls": ends, "all_saved": all(result.state == "succeeded" for result in results)}


class ExternalTasks(Actor):
    """`owner` names this process; `poll_s`, `reconcile_s` and `lease_s` are seconds.

    `execution` None: only runs without a model are resumed here. `resumes_max`: those with one, at once.
    """

    def __init__(
        self,
        db: Database,
        owner: str,
        feed: RunFeed,
        execution: Execution | None = None,
        *,
        resumes_max: int = 4,
        lease_s: float = 60.0,
        poll_s: float = 1.0,
        reconcile_s: float = 60.0,
    ) -> None:
        super().__init__()
        self._db, self._owner, self._feed, self._execution = db, owner, feed, execution
        self._resumes_max, self._lease_ms = resumes_max if execution is not None else 0, int(lease_s * 1000)
        self._poll_s, self._reconcile_s = poll_s, reconcile_s
        self._resuming: dict[int, asyncio.Task[Any]] = {}

    async def setup(self) -> None:
        self.every(self._poll_s, _Poll())
        self.every(self._reconcile_s, _Reconcile())
        self.actor_ref.tell(_Reconcile())

    async def teardown(self) -> None:
        await self._give_back()

    async def on_receive(self, message: Any) -> Any:
        match message:
            case BatchesMayBeReady() | _Poll():
                await self._resume_all()
            case _Resumed(run_id, _):
                self._resuming.pop(run_id, None)
                await self._resume_all()
            case StopResume(run_id):
                if run_id in self._resuming:
                    self._resuming[run_id].cancel()
            case StopResuming():
                await self._give_back()
            case _Reconcile():
                await self._reconcile()
            case _:
                return await super().on_receive(message)

    async def _resume_all(self) -> None:
        try:
            while (claimed := await self._claim()) is not None:
                batch, turn = claimed
                if turn is not None:
                    self._resume_with_model(batch, turn)
                elif batch.source == "api":
                    await self._resume(batch)
        except DatabaseUnavailable as error:
            log.warning("external.resume_failed", reason=str(error))

    async def _claim(self) -> tuple[ClaimedBatch, Turn | None] | None:
        """The next batch, with the turn of its run if a model is to be asked. One whose run is over is closed here."""
        sources = ["api", "agent"] if len(self._resuming) < self._resumes_max else ["api"]
        async with self._db.write() as tx:
            batch = await external.claim_ready_batch(tx, f"{self._owner}:external", self._lease_ms, sources)
            if batch is None:
                return None
            if batch.source == "api":
                return batch, None
            turn = await sessions.begin_resumed_turn(tx, batch.run_id, self._owner, batch.lease)
            if turn is None:
                await external.finish_batch(tx, batch.lease)
                await interrupted_runs.end_run(tx, batch.run_id, _UNREADABLE)
            return batch, turn

    def _resume_with_model(self, batch: ClaimedBatch, turn: Turn) -> None:
        assert self._execution is not None, "agent batches are claimed only where they can be resumed"
        log.info("external.resuming", run_id=batch.run_id, generation=batch.lease.fence)
        work = self._execution.resume(batch, turn)
        self._resuming[batch.run_id] = self.spawn(work, then=partial(_Resumed, batch.run_id))

    async def _give_back(self) -> None:
        """Every resume with a model ends and releases its batch; those without one go on until the actor stops."""
        self._resumes_max = 0
        tasks = list(self._resuming.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _resume(self, batch: ClaimedBatch) -> None:
        try:
            async with self._db.write() as tx:
                await external.finish_batch(tx, batch.lease)  # the fence comes first (Q3)
                result = summary_of(await external.list_results(tx, batch.batch_id))
                if await runs.finish_run(tx, batch.run_id, "finish", result=result):
                    await runs.append_event(tx, batch.run_id, "run.finished", result)
        except LeaseLost:
            log.warning("external.lease_lost", run_id=batch.run_id)
            return
        log.info("external.resumed", run_id=batch.run_id, generation=batch.lease.fence)
        self._feed.publish(batch.run_id)

    async def _reconcile(self) -> None:
        """After a crash only; a transaction that makes a job terminal also writes its task (A5)."""
        try:
            async with self._db.write() as tx:
                repaired = await external.synchronize_external_task_states(tx)
        except DatabaseUnavailable as error:
            log.warning("external.reconcile_failed", reason=str(error))
            return
        if repaired:
            log.warning("external.reconciled", rows=repaired)
        await self._resume_all()
