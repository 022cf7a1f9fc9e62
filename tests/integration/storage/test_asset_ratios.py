"""Which files are to be measured, by whom, and what becomes of it (V9, Q1, Q3, K6)."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pagegate.storage import asset_ratios, assets, jobs, pruning, retries, schema
from pagegate.storage.asset_ratios import ASSET_RATIO_BACKFILL, JOBS_MAX, STALE, Queued
from pagegate.storage.assets import AssetSize, AssetVersion
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.lease import LeaseLost
from pagegate.storage.objects import StoredAsset
from pagegate.storage.pruning import Retention
from pagegate.storage.retries import JobAlreadyRetried
from tests.world import TTL_MS, World

BROKEN = {"code": "ASSET_UNREADABLE", "message": "It is no picture.", "hint": "Save it again."}
SIZE = AssetSize(30, 20)
LIMITS = {"limit": 32, "active_jobs_max": 64, "deadline_ms": 60_000}

_jobs, _versions = schema.asset_ratio_backfill_jobs, schema.asset_versions


async def save(world: World, name: str = "a.png", content: str = "1", **known: Any) -> AssetVersion:
    media_type = "text/plain" if name.endswith(".txt") else "image/png"
    stored = StoredAsset(name, media_type, content * 64, 10, f"assets/{name}/{content}")
    version, _ = await world.write(assets.put_asset, world.projects[0], stored, world.user_id, **known)
    return version


async def queue_due(world: World, **limits: int) -> Queued:
    return await world.write(asset_ratios.queue_due, **{**LIMITS, **limits})


async def claim(world: World, worker_id: str = "worker") -> ClaimedJob:
    job = await world.write(jobs.claim_job, ASSET_RATIO_BACKFILL, worker_id, TTL_MS)
    assert job is not None
    return job


async def end(world: World, job: ClaimedJob, event: Any, **said: Any) -> None:
    await world.write(jobs.finish_job, job.lease, event, **said)


async def make_due(world: World) -> None:
    """The time has come for every file that waits."""
    waits = _versions.c.measure_at_ms.is_not(None)
    await world.write(lambda tx: tx.execute(update(_versions).where(waits).values(measure_at_ms=1)))


async def current(world: World, name: str = "a.png") -> AssetVersion:
    found = await world.read(assets.find_asset, world.projects[0], name)
    assert found is not None
    return found


async def test_a_picture_that_was_not_measured_gets_one_job(world: World) -> None:
    await save(world)
    await save(world, "b.txt")
    await save(world, "c.png", size=SIZE)
    await save(world, "d.png", unmeasured=BROKEN)
    assert await world.read(asset_ratios.is_due)
    queued = await queue_due(world)
    assert (len(queued.job_ids), queued.more) == (1, False)
    row = await world.read(jobs.get_job, ASSET_RATIO_BACKFILL, queued.job_ids[0])
    assert (row.asset_name, row.asset_version, row.workspace_id) == ("a.png", 1, world.workspaces[0])
    assert not await world.read(asset_ratios.is_due)
    await make_due(world)
    assert await queue_due(world) == Queued([], more=False)  # its job lives


async def test_replicas_that_look_at_once_make_one_job_a_file(world: World) -> None:
    for number in range(6):
        await save(world, f"{number}.png")
    looks = await asyncio.gather(*[queue_due(world) for _ in range(4)])
    made = [job_id for look in looks for job_id in look.job_ids]
    assert len(made) == len(set(made)) == 6
    counted = select(func.count(func.distinct(_jobs.c.asset_id)))
    assert (await world.read(lambda tx: tx.execute(counted))).scalar_one() == 6


async def test_a_look_makes_no_more_jobs_than_it_may(world: World) -> None:
    for number in range(5):
        await save(world, f"{number}.png")
    assert len((await queue_due(world, limit=2)).job_ids) == 2
    assert len((await queue_due(world, active_jobs_max=4)).job_ids) == 2
    assert await queue_due(world, active_jobs_max=4) == Queued([], more=True)
    assert len((await queue_due(world)).job_ids) == 1


async def test_a_size_is_written_once_and_asked_for_no_more(world: World) -> None:
    await save(world)
    await queue_due(world)
    job = await claim(world)
    where = (job.row.asset_id, job.row.asset_version)
    assert (await world.read(asset_ratios.find_unmeasured, *where)) is not None
    assert await world.write(asset_ratios.record_size, *where, AssetSize(1, 1, 0.5))
    assert (await current(world)).size == AssetSize(1, 1, 0.5)
    assert not await world.write(asset_ratios.record_size, *where, SIZE)
    assert not await world.write(asset_ratios.record_unmeasurable, *where, BROKEN)
    assert await world.read(asset_ratios.find_unmeasured, *where) is None
    await end(world, job, "finish")
    await make_due(world)
    assert not await world.read(asset_ratios.is_due)


async def test_a_broken_file_is_asked_about_once_until_its_bytes_change(world: World) -> None:
    await save(world)
    await queue_due(world)
    job = await claim(world)
    assert await world.write(asset_ratios.record_unmeasurable, job.row.asset_id, 1, BROKEN)
    await end(world, job, "fail", error=BROKEN)
    assert (await current(world)).unmeasured == BROKEN
    await save(world)  # the same bytes
    await make_due(world)
    assert not await world.read(asset_ratios.is_due)
    await save(world, content="2")
    assert (await current(world)).unmeasured is None
    assert len((await queue_due(world)).job_ids) == 1


async def test_infrastructure_is_given_a_number_of_jobs_and_then_it_is_enough(world: World) -> None:
    await save(world)
    for number in range(JOBS_MAX):
        assert len((await queue_due(world)).job_ids) == 1, number
        await end(world, await claim(world), "fail", error={**BROKEN, "code": "RUNTIME_UNREACHABLE"})
        assert not await world.read(asset_ratios.is_due)  # not at once
        await make_due(world)
    assert await queue_due(world) == Queued([], more=False)
    assert (await current(world)).unmeasured is None
    await save(world)  # somebody uploads it again
    assert len((await queue_due(world)).job_ids) == 1


@pytest.mark.parametrize("change", ["replaced", "deleted"])
async def test_what_is_not_current_any_more_is_neither_written_nor_asked_for(world: World, change: str) -> None:
    await save(world)
    await queue_due(world)
    job = await claim(world)
    if change == "replaced":
        await save(world, content="2", size=SIZE)
    else:
        await world.write(assets.delete_asset, world.projects[0], "a.png")
    assert await world.read(asset_ratios.find_unmeasured, job.row.asset_id, 1) is None
    assert not await world.write(asset_ratios.record_size, job.row.asset_id, 1, SIZE)
    assert not await world.write(asset_ratios.record_unmeasurable, job.row.asset_id, 1, BROKEN)
    await end(world, job, "skip", error=STALE)
    await make_due(world)
    assert not await world.read(asset_ratios.is_due)


async def test_a_deleted_picture_that_comes_back_is_measured(world: World) -> None:
    await save(world)
    await world.write(assets.delete_asset, world.projects[0], "a.png")
    assert not await world.read(asset_ratios.is_due)
    await save(world)
    assert len((await queue_due(world)).job_ids) == 1


async def test_a_replaced_picture_waits_for_the_job_of_its_old_bytes_and_gets_one_of_its_own(world: World) -> None:
    await save(world)
    await queue_due(world)
    job = await claim(world)
    await save(world, content="2")
    assert await queue_due(world) == Queued([], more=False)
    await end(world, job, "skip", error=STALE)
    (made,) = (await queue_due(world)).job_ids
    assert (await world.read(jobs.get_job, ASSET_RATIO_BACKFILL, made)).asset_version == 2


async def test_a_late_result_of_an_old_attempt_is_refused_with_all_that_it_wrote(world: World) -> None:
    await save(world)
    await queue_due(world)
    first = await claim(world, "first")
    await world.write(
        lambda tx: tx.execute(update(_jobs).where(_jobs.c.id == first.id).values(lease_expires_at=tx.now - 1))
    )
    await world.write(jobs.rescue_job, ASSET_RATIO_BACKFILL, first.id, first.lease.fence, 3)
    second = await claim(world, "second")

    async def settle_late(tx: Any, event: Any) -> None:
        await asset_ratios.record_size(tx, first.row.asset_id, 1, SIZE)
        await jobs.finish_job(tx, first.lease, event)

    for event in ("finish", "fail"):
        with pytest.raises(LeaseLost):
            await world.write(settle_late, event)
    assert (await current(world)).size is None
    await end(world, second, "finish")


async def test_a_failed_job_is_retried_unless_another_one_measures_the_file(world: World) -> None:
    await save(world)
    await queue_due(world)
    failed = await claim(world)
    await end(world, failed, "fail", error={**BROKEN, "code": "RUNTIME_UNREACHABLE"})
    again: dict[str, Any] = {"active_jobs_max": 9, "deadline_ms": None, "user_id": world.user_id}
    await make_due(world)
    await queue_due(world)
    with pytest.raises(JobAlreadyRetried, match="measured by job"):
        await world.write(retries.retry_failed_job, ASSET_RATIO_BACKFILL, failed.id, **again)
    await end(world, await claim(world), "cancel")
    retried = await world.write(retries.retry_failed_job, ASSET_RATIO_BACKFILL, failed.id, **again)
    row = await world.read(jobs.get_job, ASSET_RATIO_BACKFILL, retried.job_id)
    assert (row.asset_name, row.retry_of) == ("a.png", failed.id)


async def test_ended_jobs_are_pruned_and_what_they_found_stays(world: World) -> None:
    await save(world)
    await queue_due(world)
    job = await claim(world)
    await world.write(asset_ratios.record_unmeasurable, job.row.asset_id, 1, BROKEN)
    await end(world, job, "fail", error=BROKEN)
    assert await world.write(pruning.prune_loose_jobs, ASSET_RATIO_BACKFILL, Retention(0, 0, 0), 10) == 1
    assert (await current(world)).unmeasured == BROKEN
    assert not await world.read(asset_ratios.is_due)
