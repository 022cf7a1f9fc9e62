"""A lane to run tests in: a queue with its workers on the test's database, and a kind whose work each test decides."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pykka

from pagegate.actors.kernel import stop
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.pulse import Pulse
from pagegate.actors.queues.queue import JobQueue
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import lanes
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from tests.world import World

TIMES = LeaseTimes(lease_s=60.0, heartbeat_s=0.05)


class Scripted:
    """A kind whose `work` each test sets. `started` and `over` are signals to wait on."""

    name = PAGE_MUTATION

    def __init__(self) -> None:
        self.work: Callable[[ClaimedJob], Awaitable[Settle]] = self.succeed
        self.claims: list[ClaimedJob] = []
        self.over: asyncio.Queue[int] = asyncio.Queue()
        self.started: asyncio.Queue[int] = asyncio.Queue()
        self.told: list[str] = []

    def log_event(self, what: str) -> str:
        return f"scripted.{what}"

    async def execute(self, job: ClaimedJob) -> Settle:
        self.claims.append(job)
        self.started.put_nowait(job.id)
        return await self.work(job)

    async def tell(self, tx: Tx, job: ClaimedJob, news: End | TryLater) -> None:
        self.told.append(news.event if isinstance(news, End) else news.code)

    async def ended(self, job: ClaimedJob) -> None:
        self.over.put_nowait(job.id)

    async def succeed(self, job: ClaimedJob) -> Settle:
        async def settle(tx: Tx) -> End:
            return End("finish", result={"attempt": job.lease.fence})

        return settle

    async def hang(self, job: ClaimedJob) -> Settle:
        await asyncio.Event().wait()
        raise AssertionError

    def raises(self, *errors: BaseException) -> None:
        """The first executions raise these, one each; the next succeeds."""
        left = list(errors)

        async def work(job: ClaimedJob) -> Settle:
            if left:
                raise left.pop(0)
            return await self.succeed(job)

        self.work = work


class Lane:
    """A queue with its workers over the test's database."""

    def __init__(
        self,
        world: World,
        kind: Scripted,
        workers: int = 1,
        times: LeaseTimes = TIMES,
        *,
        db: Database | None = None,
        poll_s: float = 0.05,
        sweep_s: float = 0.05,
    ) -> None:
        self.world, self.kind, self.pulse = world, kind, Pulse()
        through = db or world.db
        writer = LaneWriter(through, kind, times)
        self.workers = [
            JobWorker.start(through, kind, times, 10, pulse=self.pulse, writer=writer) for _ in range(workers)
        ]
        self.queue: pykka.ActorRef[Any] = JobQueue.start(
            through,
            PAGE_MUTATION,
            "host:1:abc",
            self.workers,
            times,
            poll_s=poll_s,
            sweep_s=sweep_s,
            pulse=self.pulse,
        )

    async def stop(self) -> None:
        await stop(self.queue)
        for worker in self.workers:
            await stop(worker)

    async def pause(self) -> None:
        await self.world.write(lanes.pause_lane, PAGE_MUTATION, self.world.user_id)

    async def resume(self) -> None:
        await self.world.write(lanes.resume_lane, PAGE_MUTATION)

    async def is_over(self, job_id: int) -> Any:
        """Wait until the job's worker is done with it; the job's row then."""
        async with asyncio.timeout(10):
            while await self.kind.over.get() != job_id:
                pass
        return await self.world.job(job_id)

    async def has_started(self) -> int:
        async with asyncio.timeout(10):
            return await self.kind.started.get()
