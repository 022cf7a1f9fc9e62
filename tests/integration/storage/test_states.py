"""The state machines in the database: the whole product of states and events, on both kinds (Q2).

Rows are put into each state by hand; then every other state is tried, and every event by its own statement.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import Table, func, select, update
from sqlalchemy.exc import IntegrityError

from pagegate.storage import external, jobs, renders, runs, schema, webhooks
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, LeaseLost
from pagegate.storage.transitions import (
    EXTERNAL_BATCH,
    EXTERNAL_TASK,
    JOB,
    RENDER_REQUEST,
    RUN,
    WEBHOOK_DELIVERY,
    Machine,
)
from tests.world import World, reserve

KIND = jobs.PAGE_MUTATION


def shape(table: Table, column: str, state: str, tx: Tx) -> dict[str, Any]:
    """What a row in `state` must look like for the CHECK constraints."""
    machine = schema.GUARDED[table.name][1]
    values: dict[str, Any] = {column: state}
    for name in ("finished_at_ms", "completed_at_ms", "released_at"):
        if name in table.c:
            ended = state != "pending" if machine is EXTERNAL_TASK else state in machine.terminal
            values[name] = tx.now if ended else None
    if (
        state in ("running", "resuming", "delivering")
        and "lease_expires_at" in table.c
        and table is not schema.render_attempts
    ):
        values |= {"worker_id": "w", "lease_expires_at": tx.now + 60_000}
    return values


async def one_row_of_each(world: World) -> dict[str, int]:
    """A row of every guarded table, in its first state."""
    submitted = await world.submit()
    job = await world.claimed()
    request = await world.enqueue(job)
    attempt = await world.reserved(request)
    await world.write(jobs.release_job, job.lease)
    async with world.db.write() as tx:
        queued = await tx.insert(
            schema.ai_agent_runs,
            workspace_id=world.workspaces[0],
            project_id=world.projects[0],
            user_id=world.user_id,
            source="agent",
            created_at_ms=tx.now,
        )
        for kind in schema.JOB_KINDS:
            if kind != KIND:
                await insert_job(tx, world, kind)
        await webhooks.put_webhook(tx, world.projects[0], "https://hooks.test/", "ciphertext")
        await webhooks.order_delivery(tx, submitted.run_id)
        await webhooks.delete_webhook(tx, world.projects[0])  # the ends that a test tries order no more of them
        first = {
            table: (await tx.execute(select(schema.metadata.tables[table].c.id))).scalars() for table in schema.GUARDED
        }
        ids = {table: min(found) for table, found in first.items()}
    assert (ids["ai_page_mutation_jobs"], ids["render_attempts"]) == (submitted.job_ids[0], attempt.lease.id)
    return ids | {"ai_agent_runs": queued}


async def insert_job(tx: Tx, world: World, kind: str) -> None:
    """A pending job of a kind that has a way in of its own, with whatever its columns must have."""
    page = {
        "code": f"page-of-{kind}",
        "title": "A page",
        "framework": "vue",
        "updated_at_ms": tx.now,
        "created_at_ms": tx.now,
    }
    own: dict[str, dict[str, Any]] = {
        "page_screenshot_jobs": {
            "page_id": await tx.insert(schema.pages, project_id=world.projects[0], **page),
            "page_code": page["code"],
            "page_version": 1,
            "config_fingerprint": "0",
            "viewport": "1280x720",
            "capture_key": "0",
        },
        "component_mutation_jobs": {**await of_a_call(tx), "component_name": "StatTile.vue"},
        "project_build_jobs": {"snapshot": {}, "routes": "hash"},
        "image_generation_jobs": {**await of_a_call(tx), "asset_name": "picture.png"},
        "asset_ratio_backfill_jobs": {
            "asset_id": await tx.insert(
                schema.assets, project_id=world.projects[0], name=f"file-of-{kind}.png", created_at_ms=tx.now
            ),
            "asset_name": "file.png",
            "asset_version": 1,
        },
    }
    await tx.insert(
        schema.metadata.tables[kind],
        workspace_id=world.workspaces[0],
        project_id=world.projects[0],
        user_id=world.user_id,
        available_at=tx.now,
        created_at_ms=tx.now,
        **own[kind],
    )


async def of_a_call(tx: Tx) -> dict[str, Any]:
    """What a job of a deferred call has from its step: any call and any batch will do."""
    calls, batches = schema.ai_agent_tool_calls, schema.ai_page_mutation_batches
    return {
        "tool_call_id": (await tx.execute(select(func.min(calls.c.id)))).scalar_one(),
        "batch_id": (await tx.execute(select(func.min(batches.c.id)))).scalar_one(),
        "position": 7,
    }


@pytest.fixture
def unguarded(world: World) -> Callable[[], Awaitable[None]]:
    """Take the triggers away, so that a test can put a row into any state."""

    async def drop() -> None:
        async with world.db.write() as tx:
            for table in schema.GUARDED:
                on = f" ON {table}" if tx.dialect == "postgresql" else ""
                await tx.conn.exec_driver_sql(f"DROP TRIGGER tr_{table}_moves{on}")

    return drop


@pytest.mark.parametrize("name", schema.GUARDED)
async def test_the_database_lets_a_state_move_only_as_the_table_says(world: World, name: str) -> None:
    """Every pair of states: the trigger refuses what no event does, first of all to leave a terminal state."""
    table, (column, machine) = schema.metadata.tables[name], schema.GUARDED[name]
    row_id = (await one_row_of_each(world))[name]
    for before in machine.states:
        for after in machine.states:
            allowed = before == after or (before, after) in machine.pairs
            assert await moves(world, table, column, row_id, before, after) is allowed, (before, after)


class Moved(Exception):
    """The change went through; raised to undo it."""


async def moves(world: World, table: Table, column: str, row_id: int, before: str, after: str) -> bool:
    """Whether the database lets a new row in `before` become `after`. Leaves nothing behind."""
    try:
        async with world.db.write() as tx:
            copy = (await tx.execute(select(table).where(table.c.id == row_id))).mappings().one()
            numbers = {"id", "tool_call_id", "position", "run_step", "number"} & copy.keys()
            texts = {"call_id", "worker_id", "idempotency_key", "capture_key", "message_id"} & copy.keys()
            unique: dict[str, Any] = dict.fromkeys(numbers, 10_000) | dict.fromkeys(texts, "another")
            if table is schema.ai_agent_external_tasks:
                call = (await tx.execute(select(schema.ai_agent_tool_calls))).mappings().first()
                assert call is not None
                other = {"id": 10_000, "position": 10_000, "call_id": "another"}
                await tx.execute(schema.ai_agent_tool_calls.insert().values(**{**call, **other}))
                unique["job_id"] = 10_000
            elif table.name in jobs.SUBJECTS:
                del unique["tool_call_id"]
            elif table is schema.webhook_deliveries:
                run = (await tx.execute(select(schema.ai_agent_runs))).mappings().first()
                assert run is not None
                await tx.execute(schema.ai_agent_runs.insert().values(**{**run, "id": 10_000, "idempotency_key": None}))
                unique["run_id"] = 10_000
            elif table is schema.asset_ratio_backfill_jobs:
                file = (await tx.execute(select(schema.assets))).mappings().first()
                assert file is not None
                await tx.execute(schema.assets.insert().values(**{**file, "id": 10_000, "name": "another"}))
                unique["asset_id"] = 10_000
            await tx.execute(table.insert().values(**{**copy, **unique, **shape(table, column, before, tx)}))
            change = update(table).where(table.c.id == 10_000).values(**shape(table, column, after, tx))
            await tx.execute(change)
            raise Moved
    except Moved:
        return True
    except IntegrityError as error:
        if "refused state change" not in str(error):
            raise
        return False


async def test_a_state_nobody_knows_is_refused(world: World) -> None:
    ids = await one_row_of_each(world)
    for name, (column, _) in schema.GUARDED.items():
        table = schema.metadata.tables[name]
        with pytest.raises(IntegrityError):
            await world.write(
                lambda tx, t=table, c=column, n=name: tx.execute(update(t).where(t.c.id == ids[n]).values({c: "odd"}))
            )


# --- every event by its statement -----------------------------------------------------------------------------------


async def put_into(world: World, table: Table, column: str, row_id: int, state: str) -> None:
    async with world.db.write() as tx:
        await tx.execute(update(table).where(table.c.id == row_id).values(**shape(table, column, state, tx)))


async def state_of(world: World, table: Table, column: str, row_id: int) -> str:
    async with world.db.read() as tx:
        return str((await tx.execute(select(table.c[column]).where(table.c.id == row_id))).scalar_one())


async def check_product(
    world: World, machine: Machine, table: Table, column: str, row_id: int, statements: dict[str, Any]
) -> None:
    """In each state, each event's statement moves the row as the machine says, or leaves it where it is."""
    assert set(statements) == set(machine.events), "an event without a statement, or a statement without an event"
    for state in machine.states:
        for name, statement in statements.items():
            await put_into(world, table, column, row_id, state)
            try:
                await world.write(statement)
            except (LeaseLost, runs.RunNotFound, external.ResultDelivered):
                moved = False
            else:
                moved = True
            expected = machine.moves.get((state, name), state)
            assert await state_of(world, table, column, row_id) == expected, (state, name, moved)


