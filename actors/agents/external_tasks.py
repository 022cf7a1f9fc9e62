"""ExternalTasks, the ai-external-task-coordinator: it alone resumes runs that wait for jobs, each batch once (A3-A5).

Owns nothing but the batch in hand. Hears `BatchesMayBeReady` (a hint) and its timer. A ready batch is claimed by
compare-and-swap; for `source=api` the resume is the fenced final write of the run and its event, without a model.
Survives a crash or a kill: the claim's lease runs out and any coordinator claims the batch again, one generation later;
what a stale one still writes finds no row.
"""

from dataclasses import dataclass
from typing import Any

import structlog

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.kernel import Actor
from pagegate.storage import external, runs
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.external import ClaimedBatch, ExternalResult
from pagegate.storage.lease import LeaseLost

log = structlog.get_logger()

_LEASE_MS = 60_000


@dataclass(frozen=True)
class BatchesMayBeReady:
    """A job ended: do not wait for the next poll. Losing it costs one poll interval."""


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
    """`owner` names this process; `poll_s` and `reconcile_s` are seconds."""

    def __init__(
        self, db: Database, owner: str, feed: RunFeed, *, poll_s: float = 1.0, reconcile_s: float = 60.0
    ) -> None:
        super().__init__()
        self._db, self._owner, self._feed = db, owner, feed
        self._poll_s, self._reconcile_s = poll_s, reconcile_s

    async def setup(self) -> None:
        self.every(self._poll_s, _Poll())
        self.every(self._reconcile_s, _Reconcile())
        self.actor_ref.tell(_Reconcile())

    async def on_receive(self, message: Any) -> Any:
        match message:
            case BatchesMayBeReady() | _Poll():
                await self._resume_all()
            case _Reconcile():
                await self._reconcile()
            case _:
                return await super().on_receive(message)

    async def _resume_all(self) -> None:
        try:
            while (batch := await self._claim()) is not None:
                await self._resume(batch)
        except DatabaseUnavailable as error:
            log.warning("external.resume_failed", reason=str(error))

    async def _claim(self) -> ClaimedBatch | None:
        async with self._db.write() as tx:
            return await external.claim_ready_batch(tx, f"{self._owner}:external", _LEASE_MS)

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
