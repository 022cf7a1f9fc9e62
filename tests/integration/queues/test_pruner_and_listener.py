"""The two small actors beside the queues: one deletes what is old, one hears that there is work (Q8, Q11)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pagegate.actors.agents.external_tasks import BatchesMayBeReady
from pagegate.actors.kernel import Actor, stop
from pagegate.actors.queues.control import JobControl, ResumeLane, RetryLimits
from pagegate.actors.queues.listener import HintListener
from pagegate.actors.queues.pruner import Pruner
from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.storage import external, jobs, pruning, runs, schema
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx
from pagegate.storage.jobs import PAGE_MUTATION
from pagegate.storage.migrations import migrate
from pagegate.storage.pruning import Retention
from tests.integration.queues.lane import Lane, Scripted
from tests.services import PostgresServer
from tests.world import World

DAY_MS = 24 * 3600 * 1000
KEEP = Retention(DAY_MS, DAY_MS, 10 * DAY_MS)


async def old_runs(world: World, count: int, end: Any = "finish") -> None:
    """Runs of one job each that ended three days ago, oldest first."""
    for _ in range(count):
        submitted = await world.submit("a")
        job = await world.claimed()
        await world.write(jobs.finish_job, job.lease, end, result={}, error={"code": "X"} if end == "fail" else None)
        await world.write(external.close_batches, submitted.run_id)
        await world.write(runs.finish_run, submitted.run_id, "finish")
    async with world.db.write() as tx:
        for table in (schema.ai_page_mutation_jobs, schema.ai_agent_runs):
            ended = update(table).where(table.c.finished_at_ms.is_not(None))
            await tx.execute(ended.values(finished_at_ms=tx.now - 3 * DAY_MS + table.c.id))


async def count_runs(tx: Tx) -> int:
    return int((await tx.execute(select(func.count()).select_from(schema.ai_agent_runs))).scalar_one())


async def until_left(world: World, count: int) -> None:
    async with asyncio.timeout(20):
        while await world.read(count_runs) != count:
            await asyncio.sleep(0.01)


async def test_replicas_prune_beside_a_queue_that_works_and_leave_what_must_stay(
    world: World, database_url: str
) -> None:
    await old_runs(world, 3, "fail")
    await old_runs(world, 25)
    live = await world.submit("b")
    replica = await Database.open(database_url)
    pruners = [Pruner.start(db, KEEP, period_s=3600) for db in (world.db, replica)]
    lane = Lane(world, Scripted())
    assert (await lane.is_over(live.job_ids[0])).status == "succeeded"
    await until_left(world, 4)
    for actor in pruners:
        await stop(actor)
    await lane.stop()
    await replica.close()


async def test_a_pruner_goes_on_at_its_next_turn_when_the_database_was_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await old_runs(world, 12)
    real, calls = pruning.prune_runs, 0

    async def once_away(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise DatabaseUnavailable("gone")
        return await real(*arguments)

    monkeypatch.setattr(pruning, "prune_runs", once_away)
    pruner = Pruner.start(world.db, KEEP, period_s=0.05)
    await until_left(world, 0)
    await stop(pruner)


class Ear(Actor):
    """Hears what the listener tells, in place of a queue and a coordinator."""

    def __init__(self, heard: "asyncio.Queue[Any]") -> None:
        super().__init__()
        self._heard = heard

    async def on_receive(self, message: Any) -> None:
        self._heard.put_nowait(message)


class Ears:
    """A listener on `db` and what it tells."""

    def __init__(self, db: Database) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.external: asyncio.Queue[Any] = asyncio.Queue()
        self._ears = [Ear.start(self.queue), Ear.start(self.external)]
        self._listener = HintListener.start(db, {PAGE_MUTATION: self._ears[0]}, self._ears[1])

    async def hears_work(self) -> None:
        assert await asyncio.wait_for(self.queue.get(), 20) == JobsSubmitted()

    async def hears_batches(self) -> None:
        assert await asyncio.wait_for(self.external.get(), 20) == BatchesMayBeReady()

    async def listens(self) -> None:
        """A new connection counts as a hint about everything."""
        await self.hears_work()
        await self.hears_batches()

    async def stop(self) -> None:
        for actor in (self._listener, *self._ears):
            await stop(actor)


@pytest.fixture
async def pg(postgres_url: str) -> Any:
    db = await Database.open(postgres_url)
    world = World(db)
    await world.settle_in()
    yield world
    await db.close()


async def test_another_replicas_submission_and_its_ready_batch_are_heard(pg: World, postgres_url: str) -> None:
    replica = await Database.open(postgres_url)
    ears = Ears(replica)
    await ears.listens()
    await pg.submit("a")
    await ears.hears_work()
    assert ears.external.empty()
    job = await pg.claimed()
    await pg.write(jobs.finish_job, job.lease, "finish", result={})
    await ears.hears_batches()
    assert ears.queue.empty()
    await ears.stop()
    await replica.close()


async def test_what_was_rolled_back_is_not_heard(pg: World) -> None:
    ears = Ears(pg.db)
    await ears.listens()

    async def submit_and_fail(tx: Tx) -> None:
        await runs.submit_step(tx, pg.step("a"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await pg.write(submit_and_fail)
    await pg.submit("b")
    await ears.hears_work()
    assert ears.queue.empty(), "one submission, one hint"
    await ears.stop()


async def test_a_resumed_lane_is_heard(pg: World, postgres_url: str) -> None:
    ears = Ears(pg.db)
    await ears.listens()
    here: asyncio.Queue[Any] = asyncio.Queue()
    own = Ear.start(here)
    control = JobControl.start(pg.db, {PAGE_MUTATION: own}, RetryLimits(), on_news=lambda _: None, on_end=lambda: None)
    control.tell(ResumeLane(PAGE_MUTATION, pg.user_id))
    await ears.hears_work()
    assert await asyncio.wait_for(here.get(), 20) == JobsSubmitted()
    for actor in (control, own):
        await stop(actor)
    await ears.stop()


async def test_a_hint_wakes_another_replicas_workers_long_before_their_poll(pg: World, postgres_url: str) -> None:
    replica = await Database.open(postgres_url)
    lane = Lane(World(replica), Scripted(), poll_s=3600.0, sweep_s=3600.0)
    other: asyncio.Queue[Any] = asyncio.Queue()
    ear = Ear.start(other)
    listener = HintListener.start(replica, {PAGE_MUTATION: lane.queue}, ear)
    assert await asyncio.wait_for(other.get(), 20) == BatchesMayBeReady()  # it listens
    submitted = await pg.submit("a")
    assert await lane.has_started() == submitted.job_ids[0]
    await lane.is_over(submitted.job_ids[0])
    for actor in (listener, ear):
        await stop(actor)
    await lane.stop()
    await replica.close()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that this test may stop."""
    with PostgresServer() as server:
        yield server


async def test_a_listener_comes_back_by_itself_and_then_looks_once(own_postgres: PostgresServer) -> None:
    url = own_postgres.create_database()
    await migrate(url)
    db = await Database.open(url)
    ears = Ears(db)
    await ears.listens()
    await asyncio.to_thread(own_postgres.stop)
    await asyncio.to_thread(own_postgres.start)
    await ears.listens()
    await ears.stop()
    await db.close()


async def test_on_sqlite_there_is_nothing_to_hear(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url)
    world = World(db)
    await world.settle_in()
    ears = Ears(db)
    await world.submit("a")
    await ears.stop()
    assert ears.queue.empty()
    await db.close()