async def test_every_event_of_a_job_in_every_state(world: World, unguarded: Any) -> None:
    await world.submit()
    job = await world.claimed("w")
    await unguarded()
    lease = job.lease

    async def fence(tx: Tx) -> int:
        table = schema.ai_page_mutation_jobs
        return int((await tx.execute(select(table.c.attempt))).scalar_one())

    async def current(tx: Tx) -> Lease:
        return Lease(lease.table, lease.id, "w", await fence(tx), 0)

    async def lapse(tx: Tx, lease_losses: int) -> None:
        table = schema.ai_page_mutation_jobs
        stale = {"lease_losses": lease_losses, "cancel_requested_at": None}
        await tx.execute(update(table).values(**stale))
        await tx.execute(update(table).where(table.c.status == "running").values(lease_expires_at=tx.now - 1))
        await jobs.rescue_job(tx, KIND, lease.id, await fence(tx), 3)

    async def end(tx: Tx, event: Any) -> None:
        await jobs.finish_job(tx, await current(tx), event)

    async def cancel(tx: Tx) -> None:
        if await jobs.request_cancel(tx, KIND, lease.id) == "requested":
            await end(tx, "cancel")
        await tx.execute(update(schema.ai_page_mutation_jobs).values(cancel_requested_at=None))

    async def retry(tx: Tx) -> None:
        await jobs.retry_job(tx, await current(tx), 0, "none")

    async def release(tx: Tx) -> None:
        await jobs.release_job(tx, await current(tx))

    await check_product(
        world,
        JOB,
        schema.ai_page_mutation_jobs,
        "status",
        lease.id,
        {
            "claim": lambda tx: jobs.claim_job(tx, KIND, "w", 60_000),
            "finish": lambda tx: end(tx, "finish"),
            "fail": lambda tx: end(tx, "fail"),
            "skip": lambda tx: end(tx, "skip"),
            "cancel": cancel,
            "retry": retry,
            "release": release,
            "rescue": lambda tx: lapse(tx, 0),
            "exhaust": lambda tx: lapse(tx, 3),
        },
    )


