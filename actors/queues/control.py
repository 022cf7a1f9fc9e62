"""JobControl: what people do to lanes and to single jobs: pause, resume, cancel, retry (Q10, Q11).

Owns nothing: pauses, cancels and retries are rows. Hears `PauseLane`, `ResumeLane`, `CancelOneJob`, `RetryFailedJob`;
whether the asker may is looked at by the door. After each commit it hints: the lane's queue, the coordinator, the run's
streams. Survives everything, because what it answered is committed, and each of its words may be said twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pykka
import structlog

from pagegate.actors.kernel import Actor, Asks
from pagegate.actors.queues.queue import CancelHint, JobsSubmitted
from pagegate.storage import hints, jobs, lanes, retries, runs
from pagegate.storage.engine import Database

log = structlog.get_logger()

CancelAnswer = Literal["cancelled", "requested", "already_terminal"]


@dataclass(frozen=True)
class PauseLane(Asks[None]):
    """No replica claims from the lane any more; running jobs go on."""

    lane: str
    user_id: int


@dataclass(frozen=True)
class ResumeLane(Asks[None]):
    lane: str
    user_id: int


@dataclass(frozen=True)
class CancelOneJob(Asks[CancelAnswer]):
    """A pending job ends now, a running one at its next safe point. Raises `jobs.JobNotFound`."""

    lane: str
    job_id: int
    user_id: int


@dataclass(frozen=True)
class RetryFailedJob(Asks[int]):
    """Answers the new job's id. Raises what `retries.retry_failed_job` raises."""

    lane: str
    job_id: int
    user_id: int


@dataclass(frozen=True)
class RetryLimits:
    """Q9: how many live jobs a lane may have; seconds until the retry is not tried again."""

    active_jobs_max: int = 16
    job_deadline_s: float = 1800.0
    active_jobs_max_of: Mapping[str, int] = field(default_factory=dict)  # lanes with another limit


class JobControl(Actor):
    """`on_news` hears the id of a run that has a new event; `on_end` that a job ended: hints, after the commit."""

    def __init__(
        self,
        db: Database,
        queues: Mapping[str, pykka.ActorRef[Any]],
        limits: RetryLimits,
        *,
        on_news: Callable[[int], None],
        on_end: Callable[[], None],
    ) -> None:
        super().__init__()
        self._db, self._queues, self._limits = db, queues, limits
        self._on_news, self._on_end = on_news, on_end

    async def on_receive(self, message: Any) -> Any:
        match message:
            case PauseLane(lane, user_id):
                async with self._db.write() as tx:
                    await lanes.pause_lane(tx, lane, user_id)
                log.warning("lane.paused", lane=lane, user_id=user_id)
            case ResumeLane(lane, user_id):
                async with self._db.write() as tx:
                    await lanes.resume_lane(tx, lane)
                    await hints.send(tx, hints.jobs_of(lane))
                log.info("lane.resumed", lane=lane, user_id=user_id)
                self._queues[lane].tell(JobsSubmitted())
            case CancelOneJob():
                return await self._cancel(message)
            case RetryFailedJob():
                return await self._retry(message)
            case _:
                return await super().on_receive(message)

    async def _cancel(self, asked: CancelOneJob) -> CancelAnswer:
        async with self._db.write() as tx:
            answer = await jobs.request_cancel(tx, asked.lane, asked.job_id)
            job = await jobs.get_job(tx, asked.lane, asked.job_id)
            if answer == "cancelled":  # a running one's worker tells it when it has ended
                await runs.append_call_event(tx, job.id, job, "tool.ended", {"end": "cancel"})
        log.info("job.cancel_requested", kind=asked.lane, job_id=job.id, user_id=asked.user_id, answer=answer)
        if answer == "requested":
            self._queues[asked.lane].tell(CancelHint(job.id))
        elif answer == "cancelled":
            for lane in (asked.lane, *jobs.waiting_for(asked.lane)):
                self._queues[lane].tell(JobsSubmitted())  # a later call of its step may run now
            self._on_end()
            if job.run_id is not None:
                self._on_news(job.run_id)
        return answer

    async def _retry(self, asked: RetryFailedJob) -> int:
        async with self._db.write() as tx:
            retried = await retries.retry_failed_job(
                tx,
                asked.lane,
                asked.job_id,
                active_jobs_max=self._limits.active_jobs_max_of.get(asked.lane, self._limits.active_jobs_max),
                deadline_ms=int(self._limits.job_deadline_s * 1000),
                user_id=asked.user_id,
            )
        log.info("job.retried", kind=asked.lane, job_id=retried.job_id, retry_of=asked.job_id, user_id=asked.user_id)
        self._queues[asked.lane].tell(JobsSubmitted())
        if retried.run_id is not None:
            self._on_news(retried.run_id)
        return retried.job_id
