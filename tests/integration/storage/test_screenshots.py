"""Screenshot jobs, their groups, and pictures from hold to history, on both databases (S1, S2, S5, Q9, Q11)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pagegate.actors.rendering.collecting import collect_pictures
from pagegate.storage import jobs, pages, pruning, retries, schema, screenshots, users, workspaces
from pagegate.storage import screenshot_pictures as pictures
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.objects import ObjectMissing, Objects
from pagegate.storage.pages import NewVersion
from pagegate.storage.pruning import Retention
from pagegate.storage.retries import JobAlreadyRetried
from pagegate.storage.screenshot_context import CaptureContext, difference
from pagegate.storage.screenshot_pictures import HeldPicture, HoldLost, PictureExpired, Publication, TemporaryPicture
from pagegate.storage.screenshots import PAGE_SCREENSHOT, Asker, ScreenshotLaneFull, Wanted
from tests.world import TTL_MS, World

FINGERPRINT = "f" * 64
CONTEXT = CaptureContext("s", {}, {}, {}, "", {"code": "home"}, "1280x720", "build", "1280x720 profile")
NEVER_MS = 10**12


async def add_page(world: World, code: str = "home") -> int:
    async with world.db.write() as tx:
        return await pages.insert_page_with_first_version(
            tx, world.projects[0], code=code, framework="vue", version=version_of(world)
        )


def version_of(world: World) -> NewVersion:
    return NewVersion("<template/>", "Page", "", {}, "passed", None, None, None, world.user_id)


def wanted(page_id: int, *, version: int = 1, viewport: str = "1280x720", fingerprint: str = FINGERPRINT) -> Wanted:
    return Wanted(page_id, "home", version, fingerprint, viewport)


def asker(world: World) -> Asker:
    return Asker(world.workspaces[0], world.projects[0], world.user_id)


async def ask_for(world: World, *which: Wanted, active_jobs_max: int = 100) -> int:
    return await world.write(
        screenshots.submit_group, asker(world), list(which), active_jobs_max=active_jobs_max, deadline_ms=600_000
    )


async def job_ids(world: World, group_id: int) -> list[int | None]:
    return [member.job_id for member in await world.read(screenshots.list_members, group_id)]


async def states(world: World, group_id: int) -> list[str]:
    return [member.state for member in await world.read(screenshots.list_members, group_id)]


async def claim(world: World) -> ClaimedJob:
    job = await world.write(jobs.claim_job, PAGE_SCREENSHOT, "worker", TTL_MS)
    assert job is not None
    return job


async def finish(world: World, job: ClaimedJob, event: jobs.End = "finish", **more: Any) -> None:
    await world.write(jobs.finish_job, job.lease, event, **more)


async def count_of(world: World, table: Any) -> int:
    async with world.db.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table))).scalar_one())


def temporary(number: int = 1, expires_at_ms: int = NEVER_MS * 10) -> TemporaryPicture:
    return TemporaryPicture(f"renders/{number}", 1, 1, 1, f"{number:064x}", 3, expires_at_ms, 1280, 720, False)


async def hold(world: World, job: ClaimedJob, number: int = 1, hold_ms: int = 600_000) -> HeldPicture:
    return await world.write(pictures.hold_picture, job.lease, world.projects[0], temporary(number), hold_ms)


async def publish(world: World, job: ClaimedJob, held: HeldPicture, page_id: int, **more: Any) -> str:
    what = Publication(world.workspaces[0], world.projects[0], page_id, 1, "1280x720", CONTEXT)
    return await world.write(pictures.publish_picture, job.lease, held, replace(what, **more))


async def test_equal_requests_share_one_job_and_others_have_their_own(world: World) -> None:
    page_id = await add_page(world)
    first = await ask_for(world, wanted(page_id), wanted(page_id, viewport="390xauto"))
    second = await ask_for(world, wanted(page_id), wanted(page_id, fingerprint="0" * 64))
    (shared, narrow), (again, reconfigured) = await job_ids(world, first), await job_ids(world, second)
    assert again == shared
    assert len({shared, narrow, reconfigured}) == 3
    assert await count_of(world, schema.page_screenshot_jobs) == 3


async def test_requests_at_the_same_moment_share_one_job(world: World) -> None:
    page_id = await add_page(world)
    groups = await asyncio.gather(*(ask_for(world, wanted(page_id)) for _ in range(8)))
    assert len(set(groups)) == 8
    assert len({(await job_ids(world, group))[0] for group in groups}) == 1


async def test_a_job_made_by_a_commit_is_shared_with_a_request_at_the_same_moment(world: World) -> None:
    page_id = await add_page(world)
    orders = [world.write(screenshots.insert_job, asker(world), wanted(page_id), deadline_ms=None) for _ in range(4)]
    *made, group = await asyncio.gather(*orders, ask_for(world, wanted(page_id)))
    ids = {job_id for job_id, _ in made} | set(await job_ids(world, group))
    assert len(ids) == 1
    assert await count_of(world, schema.page_screenshot_jobs) == 1


async def test_an_ended_job_is_not_shared_and_a_picture_that_is_there_needs_none(world: World) -> None:
    page_id = await add_page(world)
    first = await ask_for(world, wanted(page_id))
    job = await claim(world)
    await finish(world, job, "skip", error=screenshots.STALE)
    assert await states(world, first) == ["skipped"]
    second = await ask_for(world, wanted(page_id, fingerprint=CONTEXT.fingerprint))
    job = await claim(world)
    await publish(world, job, await hold(world, job), page_id)
    await finish(world, job)
    third = await ask_for(world, wanted(page_id, fingerprint=CONTEXT.fingerprint))
    (there,) = await world.read(screenshots.list_members, third)
    (made,) = await world.read(screenshots.list_members, second)
    assert (there.state, there.job_id) == ("succeeded", None)
    assert there.picture is not None
    assert made.picture is not None
    assert there.picture.id == made.picture.id
    assert await count_of(world, schema.page_screenshot_jobs) == 2


async def test_a_group_over_the_limit_is_refused_as_a_whole(world: World) -> None:
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id), active_jobs_max=1)
    with pytest.raises(ScreenshotLaneFull):
        await ask_for(world, wanted(page_id), wanted(page_id, viewport="390xauto"), active_jobs_max=1)
    await ask_for(world, wanted(page_id), active_jobs_max=1)  # a shared one is no more
    assert await count_of(world, schema.page_screenshot_jobs) == 1
    assert await count_of(world, schema.page_screenshot_groups) == 2


async def test_a_published_picture_is_never_collected_and_an_unpublished_one_always_is(world: World) -> None:
    objects = Objects.in_memory()
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id))
    job = await claim(world)
    kept, lost = await hold(world, job, 1), await hold(world, job, 2)
    for held in (kept, lost):
        await objects.put(held.object_key, b"png")
    assert await publish(world, job, kept, page_id) == kept.object_key
    await collect_pictures(world.db, objects, 600.0)
    assert await objects.get(lost.object_key) == b"png", "its time is not over"
    await expire_holds(world)
    await collect_pictures(world.db, objects, 600.0)
    assert await objects.get(kept.object_key) == b"png"
    with pytest.raises(ObjectMissing):
        await objects.get(lost.object_key)
    assert await count_of(world, schema.page_screenshot_holds) == 0
    with pytest.raises(HoldLost):
        await publish(world, job, lost, page_id)


async def expire_holds(world: World) -> None:
    holds = schema.page_screenshot_holds
    async with world.db.write() as tx:
        await tx.execute(update(holds).where(holds.c.expires_at.is_not(None)).values(expires_at=tx.now - 1))


async def test_a_hold_whose_time_is_over_is_not_published_even_before_it_is_collected(world: World) -> None:
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id))
    job = await claim(world)
    held = await hold(world, job)
    await expire_holds(world)
    with pytest.raises(HoldLost):
        await publish(world, job, held, page_id)


async def test_a_collector_that_died_after_it_began_is_continued_by_the_next(world: World) -> None:
    objects = Objects.in_memory()
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id))
    job = await claim(world)
    held = await hold(world, job)
    await objects.put(held.object_key, b"png")
    await expire_holds(world)
    assert await world.write(pictures.begin_collecting, held.hold_id) is True
    assert await world.write(pictures.keep_with_job, held) is False
    await collect_pictures(world.db, objects, 600.0)
    with pytest.raises(ObjectMissing):
        await objects.get(held.object_key)
    assert await count_of(world, schema.page_screenshot_holds) == 0


async def test_publisher_and_collector_at_the_same_moment_agree(world: World) -> None:
    objects = Objects.in_memory()
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id))
    job = await claim(world)
    held = await hold(world, job, hold_ms=0)
    await objects.put(held.object_key, b"png")
    published, _ = await asyncio.gather(
        publish(world, job, held, page_id), collect_pictures(world.db, objects, 600.0), return_exceptions=True
    )
    if isinstance(published, str):
        assert await objects.get(published) == b"png"
    else:
        assert isinstance(published, HoldLost)


async def test_a_temporary_picture_whose_time_is_over_is_not_held(world: World) -> None:
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id))
    job = await claim(world)
    with pytest.raises(PictureExpired):
        await world.write(pictures.hold_picture, job.lease, world.projects[0], temporary(1, 1), 600_000)


async def test_the_pointer_moves_to_newer_versions_only(world: World) -> None:
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id))
    job = await claim(world)
    first = await hold(world, job, 1)
    newer = await hold(world, job, 2)
    await publish(world, job, newer, page_id, page_version=2)
    await publish(world, job, first, page_id, page_version=1)
    history = await world.read(pictures.list_history, page_id, 10)
    assert [(row.page_version, row.is_current) for row in history] == [(1, False), (2, True)]


async def test_one_content_keeps_its_first_picture_and_the_second_is_collected(world: World) -> None:
    objects = Objects.in_memory()
    page_id = await add_page(world)
    await ask_for(world, wanted(page_id))
    job = await claim(world)
    one, other = await hold(world, job, 1), await hold(world, job, 2)
    for held in (one, other):
        await objects.put(held.object_key, b"png")
    assert await publish(world, job, one, page_id) == one.object_key
    assert await publish(world, job, other, page_id) == one.object_key
    await collect_pictures(world.db, objects, 600.0)
    assert await objects.get(one.object_key) == b"png"
    with pytest.raises(ObjectMissing):
        await objects.get(other.object_key)


async def test_a_refused_pages_picture_stays_as_long_as_its_job(world: World) -> None:
    objects = Objects.in_memory()
    page_id = await add_page(world)
    group = await ask_for(world, wanted(page_id))
    job = await claim(world)
    held = await hold(world, job)
    await objects.put(held.object_key, b"png")
    assert await world.write(pictures.keep_with_job, held) is True
    await finish(world, job, "fail", error={"code": "PAGE_SCREENSHOT_FAILED", "message": "", "hint": ""})
    await expire_holds(world)
    await collect_pictures(world.db, objects, 600.0)
    assert await objects.get(held.object_key) == b"png"
    gone = Retention(0, 0, 0)
    assert await world.write(pruning.prune_loose_jobs, PAGE_SCREENSHOT, gone, 10) == 1
    await collect_pictures(world.db, objects, 600.0)
    with pytest.raises(ObjectMissing):
        await objects.get(held.object_key)
    await world.write(pruning.prune_loose_jobs, PAGE_SCREENSHOT, gone, 10)
    with pytest.raises(screenshots.GroupNotFound):
        await world.read(screenshots.get_group, group)


async def test_pruning_leaves_groups_that_still_wait(world: World) -> None:
    page_id = await add_page(world)
    group = await ask_for(world, wanted(page_id), wanted(page_id, viewport="390xauto"))
    job = await claim(world)
    await finish(world, job)
    assert await world.write(pruning.prune_loose_jobs, PAGE_SCREENSHOT, Retention(0, 0, 0), 10) == 1
    assert await states(world, group) == ["pending"]


async def test_groups_follow_a_retry_and_a_screenshot_that_is_being_taken_is_not_retried(world: World) -> None:
    page_id = await add_page(world)
    group = await ask_for(world, wanted(page_id))
    failed = await claim(world)
    await finish(world, failed, "fail", error={"code": "X", "message": "", "hint": ""})
    again = {"active_jobs_max": 10, "deadline_ms": 600_000, "user_id": world.user_id}
    retried = await world.write(retries.retry_failed_job, PAGE_SCREENSHOT, failed.id, **again)
    assert await job_ids(world, group) == [retried.job_id]
    assert await states(world, group) == ["pending"]
    job = await claim(world)
    await finish(world, job, "fail", error={"code": "X", "message": "", "hint": ""})
    await ask_for(world, wanted(page_id))
    with pytest.raises(JobAlreadyRetried):
        await world.write(retries.retry_failed_job, PAGE_SCREENSHOT, job.id, **again)


async def test_a_screenshot_is_wanted_as_long_as_one_asker_is_a_member(world: World) -> None:
    page_id = await add_page(world)
    async with world.db.write() as tx:
        first, second = await users.create_user(tx, "first"), await users.create_user(tx, "second")
        await workspaces.put_member(tx, world.workspaces[0], first, "editor")
        await workspaces.put_member(tx, world.workspaces[0], second, "owner")
    await world.write(screenshots.insert_job, replace(asker(world), user_id=first), wanted(page_id), deadline_ms=None)
    await world.write(
        screenshots.submit_group,
        replace(asker(world), user_id=second),
        [wanted(page_id)],
        active_jobs_max=10,
        deadline_ms=None,
    )
    job = await claim(world)
    is_wanted = (screenshots.is_wanted, job.id, world.workspaces[0], first)
    assert await world.read(*is_wanted) is True
    await world.write(workspaces.remove_member, world.workspaces[0], first)
    assert await world.read(*is_wanted) is True, "the group's asker is still there"
    async with world.db.write() as tx:
        one = update(schema.users).where(schema.users.c.id == second)
        await tx.execute(one.values(disabled_at_ms=tx.now))
    assert await world.read(*is_wanted) is False


async def test_only_what_no_other_group_waits_for_may_be_cancelled_with_a_group(world: World) -> None:
    page_id = await add_page(world)
    mine = await ask_for(world, wanted(page_id), wanted(page_id, viewport="390xauto"))
    await ask_for(world, wanted(page_id))
    _, alone = await job_ids(world, mine)
    assert await world.read(screenshots.list_only_of_group, mine) == [alone]


@pytest.mark.parametrize("name", list(CaptureContext.__dataclass_fields__))
def test_each_piece_of_a_context_counts(name: str) -> None:
    value = getattr(CONTEXT, name)
    other = f"{value}!" if isinstance(value, str) else {**value, "more": "x"}
    changed = replace(CONTEXT, **{name: other})
    assert difference(CONTEXT, CONTEXT) is None
    assert difference(CONTEXT, changed) == name
    in_fingerprint = name not in {"source", "runtime_build", "policy"}
    assert (changed.fingerprint != CONTEXT.fingerprint) is in_fingerprint
