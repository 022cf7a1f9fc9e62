"""Many jobs at once on real databases: turns of workspaces, leases renewed together, ends that share a transaction."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select, update

from pagegate.actors.queues.kinds import End, Settle
from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.storage import jobs, lanes, schema
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob, Ending
from pagegate.storage.lease import LeaseLost
from tests.integration.queues.lane import Lane, Scripted
from tests.world import TTL_MS, World

table = schema.ai_page_mutation_jobs


async def claimed(world: World, count: int, workspace: int = 0) -> list[ClaimedJob]:
    about = {"workspace_id": world.workspaces[workspace], "count": count}
    return list(await world.write(jobs.claim_jobs, PAGE_MUTATION, "w", TTL_MS, **about))


async def test_one_statement_claims_for_many_workers_each_with_its_own_fence(world: World) -> None:
    await world.submit(*[f"page-{n}" for n in range(5)])
    first, second = await claimed(world, 3), await claimed(world, 3)
    assert [job.id for job in first + second] == sorted(job.id for job in first + second)
    assert (len(first), len(second)) == (3, 2)
    assert {job.lease.fence for job in first + second} == {1}


async def test_calls_on_one_page_are_not_claimed_together(world: World) -> None:
    """A2: only the first of them may run."""
    submitted = await world.submit("a", "a", "b")
    assert [job.row.page_code for job in await claimed(world, 3)] == ["a", "b"]
    assert (await world.job(submitted.job_ids[1])).status == "pending"


async def test_a_paused_lane_has_nothing_for_many_either(world: World) -> None:
    await world.submit("a", "b")
    await world.write(lanes.pause_lane, PAGE_MUTATION, world.user_id)
    assert await claimed(world, 2) == []


async def test_leases_are_renewed_together_and_a_lost_one_is_missing_alone(world: World) -> None:
    await world.submit("a", "b", "c", "d")
    first, lost, forged, asked = await claimed(world, 4)
    await world.expire(lost.lease)
    await world.write(jobs.request_cancel, PAGE_MUTATION, asked.id)
    async with world.db.write() as tx:
        await tx.execute(update(table).where(table.c.id == forged.id).values(worker_id="another"))
    leases = [job.lease for job in (first, lost, forged, asked)]
    renewed = await world.write(jobs.renew_jobs, leases, 2 * TTL_MS)
    assert {job_id: one.cancel_requested for job_id, one in renewed.items()} == {first.id: False, asked.id: True}
    assert renewed[first.id].lease.expires_at > first.lease.expires_at
    assert (await world.job(lost.id)).lease_expires_at < first.lease.expires_at


async def test_many_ends_are_written_together_with_their_tasks_or_not_at_all(world: World) -> None:
    submitted = await world.submit("a", "b", "c")
    one, two, three = await claimed(world, 3)
    error = {"code": "X", "message": "It is \u0000 broken.", "hint": "'Quote' it."}
    endings = [Ending(one.lease, "finish", {"at": "é"}), Ending(two.lease, "fail", None, error)]
    await world.expire(three.lease)
    with pytest.raises(LeaseLost):
        await world.write(jobs.finish_jobs, [*endings, Ending(three.lease, "finish")])
    assert {(await world.job(job.id)).status for job in (one, two)} == {"running"}
    assert await world.write(jobs.finish_jobs, endings) == ["succeeded", "failed"]
    rows = [await world.job(job.id) for job in (one, two)]
    assert [(row.status, row.result, row.error, row.error_code) for row in rows] == [
        ("succeeded", {"at": "é"}, None, None),
        ("failed", None, error, "X"),
    ]
    assert [state for state, _ in await world.tasks(submitted.run_id)] == ["succeeded", "failed", "pending"]


async def test_the_workspaces_that_wait_are_listed_with_their_first_job(world: World) -> None:
    many = await world.submit("a", "b", "c", priority=3)
    few = await world.submit("d", workspace=1)
    await world.submit("e", priority=1)
    waiting = await world.read(jobs.list_waiting, PAGE_MUTATION)
    assert [(one.workspace_id, one.priority) for one in waiting] == [(world.workspaces[0], 1), (world.workspaces[1], 0)]
    assert waiting[1].job_id == few.job_ids[0]
    assert waiting[0].job_id not in many.job_ids


async def test_who_waits_alone_is_claimed_from_without_a_look_and_only_then(world: World) -> None:
    async def alone(workspace: int) -> list[ClaimedJob]:
        about = {"workspace_id": world.workspaces[workspace], "count": 5, "if_alone": True}
        return list(await world.write(jobs.claim_jobs, PAGE_MUTATION, "w", TTL_MS, **about))

    await world.submit("a", "b")
    await world.submit("c", workspace=1)
    assert await alone(0) == await alone(1) == []
    assert [job.row.page_code for job in await claimed(world, 5, workspace=1)] == ["c"]
    assert await alone(1) == []
    assert [job.row.page_code for job in await alone(0)] == ["a", "b"]


async def test_one_job_behind_two_hundred_of_another_workspace_gets_the_next_free_worker(world: World) -> None:
    """CASE 18."""
    kind = Scripted()
    going = asyncio.Event()

    async def work(job: ClaimedJob) -> Settle:
        await going.wait()
        return await kind.succeed(job)

    kind.work = work
    lane = Lane(world, kind, workers=2)
    await world.submit(*[f"page-{n}" for n in range(200)])
    lane.queue.tell(JobsSubmitted())
    await lane.has_started()
    await lane.has_started()
    (small,) = (await world.submit("small", workspace=1)).job_ids
    going.set()
    next_two = {await lane.has_started(), await lane.has_started()}
    assert small in next_two
    await lane.stop()


async def test_a_bad_settlement_among_others_that_end_at_once_harms_none_of_them(world: World) -> None:
    kind = Scripted()
    begun, together = 0, asyncio.Event()

    async def work(job: ClaimedJob) -> Settle:
        nonlocal begun
        begun += 1
        if begun >= 4:
            together.set()
        await together.wait()

        async def settle(tx: Tx) -> End:
            await tx.execute(update(table).where(table.c.id == job.id).values(page_code=f"by-{job.lease.fence}"))
            if job.row.page_code == "bad" and job.lease.fence == 1:
                raise ZeroDivisionError
            return End("finish")

        return settle

    kind.work = work
    lane = Lane(world, kind, workers=4)
    submitted = await world.submit("a", "bad", "c", "d")
    lane.queue.tell(JobsSubmitted())
    for _ in range(4):
        async with asyncio.timeout(10):
            await kind.over.get()
    rows: list[Any] = [await world.job(job_id) for job_id in submitted.job_ids]
    assert [row.status for row in rows] == ["succeeded", "pending", "succeeded", "succeeded"]
    assert [row.page_code for row in rows] == ["by-1", "bad", "by-1", "by-1"]
    assert rows[1].error_code == "JOB_CRASHED"
    await lane.stop()


async def test_a_lost_lease_among_others_that_end_at_once_is_the_loss_of_its_own_job(world: World) -> None:
    kind = Scripted()
    begun, together = 0, asyncio.Event()

    async def work(job: ClaimedJob) -> Settle:
        nonlocal begun
        begun += 1
        if job.row.page_code == "lost" and job.lease.fence == 1:
            await world.expire(job.lease)
        if begun >= 3:
            together.set()
        await together.wait()
        return await kind.succeed(job)

    kind.work = work
    lane = Lane(world, kind, workers=3, sweep_s=3600.0)
    submitted = await world.submit("a", "lost", "c")
    lane.queue.tell(JobsSubmitted())
    for _ in range(3):
        async with asyncio.timeout(10):
            await kind.over.get()
    async with world.db.read() as tx:
        found = {row.page_code: row.status for row in await tx.execute(select(table.c.page_code, table.c.status))}
    assert found == {"a": "succeeded", "lost": "running", "c": "succeeded"}
    assert (await world.job(submitted.job_ids[1])).result is None
    await lane.stop()
