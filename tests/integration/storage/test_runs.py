"""Runs, events and external tasks on both databases: submitted whole, resumed once (A2-A5, A7, A9, Q9; CASE 9)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pagegate.storage import external, jobs, runs, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.lease import LeaseLost, renew
from pagegate.storage.runs import BatchTooLarge, CallSubmission, IdempotencyKeyReused, JobQueueFull, RunNotFound
from tests.world import TTL_MS, World

REFUSED = {"code": "PAGE_NOT_FOUND", "message": "There is no such page.", "hint": "Create it first."}


async def count(world: World, table: Any) -> int:
    async with world.db.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table))).scalar_one())


async def end_all(world: World, event: Any = "finish") -> None:
    while (job := await world.claim()) is not None:
        await world.write(jobs.finish_job, job.lease, event, result={"job": job.id})


# --- submitting -----------------------------------------------------------------------------------------------------


async def test_a_step_comes_into_being_whole(world: World) -> None:
    submitted = await world.submit("intro", "outro")
    run = await world.read(runs.get_run, submitted.run_id)
    assert (run.status, run.source, run.run_step, submitted.created) == ("waiting_external", "api", 1, True)
    calls = await world.read(runs.list_tool_calls, submitted.run_id)
    assert [(call.position, call.status, call.job_id) for call in calls] == [
        (0, "pending", submitted.job_ids[0]),
        (1, "pending", submitted.job_ids[1]),
    ]
    assert await world.batch_state(submitted.run_id) == "waiting"
    [event] = await world.read(runs.list_events, submitted.run_id)
    assert (event.index, event.kind) == (1, "run.submitted")
    assert [call["job_id"] for call in event.data["calls"]] == list(submitted.job_ids)
    job = await world.claimed()
    assert await world.read(runs.get_arguments, job.row.tool_call_id) == {"source": "<p/>"}


async def test_a_call_refused_at_the_door_gets_a_result_and_no_job(world: World) -> None:
    step = world.step("intro", "missing")
    step = replace(step, calls=[step.calls[0], replace(step.calls[1], refused=REFUSED)])
    submitted = await world.write(runs.submit_step, step)
    assert len(submitted.job_ids) == 1
    assert await world.tasks(submitted.run_id) == [("pending", None), ("refused", REFUSED)]
    assert await world.batch_state(submitted.run_id) == "waiting"


async def test_a_step_of_refused_calls_only_is_ready_at_once(world: World) -> None:
    step = world.step("missing")
    submitted = await world.write(runs.submit_step, replace(step, calls=[replace(step.calls[0], refused=REFUSED)]))
    assert await world.batch_state(submitted.run_id) == "ready"


async def test_a_batch_over_a_limit_is_refused_whole(world: World) -> None:
    await world.submit("a", "b")
    with pytest.raises(BatchTooLarge):
        await world.submit("c", "d", batch_size_max=1)
    with pytest.raises(JobQueueFull):
        await world.submit("c", "d", active_jobs_max=3)
    assert await count(world, schema.ai_agent_runs) == 1
    assert await count(world, schema.ai_agent_tool_calls) == 2
    await end_all(world)
    await world.submit("c", "d", active_jobs_max=3)


async def test_the_limit_of_live_jobs_holds_against_submitters_at_once(world: World, database_url: str) -> None:
    replicas = [await Database.open(database_url) for _ in range(4)]

    async def submit(db: Database, n: int) -> None:
        async with db.write() as tx:
            await runs.submit_step(tx, world.step(f"page-{n}", active_jobs_max=3))

    outcomes = await asyncio.gather(*[submit(replicas[n % 4], n) for n in range(12)], return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 3
    assert sum(isinstance(outcome, JobQueueFull) for outcome in outcomes) == 9
    for db in replicas:
        await db.close()


async def test_the_same_key_answers_the_same_run_whatever_the_limits_say_now(world: World) -> None:
    step = world.step("intro", idempotency_key="k", request_digest="d")
    first = await world.write(runs.submit_step, step)
    again = await world.write(runs.submit_step, replace(step, active_jobs_max=0))
    assert (again.run_id, again.created) == (first.run_id, False)
    assert await count(world, schema.ai_page_mutation_jobs) == 1
    found = await world.read(runs.find_run_by_key, world.user_id, "k")
    assert found is not None
    assert found.id == first.run_id


async def test_the_same_key_at_the_same_moment_makes_one_run(world: World, database_url: str) -> None:
    step = world.step("intro", idempotency_key="k", request_digest="d")
    replicas = [await Database.open(database_url) for _ in range(4)]

    async def submit(db: Database) -> runs.Submitted:
        async with db.write() as tx:
            return await runs.submit_step(tx, step)

    outcomes = await asyncio.gather(*[submit(db) for db in replicas])
    assert len({outcome.run_id for outcome in outcomes}) == 1
    assert sum(outcome.created for outcome in outcomes) == 1
    assert await count(world, schema.ai_page_mutation_jobs) == 1
    for db in replicas:
        await db.close()


async def test_a_key_used_for_something_else_is_refused(world: World) -> None:
    await world.submit("intro", idempotency_key="k", request_digest="d")
    with pytest.raises(IdempotencyKeyReused):
        await world.submit("intro", idempotency_key="k", request_digest="other")


async def test_runs_without_a_key_are_all_different(world: World) -> None:
    assert (await world.submit()).run_id != (await world.submit()).run_id


async def test_a_run_in_progress_submits_its_next_step(world: World) -> None:
    first = await world.submit("a", source="agent")
    await end_all(world)
    with pytest.raises(RunNotFound):
        await world.submit("b", run_id=first.run_id)
    assert await world.write(runs.move_run, first.run_id, "resume")
    second = await world.submit("b", run_id=first.run_id)
    assert second.run_id == first.run_id
    assert (await world.read(runs.get_run, first.run_id)).run_step == 2
    with pytest.raises(RunNotFound):
        await world.submit("b", run_id=4711)


async def test_texts_come_back_as_they_were_sent(world: World) -> None:
    """No byte of a source may change between the call and the job, whatever the database thinks of it."""
    source = "<p>汉字 😀 \u0000 \r\n \ud83d</p>"
    call = CallSubmission("c", "create_project_page", {"source": source, "b": 1, "a": [1.5, None, True]}, "p")
    await world.write(runs.submit_step, replace(world.step("p"), calls=[call]))
    job = await world.claimed()
    arguments = await world.read(runs.get_arguments, job.row.tool_call_id)
    assert arguments == call.arguments
    assert list(arguments) == ["source", "b", "a"]


# --- events ---------------------------------------------------------------------------------------------------------


async def test_events_are_numbered_without_a_gap_by_writers_at_once(world: World) -> None:
    run_id = (await world.submit()).run_id
    indexes = await asyncio.gather(*[world.write(runs.append_event, run_id, "tick", {"n": n}) for n in range(20)])
    assert sorted(indexes) == list(range(2, 22))
    events = await world.read(runs.list_events, run_id)
    assert [event.index for event in events] == list(range(1, 22))


async def test_events_are_read_on_from_where_a_client_was(world: World) -> None:
    run_id = (await world.submit()).run_id
    for n in range(9):
        await world.write(runs.append_event, run_id, "tick", {"n": n})
    assert [event.index for event in await world.read(runs.list_events, run_id, 7)] == [8, 9, 10]
    assert [event.index for event in await world.read(runs.list_events, run_id, 0, 2)] == [1, 2]
    assert await world.read(runs.list_events, run_id, 99) == []


async def test_an_event_of_a_transaction_that_failed_leaves_no_gap(world: World) -> None:
    run_id = (await world.submit()).run_id

    async def fail(tx: Tx) -> None:
        await runs.append_event(tx, run_id, "lost", {})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await world.write(fail)
    assert await world.write(runs.append_event, run_id, "kept", {}) == 2


async def test_an_event_of_no_run_is_refused(world: World) -> None:
    with pytest.raises(RunNotFound):
        await world.write(runs.append_event, 4711, "tick", {})


# --- external tasks -------------------------------------------------------------------------------------------------


async def test_the_last_result_makes_the_batch_ready(world: World) -> None:
    submitted = await world.submit("a", "b")
    job = await world.claimed()
    await world.write(jobs.finish_job, job.lease, "finish", result={"job": 1})
    assert await world.batch_state(submitted.run_id) == "waiting"
    assert await world.claim_batch() is None
    await world.write(jobs.request_cancel, jobs.PAGE_MUTATION, submitted.job_ids[1])
    batch = await world.claim_batch()
    assert batch is not None
    assert (batch.run_id, batch.run_step, batch.lease.fence) == (submitted.run_id, 1, 1)
    results = await world.read(external.list_results, batch.batch_id)
    assert [(r.position, r.state) for r in results] == [(0, "succeeded"), (1, "cancelled")]
    assert results[0].result == {"job": 1}


async def test_jobs_that_end_at_once_still_make_the_batch_ready(world: World, database_url: str) -> None:
    """Each transaction sees the other's task pending; one of them must notice in the end."""
    replicas = [await Database.open(database_url) for _ in range(4)]

    async def finish(db: Database, lease: Any) -> None:
        async with db.write() as tx:
            await jobs.finish_job(tx, lease, "finish", result={})

    for _ in range(5):
        submitted = await world.submit("a", "b", "c", "d")
        claims = [await world.claimed() for _ in range(4)]
        await asyncio.gather(*[finish(db, job.lease) for db, job in zip(replicas, claims, strict=True)])
        assert await world.batch_state(submitted.run_id) == "ready"
    for db in replicas:
        await db.close()


