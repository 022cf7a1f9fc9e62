"""Schedules that a seed would seldom meet, played on purpose: the real SQL, two or three hands, a moment for each.

Each story ends by itself when the rule holds and raises `Violation` when it does not, so a mutant may name a story in
the place of a climate. What happens between two statements of a story takes a seeded while.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import structlog
from sqlalchemy import update

from pagegate.actors.queues.kinds import End, JobKind
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import external, jobs, lease, projects, renders, runs, schema, users, workspaces
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from pagegate.storage.lease import Lease, LeaseLost
from pagegate.storage.runs import CallSubmission, StepSubmission
from tests.simulation import test_coordinator, test_lane
from tests.simulation.build_stories import BUILD_STORIES, BuildScene
from tests.simulation.builders import small_and_virtual
from tests.simulation.database import Server, Wire
from tests.simulation.maker_stories import MAKER_STORIES, MakerScene
from tests.simulation.moves import Violation
from tests.simulation.staging import chance_of
from tests.simulation.virtual_loop import VirtualLoop, simulate

_TTL_MS = 10_000


@dataclass
class Scene:
    """One project and one job in it, which nobody has claimed."""

    loop: VirtualLoop
    server: Server
    wire: Wire
    workspace_id: int = 0
    job_id: int = 0
    run_id: int = 0

    async def set_up(self) -> None:
        async with self.wire.write() as tx:
            user = await users.create_user(tx, "ada", is_admin=True)
            self.workspace_id = await workspaces.create_workspace(tx, "w", user)
            project = await projects.create_project(
                tx, self.workspace_id, "p", canvas_width_px=1280, canvas_height_px=720
            )
            step = StepSubmission(
                self.workspace_id, project, user, [CallSubmission("c", "create_project_page", {}, "page", "page")]
            )
            submitted = await runs.submit_step(tx, step)
        self.run_id, self.job_id = submitted.run_id, submitted.job_ids[0]

    async def claim(self, worker: str) -> ClaimedJob:
        async with self.wire.write() as tx:
            job = await jobs.claim_job(tx, PAGE_MUTATION, worker, _TTL_MS)
        assert job is not None
        return job

    async def see_expired(self) -> jobs.ExpiredJob:
        async with self.wire.read() as tx:
            (seen,) = await jobs.list_expired(tx, PAGE_MUTATION, 10)
        return seen

    async def rescue(self, seen: jobs.ExpiredJob) -> str | None:
        async with self.wire.write() as tx:
            return await jobs.rescue_job(tx, PAGE_MUTATION, seen.id, seen.fence, 3)

    async def refused(self, what: str, statement: Callable[[Any], Awaitable[object]]) -> None:
        """`statement` finds no row: whoever runs it has lost its lease."""
        try:
            async with self.wire.write() as tx:
                await statement(tx)
        except LeaseLost:
            return
        raise Violation(f"{what}, and was believed")

    async def a_while(self, at_least_s: float = 0.0) -> None:
        await asyncio.sleep(at_least_s + self.loop.chance.uniform(0.01, 2))


async def restored_backup(scene: Scene) -> None:
    """A database put back to before the claim counts the same fence again, for another worker."""
    old = await scene.claim("a:0")
    table = schema.metadata.tables[PAGE_MUTATION]
    async with scene.wire.write() as tx:
        before = {"status": "pending", "attempt": 0, "worker_id": None, "lease_expires_at": None}
        await tx.execute(update(table).where(table.c.id == scene.job_id).values(**before))
    await scene.a_while()
    new = await scene.claim("b:0")
    assert new.lease.fence == old.lease.fence
    await scene.refused("a worker of before renewed", lambda tx: lease.renew(tx, old.lease, _TTL_MS))
    await scene.refused("a worker of before renewed", lambda tx: _renewed_in_a_group(tx, old.lease))
    await scene.refused("a worker of before finished", lambda tx: jobs.finish_job(tx, old.lease, "fail", error=_ERROR))


async def stale_words(scene: Scene) -> None:
    """A worker slept past its lease, another one has the job: nothing that the first still says is believed."""
    old = (await scene.claim("a:0")).lease
    await scene.a_while(_TTL_MS / 1000)
    await scene.rescue(await scene.see_expired())
    await scene.claim("b:0")
    asked = {"workspace_id": scene.workspace_id, "klass": "interactive", "operation": "page.diagnose", "payload": {}}
    words: dict[str, Callable[[Any], Awaitable[object]]] = {
        "renewed": lambda tx: lease.renew(tx, old, _TTL_MS),
        "renewed among others": lambda tx: _renewed_in_a_group(tx, old),
        "asked whether it holds it": lambda tx: lease.require_held(tx, old),
        "wanted a render": lambda tx: renders.enqueue_request(
            tx, old, **asked, queue_size_max=9, workspace_queue_size_max=9
        ),
        "changed its code": lambda tx: jobs.change_candidate_code(tx, old, "page-9"),
        "put it back": lambda tx: jobs.retry_job(tx, old, 0, counts="infra"),
        "gave it back": lambda tx: jobs.release_job(tx, old),
        "finished it": lambda tx: jobs.finish_job(tx, old, "fail", error=_ERROR),
    }
    for word, statement in words.items():
        await scene.refused(f"a worker that had lost its job {word}", statement)


async def _renewed_in_a_group(tx: Tx, one: Lease) -> None:
    renewed = await jobs.renew_jobs(tx, [one], _TTL_MS)
    if one.id not in renewed or not renewed[one.id].is_of(one):
        raise LeaseLost


async def late_renewal(scene: Scene) -> None:
    """The same worker has the job again when its first attempt's renewal arrives."""
    first = await scene.claim("a:0")
    await scene.a_while(_TTL_MS / 1000)
    await scene.rescue(await scene.see_expired())
    await scene.claim("a:0")
    await scene.refused("a renewal of the attempt before came", lambda tx: lease.renew(tx, first.lease, _TTL_MS))
    await scene.refused("a renewal of the attempt before came", lambda tx: _renewed_in_a_group(tx, first.lease))


