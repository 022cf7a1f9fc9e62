"""A database that refuses, and rows that nobody can move, under the real queue and workers (CASES 6, 10, 12)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from sqlalchemy import select, update

from pagegate.actors.kernel import stop
from pagegate.actors.queues import queue
from pagegate.actors.queues.kinds import Settle
from pagegate.actors.queues.queue import JobQueue
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import jobs, schema
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from tests.integration.queues.lane import TIMES, Lane, Scripted
from tests.world import World

table = schema.ai_page_mutation_jobs


class Refusing:
    """A process's way to the database, which refuses while `away`. `writes_left` counts down to that."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.away = False
        self.writes_left: int | None = None

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        if self.writes_left is not None:
            self.away = self.away or self.writes_left == 0
            self.writes_left -= 1
        self._answer()
        async with self._db.write() as tx:
            yield tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        self._answer()
        async with self._db.read() as tx:
            yield tx

    def _answer(self) -> None:
        if self.away:
            raise DatabaseUnavailable("refused")


@pytest.fixture
def wire(db: Database) -> Refusing:
    return Refusing(db)


async def troubles(lane: Lane, wanted: set[str]) -> None:
    async with asyncio.timeout(20):
        while set(lane.pulse.troubles()) != wanted:
            await asyncio.sleep(0.01)


HEARTBEATS, CLAIMS = "heartbeats of running jobs fail", f"jobs of {PAGE_MUTATION} cannot be claimed"


async def test_a_worker_that_cannot_renew_stops_its_job_before_the_lease_ends_and_the_process_is_not_ready(
    world: World, wire: Refusing
) -> None:
    """CASE 6."""
    kind = Scripted()
    stopped = asyncio.get_running_loop().create_future()

    async def work(job: ClaimedJob) -> Settle:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set_result(await world.read(Tx.now_ms))
            raise
        raise AssertionError

    kind.work = work
    lane = Lane(world, kind, times=LeaseTimes(lease_s=4.0, heartbeat_s=0.2), db=cast(Database, wire))
    submitted = await world.submit("a")
    await lane.has_started()
    assert lane.pulse.troubles() == []
    wire.away = True
    await troubles(lane, {HEARTBEATS})
    stopped_at_ms = await asyncio.wait_for(stopped, 20)
    lost = await world.job(submitted.job_ids[0])
    assert stopped_at_ms < lost.lease_expires_at
    await troubles(lane, {HEARTBEATS, CLAIMS})
    assert (lost.status, lost.attempt) == ("running", 1), "and it wrote nothing"
    kind.work = kind.succeed
    wire.away = False
    await troubles(lane, set())
    async with asyncio.timeout(20):
        while (row := await world.job(submitted.job_ids[0])).status != "succeeded":
            await asyncio.sleep(0.01)
    assert (row.attempt, row.lease_losses) == (2, 1)
    await lane.stop()


async def test_one_failing_heartbeat_costs_nothing_when_the_next_one_works(world: World, wire: Refusing) -> None:
    kind = Scripted()
    going = asyncio.Event()

    async def work(job: ClaimedJob) -> Settle:
        await going.wait()
        return await kind.succeed(job)

    kind.work = work
    lane = Lane(world, kind, times=LeaseTimes(lease_s=60.0, heartbeat_s=0.05), db=cast(Database, wire))
    submitted = await world.submit("a")
    await lane.has_started()
    wire.away = True
    await troubles(lane, {HEARTBEATS})
    wire.away = False
    await troubles(lane, set())
    going.set()
    row = await lane.is_over(submitted.job_ids[0])
    assert (row.status, row.attempt) == ("succeeded", 1)
    await lane.stop()


async def test_an_idle_replica_without_its_database_is_not_ready_until_it_is_back(world: World, wire: Refusing) -> None:
    lane = Lane(world, Scripted(), db=cast(Database, wire))
    await troubles(lane, set())
    wire.away = True
    await troubles(lane, {CLAIMS})
    wire.away = False
    await troubles(lane, set())
    await lane.stop()


async def a_sweeper(world: World, db: Database) -> Any:
    """A queue without workers: it only sweeps."""
    return JobQueue.start(db, PAGE_MUTATION, "host:1:abc", [], TIMES, sweep_s=0.05)


async def expired(world: World, count: int) -> list[int]:
    submitted = await world.submit(*[f"page-{number}" for number in range(count)])
    async with world.db.write() as tx:
        lost = {"status": "running", "worker_id": "gone", "attempt": 1, "lease_expires_at": tx.now - 1}
        await tx.execute(update(table).values(**lost))
    return list(submitted.job_ids)


async def test_a_database_that_drops_in_the_middle_of_a_sweep_costs_one_sweep(world: World, wire: Refusing) -> None:
    """CASE 10."""
    await expired(world, 250)
    wire.writes_left = 99
    sweeper = await a_sweeper(world, cast(Database, wire))
    async with asyncio.timeout(30):
        while not wire.away:
            await asyncio.sleep(0.01)
    assert (await world.read(jobs.queue_counts, PAGE_MUTATION)).running == 151
    wire.away, wire.writes_left = False, None
    async with asyncio.timeout(60):
        while (await world.read(jobs.queue_counts, PAGE_MUTATION)).running:
            await asyncio.sleep(0.01)
    async with world.db.read() as tx:
        losses = set((await tx.execute(select(table.c.lease_losses))).scalars())
    assert losses == {1}, "each was rescued once"
    await stop(sweeper)


async def poison(world: World, up_to: int) -> None:
    """Let no statement whatever change the rows up to this id."""
    async with world.db.write() as tx:
        if tx.dialect == "sqlite":
            refuse = "SELECT RAISE(ABORT, 'poisoned')"
            when = f"BEFORE UPDATE ON {table.name} WHEN OLD.id <= {up_to}"
            await tx.conn.exec_driver_sql(f"CREATE TRIGGER poison {when} BEGIN {refuse}; END")
        else:
            await tx.conn.exec_driver_sql(
                "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'poisoned'; END $$"
            )
            when = f"BEFORE UPDATE ON {table.name} FOR EACH ROW WHEN (OLD.id <= {up_to})"
            await tx.conn.exec_driver_sql(f"CREATE TRIGGER poison {when} EXECUTE FUNCTION poison()")


async def test_a_page_of_rows_that_cannot_be_rescued_does_not_hide_the_good_one_behind_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CASE 12: more of them than a sweep looks at together."""
    monkeypatch.setattr(queue, "_SWEEP_PAGE_ROWS", 10)
    ids = await expired(world, 13)
    await poison(world, ids[-2])
    sweeper = await a_sweeper(world, world.db)
    async with asyncio.timeout(30):
        while (await world.job(ids[-1])).status != "pending":
            await asyncio.sleep(0.01)
    assert (await world.read(jobs.queue_counts, PAGE_MUTATION)).running == 12
    await stop(sweeper)