async def test_a_result_is_told_once(world: World) -> None:
    submitted = await world.submit("a")
    [job_id] = submitted.job_ids
    job = await world.claimed()
    await world.write(jobs.finish_job, job.lease, "finish", result={"first": True})
    kind = jobs.PAGE_MUTATION
    assert not await world.write(external.write_task_result, kind, job_id, "failed", {"second": True})
    assert await world.tasks(submitted.run_id) == [("succeeded", {"first": True})]


async def test_a_job_without_a_task_is_nobodys_business(world: World) -> None:
    assert not await world.write(external.write_task_result, "page_screenshot_jobs", 1, "succeeded", {})


async def test_two_coordinators_claim_a_ready_batch_once(world: World, database_url: str) -> None:
    """CASE 9: the loser gets nothing to resume."""
    await world.submit("a")
    await end_all(world)
    replicas = [await Database.open(database_url) for _ in range(4)]

    async def claim(db: Database, n: int) -> Any:
        async with db.write() as tx:
            return await external.claim_ready_batch(tx, f"coordinator-{n}", TTL_MS)

    claims = await asyncio.gather(*[claim(db, n) for n, db in enumerate(replicas)])
    assert sum(found is not None for found in claims) == 1
    for db in replicas:
        await db.close()


async def test_a_stale_coordinator_changes_nothing(world: World) -> None:
    """A4: the model answered, but the lease had run out and another generation is at work."""
    submitted = await world.submit("a")
    await end_all(world)
    stale = await world.claim_batch("stale")
    assert stale is not None
    await world.expire(stale.lease)
    with pytest.raises(LeaseLost):
        await world.write(external.finish_batch, stale.lease)
    fresh = await world.claim_batch("fresh")
    assert fresh is not None
    assert (fresh.batch_id, fresh.lease.fence) == (stale.batch_id, 2)
    for late in (external.finish_batch, external.release_batch):
        with pytest.raises(LeaseLost):
            await world.write(late, stale.lease)
    await world.write(renew, fresh.lease, TTL_MS)

    async def resume(tx: Tx) -> None:
        await external.finish_batch(tx, fresh.lease)
        assert await runs.finish_run(tx, submitted.run_id, "finish", result={"ok": True})
        await runs.append_event(tx, submitted.run_id, "run.finished", {})

    await world.write(resume)
    assert await world.batch_state(submitted.run_id) == "completed"
    assert (await world.read(runs.get_run, submitted.run_id)).status == "succeeded"
    assert await world.claim_batch() is None


