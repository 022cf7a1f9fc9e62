"""JobQueue: one per kind of job. It claims for its workers, and sweeps up what others left (Q1-Q3, Q5, Q8, Q10, Q11).

Owns which of its workers are free, and whether it is draining; whether its lane is paused is a row that every claim
asks (`storage/lanes.py`), so a pause holds on all replicas and through restarts; and whose turn it is among the
workspaces that wait, which is one replica's memory (`rotation.py`). Hears `JobsSubmitted` (a hint),
`WorkerFree`, `CancelHint`, `Drain`, and its own timers. Tells workers `RunJob`, `CancelJob`, `ReleaseJob`. It never
claims more jobs than it has free workers. Survives a crash: a new life asks the workers who is free, and a job that was
claimed but never handed over is rescued when its lease has run out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pykka
import structlog

from pagegate.actors.kernel import Actor, Asks, Reply, ask
from pagegate.actors.queues.pulse import Pulse
from pagegate.actors.queues.rotation import Class, Head, Rotation, after, deal, last_served
from pagegate.actors.queues.worker_state import CancelJob, IsFree, LeaseTimes, ReleaseJob, RunJob, WorkerFree
from pagegate.storage import jobs, runs
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx
from pagegate.storage.jobs import ClaimedJob, ExpiredJob
from pagegate.storage.transitions import JOB

log = structlog.get_logger()

_SWEEP_PAGE_ROWS = 100
_IS_FREE_TIMEOUT_S = 0.5
_CLASS: Class = "interactive"  # jobs have no classes: one rotation is for all


@dataclass(frozen=True)
class JobsSubmitted:
    """New jobs are in the table: do not wait for the next poll (Q8). Losing it costs one poll interval."""


@dataclass(frozen=True)
class CancelHint:
    """A cancel was requested for a running job; its worker reads it at the next renewal at the latest."""

    job_id: int


@dataclass(frozen=True)
class Drain(Asks[None]):
    """Stop claiming, let running jobs end within the grace time, give back the rest; answered when done (Q10)."""

    grace_s: float


@dataclass(frozen=True)
class QueueState:
    """`free` and `busy` hold places in the tuple of workers."""

    free: frozenset[int]
    busy: frozenset[int] = frozenset()
    draining: bool = False

    @property
    def may_claim(self) -> bool:
        return bool(self.free) and not self.draining


@dataclass(frozen=True)
class GetQueueState(Asks[QueueState]):
    pass


@dataclass(frozen=True)
class _Claim:
    """Told to itself, behind all news that is there: workers that got free together are filled together."""


@dataclass(frozen=True)
class _Poll:
    pass


@dataclass(frozen=True)
class _Sweep:
    pass


@dataclass(frozen=True)
class _GraceOver:
    pass


def occupied(state: QueueState, *workers: int) -> QueueState:
    return QueueState(state.free.difference(workers), state.busy.union(workers), state.draining)


def freed(state: QueueState, worker: int) -> QueueState:
    return QueueState(state.free | {worker}, state.busy - {worker}, state.draining)


class JobQueue(Actor):
    """`owner` names this process (`hostname:pid:uuid`): a restarted one is another owner and renews nothing of the old.

    `on_rescued` hears the id of each rescued job: a hint, after the commit.
    """

    def __init__(
        self,
        db: Database,
        kind: str,
        owner: str,
        workers: Sequence[pykka.ActorRef[Any]],
        times: LeaseTimes,
        *,
        lease_losses_max: int = 3,
        poll_s: float = 1.0,
        sweep_s: float = 5.0,
        on_rescued: Callable[[int], None] | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        super().__init__()
        self._db, self._kind, self._owner, self._workers, self._times = db, kind, owner, tuple(workers), times
        self._lease_losses_max, self._poll_s, self._sweep_s = lease_losses_max, poll_s, sweep_s
        self._on_rescued, self._pulse = on_rescued, pulse or Pulse()
        self._state = QueueState(free=frozenset())
        self._drained: list[Reply[None]] = []
        self._rotation, self._claim_wanted = Rotation(), False

    async def setup(self) -> None:
        for place, worker in enumerate(self._workers):
            self._state = (freed if await ask(worker, IsFree()) else occupied)(self._state, place)
        self.every(self._poll_s, _Poll())
        self.every(self._sweep_s, _Sweep())
        self.actor_ref.tell(_Sweep())  # what a dead process left may already have expired
        self.actor_ref.tell(_Poll())

    async def on_receive(self, message: Any) -> Any:
        match message:
            case JobsSubmitted() | _Poll():
                self._want_claim()
            case _Claim():
                self._claim_wanted = False
                await self._claim()
            case WorkerFree(worker):
                self._state = freed(self._state, self._workers.index(worker))
                self._answer_drained()
                self._want_claim()
            case CancelHint(job_id):
                for place in self._state.busy:
                    self._workers[place].tell(CancelJob(job_id))
            case _Sweep():
                await self._sweep()
            case Drain(grace_s):
                self._state = replace(self._state, draining=True)
                self._drained.append(self.defer_reply())
                self.after(grace_s, _GraceOver())
                self._answer_drained()
            case _GraceOver():
                for place in self._state.busy:
                    self._workers[place].tell(ReleaseJob())
            case GetQueueState():
                return self._state
            case _:
                return await super().on_receive(message)

    def _answer_drained(self) -> None:
        if self._state.busy:
            return
        for reply in self._drained:
            reply.give(None)
        self._drained.clear()

    def _want_claim(self) -> None:
        if not self._claim_wanted:
            self._claim_wanted = True
            self.actor_ref.tell(_Claim())

    async def _claim(self) -> None:
        """Fill the free workers, lowest place first, until there is nothing to claim."""
        if not self._state.may_claim:
            return
        sent_s = self.now_s()
        try:
            claimed, rotation = await self._claim_in_turns(len(self._state.free))
        except DatabaseUnavailable as error:
            # The claims may have been made: then nobody runs them, and the sweep finds them when their lease is over.
            log.warning("job.claim_failed", kind=self._kind, reason=str(error))
            self._pulse.claimed(self._kind, ok=False)
            return
        self._pulse.claimed(self._kind, ok=True)
        self._rotation = rotation
        places = sorted(self._state.free)[: len(claimed)]
        self._state = occupied(self._state, *places)
        for place, job in zip(places, claimed, strict=True):
            self._workers[place].tell(RunJob(job, sent_s, self.actor_ref))

    async def _claim_in_turns(self, count: int) -> tuple[list[ClaimedJob], Rotation]:
        """Up to `count` jobs, by turns of the workspaces that wait (R3's turns); and the turns after them."""
        if (latest := last_served(self._rotation, _CLASS)) is not None:
            async with self._db.write() as tx:
                claimed = await self._claim_of(tx, latest, count, if_alone=True)
            if claimed:
                return claimed, self._rotation  # the only one that waits is the last one in the turns already
        async with self._db.write() as tx:
            return await self._deal(tx, count)

    async def _deal(self, tx: Tx, count: int) -> tuple[list[ClaimedJob], Rotation]:
        rotation, claimed = self._rotation, list[ClaimedJob]()
        heads = [Head(_CLASS, one.workspace_id, one.job_id) for one in await jobs.list_waiting(tx, self._kind)]
        while heads and len(claimed) < count:
            turns = deal(rotation, heads, count - len(claimed))
            found: dict[int, int] = {}
            for workspace_id in dict.fromkeys(turns):
                share = turns.count(workspace_id)
                got = await self._claim_of(tx, workspace_id, share)
                claimed += got
                found[workspace_id] = len(got)
                if len(got) < share:  # what else it has may not run now
                    heads = [head for head in heads if head.workspace_id != workspace_id]
            rotation = after(rotation, _CLASS, turns, found)
        return claimed, rotation

    async def _claim_of(self, tx: Tx, workspace_id: int, count: int, *, if_alone: bool = False) -> list[ClaimedJob]:
        lease_ttl_ms = int(self._times.lease_s * 1000)
        return await jobs.claim_jobs(
            tx, self._kind, self._owner, lease_ttl_ms, workspace_id=workspace_id, count=count, if_alone=if_alone
        )

    async def _sweep(self) -> None:
        """Rescue every job whose lease has run out, one transaction each: a bad row never hides the next (Q5)."""
        after_id, bad_rows = 0, 0
        try:
            while True:
                async with self._db.read() as tx:
                    page = await jobs.list_expired(tx, self._kind, limit=_SWEEP_PAGE_ROWS, after_id=after_id)
                for expired in page:
                    bad_rows += not await self._rescue(expired, explain=bad_rows == 0)
                if len(page) < _SWEEP_PAGE_ROWS:
                    break
                after_id = page[-1].id
        except DatabaseUnavailable as error:
            log.warning("job.sweep_failed", kind=self._kind, reason=str(error))
        await self._ask_the_busy()
        self._want_claim()

    async def _ask_the_busy(self) -> None:
        """A worker that crashed lives again without a job, and cannot know whom to tell that it is free."""
        for place in self._state.busy:
            try:
                is_free = await ask(self._workers[place], IsFree(), timeout_s=_IS_FREE_TIMEOUT_S)
            except TimeoutError:
                continue  # it waits for its restart
            if is_free:
                self._state = freed(self._state, place)
        self._answer_drained()

    async def _rescue(self, expired: ExpiredJob, *, explain: bool) -> bool:
        """False for a row that no rescue can move; only the first of a sweep is explained, there may be many."""
        try:
            async with self._db.write() as tx:
                state = await jobs.rescue_job(tx, self._kind, expired.id, expired.fence, self._lease_losses_max)
                if state in JOB.terminal:  # no worker is left to tell how it ended
                    job = await jobs.get_job(tx, self._kind, expired.id)
                    end = "cancel" if state == JOB.target("cancel") else "fail"
                    await runs.append_call_event(tx, job.id, job, "tool.ended", {"end": end, "code": job.error_code})
        except DatabaseUnavailable:
            raise
        except Exception as error:
            log.error(  # noqa: TRY400 - with its trace once, not for each row
                "job.rescue_failed",
                kind=self._kind,
                job_id=expired.id,
                reason=type(error).__name__,
                exc_info=error if explain else None,
            )
            return False
        if state is not None:
            log.warning("job.rescued", kind=self._kind, job_id=expired.id, attempt=expired.fence, state=state)
            if self._on_rescued is not None:
                self._on_rescued(expired.id)
        return True
