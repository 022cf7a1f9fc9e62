"""A failed job, once more (Q11): one new job, the same work, and still one result a call and one resume a batch."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from pagegate.storage import external, jobs, runs, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.external import ResultDelivered
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob, JobNotFound
from pagegate.storage.retries import JobAlreadyRetried, JobNotFailed, Retried, retry_failed_job
from pagegate.storage.runs import JobQueueFull
from tests.world import TTL_MS, World

ERROR = {"code": "RENDER_SERVICE_UNAVAILABLE", "message": "gone", "hint": ""}
table = schema.ai_page_mutation_jobs


async def fail(world: World, job: ClaimedJob) -> None:
    await world.write(jobs.finish_job, job.lease, "fail", error=ERROR)


async def retry(world: World, job_id: int, **options: Any) -> Retried:
    given: dict[str, Any] = {"active_jobs_max": 10, "deadline_ms": 600_000, "user_id": world.user_id} | options
    return await world.write(retry_failed_job, PAGE_MUTATION, job_id, **given)


async def a_failed_job_beside_a_waiting_one(world: World) -> tuple[runs.Submitted, int]:
    submitted = await world.submit("a", "b")
    failed = await world.claimed()
    await fail(world, failed)
    return submitted, failed.id


async def test_a_retry_is_a_new_job_with_the_same_work_and_new_budgets(world: World) -> None:
    submitted, old_id = await a_failed_job_beside_a_waiting_one(world)
    retried = await retry(world, old_id)
    old, new = await world.job(old_id), await world.job(retried.job_id)
    assert (old.status, old.error_code) == ("failed", "RENDER_SERVICE_UNAVAILABLE"), "an end never changes"
    assert (new.status, new.retry_of, new.attempt, new.infra_failures, new.error) == ("pending", old_id, 0, 0, None)
    same = ("workspace_id", "project_id", "user_id", "run_id", "tool_call_id", "batch_id", "page_code", "position")
    assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]
    assert new.deadline_at - new.created_at_ms >= 600_000
    assert await world.tasks(submitted.run_id) == [("pending", None), ("pending", None)]
    events = await world.read(runs.list_events, submitted.run_id)
    assert (events[-1].kind, events[-1].data["job_id"], events[-1].data["retry_of"]) == (
        "tool.retried",
        new.id,
        old_id,
    )


async def test_a_call_that_was_retried_has_one_result_and_its_batch_is_resumed_once(world: World) -> None:
    submitted, old_id = await a_failed_job_beside_a_waiting_one(world)
    retried = await retry(world, old_id)
    sibling, again = await world.claimed(), await world.claimed()
    assert {sibling.id, again.id} == {submitted.job_ids[1], retried.job_id}
    await world.write(jobs.finish_job, sibling.lease, "finish", result={"of": sibling.id})
    assert await world.batch_state(submitted.run_id) == "waiting", "the retry is still waited for"
    await world.write(jobs.finish_job, again.lease, "finish", result={"of": again.id})
    batch = await world.claim_batch()
    assert batch is not None
    results = await world.read(external.list_results, batch.batch_id)
    assert {(result.job_id, result.state) for result in results} == {
        (sibling.id, "succeeded"),
        (again.id, "succeeded"),
    }
    assert await world.claim_batch() is None
    await world.write(external.finish_batch, batch.lease)
    assert await world.claim_batch() is None


async def test_a_batch_that_became_ready_waits_again_as_long_as_nobody_has_claimed_it(world: World) -> None:
    submitted = await world.submit("a")
    failed = await world.claimed()
    await fail(world, failed)
    assert await world.batch_state(submitted.run_id) == "ready"
    await retry(world, failed.id)
    assert await world.batch_state(submitted.run_id) == "waiting"
    assert await world.claim_batch() is None
    again = await world.claimed()
    await world.write(jobs.finish_job, again.lease, "finish", result={})
    assert await world.batch_state(submitted.run_id) == "ready"


@pytest.mark.parametrize("delivered", ["being delivered", "delivered", "run cancelled", "run over"])
async def test_a_retry_is_refused_once_somebody_may_have_been_told(world: World, delivered: str) -> None:
    submitted, old_id = await a_failed_job_beside_a_waiting_one(world)
    if delivered == "run cancelled":
        await world.write(runs.cancel_run, submitted.run_id)
    elif delivered == "run over":
        await world.write(runs.finish_run, submitted.run_id, "fail")
    else:
        await fail(world, await world.claimed())
        batch = await world.claim_batch()
        assert batch is not None
        if delivered == "delivered":
            await world.write(external.finish_batch, batch.lease)
    before = await world.tasks(submitted.run_id)
    with pytest.raises(ResultDelivered):
        await retry(world, old_id)
    assert await world.tasks(submitted.run_id) == before
    async with world.db.read() as tx:
        assert (await tx.execute(select(table.c.id).where(table.c.retry_of.is_not(None)))).all() == []


async def test_only_a_failed_job_can_be_retried(world: World) -> None:
    submitted = await world.submit("a", "b", "c")
    with pytest.raises(JobNotFailed, match="pending"):
        await retry(world, submitted.job_ids[0])
    running = await world.claimed()
    with pytest.raises(JobNotFailed, match="running"):
        await retry(world, running.id)
    await world.write(jobs.finish_job, running.lease, "finish", result={})
    with pytest.raises(JobNotFailed, match="succeeded"):
        await retry(world, running.id)
    await world.write(jobs.request_cancel, PAGE_MUTATION, submitted.job_ids[1])
    with pytest.raises(JobNotFailed, match="cancelled"):
        await retry(world, submitted.job_ids[1])
    with pytest.raises(JobNotFound):
        await retry(world, 4711)


async def test_a_job_is_retried_once_and_then_its_retry_is(world: World) -> None:
    _, old_id = await a_failed_job_beside_a_waiting_one(world)
    first = await retry(world, old_id)
    with pytest.raises(JobAlreadyRetried, match=f"job {first.job_id}, which is pending"):
        await retry(world, old_id)
    while (job := await world.claimed()).id != first.job_id:
        pass
    await fail(world, job)
    with pytest.raises(JobAlreadyRetried, match="failed"):
        await retry(world, old_id)
    second = await retry(world, first.job_id)
    assert (await world.job(second.job_id)).retry_of == first.job_id


async def test_two_who_retry_at_once_make_one_job(world: World, database_url: str) -> None:
    _, old_id = await a_failed_job_beside_a_waiting_one(world)
    other = World(await Database.open(database_url), user_id=world.user_id)
    made = await asyncio.gather(retry(world, old_id), retry(other, old_id), return_exceptions=True)
    assert sorted(type(one).__name__ for one in made) == ["JobAlreadyRetried", "Retried"]
    await other.db.close()


async def test_the_database_itself_lets_no_job_be_retried_twice(world: World) -> None:
    _, old_id = await a_failed_job_beside_a_waiting_one(world)
    await retry(world, old_id)
    with pytest.raises(IntegrityError):
        await world.write(lambda tx: tx.execute(text(f"UPDATE ai_page_mutation_jobs SET retry_of = {old_id}")))


async def test_a_retry_and_a_coordinator_at_once_have_one_winner(world: World, database_url: str) -> None:
    other = World(await Database.open(database_url))
    for _ in range(8):
        submitted = await world.submit("a")
        failed = await world.claimed()
        await fail(world, failed)
        retried, batch = await asyncio.gather(retry(world, failed.id), other.claim_batch(), return_exceptions=True)
        if isinstance(retried, Retried):
            assert batch is None
            again = await world.claimed()
            await world.write(jobs.finish_job, again.lease, "finish", result={})
            batch = await world.claim_batch()
        else:
            assert isinstance(retried, ResultDelivered)
        assert isinstance(batch, external.ClaimedBatch)
        await world.write(external.finish_batch, batch.lease)
        await world.write(runs.finish_run, submitted.run_id, "finish")
    await other.db.close()


async def test_a_retry_and_the_end_of_the_last_sibling_at_once_leave_the_batch_waiting(
    world: World, database_url: str
) -> None:
    other = await Database.open(database_url)
    for _ in range(8):
        submitted, old_id = await a_failed_job_beside_a_waiting_one(world)
        sibling = await world.claimed()

        async def end(job: ClaimedJob = sibling) -> None:
            async with other.write() as tx:
                await jobs.finish_job(tx, job.lease, "finish", result={})

        await asyncio.gather(retry(world, old_id), end())
        assert await world.batch_state(submitted.run_id) == "waiting"
        again = await world.claimed()
        await world.write(jobs.finish_job, again.lease, "finish", result={})
        assert await world.batch_state(submitted.run_id) == "ready"
    await other.close()


async def test_a_retry_counts_against_the_limit_of_live_jobs(world: World) -> None:
    _, old_id = await a_failed_job_beside_a_waiting_one(world)
    with pytest.raises(JobQueueFull):
        await retry(world, old_id, active_jobs_max=1)
    assert (await retry(world, old_id, active_jobs_max=2)).job_id


async def test_a_retry_takes_the_place_of_its_job_in_the_order_of_calls(world: World) -> None:
    """A2: a later call on the same page that has not run yet waits for the retry."""
    submitted = await world.submit("intro", "intro")
    first = await world.claimed()
    await fail(world, first)
    retried = await retry(world, first.id)
    assert (await world.claimed()).id == retried.job_id
    assert await world.claim() is None
    assert (await world.job(submitted.job_ids[1])).status == "pending"


async def test_a_repair_after_a_crash_leaves_a_reopened_task_alone(world: World) -> None:
    submitted, old_id = await a_failed_job_beside_a_waiting_one(world)
    await retry(world, old_id)
    assert await world.write(external.synchronize_external_task_states) == 0
    assert [state for state, _ in await world.tasks(submitted.run_id)] == ["pending", "pending"]


async def test_a_failed_job_without_a_task_is_retried_by_itself(world: World) -> None:
    _, old_id = await a_failed_job_beside_a_waiting_one(world)
    tasks = schema.ai_agent_external_tasks

    async def forget(tx: Tx) -> None:
        await tx.execute(tasks.delete().where(tasks.c.job_id == old_id))

    await world.write(forget)
    retried = await retry(world, old_id)
    job = await world.claim("w", TTL_MS)
    while job is not None and job.id != retried.job_id:
        job = await world.claim("w", TTL_MS)
    assert job is not None
