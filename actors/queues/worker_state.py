"""What a JobWorker decides, as a pure function: state and message to state and effects (Q2-Q4, Q10).

Owns the worker's messages, its states and `decide`. The deadline is monotonic and counted from *before* the claim or a
renewal was sent: what the database granted can only end later than that. No clock, no database and no actor here.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import pykka

from pagegate.actors.kernel import Asks, ChildEnded
from pagegate.actors.queues.kinds import TryLater
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.lease import Lease, LeaseLost


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds (Q4). The margin is what stopping the work may take before the lease ends."""

    lease_s: float = 60.0
    heartbeat_s: float = 15.0

    @property
    def margin_s(self) -> float:
        return min(5.0, self.lease_s / 10)

    @property
    def renewal_timeout_s(self) -> float:
        """How long one renewal may take: until the next is due, and not less than a busy database needs."""
        return max(self.heartbeat_s, self.lease_s / 10)


@dataclass(frozen=True)
class RunJob:
    """`sent_s`: the loop's time before the claim was sent."""

    job: ClaimedJob
    sent_s: float
    queue: pykka.ActorRef[Any]


@dataclass(frozen=True)
class CancelJob:
    """A hint; the row has the request, and the next renewal reads it anyway."""

    job_id: int


@dataclass(frozen=True)
class ReleaseJob:
    """The grace time is over: stop, and give the job back under its fence (Q10)."""


@dataclass(frozen=True)
class IsFree(Asks[bool]):
    pass


@dataclass(frozen=True)
class WorkerFree:
    """Told to the queue: `worker` has no job any more."""

    worker: pykka.ActorRef[Any]


@dataclass(frozen=True)
class RenewalDue:
    pass


@dataclass(frozen=True)
class StopDue:
    pass


@dataclass(frozen=True)
class Renewed:
    """`lease`: what was renewed. The answer may come when the worker has long had its next job."""

    lease: Lease
    sent_s: float
    ended: ChildEnded[bool]  # True: a cancel was requested


@dataclass(frozen=True)
class Executed:
    ended: ChildEnded[None]


@dataclass(frozen=True)
class Written:
    ended: ChildEnded[None]


StopReason = Literal["lease_lost", "cancel", "release"]


@dataclass(frozen=True)
class Idle:
    pass


@dataclass(frozen=True)
class Working:
    """`phase`: the kind's work, or the worker's own last write. `stopping`: why the work was told to stop."""

    job: ClaimedJob
    queue: pykka.ActorRef[Any]
    stop_at_s: float
    phase: Literal["execute", "write"] = "execute"
    stopping: StopReason | None = None
    renewing: bool = False


State = Idle | Working


@dataclass(frozen=True)
class Execute:
    job: ClaimedJob


@dataclass(frozen=True)
class Renew:
    job: ClaimedJob
    sent_s: float


@dataclass(frozen=True)
class StopWork:
    """Cancel the running child; its end comes back as a message."""


@dataclass(frozen=True)
class WatchLease:
    """Look again at `at_s`: if no renewal came by then, the work must stop."""

    at_s: float


@dataclass(frozen=True)
class Write:
    """The last fenced write: how the work's exception becomes the job's next state."""

    job: ClaimedJob
    outcome: Literal["cancel", "release", "retry"]
    error: TryLater | None = None


@dataclass(frozen=True)
class Report:
    job: ClaimedJob
    queue: pykka.ActorRef[Any]


Effect = Execute | Renew | StopWork | WatchLease | Write | Report


def decide(state: State, message: Any, now_s: float, times: LeaseTimes) -> tuple[State, list[Effect]]:
    """What a message changes and what is to be done. Pure."""
    match state, message:
        case Idle(), RunJob(job, sent_s, queue):
            stop_at_s = sent_s + times.lease_s - times.margin_s
            return Working(job, queue, stop_at_s), [Execute(job), WatchLease(stop_at_s)]
        case Working(renewing=False), RenewalDue():
            return replace(state, renewing=True), [Renew(state.job, now_s)]
        case Working(), Renewed(lease, sent_s, ended) if lease == state.job.lease:
            return _renewed(replace(state, renewing=False), sent_s, ended, times)
        case Working(), StopDue() if now_s >= state.stop_at_s:
            return _stop(state, "lease_lost")
        case Working(), StopDue():
            return state, [WatchLease(state.stop_at_s)]
        case Working(), CancelJob(job_id) if job_id == state.job.id:
            return _stop(state, "cancel")
        case Working(), ReleaseJob():
            return _stop(state, "release")
        case Working(phase="execute"), Executed(ended):
            return _executed(state, ended)
        case Working(phase="write"), Written():
            return Idle(), [Report(state.job, state.queue)]
    return state, []  # late news about a job that is already over


def _renewed(state: Working, sent_s: float, ended: ChildEnded[bool], times: LeaseTimes) -> tuple[State, list[Effect]]:
    if isinstance(ended.error, LeaseLost):
        return _stop(state, "lease_lost")
    if ended.error is not None:
        return state, []  # the database did not answer: the deadline stands, the next heartbeat tries again
    state = replace(state, stop_at_s=max(state.stop_at_s, sent_s + times.lease_s - times.margin_s))
    return _stop(state, "cancel") if ended.value else (state, [])


def _stop(state: Working, reason: StopReason) -> tuple[State, list[Effect]]:
    if state.stopping == "lease_lost" or (state.stopping is not None and reason != "lease_lost"):
        return state, []
    # A write is short and fenced; only the end of the lease interrupts it.
    effects: list[Effect] = [] if state.phase == "write" and reason != "lease_lost" else [StopWork()]
    return replace(state, stopping=reason), effects


def _executed(state: Working, ended: ChildEnded[None]) -> tuple[State, list[Effect]]:
    error = ended.error
    if error is None or isinstance(error, LeaseLost) or state.stopping == "lease_lost":
        return Idle(), [Report(state.job, state.queue)]
    writing = replace(state, phase="write")
    if state.stopping in {"cancel", "release"}:
        return writing, [Write(state.job, state.stopping)]
    if isinstance(error, TryLater):
        return writing, [Write(state.job, "retry", error)]
    if isinstance(error, DatabaseUnavailable):
        return writing, [Write(state.job, "retry", TryLater("DATABASE_UNAVAILABLE", str(error)))]
    # Not the page's fault and not known to be anybody's: it is counted, so that a bug cannot retry for ever.
    bug = TryLater("JOB_CRASHED", f"the job stopped with an unexpected {type(error).__name__}")
    return writing, [Write(state.job, "retry", bug)]
