"""Durable jobs on both databases: one claim, one owner, one end (Q1-Q5, Q10; CASES 1, 3, 8, 10, 12, 13)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from pagegate.storage import jobs, lease, runs, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import PAGE_MUTATION, JobNotFound
from pagegate.storage.lease import LeaseLost
from tests.world import TTL_MS, World

table = schema.ai_page_mutation_jobs


async def test_a_claim_names_owner_lease_and_fence(world: World) -> None:
    await world.submit("intro")
    now = await world.read(Tx.now_ms)
    job = await world.claim("w1")
    assert job is not None
    assert (job.lease.worker_id, job.lease.fence, job.row.status) == ("w1", 1, "running")
    assert TTL_MS <= job.lease.expires_at - now < TTL_MS + 30_000
    assert job.row.started_at_ms >= now
    assert job.waited_ms >= 0


async def test_an_empty_queue_has_nothing_to_claim(world: World) -> None:
    assert await world.claim() is None


async def test_five_claimers_make_one_claim(world: World, database_url: str) -> None:
    """CASE 8, over connections of five processes."""
    await world.submit()
    processes = [await Database.open(database_url) for _ in range(5)]

    async def claim(db: Database, worker_id: str) -> Any:
        async with db.write() as tx:
            return await jobs.claim_job(tx, PAGE_MUTATION, worker_id, TTL_MS)

    claims = await asyncio.gather(*[claim(db, f"w{n}") for n, db in enumerate(processes)])
    assert sum(claim is not None for claim in claims) == 1
    for db in processes:
        await db.close()


async def test_claimers_at_once_share_out_what_there_is(world: World) -> None:
    await world.submit(*[f"page-{n}" for n in range(20)])
    claims = await asyncio.gather(*[world.claim(f"w{n}") for n in range(25)])
    ids = [claim.id for claim in claims if claim is not None]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) == 20


async def test_smaller_priority_goes_first_then_the_older_job(world: World) -> None:
    late = await world.submit("a", "b", priority=5)
    urgent = await world.submit("c", priority=1)
    claimed = [job.id for _ in range(3) if (job := await world.claim()) is not None]
    assert claimed == [*urgent.job_ids, *late.job_ids]


async def test_a_finished_job_keeps_its_end_and_tells_its_task(world: World) -> None:
    submitted = await world.submit()
    job = await world.claimed()
    assert await world.write(jobs.finish_job, job.lease, "finish", result={"version": 1}) == "succeeded"
    row = await world.job(job.id)
    assert (row.status, row.result, row.lease_expires_at) == ("succeeded", {"version": 1}, None)
    assert await world.tasks(submitted.run_id) == [("succeeded", {"version": 1})]


async def test_a_failed_job_tells_code_and_verdict(world: World) -> None:
    submitted = await world.submit()
    job = await world.claimed()
    error = {"code": "PAGE_VALIDATION_FAILED", "message": "It overflows.", "hint": "Make it smaller."}
    await world.write(jobs.finish_job, job.lease, "fail", result={"findings": []}, error=error)
    row = await world.job(job.id)
    assert (row.status, row.error_code, row.error) == ("failed", "PAGE_VALIDATION_FAILED", error)
    assert await world.tasks(submitted.run_id) == [("failed", {"findings": []})]


async def test_late_finish_from_an_old_attempt_is_refused(world: World) -> None:
    old = await world.claimed("w1")
    await world.expire(old.lease)
    assert await world.rescue(old) == "pending"
    new = await world.claim("w2")
    assert new is not None
    assert new.lease.fence == 2
    with pytest.raises(LeaseLost):
        await world.write(jobs.finish_job, old.lease, "finish", result={"from": "old"})
    await world.write(jobs.finish_job, new.lease, "finish", result={"from": "new"})
    assert (await world.job(new.id)).result == {"from": "new"}


async def test_finish_after_the_lease_ran_out_is_refused_even_if_nobody_took_the_job(world: World) -> None:
    job = await world.claimed()
    await world.expire(job.lease)
    with pytest.raises(LeaseLost):
        await world.write(jobs.finish_job, job.lease, "finish")
    assert (await world.job(job.id)).status == "running"


async def test_a_refused_first_statement_takes_the_rest_of_the_transaction_with_it(world: World) -> None:
    job = await world.claimed()
    await world.expire(job.lease)

    async def commit(tx: Tx) -> None:
        await tx.insert(schema.users, name="side effect", created_at_ms=tx.now)
        await jobs.finish_job(tx, job.lease, "finish")

    with pytest.raises(LeaseLost):
        await world.write(commit)
    async with world.db.read() as tx:
        assert [row.name for row in await tx.execute(schema.users.select())] == ["ada"]


async def test_the_same_worker_id_with_another_fence_owns_nothing(world: World) -> None:
    """CASE 4: a restarted replica that calls itself as before renews nothing of its old process."""
    old = await world.claimed("same-name")
    await world.expire(old.lease)
    await world.rescue(old)
    new = await world.claim("same-name")
    assert new is not None
    with pytest.raises(LeaseLost):
        await world.write(lease.renew, old.lease, TTL_MS)
    assert (await world.write(lease.renew, new.lease, TTL_MS)).fence == 2


async def test_another_worker_with_the_right_fence_owns_nothing(world: World) -> None:
    job = await world.claimed("w1")
    forged = replace(job.lease, worker_id="w2")
    with pytest.raises(LeaseLost):
        await world.write(lease.renew, forged, TTL_MS)
    with pytest.raises(LeaseLost):
        await world.write(jobs.finish_job, forged, "finish")


async def test_renewing_extends_the_lease_from_now(world: World) -> None:
    job = await world.claimed()
    renewed = await world.write(lease.renew, job.lease, 10 * TTL_MS)
    assert renewed.expires_at >= job.lease.expires_at + 8 * TTL_MS
    assert (await world.job(job.id)).lease_expires_at == renewed.expires_at


async def test_renewing_after_expiry_is_refused(world: World) -> None:
    job = await world.claimed()
    await world.expire(job.lease)
    with pytest.raises(LeaseLost):
        await world.write(lease.renew, job.lease, TTL_MS)


@pytest.mark.parametrize("event", ["finish", "fail", "skip", "cancel"])
async def test_renewing_after_the_end_is_refused(world: World, event: Any) -> None:
    job = await world.claimed()
    await world.write(jobs.finish_job, job.lease, event)
    with pytest.raises(LeaseLost):
        await world.write(lease.renew, job.lease, TTL_MS)


# --- retry and release ----------------------------------------------------------------------------------------------


async def test_a_retried_job_waits_for_its_delay_and_counts_its_failure(world: World) -> None:
    job = await world.claimed()
    error = {"code": "RENDER_SERVICE_UNAVAILABLE", "message": "No worker answered.", "hint": ""}
    assert await world.write(jobs.retry_job, job.lease, 600_000, "infra", error) == "pending"
    row = await world.job(job.id)
    assert (row.infra_failures, row.lease_losses, row.error_code) == (1, 0, "RENDER_SERVICE_UNAVAILABLE")
    assert await world.claim() is None
    next_at = await world.read(jobs.next_available_at, PAGE_MUTATION)
    assert next_at is not None
    assert next_at - await world.read(Tx.now_ms) > 500_000


async def test_waiting_for_a_full_queue_counts_as_nothing(world: World) -> None:
    job = await world.claimed()
    await world.write(jobs.retry_job, job.lease, 0, "none")
    again = await world.claim()
    assert again is not None
    assert (again.row.infra_failures, again.row.lease_losses, again.lease.fence) == (0, 0, 2)


async def test_an_error_of_an_earlier_attempt_is_gone_when_the_job_succeeds(world: World) -> None:
    job = await world.claimed()
    await world.write(jobs.retry_job, job.lease, 0, "infra", {"code": "X", "message": "", "hint": ""})
    again = await world.claimed()
    await world.write(jobs.finish_job, again.lease, "finish", result={})
    row = await world.job(again.id)
    assert (row.id, row.error, row.error_code) == (job.id, None, None)


async def test_a_released_job_is_free_at_once_and_its_old_owner_is_out(world: World) -> None:
    job = await world.claimed("leaving")
    assert await world.write(jobs.release_job, job.lease) == "pending"
    with pytest.raises(LeaseLost):
        await world.write(jobs.release_job, job.lease)
    again = await world.claim("staying")
    assert again is not None
    assert (again.id, again.lease.fence, again.row.infra_failures, again.row.lease_losses) == (job.id, 2, 0, 0)


# --- rescue ---------------------------------------------------------------------------------------------------------


async def test_a_job_is_recovered_from_its_own_lease_and_nothing_else(world: World) -> None:
    """CASE 3: no trace of the worker is needed."""
    job = await world.claimed("gone")
    await world.expire(job.lease)
    [expired] = await world.read(jobs.list_expired, PAGE_MUTATION, 100)
    assert (expired.id, expired.fence, expired.worker_id) == (job.id, 1, "gone")
    assert await world.rescue(job) == "pending"
    row = await world.job(job.id)
    assert (row.lease_losses, row.infra_failures, row.worker_id) == (1, 0, None)


async def test_a_live_lease_is_not_on_the_list(world: World) -> None:
    await world.claimed()
    assert await world.read(jobs.list_expired, PAGE_MUTATION, 100) == []


async def test_a_live_attempt_is_not_rescued_whoever_asks(world: World) -> None:
    """CASE 13: a rescuer whose own clock is ahead may believe that the lease is over; the database does not."""
    job = await world.claimed()
    assert await world.rescue(job) is None
    assert (await world.job(job.id)).lease_losses == 0
    await world.write(jobs.finish_job, job.lease, "finish")


async def test_a_rescuer_that_paused_does_not_touch_a_job_that_finished_meanwhile(world: World) -> None:
    """CASE 1."""
    submitted = await world.submit()
    job = await world.claimed()
    await world.expire(job.lease)
    [seen] = await world.read(jobs.list_expired, PAGE_MUTATION, 100)
    async with world.db.write() as tx:  # its renewal was only late on its way
        await tx.execute(update(table).where(table.c.id == job.id).values(lease_expires_at=tx.now + TTL_MS))
    await world.write(jobs.finish_job, job.lease, "finish", result={"version": 1})
    assert await world.write(jobs.rescue_job, PAGE_MUTATION, seen.id, seen.fence, 3) is None
    assert (await world.job(job.id)).status == "succeeded"
    assert await world.tasks(submitted.run_id) == [("succeeded", {"version": 1})]


async def test_a_rescuer_that_paused_does_not_touch_the_next_attempt(world: World) -> None:
    """CASE 13, the fence of it: even if that one has run out too, it was not the one that was seen."""
    job = await world.claimed()
    await world.expire(job.lease)
    assert await world.rescue(job) == "pending"
    fresh = await world.claimed()
    assert await world.rescue(job) is None
    await world.expire(fresh.lease)
    assert await world.rescue(job) is None
    assert (await world.job(job.id)).lease_losses == 1
    assert await world.rescue(fresh) == "pending"


async def test_two_rescuers_count_one_loss(world: World) -> None:
    job = await world.claimed()
    await world.expire(job.lease)
    assert sorted(map(str, await asyncio.gather(world.rescue(job), world.rescue(job)))) == ["None", "pending"]
    assert (await world.job(job.id)).lease_losses == 1


async def test_rescue_and_finish_at_once_have_one_winner(world: World, database_url: str) -> None:
    other = await Database.open(database_url)
    for _ in range(10):
        job = await world.claimed()
        await world.expire(job.lease)

        async def finish(db: Database, lost: Any = job) -> Any:
            async with db.write() as tx:
                return await jobs.finish_job(tx, lost.lease, "finish")

        rescued, finished = await asyncio.gather(world.rescue(job), finish(other), return_exceptions=True)
        assert rescued == "pending"
        assert isinstance(finished, LeaseLost)
        again = await world.claimed()
        await world.write(jobs.finish_job, again.lease, "finish")
    await other.close()


async def test_a_job_that_loses_too_many_leases_fails_with_an_infrastructure_error(world: World) -> None:
    submitted = await world.submit()
    states = []
    for _ in range(3):
        job = await world.claimed()
        await world.expire(job.lease)
        states.append(await world.rescue(job, lease_losses_max=2))
    assert states == ["pending", "pending", "failed"]
    row = await world.job(job.id)
    assert (row.error_code, row.lease_losses, row.infra_failures) == ("JOB_LEASE_LOST", 3, 0)
    [(state, told)] = await world.tasks(submitted.run_id)
    assert (state, told["code"]) == ("failed", "JOB_LEASE_LOST")


async def test_poisoned_rows_do_not_hide_the_good_one_behind_them(world: World) -> None:
    """CASE 12: a page of the list full of rows that no rescue can move, and one good row behind it."""
    await world.submit(*[f"page-{n}" for n in range(5)])
    claimed = [await world.claimed() for _ in range(5)]
    for job in claimed:
        await world.expire(job.lease)
    poisoned = [job.id for job in claimed[:4]]
    rescued, after_id = [], 0
    while page := await world.read(jobs.list_expired, PAGE_MUTATION, 2, after_id):
        for expired in page:
            if expired.id not in poisoned:
                await world.write(jobs.rescue_job, PAGE_MUTATION, expired.id, expired.fence, 3)
                rescued.append(expired.id)
        after_id = page[-1].id
    assert rescued == [claimed[4].id]
    assert (await world.job(claimed[4].id)).status == "pending"


async def test_a_sweep_that_breaks_off_is_finished_by_the_next_one(world: World) -> None:
    """CASE 10, with one transaction a job: what was rescued stays so, the rest is found again."""
    await world.submit(*[f"page-{n}" for n in range(50)])
    async with world.db.write() as tx:
        running = {"status": "running", "worker_id": "gone", "attempt": 1, "lease_expires_at": tx.now - 1}
        await tx.execute(update(table).values(**running))
    for expired in (await world.read(jobs.list_expired, PAGE_MUTATION, 1_000))[:19]:
        await world.write(jobs.rescue_job, PAGE_MUTATION, expired.id, expired.fence, 3)
    rest = await world.read(jobs.list_expired, PAGE_MUTATION, 1_000)
    assert len(rest) == 31
    for expired in rest:
        await world.write(jobs.rescue_job, PAGE_MUTATION, expired.id, expired.fence, 3)
    assert await world.read(jobs.list_expired, PAGE_MUTATION, 1_000) == []
    counts = await world.read(jobs.queue_counts, PAGE_MUTATION)
    assert (counts.pending, counts.running) == (50, 0)


# --- cancel ---------------------------------------------------------------------------------------------------------


async def test_a_pending_job_is_cancelled_at_once_and_its_task_with_it(world: World) -> None:
    submitted = await world.submit()
    [job_id] = submitted.job_ids
    assert await world.write(jobs.request_cancel, PAGE_MUTATION, job_id) == "cancelled"
    assert (await world.job(job_id)).error_code == "JOB_CANCELLED"
    [(state, told)] = await world.tasks(submitted.run_id)
    assert (state, told["code"]) == ("cancelled", "JOB_CANCELLED")
    assert await world.claim() is None


async def test_a_running_job_is_asked_to_stop_and_ends_by_its_own_hand(world: World) -> None:
    job = await world.claimed()
    assert not await world.read(jobs.is_cancel_requested, PAGE_MUTATION, job.id)
    assert await world.write(jobs.request_cancel, PAGE_MUTATION, job.id) == "requested"
    assert await world.write(jobs.request_cancel, PAGE_MUTATION, job.id) == "requested"
    assert await world.read(jobs.is_cancel_requested, PAGE_MUTATION, job.id)
    assert await world.write(jobs.finish_job, job.lease, "cancel") == "cancelled"
    assert (await world.job(job.id)).error_code == "JOB_CANCELLED"


@pytest.mark.parametrize("way", ["retry", "release", "rescue"])
async def test_a_job_that_was_asked_to_stop_does_not_run_again(world: World, way: str) -> None:
    submitted = await world.submit()
    job = await world.claimed()
    await world.write(jobs.request_cancel, PAGE_MUTATION, job.id)
    if way == "retry":
        state: Any = await world.write(jobs.retry_job, job.lease, 0, "infra", {"code": "X"})
    elif way == "release":
        state = await world.write(jobs.release_job, job.lease)
    else:
        await world.expire(job.lease)
        state = await world.rescue(job)
    assert state == "cancelled"
    assert [state for state, _ in await world.tasks(submitted.run_id)] == ["cancelled"]
    assert await world.claim() is None


async def test_cancelling_what_has_ended_changes_nothing(world: World) -> None:
    job = await world.claimed()
    await world.write(jobs.finish_job, job.lease, "finish", result={"version": 1})
    before = await world.job(job.id)
    assert await world.write(jobs.request_cancel, PAGE_MUTATION, job.id) == "already_terminal"
    assert await world.job(job.id) == before


async def test_an_unknown_job_is_not_found(world: World) -> None:
    with pytest.raises(JobNotFound):
        await world.write(jobs.request_cancel, PAGE_MUTATION, 4711)
    with pytest.raises(KeyError):
        await world.read(jobs.get_job, "users", 1)


async def test_cancel_and_claim_at_once_never_run_a_cancelled_job(world: World) -> None:
    for _ in range(10):
        submitted = await world.submit()
        [job_id] = submitted.job_ids
        cancelled, claim = await asyncio.gather(world.write(jobs.request_cancel, PAGE_MUTATION, job_id), world.claim())
        assert (cancelled, claim is None) in {("cancelled", True), ("requested", False)}
        if claim is not None:
            await world.write(jobs.finish_job, claim.lease, "cancel")


# --- order within a batch -------------------------------------------------------------------------------------------


async def test_calls_of_one_step_on_one_page_run_in_call_order(world: World) -> None:
    """A2; a page of its own goes on meanwhile, and so does the same page of another batch."""
    submitted = await world.submit("intro", "intro", "other")
    first, other = await world.claimed(), await world.claimed()
    assert [first.id, other.id] == [submitted.job_ids[0], submitted.job_ids[2]]
    assert await world.claim() is None
    await world.write(jobs.retry_job, first.lease, 600_000, "infra")
    assert await world.claim() is None, "an earlier call that waits still comes first"
    async with world.db.write() as tx:
        await tx.execute(update(table).where(table.c.id == first.id).values(available_at=tx.now))
    again = await world.claimed()
    assert again.id == first.id
    await world.write(jobs.finish_job, again.lease, "fail", error={"code": "X"})
    assert (await world.claimed()).id == submitted.job_ids[1]


async def test_batches_do_not_wait_for_each_other(world: World) -> None:
    await world.submit("intro")
    await world.submit("intro")
    assert (await world.claimed()).id != (await world.claimed()).id


# --- counts ---------------------------------------------------------------------------------------------------------


async def test_counts_show_depth_and_age_of_what_is_live(world: World) -> None:
    empty = await world.read(jobs.queue_counts, PAGE_MUTATION)
    assert (empty.pending, empty.running, empty.oldest_pending_age_ms, empty.oldest_running_age_ms) == (
        0,
        0,
        None,
        None,
    )
    await world.submit("a", "b", "c")
    async with world.db.write() as tx:
        await tx.execute(update(table).values(created_at_ms=tx.now - 5_000))
    ended = await world.claimed()
    await world.write(jobs.finish_job, ended.lease, "finish")
    await world.write(jobs.retry_job, (await world.claimed()).lease, 60_000, "none")
    await world.claimed()
    counts = await world.read(jobs.queue_counts, PAGE_MUTATION)
    assert (counts.pending, counts.runnable, counts.running) == (1, 0, 1)
    assert counts.oldest_pending_age_ms is not None
    assert counts.oldest_pending_age_ms >= 5_000
    assert counts.oldest_running_age_ms is not None
    assert await world.read(jobs.count_active, PAGE_MUTATION) == 2


async def test_a_new_code_for_a_page_to_be_made_needs_the_lease(world: World) -> None:
    step = world.step("intro")
    await world.write(runs.submit_step, replace(step, calls=[replace(step.calls[0], candidate_code="intro")]))
    assert await world.read(jobs.list_candidate_codes, world.projects[0]) == {"intro"}
    job = await world.claimed()
    await world.write(jobs.change_candidate_code, job.lease, "intro-2")
    row = await world.job(job.id)
    assert (row.candidate_code, row.page_code) == ("intro-2", "intro-2")
    await world.expire(job.lease)
    with pytest.raises(LeaseLost):
        await world.write(jobs.change_candidate_code, job.lease, "intro-3")