async def test_every_event_of_an_external_batch_in_every_state(world: World, unguarded: Any) -> None:
    submitted = await world.submit()
    await unguarded()
    table = schema.ai_agent_external_batches
    async with world.db.read() as tx:
        batch_id = (await tx.execute(select(table.c.id))).scalar_one()

    async def current(tx: Tx) -> Lease:
        return Lease(table.name, batch_id, "w", (await tx.execute(select(table.c.lease_generation))).scalar_one(), 0)

    async def settle(tx: Tx) -> None:
        await tx.execute(update(schema.ai_agent_external_tasks).values(state="failed", finished_at_ms=tx.now))
        await external.settle_batch(tx, batch_id)

    async def reopen(tx: Tx) -> None:
        tasks = schema.ai_agent_external_tasks
        await tx.execute(update(tasks).values(state="failed", finished_at_ms=tx.now))
        job_id = (await tx.execute(select(tasks.c.job_id))).scalar_one()
        await external.reopen_task(tx, KIND, job_id, job_id + 1)

    async def takeover(tx: Tx) -> None:
        """The claim of a batch whose lease ran out; a ready one is `claim`."""
        await tx.execute(update(table).where(table.c.state == "resuming").values(lease_expires_at=tx.now - 1))
        if (await tx.execute(select(table.c.state))).scalar_one() != "ready":
            await external.claim_ready_batch(tx, "w", 60_000)

    async def finish(tx: Tx) -> None:
        await external.finish_batch(tx, await current(tx))

    async def release(tx: Tx) -> None:
        await external.release_batch(tx, await current(tx))

    await check_product(
        world,
        EXTERNAL_BATCH,
        table,
        "state",
        batch_id,
        {
            "settle": settle,
            "claim": lambda tx: external.claim_ready_batch(tx, "w", 60_000),
            "takeover": takeover,
            "release": release,
            "finish": finish,
            "close": lambda tx: external.close_batches(tx, submitted.run_id),
            "reopen": reopen,
        },
    )


