"""The lease in simulation: two workers, seeded timing, the real SQL on a real SQLite file (Q3-Q5).

Safety is checked at every step, liveness after the faults stop. `--seed N` replays one run, `--seeds N` tries more.
"""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from pagegate.storage import jobs, lease, runs, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from pagegate.storage.lease import LeaseLost
from pagegate.storage.runs import CallSubmission, StepSubmission
from tests.simulation.virtual_loop import LoopClock, VirtualLoop, simulate

TTL_MS = 60_000
HEARTBEAT_S = 15.0
SWEEP_S = 10.0
JOBS = 8


@dataclass
class World:
    """One database and what has happened in it: (virtual ms, who, what, job, fence)."""

    loop: VirtualLoop
    db: Database
    trace: list[tuple[Any, ...]] = field(default_factory=list)
    ended: dict[int, Any] = field(default_factory=dict)

    def note(self, who: str, what: str, job_id: int, fence: int) -> None:
        self.trace.append((round(self.loop.time() * 1000), who, what, job_id, fence))

    def happened(self, what: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.trace if entry[2] == what]

    async def settle_in(self, jobs_wanted: int) -> None:
        async with self.db.write() as tx:
            user = await tx.insert(schema.users, name="ada", created_at_ms=tx.now)
            workspace = await tx.insert(schema.workspaces, name="w", created_at_ms=tx.now)
            project = await tx.insert(
                schema.projects, workspace_id=workspace, name="p", canvas_width_px=1280, created_at_ms=tx.now
            )
            page = {"project_id": project, "framework": "vue", "created_at_ms": tx.now, "updated_at_ms": tx.now}
            for n in range(jobs_wanted):
                await tx.insert(schema.pages, code=f"page-{n}", title="", **page)
            calls = [CallSubmission(f"c{n}", "apply_page_edits", {}, f"page-{n}") for n in range(jobs_wanted)]
            await runs.submit_step(tx, StepSubmission(workspace, project, user, calls))

    async def check_safety(self) -> None:
        """At every step: an end stays, an end has exactly one effect, and its task tells the same."""
        async with self.db.read() as tx:
            tasks = schema.ai_agent_external_tasks
            states = {row.job_id: row.state for row in await tx.execute(select(tasks.c.job_id, tasks.c.state))}
            versions = list((await tx.execute(select(schema.page_versions.c.job_id))).scalars())
            rows = (await tx.execute(select(schema.ai_page_mutation_jobs))).all()
        assert len(versions) == len(set(versions))
        for row in rows:
            end = (row.status, row.result, row.attempt)
            if row.finished_at_ms is None:
                assert row.id not in self.ended, "a terminal state changed"
                assert (row.id in versions, states[row.id]) == (False, "pending")
            else:
                assert self.ended.setdefault(row.id, end) == end, "a terminal state changed"
                assert (row.id in versions, states[row.id]) == (row.status == "succeeded", row.status)

    async def commit(self, job: ClaimedJob, who: str) -> None:
        """What a worker does when it is done: the fence, then its page version, in one transaction (Q3)."""

        async def write(tx: Tx) -> None:
            await jobs.finish_job(tx, job.lease, "finish", result={"by": who})
            version = {"number": job.id, "source": who, "title": "", "component_pins": {}, "status": "passed"}
            page = select(schema.pages.c.id).where(schema.pages.c.code == job.row.page_code).scalar_subquery()
            about = {"job_id": job.id, "created_by": job.row.user_id, "created_at_ms": tx.now}
            await tx.insert(schema.page_versions, page_id=page, **version, **about)

        try:
            async with self.db.write() as tx:
                await write(tx)
        except LeaseLost:
            self.note(who, "refused", job.id, job.lease.fence)
        else:
            self.note(who, "finished", job.id, job.lease.fence)

    async def claim(self, who: str) -> ClaimedJob | None:
        async with self.db.write() as tx:
            job = await jobs.claim_job(tx, PAGE_MUTATION, who, TTL_MS)
        if job is not None:
            self.note(who, "claimed", job.id, job.lease.fence)
        return job

    async def sweep(self) -> None:
        async with self.db.read() as tx:
            expired = await jobs.list_expired(tx, PAGE_MUTATION, 100)
        await asyncio.sleep(self.loop.chance.uniform(0, 5))  # CASE 1: the rescuer reads its list and pauses
        for seen in expired:
            async with self.db.write() as tx:
                state = await jobs.rescue_job(tx, PAGE_MUTATION, seen.id, seen.fence, 1_000)
            self.note("sweep", "rescued" if state else "left alone", seen.id, seen.fence)


async def open_world(loop: VirtualLoop, path: Path, template: Path, jobs_wanted: int) -> World:
    shutil.copy(template, path)
    world = World(loop, await Database.open(f"sqlite+aiosqlite:///{path}", clock=LoopClock(loop)))
    await world.settle_in(jobs_wanted)
    return world


# --- one job, and a worker that comes back too late -------------------------------------------------------------------