async def two_claims_in_a_group(scene: Scene) -> None:
    """A process that slept past its lease has the job twice: of what both say together, the later one counts."""
    first = await scene.claim("a")
    await scene.a_while(_TTL_MS / 1000)
    await scene.rescue(await scene.see_expired())
    second = await scene.claim("a")
    lane = LaneWriter(scene.wire.database, cast(JobKind, _Quiet()), LeaseTimes(_TTL_MS / 1000, _TTL_MS / 4000))
    told = await asyncio.gather(lane.renew(first), lane.renew(second), return_exceptions=True)
    if not (isinstance(told[0], LeaseLost) and told[1] is False):
        raise Violation(f"two claims of a job were renewed together, and told {told}")

    async def settle(tx: Tx) -> End:
        return End("finish")

    async def never(tx: Tx) -> End:
        raise Violation("an attempt that had lost its job wrote its end beside the next one")

    told = await asyncio.gather(lane.settle(first, never), lane.settle(second, settle), return_exceptions=True)
    if broken := [one for one in told if isinstance(one, Violation)]:
        raise broken[0]
    endings = [jobs.Ending(one.lease, "fail", error=_ERROR) for one in await _claimed_twice(scene)]
    await scene.refused("two claims of a job finished it together", lambda tx: jobs.finish_jobs(tx, endings))


async def _claimed_twice(scene: Scene) -> tuple[ClaimedJob, ClaimedJob]:
    """Another job, claimed again by the same process after its lease was over."""
    call = CallSubmission("t", "create_project_page", {}, "page-2", "page-2")
    async with scene.wire.write() as tx:
        await runs.submit_step(tx, StepSubmission(scene.workspace_id, 1, 1, [call]))
    first = await scene.claim("a")
    await scene.a_while(_TTL_MS / 1000)
    await scene.rescue(await scene.see_expired())
    return first, await scene.claim("a")


class _Quiet:
    """A kind of job that tells nobody."""

    name = PAGE_MUTATION

    async def tell(self, tx: Tx, job: ClaimedJob, news: object) -> None:
        """Nobody wants to know."""


async def paused_rescuer(scene: Scene) -> None:
    """It has its list, and pauses; another one rescues, and the next attempt runs (CASE 1)."""
    await scene.claim("a:0")
    await scene.a_while(_TTL_MS / 1000)
    seen = await scene.see_expired()
    await scene.rescue(await scene.see_expired())
    await scene.a_while()
    await scene.claim("b:0")
    if await scene.rescue(seen) is not None:
        raise Violation("a rescuer took a job from a later attempt than the one it had seen")


