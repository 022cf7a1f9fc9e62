"""The queue and its workers on real databases, with a kind of job whose work the test decides."""

import asyncio
from collections.abc import Callable
from typing import Any

import pykka
import pytest
from sqlalchemy import update

from pagegate.actors.kernel import ask
from pagegate.actors.queues.kinds import End, Settle, StartOver, TryLater
from pagegate.actors.queues.queue import CancelHint, Drain, GetQueueState, JobsSubmitted
from pagegate.storage import jobs, runs, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from pagegate.storage.lease import require_held
from tests.integration.queues.lane import Lane, Scripted
from tests.world import World


async def until(job_is: Callable[[Any], bool], lane: Lane, job_id: int) -> Any:
    async with asyncio.timeout(10):
        while not job_is(row := await lane.world.job(job_id)):
            await asyncio.sleep(0.01)
    return row


async def make_available(db: Database) -> None:
    """End every backoff now."""
    async with db.write() as tx:
        await tx.execute(update(schema.ai_page_mutation_jobs).values(available_at=tx.now))


async def test_a_submitted_job_is_claimed_run_and_ended_with_its_external_task(lane: Lane) -> None:
    submitted = await lane.world.submit("a")
    lane.queue.tell(JobsSubmitted())
    row = await lane.is_over(submitted.job_ids[0])
    assert (row.status, row.result) == ("succeeded", {"attempt": 1})
    assert await lane.world.tasks(submitted.run_id) == [("succeeded", {"attempt": 1})]
    assert await lane.world.batch_state(submitted.run_id) == "ready"


async def test_a_lost_wake_up_costs_one_poll(lane: Lane) -> None:
    submitted = await lane.world.submit("a")
    assert (await lane.is_over(submitted.job_ids[0])).status == "succeeded"


async def test_a_queue_claims_no_more_than_it_has_free_workers(world: World) -> None:
    kind = Scripted()
    kind.work = kind.hang
    lane = Lane(world, kind, workers=2)
    await world.submit("a", "b", "c")
    lane.queue.tell(JobsSubmitted())
    await lane.has_started()
    await lane.has_started()
    assert (await ask(lane.queue, GetQueueState())).free == frozenset()
    assert (await world.read(jobs.queue_counts, PAGE_MUTATION)).pending == 1
    await lane.stop()


async def test_a_worker_whose_lease_was_taken_writes_nothing(lane: Lane) -> None:
    lane.kind.work = lane.kind.hang
    submitted = await lane.world.submit("a")
    await lane.has_started()
    (first,) = lane.kind.claims
    lane.kind.work = lane.kind.succeed
    await lane.world.expire(first.lease)  # as if it had been paused; the sweep rescues, and the heartbeat notices
    row = await until(lambda row: row.status == "succeeded", lane, submitted.job_ids[0])
    assert row.result == {"attempt": 2}
    assert row.lease_losses == 1
    assert lane.kind.told == ["finish"]


async def test_a_run_is_told_of_a_job_that_lost_its_worker_once_too_often(lane: Lane) -> None:
    lane.kind.work = lane.kind.hang
    submitted = await lane.world.submit("a")
    await lane.has_started()
    async with lane.world.db.write() as tx:
        await tx.execute(update(schema.ai_page_mutation_jobs).values(lease_losses=3, lease_expires_at=tx.now - 1))
    row = await until(lambda row: row.status == "failed", lane, submitted.job_ids[0])
    assert row.error_code == "JOB_LEASE_LOST"
    events = await lane.world.read(runs.list_events, submitted.run_id)
    assert [event.data.get("code") for event in events if event.kind == "tool.ended"] == ["JOB_LEASE_LOST"]


async def test_infrastructure_failures_are_tried_again_and_counted(lane: Lane) -> None:
    lane.kind.raises(TryLater("RUNTIME_UNREACHABLE", "gone"), TryLater("RENDER_QUEUE_FULL", "full", counts=False))
    submitted = await lane.world.submit("a")
    row = await lane.is_over(submitted.job_ids[0])
    assert (row.status, row.infra_failures, row.error_code) == ("pending", 1, "RUNTIME_UNREACHABLE")
    assert row.available_at > row.heartbeat_at
    await make_available(lane.world.db)
    row = await lane.is_over(submitted.job_ids[0])
    assert (row.status, row.infra_failures) == ("pending", 1), "a full queue uses up no budget"
    await make_available(lane.world.db)
    row = await lane.is_over(submitted.job_ids[0])
    assert (row.status, row.attempt) == ("succeeded", 3)


async def test_a_used_up_budget_ends_the_job_with_the_infrastructure_code_and_what_was_known(lane: Lane) -> None:
    lane.kind.raises(TryLater("RENDER_SERVICE_UNAVAILABLE", "gone", result={"status": "unavailable"}))
    await lane.pause()
    submitted = await lane.world.submit("a")
    async with lane.world.db.write() as tx:
        await tx.execute(update(schema.ai_page_mutation_jobs).values(infra_failures=10))
    await lane.resume()
    row = await until(lambda row: row.status == "failed", lane, submitted.job_ids[0])
    assert row.error_code == "RENDER_SERVICE_UNAVAILABLE"
    assert await lane.world.tasks(submitted.run_id) == [("failed", {"status": "unavailable"})]


