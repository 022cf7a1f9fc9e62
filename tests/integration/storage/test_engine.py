"""Transactions: whole or not at all, whatever happens to the task, the process or the server (Q6, K5, CASES 7, 16)."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import IntegrityError

from pagegate.storage import jobs, renders, schema
from pagegate.storage.engine import (
    Database,
    DatabaseOptions,
    DatabaseUnavailable,
    SystemClock,
    Tx,
)
from pagegate.storage.lease import LeaseLost, renew
from pagegate.storage.single_process import SingleProcessLock, SingleProcessLockHeld
from tests.services import PostgresServer
from tests.world import World

users = schema.users


async def add(tx: Tx, name: str) -> int:
    return await tx.insert(users, name=name, created_at_ms=tx.now)


async def names(db: Database) -> list[str]:
    async with db.read() as tx:
        return list((await tx.execute(select(users.c.name).order_by(users.c.name))).scalars())


async def test_a_block_that_ends_is_kept_and_one_that_raises_is_not(db: Database) -> None:
    async with db.write() as tx:
        await add(tx, "kept")

    async def fail() -> None:
        async with db.write() as tx:
            await add(tx, "lost")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await names(db) == ["kept"]


async def test_a_reader_cannot_write(db: Database) -> None:
    async with db.read() as tx:
        with pytest.raises(Exception, match=r"read.?only"):
            await add(tx, "nobody")
    assert await names(db) == []


async def test_a_refused_row_is_an_error_of_the_caller_and_not_of_the_world(db: Database) -> None:
    async with db.write() as tx:
        await add(tx, "ada")
    with pytest.raises(IntegrityError):
        async with db.write() as tx:
            await add(tx, "ada")
    assert await names(db) == ["ada"]


async def test_a_reference_to_a_row_that_is_not_there_is_refused(db: Database) -> None:
    with pytest.raises(IntegrityError):
        async with db.write() as tx:
            await tx.insert(schema.tokens, user_id=1, name="t", digest="d", created_at_ms=tx.now)


async def test_a_task_cancelled_between_two_statements_leaves_nothing(db: Database) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def half() -> None:
        async with db.write() as tx:
            await add(tx, "half")
            reached.set()
            await never.wait()

    task = asyncio.create_task(half())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with db.write() as tx:
        await add(tx, "next")
    assert await names(db) == ["next"]


async def test_tasks_cancelled_at_any_moment_leave_all_of_it_or_nothing(db: Database) -> None:
    """Cancelled after n turns of the loop, for every n a whole transaction takes."""

    async def pair(n: int) -> None:
        async with db.write() as tx:
            await add(tx, f"{n}-a")
            await add(tx, f"{n}-b")

    finished = 0
    for n in range(120):
        task = asyncio.create_task(pair(n))
        for _ in range(n):
            await asyncio.sleep(0)
        task.cancel()
        finished += (await asyncio.gather(task, return_exceptions=True)) == [None]
    found = await names(db)
    halves = {name.split("-")[0] for name in found}
    assert len(found) == 2 * len(halves)
    assert len(halves) >= finished
    async with db.write() as tx:
        await add(tx, "still works")


async def test_a_statement_cancelled_while_it_runs_leaves_a_usable_connection(db: Database) -> None:
    """Long enough to be in the middle of it; what it does is unimportant."""
    slow = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300000) SELECT count(*) FROM c"

    async def run() -> None:
        async with db.write() as tx:
            await add(tx, "half")
            await tx.execute(text(slow))

    for _ in range(3):
        task = asyncio.create_task(run())
        while not task.done():
            await asyncio.sleep(0.01)
            task.cancel()
        assert task.cancelled()
    async with db.write() as tx:
        await add(tx, "next")
    assert await names(db) == ["next"]


async def test_two_transactions_that_read_and_then_write_lose_nothing(db: Database, database_url: str) -> None:
    """CASE 16, with a second process's connections: one waits for the other; none fails."""
    other = await Database.open(database_url)
    async with db.write() as tx:
        await add(tx, "0")

    async def count_up(through: Database) -> None:
        for _ in range(10):
            async with through.write() as tx:
                row = (await tx.execute(select(users.c.id, users.c.name).with_for_update())).one()
                await asyncio.sleep(0)
                await tx.execute(update(users).values(name=str(int(row.name) + 1)))

    await asyncio.gather(count_up(db), count_up(other), count_up(db), count_up(other))
    assert await names(db) == ["40"]
    await other.close()


async def test_a_reader_does_not_wait_for_a_writer(db: Database) -> None:
    async with db.write() as tx:
        await add(tx, "uncommitted")
        assert await asyncio.wait_for(names(db), 5) == []


async def test_now_is_one_clock_in_milliseconds_and_goes_on_within_a_transaction(db: Database) -> None:
    async with db.read() as tx:
        first = await tx.now_ms()
        assert abs(first - db.clock.now_ms()) < 60_000
        later = await tx.now_ms()
        while later == first:  # ends when the clock shows the next millisecond
            later = await tx.now_ms()
        assert later > first


async def test_serialized_transactions_pass_one_at_a_time(db: Database, database_url: str) -> None:
    other = await Database.open(database_url)
    inside = 0

    async def enter(through: Database) -> None:
        nonlocal inside
        async with through.write() as tx:
            await tx.serialize("door")
            inside += 1
            assert inside == 1
            await tx.now_ms()
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*[enter(through) for through in (db, other) * 5])
    await other.close()


