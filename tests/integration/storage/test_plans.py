"""An old database is as quick as a new one: what runs all day touches live rows only.

The plan is looked at, not the clock. A table that is read whole, or an index of rows that have long ended, is a fault.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from sqlalchemy import event, text

from pagegate.storage import external, jobs, lane_views, pruning, render_attempts, renders, runs
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import Ending
from pagegate.storage.lease import Lease, LeaseLost
from tests.world import TTL_MS, World

LARGE = (
    "ai_agent_runs",
    "ai_page_mutation_jobs",
    "render_requests",
    "render_attempts",
    "ai_agent_external_batches",
)

NOTHING_KEPT = pruning.Retention(0, 0, 0)


async def looked_for(tx: Tx, workspace_ids: list[int] | None, status: str | None) -> Any:
    wanted = {"workspace_ids": workspace_ids, "status": status, "before_id": 1_000, "limit": 20}
    return await lane_views.list_jobs(tx, jobs.PAGE_MUTATION, **wanted)  # type: ignore[arg-type]  # as named


async def finished(tx: Tx) -> None:
    with suppress(LeaseLost):
        await jobs.finish_jobs(tx, [Ending(lease, "finish") for lease in LEASES])


LEASES = [Lease(jobs.PAGE_MUTATION, number, "w", 1, 0) for number in (1, 2)]

EVERY_DAY: dict[str, Callable[[Tx], Awaitable[Any]]] = {
    "claim": lambda tx: jobs.claim_job(tx, jobs.PAGE_MUTATION, "w", TTL_MS),
    "claim of who waits alone": lambda tx: jobs.claim_jobs(
        tx, jobs.PAGE_MUTATION, "w", TTL_MS, workspace_id=1, count=5, if_alone=True
    ),
    "who waits": lambda tx: jobs.list_waiting(tx, jobs.PAGE_MUTATION),
    "renew many": lambda tx: jobs.renew_jobs(tx, LEASES, TTL_MS),
    "finish many": finished,
    "list expired": lambda tx: jobs.list_expired(tx, jobs.PAGE_MUTATION, 100),
    "counts": lambda tx: jobs.queue_counts(tx, jobs.PAGE_MUTATION),
    "active": lambda tx: jobs.count_active(tx, jobs.PAGE_MUTATION),
    "next": lambda tx: jobs.next_available_at(tx, jobs.PAGE_MUTATION),
    "batch": lambda tx: external.claim_ready_batch(tx, "w", TTL_MS),
    "settle": lambda tx: external.settle_batch(tx, 1),
    "renders": lambda tx: renders.list_pending(tx, 100),
    "render counts": renders.count_by_class,
    "render limits": lambda tx: render_attempts._limit_reached(tx, 1, "w", 1, 1),
    "expire": lambda tx: renders.expire_attempts(tx, attempts_max=3),
    "cancel": lambda tx: renders.cancel_requests_of_job(tx, jobs.PAGE_MUTATION, 1, attempt_max=1),
    "events": lambda tx: runs.list_events(tx, 1),
    "lane": lambda tx: lane_views.look_at_lane(tx, jobs.PAGE_MUTATION),
    "all jobs": lambda tx: looked_for(tx, None, None),
    "failed jobs": lambda tx: looked_for(tx, None, "failed"),
    "pending jobs": lambda tx: looked_for(tx, None, "pending"),
    "a workspace's jobs": lambda tx: looked_for(tx, [1], None),
    "a job": lambda tx: lane_views.get_job_view(tx, jobs.PAGE_MUTATION, 1),
    "prunable": lambda tx: pruning.list_prunable_runs(tx, NOTHING_KEPT, pruning.START, 100),
    "prune": lambda tx: pruning.prune_runs(tx, NOTHING_KEPT, [1]),
    "prune loose": lambda tx: pruning.prune_loose_jobs(tx, jobs.PAGE_MUTATION, NOTHING_KEPT, 100),
}


@contextmanager
def heard(db: Database) -> Iterator[list[tuple[str, Any]]]:
    """Every statement of the block, with its parameters."""
    statements: list[tuple[str, Any]] = []

    def hear(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    engine = db._writers.sync_engine
    event.listen(engine, "before_cursor_execute", hear)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", hear)


@pytest.mark.parametrize("name", EVERY_DAY)
async def test_no_large_table_is_read_whole(world: World, name: str) -> None:
    await world.submit()
    async with world.db.write() as tx:
        with heard(world.db) as statements:
            await EVERY_DAY[name](tx)
    assert statements
    async with world.db.write() as tx:
        if tx.dialect == "postgresql":
            # Small tables are read whole whatever there is; without that choice the plan shows what else there is.
            await tx.execute(text("SET LOCAL enable_seqscan = off"))
        for statement, parameters in statements:
            if "advisory_xact_lock" in statement:
                continue
            explain = "EXPLAIN " if tx.dialect == "postgresql" else "EXPLAIN QUERY PLAN "
            rows = (await tx.conn.exec_driver_sql(explain + statement, parameters)).all()
            for line in (str(row[-1]) for row in rows):
                for table in LARGE:
                    whole = f"Seq Scan on {table}" in line or (f"SCAN {table}" in line and "INDEX" not in line)
                    assert not whole, f"{line}\n{statement}"
