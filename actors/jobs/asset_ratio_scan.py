"""AssetRatioScan: finds the files that nobody has measured yet, and makes jobs for them (V9, K6).

Owns nothing but whether its last look left files behind. Hears its timer, `AssetsChanged` (a file was saved) and
`RatioJobEnded`; tells the lane that there is work. A look makes a bounded number of jobs in one small transaction, and
never more live ones than the lane may have; what is left is looked for again once there is room. Any number of replicas
may look. Survives everything: what waits is told by the rows (`storage/asset_ratios.py`), and each hint may be lost.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from pagegate.actors.kernel import Actor
from pagegate.storage import asset_ratios
from pagegate.storage.asset_ratios import Queued
from pagegate.storage.engine import Database, DatabaseUnavailable

log = structlog.get_logger()

BATCH_JOBS = 32


@dataclass(frozen=True)
class AssetsChanged:
    """A file was saved that has no size yet. Losing it costs one period."""


@dataclass(frozen=True)
class RatioJobEnded:
    """There may be room for another job."""


@dataclass(frozen=True)
class _Look:
    pass


@dataclass(frozen=True)
class ScanLimits:
    """`active_jobs_max` live jobs at once (Q9); `period_s` seconds between two looks; how long a job may take."""

    active_jobs_max: int = 64
    period_s: float = 60.0
    job_deadline_s: float = 1800.0


@dataclass(frozen=True)
class ScanState:
    """`left_behind`: the last look left due files for want of room. `ended`: jobs that ended here since."""

    left_behind: bool = False
    ended: int = 0


def looked(queued: Queued) -> tuple[ScanState, bool]:
    """The state after a look, and whether to look again at once: there was more, and this look found room. Pure."""
    return ScanState(left_behind=queued.more), queued.more and len(queued.job_ids) > 0


def job_ended(state: ScanState, active_jobs_max: int) -> tuple[ScanState, bool]:
    """One job less; whether that makes a look worth it: only for files left behind, a good part of the lane at once."""
    state = replace(state, ended=state.ended + 1)
    return state, state.left_behind and state.ended >= max(1, min(BATCH_JOBS, active_jobs_max) // 2)


class AssetRatioScan(Actor):
    """`wake` tells the lane's queue that there are new jobs."""

    def __init__(self, db: Database, wake: Callable[[], None], limits: ScanLimits) -> None:
        super().__init__()
        self._db, self._wake, self._limits = db, wake, limits
        self._state, self._wanted = ScanState(), False

    async def setup(self) -> None:
        self.every(self._limits.period_s, _Look())
        self._want_look()

    async def on_receive(self, message: Any) -> Any:
        match message:
            case AssetsChanged():
                self._want_look()
            case RatioJobEnded():
                self._state, is_worth_it = job_ended(self._state, self._limits.active_jobs_max)
                if is_worth_it:
                    self._want_look()
            case _Look():
                self._wanted = False
                await self._look()
            case _:
                return await super().on_receive(message)

    def _want_look(self) -> None:
        """Behind all news that is there: many files saved at once are one look."""
        if not self._wanted:
            self._wanted = True
            self.actor_ref.tell(_Look())

    async def _look(self) -> None:
        try:
            async with self._db.read() as tx:
                if not await asset_ratios.is_due(tx):
                    self._state = ScanState()
                    return
            async with self._db.write() as tx:
                queued = await asset_ratios.queue_due(
                    tx,
                    limit=BATCH_JOBS,
                    active_jobs_max=self._limits.active_jobs_max,
                    deadline_ms=int(self._limits.job_deadline_s * 1000),
                )
        except DatabaseUnavailable as error:
            log.warning("asset.ratio.job.scan_failed", reason=str(error))
            return
        if queued.job_ids:
            log.info("asset.ratio.job.queued", jobs=len(queued.job_ids), more=queued.more)
            self._wake()
        self._state, again = looked(queued)
        if again:
            self._want_look()