def test_a_worker_that_stalls_past_its_lease_is_refused_and_the_other_one_finishes(
    seed: int, tmp_path: Path, sqlite_template: Path
) -> None:
    async def story(loop: VirtualLoop) -> World:
        world = await open_world(loop, tmp_path / "sim.db", sqlite_template, jobs_wanted=1)
        chance = loop.chance

        async def stalling() -> None:
            job = await world.claim("stalling")
            assert job is not None
            await asyncio.sleep(TTL_MS / 1000 + chance.uniform(0.001, 120))  # no heartbeat, no clock: a paused process
            await world.commit(job, "stalling")
            await world.check_safety()

        async def steady() -> None:
            while (job := await world.claim("steady")) is None:
                await asyncio.sleep(chance.uniform(0.1, 5))
                await world.sweep()
                await world.check_safety()
            await asyncio.sleep(chance.uniform(0, 50))
            await world.commit(job, "steady")
            await world.check_safety()

        late = asyncio.create_task(stalling())
        while not world.happened("claimed"):
            await asyncio.sleep(0.01)
        await asyncio.gather(late, steady())
        await world.db.close()
        return world

    world = simulate(seed, story)
    assert [entry[1:] for entry in world.happened("refused")] == [("stalling", "refused", 1, 1)]
    assert [entry[1:] for entry in world.happened("finished")] == [("steady", "finished", 1, 2)]
    assert list(world.ended.values()) == [("succeeded", {"by": "steady"}, 2)]


# --- many jobs, workers that stall, die and come back ---------------------------------------------------------------


async def faulty_worker(world: World, who: str, faults: asyncio.Event) -> None:
    """Claims, beats and commits; while `faults` is set it may stall anywhere, or vanish and leave its job."""
    chance = world.loop.chance
    while True:
        job = await world.claim(who)
        if job is None:
            await asyncio.sleep(chance.uniform(0.1, 3))
            continue
        if faults.is_set() and chance.random() < 0.2:
            world.note(who, "vanished", job.id, job.lease.fence)
            continue
        work_s = chance.choice([0.5, 5, 40, 100])
        try:
            job = await beat(world, job, work_s, faults)
        except LeaseLost:
            world.note(who, "stopped", job.id, job.lease.fence)
            continue
        await world.commit(job, who)
        await world.check_safety()


async def beat(world: World, job: ClaimedJob, work_s: float, faults: asyncio.Event) -> ClaimedJob:
    """Work, renewing the lease; a stall may come between any two heartbeats, and before the commit."""
    chance = world.loop.chance
    while work_s > 0:
        await asyncio.sleep(min(HEARTBEAT_S, work_s))
        work_s -= HEARTBEAT_S
        if faults.is_set() and chance.random() < 0.3:
            await asyncio.sleep(chance.choice([1, 30, 59.99, 60, 61, 90]))
            if chance.random() < 0.5:
                continue  # and comes back without knowing it
        async with world.db.write() as tx:
            job = replace(job, lease=await lease.renew(tx, job.lease, TTL_MS))
    return job


async def until_all_ended(world: World, tasks: list[asyncio.Task[None]], within_s: float) -> None:
    deadline = world.loop.time() + within_s
    while len(world.ended) < JOBS and world.loop.time() < deadline:
        await asyncio.sleep(10)
        for task in tasks:
            if task.done():
                task.result()


async def stormy(loop: VirtualLoop, path: Path, template: Path) -> World:
    world = await open_world(loop, path, template, jobs_wanted=JOBS)
    faults = asyncio.Event()
    faults.set()

    async def sweeping() -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await world.sweep()
            await world.check_safety()

    tasks = [asyncio.create_task(faulty_worker(world, f"w{n}", faults)) for n in range(2)]
    tasks.append(asyncio.create_task(sweeping()))
    await until_all_ended(world, tasks, within_s=600)
    faults.clear()
    await until_all_ended(world, tasks, within_s=3_600)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await world.check_safety()
    await world.db.close()
    return world


@pytest.fixture(scope="module")
def storm_of(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Callable[[int], World]:
    """The storm of a seed; run once, looked at by several tests."""
    folder = tmp_path_factory.mktemp("storms")

    @cache
    def run(seed: int) -> World:
        return simulate(seed, lambda loop: stormy(loop, folder / f"{seed}.db", sqlite_template))

    return run


def test_every_job_ends_once_whatever_happens_to_its_workers(seed: int, storm_of: Callable[[int], World]) -> None:
    world = storm_of(seed)
    assert {end[0] for end in world.ended.values()} == {"succeeded"}
    assert len(world.happened("finished")) == len(world.ended) == JOBS


def test_a_seed_repeats_its_run_exactly(
    storm_of: Callable[[int], World], tmp_path: Path, sqlite_template: Path
) -> None:
    again = simulate(1, lambda loop: stormy(loop, tmp_path / "again.db", sqlite_template))
    assert again.trace == storm_of(1).trace


def test_the_storm_has_every_kind_of_weather(storm_of: Callable[[int], World]) -> None:
    """The simulation is worth nothing if its faults never bite: over a few seeds each outcome is seen."""
    seen = {entry[2] for seed in range(4) for entry in storm_of(seed).trace}
    assert seen >= {"claimed", "vanished", "stopped", "refused", "rescued", "finished"}
