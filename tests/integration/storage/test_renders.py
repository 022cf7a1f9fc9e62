"""Render requests and attempts on both databases: limits that hold, slots that come back (R2, R3, Q5; CASE 18)."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from pagegate.storage import jobs, lease, render_attempts, renders, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.lease import LeaseLost
from pagegate.storage.renders import AttemptLease, RenderQueueFull, RenderRequestNotFound, ReserveRefusal
from tests.world import TTL_MS, World, reserve

requests = schema.render_requests
GONE = {"code": "RENDER_SERVICE_UNAVAILABLE", "message": "The worker is gone.", "hint": "It is tried again."}


async def queue(world: World, count: int, workspace: int = 0, **options: Any) -> list[int]:
    job = await world.claimed()
    return [await world.enqueue(job, workspace, **options) for _ in range(count)]


async def age(world: World, request_id: int, **columns: int) -> None:
    """Move times of a request, in ms from now."""
    async with world.db.write() as tx:
        values = {name: tx.now + offset for name, offset in columns.items()}
        await tx.execute(update(requests).where(requests.c.id == request_id).values(**values))


async def expire_attempts(world: World, attempts_max: int = 3) -> list[renders.EndedAttempt]:
    return await world.write(renders.expire_attempts, attempts_max=attempts_max)


# --- the queue ------------------------------------------------------------------------------------------------------


async def test_a_request_knows_the_job_attempt_that_asked_for_it(world: World) -> None:
    job = await world.claimed()
    request = await world.request(await world.enqueue(job, payload={"page": "intro"}))
    assert (request.job_kind, request.job_id, request.job_attempt) == ("ai_page_mutation_jobs", job.id, 1)
    assert (request.status, request.payload, request.attempt) == ("pending", {"page": "intro"}, 0)


async def test_a_job_that_lost_its_lease_queues_nothing(world: World) -> None:
    job = await world.claimed()
    await world.expire(job.lease)
    with pytest.raises(LeaseLost):
        await world.enqueue(job)
    assert await world.read(renders.list_pending, 10) == []


async def test_a_full_queue_refuses_clearly(world: World) -> None:
    job = await world.claimed()
    limits = {"queue_size_max": 3, "workspace_queue_size_max": 2}
    await world.enqueue(job, 0, **limits)
    await world.enqueue(job, 0, **limits)
    with pytest.raises(RenderQueueFull, match="in this workspace"):
        await world.enqueue(job, 0, **limits)
    await world.enqueue(job, 1, **limits)
    with pytest.raises(RenderQueueFull, match="3 renders are waiting"):
        await world.enqueue(job, 1, **limits)


async def test_queue_limits_hold_against_submitters_at_once(world: World, database_url: str) -> None:
    asking = [await world.claimed() for _ in range(16)]  # of one job, the job's own lock would make them queue
    replicas = [await Database.open(database_url) for _ in range(4)]

    async def submit(db: Database, job: Any) -> None:
        async with db.write() as tx:
            await renders.enqueue_request(
                tx,
                job.lease,
                workspace_id=world.workspaces[0],
                klass="interactive",
                operation="page.diagnose",
                payload={},
                queue_size_max=5,
                workspace_queue_size_max=5,
            )

    outcomes = await asyncio.gather(
        *[submit(db, job) for db, job in zip(replicas * 4, asking, strict=True)], return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 5
    assert all(outcome is None or isinstance(outcome, RenderQueueFull) for outcome in outcomes)
    for db in replicas:
        await db.close()


async def test_a_flood_of_one_class_does_not_hide_the_other(world: World) -> None:
    await queue(world, 30)
    [background] = await queue(world, 1, klass="background")
    listed = await world.read(renders.list_pending, 10)
    assert len(listed) == 11
    assert listed[-1].id == background
    assert listed[-1].klass == "background"
    counted = await world.read(renders.count_by_class)
    assert counted == {("interactive", "pending"): 30, ("background", "pending"): 1}


async def test_an_unknown_request_is_not_found(world: World) -> None:
    with pytest.raises(RenderRequestNotFound):
        await world.request(4711)
    assert await world.reserve(4711) is ReserveRefusal.NOT_PENDING


# --- reserving ------------------------------------------------------------------------------------------------------


async def test_a_reserved_attempt_holds_request_worker_and_lease(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id, "renderer-1", budget_ms=120_000)
    assert (attempt.worker_id, attempt.attempts_used, attempt.lease.fence) == ("renderer-1", 1, 1)
    assert attempt.lease.worker_id == "replica"
    assert 0 < attempt.remaining_ms <= 120_000
    assert (await world.request(request_id)).status == "running"
    assert [row.id for row in await world.read(renders.list_unreleased, "replica")] == [attempt.lease.id]
    assert await world.read(renders.list_unreleased, "another") == []


async def test_one_request_is_reserved_once_by_replicas_at_once(world: World, database_url: str) -> None:
    """`render.reserve.conflict`: the loser is told, and has done nothing."""
    [request_id] = await queue(world, 1)
    replicas = [await Database.open(database_url) for _ in range(4)]

    async def attempt(db: Database, n: int) -> Any:
        async with db.write() as tx:
            return await reserve(tx, request_id, f"renderer-{n}", f"replica-{n}")

    outcomes = await asyncio.gather(*[attempt(db, n) for n, db in enumerate(replicas)])
    assert sorted(outcomes.count(kind) for kind in [ReserveRefusal.NOT_PENDING]) == [3]
    assert len(await world.read(renders.list_unreleased)) == 1
    for db in replicas:
        await db.close()


@pytest.mark.parametrize(
    ("limits", "expected", "refusal"),
    [
        ({"global_max": 3}, 3, ReserveRefusal.GLOBAL_LIMIT),
        ({"workspace_max": 2}, 4, ReserveRefusal.WORKSPACE_LIMIT),
    ],
)
async def test_limits_hold_over_replicas_at_once(
    world: World, database_url: str, limits: dict[str, int], expected: int, refusal: ReserveRefusal
) -> None:
    ids = await queue(world, 6, 0) + await queue(world, 6, 1)
    replicas = [await Database.open(database_url) for _ in range(4)]

    async def attempt(n: int, request_id: int) -> Any:
        async with replicas[n % 4].write() as tx:
            return await reserve(tx, request_id, f"renderer-{n}", f"replica-{n % 4}", **limits)

    outcomes = await asyncio.gather(*[attempt(n, request_id) for n, request_id in enumerate(ids)])
    assert sum(isinstance(outcome, AttemptLease) for outcome in outcomes) == expected
    assert outcomes.count(refusal) == 12 - expected
    for db in replicas:
        await db.close()


async def test_a_worker_has_one_slot(world: World) -> None:
    first, second = await queue(world, 2)
    attempt = await world.reserved(first, "renderer-1")
    assert await world.reserve(second, "renderer-1") is ReserveRefusal.WORKER_TAKEN
    await world.write(renders.finish_attempt, attempt.lease, {})
    await world.reserved(second, "renderer-1")


async def test_a_workspace_at_its_limit_leaves_the_next_slot_to_another(world: World) -> None:
    """CASE 18."""
    of_a = await queue(world, 20, 0)
    [of_b] = await queue(world, 1, 1)
    limits = {"global_max": 2, "workspace_max": 1}
    await world.reserved(of_a[0], "renderer-1", **limits)
    assert await world.reserve(of_a[1], "renderer-2", **limits) is ReserveRefusal.WORKSPACE_LIMIT
    await world.reserved(of_b, "renderer-2", **limits)


async def test_a_request_that_waits_for_its_retry_is_not_reserved_early(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id)
    await world.write(renders.fail_attempt, attempt.lease, GONE, 60_000)
    assert await world.reserve(request_id) is ReserveRefusal.NOT_PENDING
    assert (await world.request(request_id)).status == "pending"


# --- ends -----------------------------------------------------------------------------------------------------------


async def test_a_result_ends_the_request_and_frees_the_slot(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id)
    await world.write(renders.finish_attempt, attempt.lease, {"ok": True}, picture_key="pictures/1")
    request = await world.request(request_id)
    assert (request.status, request.result, request.picture_key) == ("succeeded", {"ok": True}, "pictures/1")
    assert await world.read(renders.list_unreleased) == []


async def test_a_late_result_of_an_old_attempt_is_refused(world: World) -> None:
    [request_id] = await queue(world, 1)
    old = await world.reserved(request_id)
    await world.expire(old.lease)
    [ended] = await expire_attempts(world)
    assert (ended.worker_id, ended.number, ended.request_status) == ("renderer-1", 1, "pending")
    new = await world.reserved(request_id)
    with pytest.raises(LeaseLost):
        await world.write(renders.finish_attempt, old.lease, {"from": "old"})
    with pytest.raises(LeaseLost):
        await world.write(renders.fail_attempt, old.lease, GONE, None)
    await world.write(renders.finish_attempt, new.lease, {"from": "new"})
    assert (await world.request(request_id)).result == {"from": "new"}


async def test_a_result_after_the_lease_is_refused_even_before_anyone_converged_it(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id)
    await world.expire(attempt.lease)
    with pytest.raises(LeaseLost):
        await world.write(renders.finish_attempt, attempt.lease, {})
    with pytest.raises(LeaseLost):
        await world.write(lease.renew, attempt.lease, TTL_MS)
    assert (await world.request(request_id)).status == "running"


async def test_a_renewed_attempt_keeps_its_slot(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id)
    renewed = await world.write(lease.renew, attempt.lease, 10 * TTL_MS)
    assert renewed.expires_at > attempt.lease.expires_at + 5 * TTL_MS
    assert await expire_attempts(world) == []
    await world.write(renders.finish_attempt, renewed, {})


async def test_an_infrastructure_error_is_kept_with_attempt_and_request(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id)
    await world.write(renders.fail_attempt, attempt.lease, GONE, None)
    request = await world.request(request_id)
    assert (request.status, request.error) == ("failed", GONE)


async def test_a_busy_answer_is_no_attempt(world: World) -> None:
    [request_id] = await queue(world, 1)
    for _ in range(5):
        attempt = await world.reserved(request_id, attempts_max=1)
        assert attempt.attempts_used == 1
        await world.write(renders.return_busy, attempt.lease, 0)
    assert (await world.request(request_id)).status == "pending"


async def test_attempts_run_out_with_an_infrastructure_error(world: World) -> None:
    [request_id] = await queue(world, 1)
    for number in range(2):
        attempt = await world.reserved(request_id, attempts_max=2)
        assert attempt.attempts_used == number + 1
        await world.write(renders.fail_attempt, attempt.lease, GONE, 0)
    assert await world.reserve(request_id, attempts_max=2) is ReserveRefusal.EXHAUSTED
    request = await world.request(request_id)
    assert (request.status, request.error) == ("failed", GONE)


async def test_the_budget_counts_from_the_first_dispatch_over_all_attempts(world: World) -> None:
    [request_id] = await queue(world, 1)
    assert (await world.request(request_id)).deadline_at is None
    first = await world.reserved(request_id, budget_ms=100_000)
    deadline = (await world.request(request_id)).deadline_at
    await world.write(renders.fail_attempt, first.lease, GONE, 0)
    second = await world.reserved(request_id, budget_ms=100_000)
    assert (await world.request(request_id)).deadline_at == deadline
    assert second.remaining_ms <= first.remaining_ms
    await world.write(renders.fail_attempt, second.lease, GONE, 0)
    await age(world, request_id, deadline_at=-1)
    assert await world.reserve(request_id, attempts_max=10) is ReserveRefusal.EXHAUSTED
    assert (await world.request(request_id)).error["code"] == "RENDER_REQUEST_TIMEOUT"


# --- converging -----------------------------------------------------------------------------------------------------


async def test_an_expired_attempt_gives_its_slot_back(world: World) -> None:
    first, second = await queue(world, 2)
    attempt = await world.reserved(first, global_max=1)
    assert await world.reserve(second, "renderer-2", global_max=1) is ReserveRefusal.GLOBAL_LIMIT
    await world.expire(attempt.lease)
    [ended] = await expire_attempts(world)
    assert (ended.request_id, ended.attempt_id, ended.owner) == (first, attempt.lease.id, "replica")
    assert await expire_attempts(world) == []
    await world.reserved(second, "renderer-2", global_max=1)


async def test_a_sweep_that_paused_does_not_touch_an_attempt_that_was_renewed_meanwhile(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id)
    await world.expire(attempt.lease)
    [seen] = await world.read(renders.list_unreleased)
    async with world.db.write() as tx:  # its renewal was only late on its way
        await tx.execute(update(schema.render_attempts).values(lease_expires_at=tx.now + TTL_MS))
    assert await world.write(render_attempts._lapse, seen, 3) is None
    assert (await world.request(request_id)).status == "running"
    await world.write(renders.finish_attempt, attempt.lease, {})


async def test_an_expired_last_attempt_fails_its_request(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id, attempts_max=1)
    await world.expire(attempt.lease)
    [ended] = await expire_attempts(world, attempts_max=1)
    assert ended.request_status == "failed"
    assert (await world.request(request_id)).error["code"] == "RENDER_ATTEMPTS_EXHAUSTED"


async def test_a_request_whose_time_ran_out_while_it_waited_fails(world: World) -> None:
    waiting, timeless = await queue(world, 2)
    attempt = await world.reserved(waiting)
    await world.write(renders.fail_attempt, attempt.lease, GONE, 60_000)
    await age(world, waiting, deadline_at=-1)
    assert await expire_attempts(world) == []
    assert (await world.request(waiting)).status == "failed"
    assert (await world.request(timeless)).status == "pending"


async def test_an_attempt_without_a_running_request_still_gives_its_slot_back(world: World) -> None:
    """A row that should not be: it must not hold capacity, nor hide the others."""
    odd, good = await queue(world, 2)
    for n, request_id in enumerate((odd, good)):
        await world.expire((await world.reserved(request_id, f"renderer-{n}")).lease)
    async with world.db.write() as tx:
        ended = {"status": "cancelled", "finished_at_ms": tx.now}
        await tx.execute(update(requests).where(requests.c.id == odd).values(**ended))
    assert {(e.request_id, e.request_status) for e in await expire_attempts(world)} == {
        (odd, "cancelled"),
        (good, "pending"),
    }
    assert await world.read(renders.list_unreleased) == []


async def test_replicas_that_converge_at_once_release_each_attempt_once(world: World, database_url: str) -> None:
    ids = await queue(world, 8)
    for n, request_id in enumerate(ids):
        await world.expire((await world.reserved(request_id, f"renderer-{n}")).lease)
    other = await Database.open(database_url)

    async def converge(db: Database) -> list[renders.EndedAttempt]:
        async with db.write() as tx:
            return await renders.expire_attempts(tx, attempts_max=3)

    first, second = await asyncio.gather(converge(world.db), converge(other))
    assert sorted(ended.request_id for ended in first + second) == ids
    await other.close()


# --- cancelling -----------------------------------------------------------------------------------------------------


async def test_cancelling_names_the_attempt_to_kill_and_refuses_its_result(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id, "renderer-7")
    [ended] = await world.write(renders.cancel_request, request_id)
    assert (ended.worker_id, ended.number, ended.request_status) == ("renderer-7", 1, "cancelled")
    with pytest.raises(LeaseLost):
        await world.write(renders.finish_attempt, attempt.lease, {})
    with pytest.raises(LeaseLost):
        await world.write(lease.renew, attempt.lease, TTL_MS)
    assert await world.write(renders.cancel_request, request_id) == []


async def test_cancelling_what_has_ended_changes_nothing(world: World) -> None:
    [request_id] = await queue(world, 1)
    attempt = await world.reserved(request_id)
    await world.write(renders.finish_attempt, attempt.lease, {"ok": True})
    before = await world.request(request_id)
    assert await world.write(renders.cancel_request, request_id) == []
    assert await world.request(request_id) == before


async def test_a_rescue_cancels_the_renders_of_the_older_attempt_only(world: World) -> None:
    """Q5: in the same transaction, and the new attempt's own request is left alone."""
    job = await world.claimed()
    waiting, running = await world.enqueue(job), await world.enqueue(job)
    await world.reserved(running)
    await world.expire(job.lease)
    assert await world.rescue(job) == "pending"
    assert [(await world.request(n)).status for n in (waiting, running)] == ["cancelled", "cancelled"]
    assert await world.read(renders.list_unreleased) == []
    again = await world.claimed()
    fresh = await world.enqueue(again)
    async with world.db.write() as tx:
        await renders.cancel_requests_of_job(tx, jobs.PAGE_MUTATION, job.id, attempt_max=job.lease.fence)
    assert (await world.request(fresh)).status == "pending"


@pytest.mark.parametrize("way", ["release", "retry", "cancel"])
async def test_a_job_that_leaves_its_attempt_leaves_no_render_behind(world: World, way: str) -> None:
    job = await world.claimed()
    request_id = await world.enqueue(job)

    async def leave(tx: Tx) -> None:
        if way == "release":
            await jobs.release_job(tx, job.lease)
        elif way == "retry":
            await jobs.retry_job(tx, job.lease, 0, "infra")
        else:
            await jobs.finish_job(tx, job.lease, "cancel")

    await world.write(leave)
    assert (await world.request(request_id)).status == "cancelled"