async def test_postgres_restarted_in_the_middle_is_unavailable_and_then_works_again(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """CASE 7, the ground of it: an infrastructure error, nothing half-written, and no restart of the process."""
    db = await Database.open(postgres_url)

    async def write_through_a_crash() -> None:
        async with db.write() as tx:
            await add(tx, "half")
            postgres.stop()
            await add(tx, "other half")

    with pytest.raises(DatabaseUnavailable):
        await write_through_a_crash()
    with pytest.raises(DatabaseUnavailable):
        await names(db)
    postgres.start()  # by this thread, which the server would not outlive
    assert await names(db) == []
    async with db.write() as tx:
        await add(tx, "whole")
    assert await names(db) == ["whole"]
    await db.close()


async def test_a_locked_sqlite_file_is_unavailable_and_not_a_bug(sqlite_url: str) -> None:
    holder = await Database.open(sqlite_url)
    impatient = await Database.open(sqlite_url, options=DatabaseOptions(sqlite_busy_timeout_ms=1))
    async with holder.write() as held:
        await add(held, "first")
        with pytest.raises(DatabaseUnavailable):
            async with impatient.write() as tx:
                await add(tx, "meanwhile")
    async with impatient.write() as tx:
        await add(tx, "later")
    await holder.close()
    await impatient.close()


async def test_every_sqlite_connection_is_set_up_alike(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url, options=DatabaseOptions(sqlite_synchronous="FULL"))
    for transaction in (db.write, db.read):
        async with transaction() as tx:
            found = [
                (await tx.execute(text(f"PRAGMA {name}"))).scalar_one()
                for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
            ]
            assert found == ["wal", 1, 2, 5000]
    await db.close()


async def test_ids_of_deleted_rows_are_not_given_again(db: Database) -> None:
    async with db.write() as tx:
        first = await add(tx, "a")
        await tx.execute(users.delete())
        assert await add(tx, "b") > first


@pytest.mark.parametrize(
    "url", ["sqlite:///x.db", "mysql://x/y", "sqlite+aiosqlite://", "sqlite+aiosqlite:///:memory:"]
)
async def test_other_addresses_are_refused_with_an_explanation(url: str) -> None:
    with pytest.raises(ValueError, match="DATABASE_URL"):
        await Database.open(url)


def test_a_second_process_is_refused_and_told_why(tmp_path: Path) -> None:
    """K5; the lock goes with the process that holds it, however it ends."""
    database = tmp_path / "pagegate.db"
    hold = (
        "import sys; from pathlib import Path; from pagegate.storage.single_process import SingleProcessLock\n"
        f"SingleProcessLock(Path({str(database)!r})).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(SingleProcessLockHeld, match="sqlite_single_process=true") as refused:
            SingleProcessLock(database).acquire()
        assert str(tmp_path) not in str(refused.value)
        first.kill()
    with SingleProcessLock(database):
        assert (tmp_path / "pagegate.db.single-process.lock").exists()
    SingleProcessLock(database).acquire()


class MinutesAhead:
    """The clock of a replica that is ten minutes fast."""

    def now_ms(self) -> int:
        return SystemClock().now_ms() + 600_000


async def test_a_replica_ten_minutes_ahead_steals_no_live_lease_on_postgres(postgres_url: str) -> None:
    """CASE 13."""
    right, ahead = await Database.open(postgres_url), await Database.open(postgres_url, clock=MinutesAhead())
    world = World(right)
    await world.settle_in()
    job = await world.claimed()
    request = await world.enqueue(job)
    attempt = await world.reserved(request)
    async with ahead.write() as tx:
        assert abs(await tx.now_ms() - right.clock.now_ms()) < 300_000
        assert await jobs.list_expired(tx, jobs.PAGE_MUTATION, 10) == []
        assert await jobs.rescue_job(tx, jobs.PAGE_MUTATION, job.id, job.lease.fence, 3) is None
        assert await renders.expire_attempts(tx, attempts_max=3) == []
    await world.write(renders.finish_attempt, attempt.lease, {})
    await world.write(jobs.finish_job, job.lease, "finish")
    for db in (right, ahead):
        await db.close()


async def test_the_present_of_a_statement_is_when_it_acts_and_not_when_it_began_to_wait(postgres_url: str) -> None:
    """Q6: a renewal that waits for a row lock past the end of its lease finds the lease over."""
    db = await Database.open(postgres_url)
    world = World(db)
    await world.settle_in()
    job = await world.claimed()
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

    async def seen(query: Any) -> Any:
        async with db.read() as tx:
            return (await tx.execute(query(tx))).scalar_one()

    async with asyncio.timeout(30), db.write() as holder:
        ends_at = await holder.now_ms() + 300
        await holder.execute(update(schema.ai_page_mutation_jobs).values(lease_expires_at=ends_at))
        waiting = asyncio.create_task(world.write(renew, job.lease, 60_000))
        while not await seen(lambda _: text(blocked)) or await holder.now_ms() <= ends_at:
            await asyncio.sleep(0.01)
    with pytest.raises(LeaseLost):
        await waiting
    await db.close()
