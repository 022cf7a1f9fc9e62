"""pagegate's own side: no-op jobs of a real kind through the real queue and workers, on a database of its own.

Owns the rows that the jobs need around them, the kind that does nothing, and the ear that writes down every
transaction for `raw.py`. Claim, renewal (the fence of the last transaction) and end are those of every job.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, insert, text

from pagegate.actors.kernel import stop
from pagegate.actors.queues.kinds import End, Settle
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.queue import JobQueue
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob

# A transaction as it was made: (statement, its parameters), from BEGIN to COMMIT.
Transaction = list[tuple[str, Any]]

DRAIN_TIMEOUT_S = 600.0
_CHUNK = 1_000
_FINISHED = """
INSERT INTO ai_page_mutation_jobs (workspace_id, project_id, user_id, run_id, status, attempt, worker_id, heartbeat_at,
    available_at, result, created_at_ms, started_at_ms, finished_at_ms, batch_id, tool_call_id, page_code, position)
SELECT 1, 1, 1, 1, 'succeeded', 1, 'host:1:long-gone', 2000, 1000, '{}', 1000, 1500, 2000, 1, 1, 'old-' || n, n
FROM {numbers}
"""
_NUMBERS = {
    "sqlite": "(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count}) SELECT n FROM c)",
    "postgresql": "generate_series(1, {count}) AS numbers(n)",
}


class _NoOp:
    """Ends at once as succeeded. Its last transaction writes nothing but the job's own row."""

    name = PAGE_MUTATION
    tell = None  # nobody waits for it

    def __init__(self, wanted: int) -> None:
        self._left, self.all_over = wanted, asyncio.Event()

    def log_event(self, what: str) -> str:
        return f"bench.{what}"

    async def execute(self, _job: ClaimedJob) -> Settle:
        return _settle

    async def ended(self, _job: ClaimedJob) -> None:
        self._left -= 1
        if self._left == 0:
            self.all_over.set()


async def _settle(_: Tx) -> End:
    return End("finish")


async def settle_in(db: Database) -> None:
    """The rows that every job points at."""
    rows: list[tuple[Any, dict[str, Any]]] = [
        (schema.users, {"name": "bench"}),
        (schema.workspaces, {"name": "bench"}),
        (schema.projects, {"workspace_id": 1, "name": "bench", "canvas_width_px": 1280}),
        (schema.ai_agent_runs, {"workspace_id": 1, "project_id": 1, "user_id": 1, "source": "api"}),
        (schema.ai_page_mutation_batches, {"run_id": 1, "run_step": 0, "size": 1}),
        (
            schema.ai_agent_tool_calls,
            {"run_id": 1, "run_step": 0, "position": 0, "call_id": "c", "tool_name": "no_op", "arguments": {}},
        ),
    ]
    async with db.write() as tx:
        for table, values in rows:
            await tx.insert(table, **values, created_at_ms=tx.now)


async def add_finished(db: Database, count: int) -> None:
    """Jobs that ended long ago, in bulk."""
    numbers = _NUMBERS[db.dialect].format(count=count)
    async with db.write() as tx:
        if db.dialect == "postgresql":
            await tx.execute(text("SET LOCAL statement_timeout = 0"))
        await tx.execute(text(_FINISHED.replace("{numbers}", numbers)))
    async with db.write() as tx:
        await tx.execute(text("ANALYZE ai_page_mutation_jobs"))


async def submit(db: Database, count: int) -> None:
    """Pending jobs, each on a page of its own."""
    about = {"workspace_id": 1, "project_id": 1, "user_id": 1, "run_id": 1, "batch_id": 1, "tool_call_id": 1}
    about |= {"available_at": 0, "created_at_ms": 0}
    for start in range(0, count, _CHUNK):
        rows = [
            about | {"page_code": f"page-{number}", "position": number}
            for number in range(start, min(count, start + _CHUNK))
        ]
        async with db.write() as tx:
            await tx.execute(insert(schema.ai_page_mutation_jobs), rows)


async def drain(db: Database, jobs: int, workers: int) -> float:
    """Run `jobs` pending jobs to their ends; jobs a second."""
    kind, times = _NoOp(jobs), LeaseTimes()
    writer = LaneWriter(db, kind, times)
    crew = [JobWorker.start(db, kind, times, 10, writer=writer) for _ in range(workers)]
    started_s = time.perf_counter()
    queue = JobQueue.start(db, PAGE_MUTATION, "bench:1:uuid", crew, times)
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            await kind.all_over.wait()
        return jobs / (time.perf_counter() - started_s)
    finally:
        await stop(queue)
        for worker in crew:
            await stop(worker)


@contextmanager
def transactions_of(db: Database) -> Iterator[list[Transaction]]:
    """What the block really sends through the writers' connections, transaction by transaction."""
    engine = db._writers.sync_engine
    made: list[Transaction] = []

    def begin(_conn: Any) -> None:
        made.append([("BEGIN IMMEDIATE", ())])

    def statement(_conn: Any, _cursor: Any, said: str, parameters: Any, *_: Any) -> None:
        made[-1].append((said, parameters))

    def commit(_conn: Any) -> None:
        made[-1].append(("COMMIT", ()))

    def rollback(_conn: Any) -> None:
        made[-1].append(("ROLLBACK", ()))

    ears: dict[str, Callable[..., Any]] = {
        "begin": begin,
        "before_cursor_execute": statement,
        "commit": commit,
        "rollback": rollback,
    }
    for name, ear in ears.items():
        event.listen(engine, name, ear)
    try:
        yield made
    finally:
        for name, ear in ears.items():
            event.remove(engine, name, ear)
