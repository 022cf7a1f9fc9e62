"""The delivery of an ended run: ordered with the end, claimed once, fenced, tried again, pruned with its run (A9)."""

from typing import Any

import pytest
from sqlalchemy import select, update

from pagegate.storage import pruning, runs, schema, webhooks
from pagegate.storage.lease import LeaseLost
from pagegate.storage.pruning import START, Retention
from pagegate.storage.webhooks import ClaimedDelivery
from tests.world import World

TTL_MS = 60_000
AT_ONCE = Retention(succeeded_ms=0, cancelled_ms=0, failed_ms=0)
table = schema.webhook_deliveries


async def an_ended_run(world: World, workspace: int = 0) -> int:
    """A run that ended in a project with a webhook."""
    await world.write(webhooks.put_webhook, world.projects[workspace], "https://hooks.test/", "ciphertext")
    run_id = (await world.submit(workspace=workspace)).run_id
    await world.write(runs.cancel_run, run_id)
    return run_id


async def claim(world: World, worker_id: str = "sender") -> ClaimedDelivery | None:
    return await world.write(webhooks.claim_delivery, worker_id, TTL_MS)


async def claimed(world: World, worker_id: str = "sender") -> ClaimedDelivery:
    delivery = await claim(world, worker_id)
    assert delivery is not None
    return delivery


async def delivery_of(world: World, run_id: int) -> Any:
    return await world.read(webhooks.find_delivery, run_id)


async def test_a_runs_end_orders_one_delivery_and_ending_it_again_none(world: World) -> None:
    run_id = await an_ended_run(world)
    assert not await world.write(runs.finish_run, run_id, "finish")
    async with world.db.read() as tx:
        (row,) = (await tx.execute(select(table))).all()
    assert (row.run_id, row.project_id, row.state, row.attempt) == (run_id, world.projects[0], "pending", 0)


async def test_an_end_that_is_rolled_back_orders_nothing(world: World) -> None:
    await an_ended_run(world)
    run_id = (await world.submit()).run_id

    async def ends_and_fails() -> None:
        async with world.db.write() as tx:
            await runs.finish_run(tx, run_id, "finish")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ends_and_fails()
    assert await delivery_of(world, run_id) is None


async def test_a_project_without_a_webhook_has_no_deliveries(world: World) -> None:
    await an_ended_run(world, workspace=1)
    run_id = (await world.submit()).run_id
    await world.write(runs.cancel_run, run_id)
    assert await delivery_of(world, run_id) is None


async def test_a_claim_says_all_that_is_to_be_told(world: World) -> None:
    run_id = await an_ended_run(world)
    run = await world.read(runs.get_run, run_id)
    found = await claimed(world)
    assert (found.run_id, found.project_id, found.attempt) == (run_id, world.projects[0], 1)
    assert (found.run_status, found.finished_at_ms) == ("cancelled", run.finished_at_ms)
    assert (found.url, found.secret) == ("https://hooks.test/", "ciphertext")
    assert await claim(world) is None


async def test_a_project_with_a_delivery_under_way_waits_and_another_does_not(world: World) -> None:
    await an_ended_run(world)
    second = await an_ended_run(world)
    other = await an_ended_run(world, workspace=1)
    first = await claimed(world)
    assert (await claimed(world)).run_id == other
    assert await claim(world) is None
    await world.write(webhooks.finish_delivery, first.lease, 200)
    assert (await claimed(world)).run_id == second


async def test_a_lost_senders_delivery_is_claimed_again_under_the_same_id_and_its_late_end_is_refused(
    world: World,
) -> None:
    run_id = await an_ended_run(world)
    lost = await claimed(world)
    await world.expire(lost.lease)
    assert await world.read(webhooks.is_any_due)
    again = await claimed(world)
    assert (again.message_id, again.attempt) == (lost.message_id, 2)
    for late in (
        lambda tx: webhooks.finish_delivery(tx, lost.lease, 200),
        lambda tx: webhooks.retry_delivery(tx, lost.lease, 0, 500, {}),
        lambda tx: webhooks.fail_delivery(tx, lost.lease, None, {}),
    ):
        with pytest.raises(LeaseLost):
            await world.write(late)
    await world.write(webhooks.finish_delivery, again.lease, 204)
    row = await delivery_of(world, run_id)
    assert (row.state, row.last_status, row.error) == ("delivered", 204, None)


async def test_a_retry_is_not_due_before_its_time(world: World) -> None:
    run_id = await an_ended_run(world)
    first = await claimed(world)
    await world.write(webhooks.retry_delivery, first.lease, 3_600_000, 503, {"code": "WEBHOOK_STATUS"})
    assert not await world.read(webhooks.is_any_due)
    assert await claim(world) is None
    async with world.db.write() as tx:
        await tx.execute(update(table).values(available_at=tx.now))
    assert (await claimed(world)).attempt == 2
    assert (await delivery_of(world, run_id)).last_status == 503


async def test_what_waits_uses_the_webhook_as_it_is_at_the_try(world: World) -> None:
    await an_ended_run(world)
    await world.write(webhooks.put_webhook, world.projects[0], "https://corrected.test/", "fresh")
    first = await claimed(world)
    assert (first.url, first.secret) == ("https://corrected.test/", "fresh")
    await world.expire(first.lease)
    assert await world.write(webhooks.delete_webhook, world.projects[0])
    again = await claimed(world)
    assert (again.url, again.secret) == (None, None)


async def test_a_run_is_kept_until_its_webhook_waits_no_more_and_takes_its_delivery_along(world: World) -> None:
    run_id = await an_ended_run(world)
    jobs = schema.ai_page_mutation_jobs
    async with world.db.write() as tx:
        for ended in (jobs, schema.ai_agent_runs):
            await tx.execute(update(ended).values(finished_at_ms=tx.now - 1000))
    assert (await world.read(pruning.list_prunable_runs, AT_ONCE, START, 10)).run_ids == []
    await world.write(webhooks.fail_delivery, (await claimed(world)).lease, None, {})
    assert await world.write(pruning.prune_runs, AT_ONCE, [run_id]) == 1
    assert await delivery_of(world, run_id) is None