async def test_a_job_past_its_deadline_is_not_tried_again(lane: Lane) -> None:
    lane.kind.raises(TryLater("RUNTIME_VITE_QUEUE_FULL", "full", counts=False))
    submitted = await lane.world.submit("a", job_deadline_ms=1)
    row = await until(lambda row: row.status == "failed", lane, submitted.job_ids[0])
    assert row.error_code == "RUNTIME_VITE_QUEUE_FULL"


async def test_a_bug_in_the_work_is_counted_and_does_not_stop_the_queue(lane: Lane) -> None:
    lane.kind.raises(ZeroDivisionError())
    bad, good = (await lane.world.submit("a", "b")).job_ids
    row = await lane.is_over(bad)
    assert (row.status, row.error_code, row.infra_failures) == ("pending", "JOB_CRASHED", 1)
    assert (await lane.is_over(good)).status == "succeeded"


async def test_a_running_job_that_is_cancelled_stops_and_ends_as_cancelled(lane: Lane) -> None:
    lane.kind.work = lane.kind.hang
    submitted = await lane.world.submit("a")
    job_id = await lane.has_started()
    assert await lane.world.write(jobs.request_cancel, PAGE_MUTATION, job_id) == "requested"
    lane.queue.tell(CancelHint(job_id))
    row = await lane.is_over(job_id)
    assert row.status == "cancelled"
    assert [state for state, _ in await lane.world.tasks(submitted.run_id)] == ["cancelled"]


async def test_a_cancel_without_the_hint_is_read_at_the_next_heartbeat(lane: Lane) -> None:
    lane.kind.work = lane.kind.hang
    await lane.world.submit("a")
    job_id = await lane.has_started()
    await lane.world.write(jobs.request_cancel, PAGE_MUTATION, job_id)
    assert (await lane.is_over(job_id)).status == "cancelled"


async def test_a_drain_waits_for_running_jobs_then_gives_back_what_is_left(lane: Lane) -> None:
    lane.kind.work = lane.kind.hang
    running, waiting = (await lane.world.submit("a", "b")).job_ids
    await lane.has_started()
    await asyncio.wait_for(ask(lane.queue, Drain(grace_s=0.01)), 10)
    row = await lane.world.job(running)
    assert (row.status, row.worker_id, row.infra_failures, row.lease_losses) == ("pending", None, 0, 0)
    assert (await lane.world.job(waiting)).attempt == 0, "a draining queue claims nothing"


async def test_a_paused_lane_claims_nothing_until_it_is_resumed(lane: Lane) -> None:
    await lane.pause()
    submitted = await lane.world.submit("a")
    for _ in range(3):
        lane.queue.tell(JobsSubmitted())
    assert (await ask(lane.queue, GetQueueState())).busy == frozenset()
    assert (await lane.world.job(submitted.job_ids[0])).attempt == 0
    await lane.resume()
    assert (await lane.is_over(submitted.job_ids[0])).status == "succeeded"


async def test_a_worker_that_crashed_is_used_again(lane: Lane) -> None:
    lane.kind.work = lane.kind.hang
    submitted = await lane.world.submit("a", "b")
    await lane.has_started()
    lane.kind.work = lane.kind.succeed
    lane.workers[0].tell(pykka.messages.ProxyCall(("no_such_method",), (), {}))
    row = await until(lambda row: row.status == "succeeded", lane, submitted.job_ids[1])
    assert row.attempt == 1


async def test_a_settlement_that_no_longer_fits_is_made_again_and_leaves_nothing(lane: Lane) -> None:
    async def work(job: ClaimedJob) -> Settle:
        async def settle(tx: Tx) -> End:
            if len(lane.kind.claims) == 1:
                await tx.execute(update(schema.ai_page_mutation_jobs).values(page_code="half-written"))
                raise StartOver
            return End("finish")

        return settle

    lane.kind.work = work
    submitted = await lane.world.submit("a")
    row = await lane.is_over(submitted.job_ids[0])
    assert (row.status, row.attempt, row.page_code) == ("succeeded", 1, "a")
    assert len(lane.kind.claims) == 2


async def test_the_final_transaction_of_a_lost_lease_is_rolled_back_whole(lane: Lane) -> None:
    async def work(job: ClaimedJob) -> Settle:
        if job.lease.fence == 1:
            await lane.world.expire(job.lease)

        async def settle(tx: Tx) -> End:
            await tx.execute(update(schema.ai_page_mutation_jobs).values(page_code=f"by-{job.lease.fence}"))
            return End("finish")

        return settle

    lane.kind.work = work
    submitted = await lane.world.submit("a")
    row = await until(lambda row: row.status == "succeeded", lane, submitted.job_ids[0])
    assert row.page_code == "by-2"


async def test_progress_of_a_lost_lease_is_refused(lane: Lane) -> None:
    lane.kind.work = lane.kind.hang
    await lane.world.submit("a")
    await lane.has_started()
    (job,) = lane.kind.claims
    await lane.world.expire(job.lease)
    with pytest.raises(Exception, match="fence 1"):
        await lane.world.write(require_held, job.lease)
