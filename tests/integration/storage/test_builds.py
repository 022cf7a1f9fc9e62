"""Builds on both databases: claimed, renewed, promoted under the fence, interrupted alone (B1, B2, B3, B5)."""

import pytest

from pagegate.storage import builds, jobs
from pagegate.storage.builds import Artifact, FixedProject
from pagegate.storage.lease import LeaseLost
from pagegate.storage.pruning import Retention, prune_loose_jobs
from tests.world import World

FIXED = FixedProject("a project", None, [], {})
ARTIFACT = Artifact("builds/1/1/u/a.zip", "a" * 64, 10, {"index.html": ("b" * 64, 5)})


async def submit(world: World) -> int:
    return await world.write(
        builds.submit_build,
        workspace_id=world.workspaces[0],
        project_id=world.projects[0],
        user_id=world.user_id,
        fixed=FIXED,
        routes="hash",
        deadline_ms=600_000,
        active_jobs_max=2,
    )


async def test_a_claimed_build_is_renewed_and_promoted_once(world: World) -> None:
    await submit(world)
    claimed = await world.write(builds.claim_build, "runtime", 60_000, "vite-1")
    assert claimed is not None
    job, left_ms = claimed
    assert 0 < left_ms <= 600_000
    assert await world.write(builds.claim_build, "another", 60_000, "vite-1") is None
    assert await world.read(builds.is_held_now, job.lease)
    assert await world.write(builds.renew_build, job.lease, 60_000, ["so far"]) is False
    assert await world.write(builds.promote, job.lease, ARTIFACT) == 1
    assert not await world.read(builds.is_held_now, job.lease)
    with pytest.raises(LeaseLost):
        await world.write(builds.promote, job.lease, ARTIFACT)
    site = await world.read(builds.find_site, world.projects[0])
    assert site is not None
    assert site.release_number == 1
    assert await world.read(builds.is_released, ARTIFACT.object_key)


async def test_an_expired_build_is_interrupted_and_a_live_one_is_not(world: World) -> None:
    await submit(world)
    lost_id = (await world.write(builds.claim_build, "lost", 60_000, "v"))[0].lease  # type: ignore[index]  # just made
    await submit(world)
    with pytest.raises(builds.BuildLaneFull):
        await submit(world)
    lives = (await world.write(builds.claim_build, "lives", 60_000, "v"))[0].lease  # type: ignore[index]  # just made
    await world.expire(lost_id)
    (lost,) = await world.write(builds.interrupt_expired)
    assert (lost.project_id, lost.job_id, lost.code) == (world.projects[0], lost_id.id, "PROJECT_BUILD_INTERRUPTED")
    assert await world.write(builds.end_unclaimed) == 0
    assert await world.read(builds.is_held_now, lives)


async def test_a_build_that_was_asked_to_stop_is_cancelled_when_its_runtime_goes_silent(world: World) -> None:
    job_id = await submit(world)
    lease = (await world.write(builds.claim_build, "silent", 60_000, "v"))[0].lease  # type: ignore[index]  # just made
    assert await world.write(jobs.request_cancel, builds.PROJECT_BUILD, job_id) == "requested"
    await world.expire(lease)
    assert [one.code for one in await world.write(builds.interrupt_expired)] == ["JOB_CANCELLED"]
    row = await world.read(builds.find_build, job_id)
    assert row is not None
    assert (row.status, row.error_code, row.error) == ("cancelled", "JOB_CANCELLED", jobs.CANCELLED)


async def test_an_ended_build_is_swept_once_and_one_that_goes_on_never(world: World) -> None:
    await submit(world)
    job = (await world.write(builds.claim_build, "runtime", 60_000, "v"))[0]  # type: ignore[index]  # just made
    assert await world.read(builds.list_unswept, -1, 10) == []
    await world.write(builds.promote, job.lease, ARTIFACT)
    assert await world.read(builds.list_unswept, 60_000, 10) == []  # not long enough ago
    assert [row.id for row in await world.read(builds.list_unswept, -1, 10)] == [job.id]
    assert await world.read(builds.find_released, job.id) == ARTIFACT.object_key
    await world.write(builds.mark_swept, job.id)
    assert await world.read(builds.list_unswept, -1, 10) == []


async def test_a_build_is_pruned_only_after_it_was_swept(world: World) -> None:
    await submit(world)
    job = (await world.write(builds.claim_build, "runtime", 60_000, "v"))[0]  # type: ignore[index]  # just made
    await world.write(builds.promote, job.lease, ARTIFACT)
    keep = Retention(0, 0, 0)
    assert await world.write(prune_loose_jobs, builds.PROJECT_BUILD, keep, 10) == 0
    await world.write(builds.mark_swept, job.id)
    assert await world.write(prune_loose_jobs, builds.PROJECT_BUILD, keep, 10) == 1
    assert await world.read(builds.find_released, job.id) == ARTIFACT.object_key
