"""Pruner: deletes what ended long ago, a few runs at a time (Q11).

Owns the pass that is under way. Hears its timer only. A pass looks at ended runs from the oldest on and deletes those
that may go in small transactions, so a claim never waits for more than one of them. Any number of replicas may prune:
they pass each other by. Survives a kill anywhere: the next pass starts from the oldest again.
"""

from dataclasses import dataclass
from typing import Any

import structlog

from pagegate.actors.kernel import Actor, ChildEnded
from pagegate.storage import lanes, pruning
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.pruning import START, Retention

log = structlog.get_logger()

_PAGE_RUNS = 200  # looked at together, in a transaction that only reads
_BATCH_RUNS = 10  # deleted together; a run may hold sixteen sources of a megabyte
_BATCH_JOBS = 50


@dataclass(frozen=True)
class _Due:
    pass


@dataclass(frozen=True)
class _Pruned:
    ended: ChildEnded[None]


class Pruner(Actor):
    """`period_s` seconds lie between two passes; the first begins at once."""

    def __init__(self, db: Database, retention: Retention, *, period_s: float) -> None:
        super().__init__()
        self._db, self._retention, self._period_s = db, retention, period_s

    async def setup(self) -> None:
        self.actor_ref.tell(_Due())

    async def on_receive(self, message: Any) -> Any:
        match message:
            case _Due():
                # A child, so that a stop does not wait for a pass over an old database.
                self.spawn(self._pass(), then=_Pruned)
            case _Pruned(ended):
                if isinstance(ended.error, DatabaseUnavailable):
                    log.warning("job.prune_failed", reason=str(ended.error))
                elif ended.error is not None:
                    log.error("job.prune_failed", exc_info=ended.error)
                self.after(self._period_s, _Due())
            case _:
                return await super().on_receive(message)

    async def _pass(self) -> None:
        runs = await self._prune_runs()
        loose = 0
        for kind in lanes.kinds():
            loose += await self._prune_loose_jobs(kind)
        if runs or loose:
            log.info("job.pruned", runs=runs, loose_jobs=loose)

    async def _prune_runs(self) -> int:
        gone, after = 0, START
        while True:
            async with self._db.read() as tx:
                page = await pruning.list_prunable_runs(tx, self._retention, after, _PAGE_RUNS)
            for start in range(0, len(page.run_ids), _BATCH_RUNS):
                async with self._db.write() as tx:
                    batch = page.run_ids[start : start + _BATCH_RUNS]
                    gone += await pruning.prune_runs(tx, self._retention, batch)
            if page.after is None:
                return gone
            after = page.after

    async def _prune_loose_jobs(self, kind: str) -> int:
        gone = 0
        while True:
            async with self._db.write() as tx:
                batch = await pruning.prune_loose_jobs(tx, kind, self._retention, _BATCH_JOBS)
            gone += batch
            if batch == 0:
                return gone