async def test_every_event_of_a_render_request_in_every_state(world: World, unguarded: Any) -> None:
    request_id = await world.enqueue(await world.claimed())
    await unguarded()
    requests, attempts = schema.render_requests, schema.render_attempts

    async def with_attempt(tx: Tx, *, expired: bool = False) -> Lease:
        """An unreleased attempt of the request's number, as a running request has one."""
        number = (
            await tx.execute(update(requests).values(attempt=requests.c.attempt + 1).returning(requests.c.attempt))
        ).scalar_one()
        await tx.execute(update(attempts).values(status="failed", released_at=tx.now))
        attempt_id = await tx.insert(
            attempts,
            request_id=request_id,
            number=number,
            worker_id="renderer",
            owner="w",
            lease_expires_at=tx.now + (-1 if expired else 60_000),
            heartbeat_at=tx.now,
            created_at_ms=tx.now,
        )
        return Lease(attempts.name, attempt_id, "w", number, 0)

    async def fail(tx: Tx, delay_ms: int | None) -> None:
        await renders.fail_attempt(tx, await with_attempt(tx), {"code": "X"}, delay_ms)

    async def finish(tx: Tx) -> None:
        await renders.finish_attempt(tx, await with_attempt(tx), {})

    async def busy(tx: Tx) -> None:
        await renders.return_busy(tx, await with_attempt(tx), 0)

    async def lapse(tx: Tx, attempts_max: int) -> None:
        if attempts_max > 1:
            await tx.execute(update(requests).values(deadline_at=None, busy_returns=requests.c.attempt))
        else:
            await tx.execute(update(requests).values(deadline_at=tx.now - 1))
        await with_attempt(tx, expired=True)
        await renders.expire_attempts(tx, attempts_max=attempts_max)
        await tx.execute(update(requests).values(deadline_at=None, busy_returns=requests.c.attempt))

    async def free(tx: Tx) -> None:
        await tx.execute(update(attempts).values(status="failed", released_at=tx.now))
        await reserve(tx, request_id, "renderer", "w")

    await check_product(
        world,
        RENDER_REQUEST,
        requests,
        "status",
        request_id,
        {
            "reserve": free,
            "finish": finish,
            "fail": lambda tx: fail(tx, None),
            "retry": lambda tx: fail(tx, 0),
            "busy": busy,
            "lapse": lambda tx: lapse(tx, 100),
            "exhaust": lambda tx: lapse(tx, 0),
            "cancel": lambda tx: renders.cancel_request(tx, request_id),
        },
    )


async def test_every_event_of_a_run_in_every_state(world: World, unguarded: Any) -> None:
    run_id = (await one_row_of_each(world))["ai_agent_runs"]
    await unguarded()

    async def end(tx: Tx, event: Any) -> None:
        await runs.finish_run(tx, run_id, event)

    await check_product(
        world,
        RUN,
        schema.ai_agent_runs,
        "status",
        run_id,
        {
            **{
                event: lambda tx, e=event: runs.move_run(tx, run_id, e)
                for event in ("start", "submit", "wait", "resume")
            },
            **{event: lambda tx, e=event: end(tx, e) for event in ("finish", "fail", "cancel")},
        },
    )


async def test_every_event_of_a_webhook_delivery_in_every_state(world: World, unguarded: Any) -> None:
    row_id = (await one_row_of_each(world))["webhook_deliveries"]
    await unguarded()
    table = schema.webhook_deliveries

    async def current(tx: Tx) -> Lease:
        return Lease(table.name, row_id, "w", (await tx.execute(select(table.c.attempt))).scalar_one(), 0)

    async def takeover(tx: Tx) -> None:
        await tx.execute(update(table).where(table.c.state == "delivering").values(lease_expires_at=tx.now - 1))
        if (await tx.execute(select(table.c.state))).scalar_one() != "pending":
            await webhooks.claim_delivery(tx, "w", 60_000)

    async def end(tx: Tx, statement: Any, *args: Any) -> None:
        await statement(tx, await current(tx), *args)

    await check_product(
        world,
        WEBHOOK_DELIVERY,
        table,
        "state",
        row_id,
        {
            "claim": lambda tx: webhooks.claim_delivery(tx, "w", 60_000),
            "takeover": takeover,
            "retry": lambda tx: end(tx, webhooks.retry_delivery, -1000, 500, {"code": "X"}),
            "finish": lambda tx: end(tx, webhooks.finish_delivery, 200),
            "fail": lambda tx: end(tx, webhooks.fail_delivery, None, {"code": "X"}),
        },
    )
