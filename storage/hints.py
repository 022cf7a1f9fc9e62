"""Hints between replicas: PostgreSQL's LISTEN and NOTIFY (Q8, K6).

Owns the channel and its few words. A hint is sent by the transaction that it is about and arrives with its commit; it
says only that looking now is worth it. Losing one costs one poll, so nothing here is retried or remembered. SQLite has
one process and needs none.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from pagegate.storage.engine import Database, DatabaseUnavailable, Tx

CHANNEL = "pagegate_hints"
BATCHES = "batches"  # an external batch became ready
WEBHOOKS = "webhooks"  # a run's end is to be told
_JOBS = "jobs "  # + the kind: there is a job to claim
_CONNECT_TIMEOUT_S = 10.0
_CHECK_S = 30.0


def jobs_of(kind: str) -> str:
    """The hint that a kind has a job to claim."""
    return _JOBS + kind


def kind_of(hint: str) -> str | None:
    """The kind that a hint is about; None when it is about something else."""
    return hint.removeprefix(_JOBS) if hint.startswith(_JOBS) else None


async def send(tx: Tx, hint: str) -> None:
    """Tell every replica when this transaction commits. Sent twice in one transaction, it arrives once."""
    if tx.dialect == "postgresql":
        await tx.execute(select(func.pg_notify(CHANNEL, hint)))


async def listen(db: Database, heard: Callable[[str], None], listening: Callable[[], None]) -> None:
    """Hear hints on a connection of its own until that breaks; then `DatabaseUnavailable`.

    `listening` is called once nothing is missed any more. A connection that died without a word is noticed within half
    a minute.
    """
    engine = create_async_engine(
        db.url,
        poolclass=NullPool,
        connect_args={"timeout": _CONNECT_TIMEOUT_S, "server_settings": {"application_name": "pagegate hints"}},
    )
    broken = asyncio.Event()
    try:
        async with engine.connect() as conn:
            # The driver's own connection: hints arrive between statements, which SQLAlchemy has no word for.
            driver: Any = (await conn.get_raw_connection()).driver_connection
            driver.add_termination_listener(lambda _: broken.set())
            await driver.add_listener(CHANNEL, lambda _conn, _pid, _channel, hint: heard(hint))
            listening()
            while not await _is_set(broken, _CHECK_S):
                await driver.execute("SELECT 1", timeout=_CONNECT_TIMEOUT_S)
            raise DatabaseUnavailable("the connection for hints broke")
    except (DBAPIError, OSError, TimeoutError) as error:
        raise DatabaseUnavailable(f"hints cannot be heard ({type(error).__name__})") from error
    finally:
        await engine.dispose()


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
