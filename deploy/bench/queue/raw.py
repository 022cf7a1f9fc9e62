"""The opponent on SQLite: plain sqlite3, as fast as Python can say it.

Owns two ways. `replay` repeats the very transactions that pagegate's run made, on an identical database: the same
statements, parameters and commits, and nothing around them. `one_by_one` is what a plain script would write: a
transaction for each claim, each renewal, each end, all of them fenced.
"""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from pagegate.deploy.bench.queue.lane import Transaction

_CLAIM = """
UPDATE ai_page_mutation_jobs SET status = 'running', attempt = attempt + 1, worker_id = 'w', heartbeat_at = ?1,
    lease_expires_at = ?1 + 60000, started_at_ms = coalesce(started_at_ms, ?1)
WHERE id = (SELECT id FROM ai_page_mutation_jobs WHERE finished_at_ms IS NULL AND status = 'pending'
    AND workspace_id = 1 AND available_at <= ?1 ORDER BY priority, id LIMIT 1) AND status = 'pending'
RETURNING id, attempt
"""
_HELD = "id = ?2 AND worker_id = 'w' AND attempt = ?3 AND status = 'running' AND lease_expires_at > ?1"
_RENEW = f"""
UPDATE ai_page_mutation_jobs SET lease_expires_at = ?1 + 60000, heartbeat_at = ?1 WHERE {_HELD} RETURNING id
"""  # noqa: S608  constants
_FINISH = f"""
UPDATE ai_page_mutation_jobs SET status = 'succeeded', finished_at_ms = ?1, lease_expires_at = NULL, result = '{{}}'
WHERE {_HELD} RETURNING id
"""  # noqa: S608  constants


def replay(path: Path, synchronous: str, transactions: Sequence[Transaction], jobs: int) -> float:
    """Jobs a second of the recorded transactions."""
    conn = _connect(path, synchronous)
    started_s = time.perf_counter()
    for transaction in transactions:
        for statement, parameters in transaction:
            conn.execute(statement, parameters).fetchall()
    rate = jobs / (time.perf_counter() - started_s)
    _check(conn, jobs)
    return rate


def one_by_one(path: Path, synchronous: str, jobs: int) -> float:
    """Jobs a second of three transactions a job."""
    conn = _connect(path, synchronous)
    started_s = time.perf_counter()
    for _ in range(jobs):
        ((job_id, fence),) = _alone(conn, _CLAIM, _now_ms())
        for statement in (_RENEW, _FINISH):
            assert _alone(conn, statement, _now_ms(), job_id, fence)
    rate = jobs / (time.perf_counter() - started_s)
    _check(conn, jobs)
    return rate


def _alone(conn: sqlite3.Connection, statement: str, *parameters: int) -> list[tuple[int, ...]]:
    conn.execute("BEGIN IMMEDIATE")
    rows = conn.execute(statement, parameters).fetchall()
    conn.execute("COMMIT")
    return rows


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    conn = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    for pragma in ("journal_mode = WAL", f"synchronous = {synchronous}", "foreign_keys = ON"):
        conn.execute(f"PRAGMA {pragma}")
    return conn


def _check(conn: sqlite3.Connection, jobs: int) -> None:
    (ended,) = conn.execute("SELECT count(*) FROM ai_page_mutation_jobs WHERE status = 'succeeded'").fetchone()
    conn.close()
    assert ended == jobs, f"{ended} of {jobs} jobs ended"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
