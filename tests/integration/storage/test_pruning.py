"""What ended long ago goes as a whole, oldest first, and nothing else does (Q11)."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pagegate.storage import external, jobs, pruning, renders, runs, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import PAGE_MUTATION
from pagegate.storage.pruning import START, Retention
from tests.world import World

DAY_MS = 24 * 3600 * 1000
KEEP = Retention(succeeded_ms=DAY_MS, cancelled_ms=2 * DAY_MS, failed_ms=10 * DAY_MS)
table = schema.ai_page_mutation_jobs
HANGING = (
    schema.ai_agent_runs,
    schema.ai_agent_run_events,
    schema.ai_agent_tool_calls,
    schema.ai_agent_external_batches,
    schema.ai_agent_external_tasks,
    schema.ai_page_mutation_batches,
    schema.ai_page_mutation_jobs,
    schema.render_requests,
    schema.render_attempts,
)


async def an_ended_run(world: World, *ends: Any, days_ago: float) -> runs.Submitted:
    """A run with a job for each of `ends`, each with a render, all of it over since `days_ago`."""
    submitted = await world.submit(*[f"page-{number}" for number in range(len(ends))])
    for end in ends:
        job = await world.claimed()
        attempt = await world.reserved(await world.enqueue(job), f"renderer-{job.id}")
        await world.write(renders.finish_attempt, attempt.lease, {})
        error = {"code": "X", "message": "", "hint": ""} if end == "fail" else None
        await world.write(jobs.finish_job, job.lease, end, result={}, error=error)
    batch = await world.claim_batch()
    assert batch is not None
    await world.write(external.finish_batch, batch.lease)
    await world.write(runs.finish_run, submitted.run_id, "finish")
    await end_in_the_past(world, submitted.run_id, days_ago)
    return submitted


async def end_in_the_past(world: World, run_id: int, days_ago: float) -> None:
    async with world.db.write() as tx:
        then = tx.now - int(days_ago * DAY_MS)
        for one, column in ((table, table.c.run_id), (schema.ai_agent_runs, schema.ai_agent_runs.c.id)):
            ended = update(one).where(column == run_id, one.c.finished_at_ms.is_not(None))
            await tx.execute(ended.values(finished_at_ms=then))


async def prune(world: World, *, limit: int = 100) -> int:
    gone, after = 0, START
    while True:
        page = await world.read(pruning.list_prunable_runs, KEEP, after, limit)
        gone += await world.write(pruning.prune_runs, KEEP, page.run_ids)
        if page.after is None:
            return gone
        after = page.after


async def left(world: World) -> list[int]:
    async with world.db.read() as tx:
        return list((await tx.execute(select(schema.ai_agent_runs.c.id).order_by(schema.ai_agent_runs.c.id))).scalars())


async def test_a_run_goes_with_all_that_hangs_on_it_and_its_versions_stay(world: World) -> None:
    old = await an_ended_run(world, "finish", "finish", days_ago=1.1)
    async with world.db.write() as tx:
        page = {"project_id": world.projects[0], "code": "p", "title": "", "framework": "vue"}
        page_id = await tx.insert(schema.pages, **page, created_at_ms=tx.now, updated_at_ms=tx.now)
        version = {"number": 1, "source": "", "title": "", "component_pins": {}, "status": "passed"}
        about = {"job_id": old.job_ids[0], "created_by": world.user_id, "created_at_ms": tx.now}
        await tx.insert(schema.page_versions, page_id=page_id, **version, **about)
    assert await prune(world) == 1
    async with world.db.read() as tx:
        for one in HANGING:
            assert (await tx.execute(select(func.count()).select_from(one))).scalar_one() == 0, one.name
        kept = (await tx.execute(select(schema.page_versions))).one()
    assert kept.job_id == old.job_ids[0]
    assert (await world.submit("next")).job_ids[0] > max(old.job_ids), "an id is never given again"


@pytest.mark.parametrize(
    ("ends", "days_ago", "goes"),
    [
        (["finish"], 0.9, False),
        (["finish"], 1.1, True),
        (["cancel"], 1.1, False),
        (["cancel"], 2.1, True),
        (["skip"], 1.1, False),
        (["skip"], 2.1, True),
        (["fail"], 9.9, False),
        (["fail"], 10.1, True),
        (["finish", "fail"], 9.9, False),
        (["finish", "fail"], 10.1, True),
    ],
)
async def test_each_end_is_kept_for_its_time_and_a_run_for_the_longest_of_its_jobs(
    world: World, ends: list[str], days_ago: float, goes: bool
) -> None:
    submitted = await an_ended_run(world, *ends, days_ago=days_ago)
    assert await prune(world) == int(goes)
    assert await left(world) == ([] if goes else [submitted.run_id])


async def test_a_run_that_is_not_over_stays_however_old_its_jobs_are(world: World) -> None:
    submitted = await world.submit("a", "b")
    job = await world.claimed()
    await world.write(jobs.finish_job, job.lease, "finish", result={})
    await end_in_the_past(world, submitted.run_id, 1_000)
    assert await prune(world) == 0
    await world.write(runs.cancel_run, submitted.run_id)
    assert await prune(world) == 0, "the run itself has only just ended"
    await end_in_the_past(world, submitted.run_id, 1_000)
    assert await prune(world) == 1


async def test_a_cancelled_run_whose_job_still_runs_stays(world: World) -> None:
    submitted = await world.submit("a")
    await world.claimed()
    await world.write(runs.cancel_run, submitted.run_id)
    await end_in_the_past(world, submitted.run_id, 1_000)
    assert await prune(world) == 0


async def test_runs_that_must_stay_hide_nothing_behind_them(world: World) -> None:
    kept = [(await an_ended_run(world, "fail", days_ago=5)).run_id for _ in range(3)]
    for _ in range(2):
        await an_ended_run(world, "finish", days_ago=3)
    assert await prune(world, limit=2) == 2
    assert await left(world) == kept


async def test_the_oldest_come_first(world: World) -> None:
    young = await an_ended_run(world, "finish", days_ago=3)
    old = await an_ended_run(world, "finish", days_ago=4)
    page = await world.read(pruning.list_prunable_runs, KEEP, START, 1)
    assert page.run_ids == [old.run_id]
    assert page.after is not None
    page = await world.read(pruning.list_prunable_runs, KEEP, page.after, 1)
    assert page.run_ids == [young.run_id]


async def test_a_retry_and_its_failed_job_go_together(world: World) -> None:
    from pagegate.storage.retries import retry_failed_job

    submitted = await world.submit("a")
    failed = await world.claimed()
    await world.write(jobs.finish_job, failed.lease, "fail", error={"code": "X", "message": "", "hint": ""})
    await world.write(
        retry_failed_job, PAGE_MUTATION, failed.id, active_jobs_max=9, deadline_ms=None, user_id=world.user_id
    )
    again = await world.claimed()
    await world.write(jobs.finish_job, again.lease, "finish", result={})
    batch = await world.claim_batch()
    assert batch is not None
    await world.write(external.finish_batch, batch.lease)
    await world.write(runs.finish_run, submitted.run_id, "finish")
    await end_in_the_past(world, submitted.run_id, 9)
    assert await prune(world) == 0
    await end_in_the_past(world, submitted.run_id, 11)
    assert await prune(world) == 1


async def test_pruners_of_several_replicas_do_not_disturb_each_other(world: World, database_url: str) -> None:
    ids = [(await an_ended_run(world, "finish", days_ago=3)).run_id for _ in range(6)]
    replica = World(await Database.open(database_url))
    gone = await asyncio.gather(
        world.write(pruning.prune_runs, KEEP, ids), replica.write(pruning.prune_runs, KEEP, ids[::-1])
    )
    assert sum(gone) == 6
    assert await left(world) == []
    await replica.db.close()


async def test_a_run_that_may_not_go_any_more_is_not_taken(world: World) -> None:
    """Between the look and the deletion its time may have been extended by another setting on another replica."""
    submitted = await an_ended_run(world, "finish", days_ago=3)
    longer = Retention(10 * DAY_MS, 10 * DAY_MS, 10 * DAY_MS)
    assert await world.write(pruning.prune_runs, longer, [submitted.run_id]) == 0
    assert await left(world) == [submitted.run_id]


async def test_jobs_of_no_run_are_pruned_by_themselves_a_retry_before_what_it_retries(world: World) -> None:
    submitted = await an_ended_run(world, "fail", "finish", "finish", days_ago=20)
    first, second, third = submitted.job_ids

    async def loosen(tx: Tx) -> None:
        await tx.execute(update(table).values(run_id=None))
        await tx.execute(update(table).where(table.c.id == second).values(retry_of=first))
        await tx.execute(update(table).where(table.c.id == third).values(finished_at_ms=tx.now))

    await world.write(loosen)
    pruned = [await world.write(pruning.prune_loose_jobs, PAGE_MUTATION, KEEP, 10) for _ in range(3)]
    assert pruned == [1, 1, 0]
    async with world.db.read() as tx:
        assert list((await tx.execute(select(table.c.id))).scalars()) == [third]
