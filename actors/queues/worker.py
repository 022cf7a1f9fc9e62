"""JobWorker: one job at a time, under a lease that it keeps alive (Q2-Q4, Q10).

Owns the running job and its stop deadline. Hears `RunJob`, `CancelJob`, `ReleaseJob`, and from itself how renewals and
the work end; what follows from each is `worker_state.decide`. Tells its queue `WorkerFree`. Everything it writes
carries the job's fence; when the lease is lost it stops the work and writes nothing. Survives a crash because nothing
needs to: the lease runs out and the job is rescued.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from pagegate.actors.kernel import Actor, Backoff, ChildEnded, Timer
from pagegate.actors.queues.kinds import End, JobKind, Settle, StartOver, TryLater
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.pulse import Pulse
from pagegate.actors.queues.worker_state import (
    Effect,
    Execute,
    Executed,
    Idle,
    IsFree,
    LeaseTimes,
    Renew,
    RenewalDue,
    Renewed,
    Report,
    State,
    StopDue,
    StopWork,
    WatchLease,
    WorkerFree,
    Working,
    Write,
    Written,
    decide,
)
from pagegate.storage import jobs
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.lease import LeaseLost

log = structlog.get_logger()

_START_OVERS_MAX = 5
_RETRY = Backoff(first_s=1.0, max_s=60.0)
_FULL_RETRY_S = 2.0
_DATABASE_RETRY_S = 0.5
_NOT_THE_SOURCE = "This says nothing about source or prompt: do not change it for that. Submit the call again later."


class JobWorker(Actor):
    """`writer`: shared by the workers of a lane, so that what they write at once is one transaction.

    `observe` hears of each execution and how many seconds it took, `on_lease_lost` of each lease that was lost with it.
    """

    def __init__(
        self,
        db: Database,
        kind: JobKind,
        times: LeaseTimes,
        infra_failures_max: int,
        observe: Callable[[ClaimedJob, float], None] | None = None,
        pulse: Pulse | None = None,
        writer: LaneWriter | None = None,
        on_lease_lost: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._db, self._kind, self._times, self._infra_failures_max = db, kind, times, infra_failures_max
        self._observe, self._pulse = observe, pulse or Pulse()
        self._on_lease_lost = on_lease_lost
        self._writer = writer or LaneWriter(db, kind, times)
        self._state: State = Idle()
        self._work: asyncio.Task[None] | None = None
        # Armed once and kept through many jobs: a timer for each job would cost as much as deciding about it.
        self._beat: Timer | None = None
        self._watch: Timer | None = None
        self._rnd = random.Random()  # noqa: S311  jitter, not a secret

    async def setup(self) -> None:
        self._pulse.rested(self.actor_urn)  # an earlier life may have crashed with a job

    async def on_receive(self, message: Any) -> Any:
        if isinstance(message, IsFree):
            return isinstance(self._state, Idle)
        if isinstance(message, Executed):
            self._log_execution(message.ended)
        if isinstance(message, Renewed) and isinstance(self._state, Working):
            # A lost lease is an answer of the database too, and no reason to doubt it.
            self._pulse.beat(
                self.actor_urn, ok=message.ended.error is None or isinstance(message.ended.error, LeaseLost)
            )
        if isinstance(message, RenewalDue):
            self._beat = None
            if isinstance(self._state, Working):
                self._await_heartbeat()
        if isinstance(message, StopDue):
            self._watch = None
        self._state, effects = decide(self._state, message, self.now_s(), self._times)
        for effect in effects:
            await self._run(effect)
        return None

    async def _run(self, effect: Effect) -> None:
        match effect:
            case Execute(job):
                self._await_heartbeat()
                self._work = self.spawn(self._execute(job), then=Executed)
            case Renew(job, sent_s):
                self.spawn(self._writer.renew(job), then=lambda ended: Renewed(job.lease, sent_s, ended))
            case StopWork():
                assert self._work is not None
                self._work.cancel()
            case WatchLease(at_s):
                self._watch_lease(at_s)
            case Write():
                self._work = self.spawn(self._write(effect), then=Written)
            case Report(job, queue):
                self._work = None
                self._pulse.rested(self.actor_urn)
                await self._kind.ended(job)
                if queue.is_alive():
                    queue.tell(WorkerFree(self.actor_ref))

    async def _execute(self, job: ClaimedJob) -> None:
        started_s = self.now_s()
        try:
            for _ in range(_START_OVERS_MAX):
                settle = await self._kind.execute(job)
                try:
                    await self._settle(job, settle)
                except StartOver:
                    continue
                return
            raise TryLater("JOB_WORLD_CHANGES", "the job's surroundings changed each time it was about to end")
        finally:
            if self._observe is not None:
                self._observe(job, self.now_s() - started_s)

    def _await_heartbeat(self) -> None:
        """The next one is due when it is for all workers, so that one statement renews all their leases."""
        if self._beat is not None:
            return
        period_s = self._times.heartbeat_s
        left_s = period_s - self.now_s() % period_s
        # A timer may fire a little early; the beat that it stood for is not to come twice.
        self._beat = self.after(left_s if left_s > period_s / 100 else left_s + period_s, RenewalDue())

    def _watch_lease(self, at_s: float) -> None:
        """Look at `at_s`, or earlier: an earlier job's watch fires before this one's, and then looks again."""
        if self._watch is None:
            self._watch = self.after(at_s - self.now_s(), StopDue())

    async def _settle(self, job: ClaimedJob, settle: Settle) -> None:
        await self._insist(lambda: self._writer.settle(job, settle))

    async def _write(self, wanted: Write) -> None:
        async def write(tx: Tx) -> None:
            match wanted.outcome:
                case "cancel":
                    await jobs.finish_job(tx, wanted.job.lease, "cancel")
                    await self._tell(tx, wanted.job, End("cancel", error=jobs.CANCELLED))
                case "release":
                    await jobs.release_job(tx, wanted.job.lease)
                case "retry":
                    assert wanted.error is not None
                    await self._retry(tx, wanted.job, wanted.error)

        try:
            await self._persist(write)
        except LeaseLost:
            log.info("job.lease_lost", kind=self._kind.name, job_id=wanted.job.id)
            self._on_lease_lost()

    async def _retry(self, tx: Tx, job: ClaimedJob, error: TryLater) -> None:
        failures = job.row.infra_failures + error.counts
        delay_s = _RETRY.delay_s(failures, self._rnd) if error.counts else _FULL_RETRY_S
        delay_ms = int(1000 * max(delay_s, error.wait_s))
        said = {"code": error.code, "message": error.message, "hint": error.hint or _NOT_THE_SOURCE}
        too_late = job.row.deadline_at is not None and await tx.now_ms() + delay_ms > job.row.deadline_at
        if failures > self._infra_failures_max or too_late:
            await jobs.finish_job(tx, job.lease, "fail", result=error.result, error=said)
            await self._tell(tx, job, End("fail", result=error.result, error=said))
            return
        await jobs.retry_job(tx, job.lease, delay_ms, counts="infra" if error.counts else "none", error=said)
        await self._tell(tx, job, error)

    async def _tell(self, tx: Tx, job: ClaimedJob, news: End | TryLater) -> None:
        if self._kind.tell is not None:
            await self._kind.tell(tx, job, news)

    async def _persist(self, write: Callable[[Tx], Awaitable[None]]) -> None:
        """One fenced transaction."""

        async def persist() -> None:
            async with self._db.write() as tx:
                await write(tx)

        await self._insist(persist)

    async def _insist(self, write: Callable[[], Awaitable[None]]) -> None:
        """Again and again while the database is away.

        If an answer was lost and the write had been done, the fence of the next try finds nothing and says `LeaseLost`:
        the job is over either way. The lease's deadline ends the trying.
        """
        while True:
            try:
                await write()
                return
            except DatabaseUnavailable:
                await asyncio.sleep(_DATABASE_RETRY_S)

    def _log_execution(self, ended: ChildEnded[None]) -> None:
        if not isinstance(self._state, Working):
            return
        job, error = self._state.job, ended.error
        outcome = "settled" if error is None else self._state.stopping or type(error).__name__
        if self._state.stopping == "lease_lost" or isinstance(error, LeaseLost):
            self._on_lease_lost()
        known = error is None or isinstance(error, TryLater | LeaseLost | asyncio.CancelledError)
        log.info(
            self._kind.log_event("execution_finished"),
            job_id=job.id,
            attempt=job.lease.fence,
            outcome=outcome,
            error_code=error.code if isinstance(error, TryLater) else None,
            exc_info=None if known else error,
        )
