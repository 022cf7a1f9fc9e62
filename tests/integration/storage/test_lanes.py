"""Lanes: a pause that every claim asks about, and what an operator sees (Q11, O2)."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from pagegate.storage import jobs, lane_views, lanes, lease, schema
from pagegate.storage.engine import Database
from pagegate.storage.jobs import PAGE_MUTATION, JobNotFound
from pagegate.storage.lane_views import JobView, LaneView
from tests.world import TTL_MS, World

table = schema.ai_page_mutation_jobs


async def look(world: World) -> LaneView:
    return await world.read(lane_views.look_at_lane, PAGE_MUTATION)


async def listed(world: World, **wanted: Any) -> list[JobView]:
    everything: dict[str, Any] = {"workspace_ids": None, "status": None, "before_id": None, "limit": 100}
    return await world.read(lane_views.list_jobs, PAGE_MUTATION, **{**everything, **wanted})


async def test_nobody_claims_from_a_paused_lane_on_any_replica_until_it_is_resumed(
    world: World, database_url: str
) -> None:
    await world.submit("a", "b")
    await world.write(lanes.pause_lane, PAGE_MUTATION, world.user_id)
    replica = World(await Database.open(database_url))
    assert await world.claim() is None
    assert await replica.claim() is None
    await replica.write(lanes.resume_lane, PAGE_MUTATION)
    assert await world.claim() is not None
    await replica.db.close()


async def test_a_paused_lane_still_renews_finishes_rescues_and_cancels(world: World) -> None:
    submitted = await world.submit("a", "b", "c")
    first, second = await world.claimed(), await world.claimed()
    await world.write(lanes.pause_lane, PAGE_MUTATION, world.user_id)
    await world.write(lease.renew, first.lease, TTL_MS)
    assert await world.write(jobs.finish_job, first.lease, "finish", result={}) == "succeeded"
    await world.expire(second.lease)
    assert await world.rescue(second) == "pending"
    assert await world.write(jobs.request_cancel, PAGE_MUTATION, submitted.job_ids[2]) == "cancelled"
    assert await world.claim() is None


async def test_pausing_again_keeps_who_paused_first_and_resuming_again_is_harmless(world: World) -> None:
    async with world.db.write() as tx:
        bob = await tx.insert(schema.users, name="bob", created_at_ms=tx.now)
    await world.write(lanes.resume_lane, PAGE_MUTATION)
    assert (await look(world)).state.pause is None
    await world.write(lanes.pause_lane, PAGE_MUTATION, world.user_id)
    await world.write(lanes.pause_lane, PAGE_MUTATION, bob)
    pause = (await look(world)).state.pause
    assert pause is not None
    assert (pause.user_id, pause.user_name) == (world.user_id, "ada")
    for _ in range(2):
        await world.write(lanes.resume_lane, PAGE_MUTATION)
    assert (await look(world)).state.pause is None


async def test_rescues_are_counted_and_the_count_outlives_its_jobs(world: World) -> None:
    jobs_lost = [await world.claimed(), await world.claimed()]
    for job in jobs_lost:
        await world.expire(job.lease)
    await asyncio.gather(*[world.rescue(job) for job in jobs_lost], world.rescue(jobs_lost[0]))
    assert (await look(world)).state.rescues == 2
    async with world.db.write() as tx:
        await tx.execute(update(table).values(lease_losses=0))
    assert (await look(world)).state.rescues == 2


async def test_an_empty_lane_has_nothing_to_be_old(world: World) -> None:
    view = await look(world)
    assert (view.lag_ms, view.running, view.waiting_for, view.state.rescues) == (None, [], {}, 0)


async def test_a_lane_shows_its_lag_its_workers_and_what_it_waits_for(world: World) -> None:
    await world.submit("a", "b", "c", "c")
    fine, lost = await world.claimed("host:1:x:0"), await world.claimed("host:2:y:0")
    await world.expire(lost.lease)
    (third,) = [await world.claimed()]
    gone = {"code": "RUNTIME_UNREACHABLE", "message": "", "hint": ""}
    await world.write(jobs.retry_job, third.lease, 600_000, "infra", gone)
    view = await look(world)
    assert view.lag_ms is None, "the last job waits for the call before it, which waits for the Runtime"
    assert view.waiting_for == {"RUNTIME_UNREACHABLE": 1}
    assert (view.counts.pending, view.counts.running) == (2, 2)
    assert [(job.id, job.worker_id, job.lease_valid) for job in view.running] == [
        (fine.id, "host:1:x:0", True),
        (lost.id, "host:2:y:0", False),
    ]
    await world.submit("d", "e")
    async with world.db.write() as tx:
        await tx.execute(update(table).where(table.c.page_code == "d").values(available_at=tx.now - 7_000))
    lag_ms = (await look(world)).lag_ms
    assert lag_ms is not None
    assert 7_000 <= lag_ms < 60_000


async def test_jobs_are_listed_newest_first_in_pages_by_state_and_by_workspace(world: World) -> None:
    here, there = await world.submit("a", "b", "c"), await world.submit("d", workspace=1)
    failed = await world.claimed()
    await world.write(jobs.finish_job, failed.lease, "fail", error={"code": "X", "message": "", "hint": ""})
    everything = [*here.job_ids, *there.job_ids]
    assert [job.id for job in await listed(world)] == everything[::-1]
    assert [job.id for job in await listed(world, limit=2, before_id=everything[-1])] == everything[2:0:-1]
    assert [job.id for job in await listed(world, status="failed")] == [failed.id]
    assert [job.id for job in await listed(world, status="pending", workspace_ids=[world.workspaces[1]])] == list(
        there.job_ids
    )
    assert await listed(world, workspace_ids=[]) == []


async def test_a_job_shows_its_state_and_its_lease_and_no_verdict(world: World) -> None:
    job = await world.claimed("host:1:x:0")
    view = await world.read(lane_views.get_job_view, PAGE_MUTATION, job.id)
    assert (view.status, view.lease_valid, view.worker_id, view.attempt) == ("running", True, "host:1:x:0", 1)
    assert view.lease_expires_at_ms == job.lease.expires_at
    await world.write(jobs.finish_job, job.lease, "finish", result={"findings": []})
    view = await world.read(lane_views.get_job_view, PAGE_MUTATION, job.id)
    assert (view.status, view.lease_valid, view.lease_expires_at_ms, view.retried_as) == ("succeeded", None, None, None)
    assert not hasattr(view, "result")
    with pytest.raises(JobNotFound):
        await world.read(lane_views.get_job_view, PAGE_MUTATION, 4711)
