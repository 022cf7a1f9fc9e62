"""The real queue and workers in virtual time: turns of workspaces among jobs (CASE 18).

The kind is played: a job is a pause of seeded length, and then it has ended.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from pagegate.actors.kernel import stop
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.queue import JobQueue, JobsSubmitted
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import jobs, projects, runs, users, workspaces
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.runs import CallSubmission, StepSubmission
from tests.simulation.database import Server, Wire
from tests.simulation.virtual_loop import VirtualLoop, simulate
from tests.simulation.world import workshop

_TIMES = LeaseTimes(lease_s=60.0, heartbeat_s=15.0)
_LARGE = 15


@dataclass
class Pause:
    """A kind of job that takes a while. `served`: whose jobs have begun, in order."""

    loop: VirtualLoop
    served: list[int] = field(default_factory=list)
    name: str = jobs.PAGE_MUTATION

    def log_event(self, what: str) -> str:
        return f"pause.job.{what}"

    async def execute(self, job: ClaimedJob) -> Settle:
        self.served.append(job.row.workspace_id)
        await asyncio.sleep(self.loop.chance.uniform(0.5, 5))

        async def settle(tx: Tx) -> End:
            return End("finish")

        return settle

    async def tell(self, tx: Tx, job: ClaimedJob, news: End | TryLater) -> None:
        """Nobody wants to know."""

    async def ended(self, job: ClaimedJob) -> None:
        """Nobody waits."""


async def _workspace(tx: Tx, name: str, user: int, how_many: int) -> int:
    """A workspace with so many pending jobs, none of which waits for another."""
    workspace_id = await workspaces.create_workspace(tx, name, user)
    project = await projects.create_project(tx, workspace_id, "p", canvas_width_px=1280, canvas_height_px=720)
    for number in range(how_many):
        code = f"page-{number}"
        call = CallSubmission(code, "create_project_page", {}, code, code)
        await runs.submit_step(tx, StepSubmission(workspace_id, project, user, [call]))
    return workspace_id


def _served(seed: int, workers: int) -> tuple[list[int], list[int]]:
    """Whose jobs began before the small workspace came, and whose after that."""

    async def world(loop: VirtualLoop) -> tuple[list[int], list[int]]:
        server = Server(loop, path, lambda *_, **__: None)
        wire, kind = Wire(server), Pause(loop)
        async with wire.write() as tx:
            user = await users.create_user(tx, "ada", is_admin=True)
            await _workspace(tx, "large", user, _LARGE)
        writer = LaneWriter(wire.database, kind, _TIMES)
        lane = [JobWorker.start(wire.database, kind, _TIMES, 3, writer=writer) for _ in range(workers)]
        queue = JobQueue.start(wire.database, kind.name, "a:1:a", lane, _TIMES)
        await asyncio.sleep(loop.chance.uniform(3, 10))
        async with wire.write() as tx:
            small = await _workspace(tx, "small", user, 1)
        before = len(kind.served)
        queue.tell(JobsSubmitted())
        while small not in kind.served:
            assert loop.time() < 600, "the small workspace is not served"
            await asyncio.sleep(0.1)
        for ref in (queue, *lane):
            await stop(ref)
        server.close()
        return kind.served[:before], kind.served[before:]

    with workshop() as (folder, template):
        path = Path(folder) / "lane.db"
        path.write_bytes(template.read_bytes())
        return simulate(seed, world)


def test_a_small_workspace_gets_the_next_worker_behind_a_large_one(seed: int) -> None:
    for workers in (1, 2):
        before, after = _served(seed, workers)
        assert len(before) < _LARGE, "there was nobody to wait behind"
        assert len(after) <= 2, f"it waited for {len(after) - 1} jobs; one may have been claimed just before"