async def clock_put_back(scene: Scene) -> None:
    """Between the rescuer's look and its deed the clock is put back: the lease it saw expired is alive, and in use."""
    job = await scene.claim("a:0")
    await scene.a_while(_TTL_MS / 1000)
    seen = await scene.see_expired()
    scene.server.clock.skew_ms -= _TTL_MS
    async with scene.wire.write() as tx:
        await lease.renew(tx, job.lease, _TTL_MS)
    if await scene.rescue(seen) is not None:
        raise Violation("a rescuer took a job from an attempt whose lease is alive")


async def batch_given_back_late(scene: Scene) -> None:
    """A coordinator lost its batch to another one, and gives it back."""
    stale = await _batch_lost(scene)
    await scene.refused(
        "a coordinator that had lost its batch gave it back", lambda tx: external.release_batch(tx, stale)
    )


async def _batch_lost(scene: Scene) -> Lease:
    """A lease that is lost: its batch was claimed anew."""
    async with scene.wire.write() as tx:
        call = CallSubmission("r", "create_project_page", {}, "page", "page", refused=_ERROR)
        step = StepSubmission(scene.workspace_id, 1, 1, [call])
        await runs.submit_step(tx, step)
    async with scene.wire.write() as tx:
        first = await external.claim_ready_batch(tx, "a:external", _TTL_MS)
    await scene.a_while(_TTL_MS / 1000)
    async with scene.wire.write() as tx:
        second = await external.claim_ready_batch(tx, "b:external", _TTL_MS)
    assert first is not None
    assert second is not None
    return first.lease


_ERROR = {"code": "PAGE_VALIDATION_FAILED", "message": "", "hint": ""}

STORIES: dict[str, Callable[[Scene], Coroutine[Any, Any, None]]] = {
    "restored backup": restored_backup,
    "stale words": stale_words,
    "late renewal": late_renewal,
    "two claims in a group": two_claims_in_a_group,
    "paused rescuer": paused_rescuer,
    "clock put back": clock_put_back,
    "batch given back late": batch_given_back_late,
}


# Told by the tests of the real coordinator and the real queue; they need no scene.
TURNS: dict[str, Callable[[int], None]] = {
    "small workspace behind a large one": test_coordinator.test_a_small_workspace_gets_the_next_slot_behind_a_large_one,
    "small workspace in a lane": test_lane.test_a_small_workspace_gets_the_next_worker_behind_a_large_one,
    "endless interactive work": (
        test_coordinator.test_a_background_render_runs_by_the_fourth_pick_of_endless_interactive_work
    ),
}

NAMES = frozenset([*STORIES, *BUILD_STORIES, *MAKER_STORIES, *TURNS])


def tell(name: str, seed: int, folder: Path, template: Path) -> str | None:
    """Play a story; what was broken, or None."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return _told(name, seed, folder, template)
    finally:
        structlog.reset_defaults()


def _told(name: str, seed: int, folder: Path, template: Path) -> str | None:
    if name in TURNS:
        try:
            TURNS[name](seed)
        except AssertionError as broken:
            return f"{broken}".split("\n")[0] or "somebody was served before his turn"
        return None
    path = folder / f"story-{seed}.db"
    path.write_bytes(template.read_bytes())

    async def world(loop: VirtualLoop) -> None:
        server = Server(loop, path, lambda *_, **__: None)
        wire = Wire(server)
        try:
            with small_and_virtual(), chance_of(seed):
                if name in BUILD_STORIES:
                    build = BuildScene(loop, server, wire)
                    await build.set_up()
                    await BUILD_STORIES[name](build)
                elif name in MAKER_STORIES:
                    maker = MakerScene(loop, server, wire)
                    await maker.set_up()
                    await MAKER_STORIES[name](maker)
                else:
                    scene = Scene(loop, server, wire)
                    await scene.set_up()
                    await STORIES[name](scene)
        finally:
            server.close()

    try:
        simulate(seed, world)
    except Violation as broken:
        return str(broken)
    finally:
        for leftover in folder.glob(f"story-{seed}.db*"):
            leftover.unlink()
    return None