async def test_a_live_resume_is_not_taken_over(world: World) -> None:
    await world.submit("a")
    await end_all(world)
    assert await world.claim_batch() is not None
    assert await world.claim_batch() is None


async def test_a_released_batch_is_resumed_by_the_next_process(world: World) -> None:
    await world.submit("a")
    await end_all(world)
    batch = await world.claim_batch("leaving")
    assert batch is not None
    await world.write(external.release_batch, batch.lease)
    again = await world.claim_batch("staying")
    assert again is not None
    assert (again.batch_id, again.lease.fence) == (batch.batch_id, 2)


# --- ends -----------------------------------------------------------------------------------------------------------


async def test_a_run_ends_once(world: World) -> None:
    run_id = (await world.submit()).run_id
    assert await world.write(runs.finish_run, run_id, "fail", error=REFUSED)
    assert not await world.write(runs.finish_run, run_id, "finish", result={})
    run = await world.read(runs.get_run, run_id)
    assert (run.status, run.error, run.result) == ("failed", REFUSED, None)


async def test_stopping_a_run_ends_what_waits_and_asks_what_runs(world: World) -> None:
    submitted = await world.submit("a", "b")
    running = await world.claimed()
    assert await world.write(runs.cancel_run, submitted.run_id) == "cancelled"
    assert await world.batch_state(submitted.run_id) == "completed"
    assert (await world.job(submitted.job_ids[1])).status == "cancelled"
    assert await world.read(jobs.is_cancel_requested, jobs.PAGE_MUTATION, running.id)
    assert (await world.job(running.id)).status == "running"
    events = await world.read(runs.list_events, submitted.run_id)
    assert [event.kind for event in events] == ["run.submitted", "run.cancelled"]
    assert await world.write(runs.cancel_run, submitted.run_id) == "cancelled"
    assert len(await world.read(runs.list_events, submitted.run_id)) == 2
    await world.write(jobs.finish_job, running.lease, "cancel")
    assert await world.claim_batch() is None


async def test_stopping_a_run_takes_the_lease_of_its_resume(world: World) -> None:
    submitted = await world.submit("a")
    await end_all(world)
    batch = await world.claim_batch()
    assert batch is not None
    await world.write(runs.cancel_run, submitted.run_id)
    with pytest.raises(LeaseLost):
        await world.write(external.finish_batch, batch.lease)


async def test_stopping_a_run_that_is_over_answers_its_end(world: World) -> None:
    run_id = (await world.submit()).run_id
    await world.write(runs.finish_run, run_id, "finish")
    assert await world.write(runs.cancel_run, run_id) == "succeeded"
    with pytest.raises(RunNotFound):
        await world.write(runs.cancel_run, 4711)


# --- after a crash --------------------------------------------------------------------------------------------------


async def test_reconciling_writes_what_a_lost_write_through_left_out(world: World) -> None:
    """A5: a job that ended without its task, as after a restore of half a backup."""
    submitted = await world.submit("a")
    async with world.db.write() as tx:
        ended = {"status": "cancelled", "finished_at_ms": tx.now, "result": {"job": 1}}
        await tx.execute(update(schema.ai_page_mutation_jobs).values(**ended))
    assert await world.write(external.synchronize_external_task_states) == 1
    assert await world.tasks(submitted.run_id) == [("cancelled", {"job": 1})]
    assert await world.batch_state(submitted.run_id) == "ready"
    assert await world.write(external.synchronize_external_task_states) == 0


async def test_reconciling_settles_a_batch_and_closes_those_of_runs_that_are_over(world: World) -> None:
    settled, over = await world.submit("a"), await world.submit("b")
    async with world.db.write() as tx:
        tasks = schema.ai_agent_external_tasks
        await tx.execute(update(tasks).values(state="failed", finished_at_ms=tx.now))
        await runs.finish_run(tx, over.run_id, "fail")
    assert await world.write(external.synchronize_external_task_states) == 3
    assert await world.batch_state(settled.run_id) == "ready"
    assert await world.batch_state(over.run_id) == "completed"
    assert await world.write(external.synchronize_external_task_states) == 0


async def test_reconciling_leaves_live_work_alone(world: World) -> None:
    submitted = await world.submit("a", "b")
    await world.claimed()
    assert await world.write(external.synchronize_external_task_states) == 0
    assert [state for state, _ in await world.tasks(submitted.run_id)] == ["pending", "pending"]
