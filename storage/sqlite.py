"""Connections to a SQLite file, each in a thread of its own: one hop for a statement, rows and all.

Owns the threads (aiosqlite's) and what is set on each connection. SQLAlchemy's own way over aiosqlite hops four times
for a statement and builds a greenlet around it; here the whole of a statement, from the compiled text to the fetched
rows, is one piece of work for the connection's thread, and the first statement of a transaction begins it.

Survives: a cancelled task, which waits for the statement that runs (all are short; a thread cannot be interrupted), so
that a connection is never used by two.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import aiosqlite
from sqlalchemy import Connection, CursorResult, Engine, Executable, Row, create_engine, event
from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pagegate.storage.prepared import prepared, run_text
from pagegate.storage.stored_json import read_json

T = TypeVar("T")

Rows = Sequence[Row[Any]]
Last = Callable[[Sequence[Rows]], bool]  # by what statements answered: whether they end their transaction

_STATEMENTS_KEPT = 256  # prepared ones, by SQLite, for each connection


class SqliteConnection:
    """One connection. Everything that touches it runs in its thread, one piece of work after the other."""

    def __init__(self, thread: aiosqlite.Connection, sync: Connection, begin: str) -> None:
        self._thread, self._sync, self._begin = thread, sync, begin
        self._driver: sqlite3.Connection = thread._conn

    async def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        """Run one statement; its rows are already fetched."""
        return await _in(self._thread, lambda: _fetched(self._sync.execute(statement, parameters)))

    async def run(self, wanted: Sequence[tuple[Executable, Mapping[str, Any]]], last: Last) -> tuple[list[Rows], bool]:
        """Run statements that were built once, in one hop, which also commits when `last` says so; whether it did."""

        def work() -> tuple[list[Rows], bool]:
            found = [self._run(statement, given) for statement, given in wanted]
            ended = last(found)
            if ended:
                self._commit()
            return found, ended

        return await _in(self._thread, work)

    def _run(self, statement: Executable, given: Mapping[str, Any]) -> Rows:
        if self._sync.engine.dispatch.before_cursor_execute:  # somebody listens, whom only SQLAlchemy's own way tells
            return _fetched(self._sync.execute(statement, given)).all()
        if not self._driver.in_transaction:
            run_text(self._driver, self._begin)
        return prepared(statement, self._sync.dialect).run(self._driver, given)

    async def exec_driver_sql(self, statement: str, parameters: Any = None) -> CursorResult[Any]:
        """Run the driver's own text."""
        return await _in(self._thread, lambda: _fetched(self._sync.exec_driver_sql(statement, parameters)))

    async def run_sync(self, work: Callable[..., T], *args: Any) -> T:
        """Run what wants SQLAlchemy's plain connection, such as a migration."""
        return await _in(self._thread, lambda: work(self._sync, *args))

    async def begin(self) -> None:
        """Begin now what the first statement would begin."""
        if not self._driver.in_transaction:
            await _in(self._thread, self._sync.begin)

    async def commit(self) -> None:
        """Make it durable. What never said anything has nothing to commit."""
        if self._is_open:
            await _in(self._thread, self._commit)

    async def rollback(self) -> None:
        """Undo what is not committed, if anything is open."""
        if self._is_open:
            await _in(self._thread, self._rollback)

    @property
    def _is_open(self) -> bool:
        """For SQLite, or at least for SQLAlchemy, which keeps account of its own."""
        return self._driver.in_transaction or self._sync.in_transaction()

    def _commit(self) -> None:
        if self._sync.in_transaction():
            self._sync.commit()
        else:  # SQLAlchemy was not asked for anything, and did not notice a transaction
            run_text(self._driver, "COMMIT")

    def _rollback(self) -> None:
        if self._sync.in_transaction():
            self._sync.rollback()
        else:
            run_text(self._driver, "ROLLBACK")

    async def end(self) -> None:
        """Close the connection and end its thread."""
        try:
            await _in(self._thread, self._sync.close)
        finally:
            await self._thread.close()


class SqlitePool:
    """Up to `connections_max` connections to one file, made when they are needed.

    `begin` starts a transaction: writers take the write lock at once, since one that reads first and then upgrades
    could not wait for another writer and would fail with BUSY at its first write, whatever the timeout.
    """

    def __init__(
        self,
        path: Path,
        *,
        begin: str,
        connections_max: int,
        synchronous: str,
        busy_timeout_ms: int,
        wait_s: float | None,
    ) -> None:
        self._path, self._begin, self._wait_s = path, begin, wait_s
        self._places = asyncio.Semaphore(connections_max)
        self._idle: list[SqliteConnection] = []
        self._opening = asyncio.Lock()
        self._opened: list[sqlite3.Connection] = []
        self.sync_engine = _engine(begin, synchronous, busy_timeout_ms, self._opened.pop)

    async def take(self, *, read_only: bool) -> SqliteConnection:  # noqa: ARG002  a pool is of one sort
        """A connection without an open transaction. Raises `TimeoutError` when none is free for `wait_s`."""
        if self._places.locked():
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        else:
            await self._places.acquire()  # at once
        if self._idle:
            return self._idle.pop()
        try:
            return await self._open()
        except BaseException:
            self._places.release()
            raise

    async def give_back(self, conn: SqliteConnection) -> None:
        """Roll back what is open; a connection that cannot even do that is thrown away."""
        try:
            await conn.rollback()
        except (DBAPIError, OSError):
            await conn.end()
        except asyncio.CancelledError:
            self._idle.append(conn)  # it was rolled back to the end
            raise
        else:
            self._idle.append(conn)
        finally:
            self._places.release()

    async def dispose(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().end()

    async def _open(self) -> SqliteConnection:
        async with self._opening:
            thread = aiosqlite.connect(self._path, isolation_level=None, cached_statements=_STATEMENTS_KEPT)
            thread._thread.daemon = True  # a process that ends without closing must not wait for it
            await thread
            self._opened.append(thread._conn)
            try:
                return SqliteConnection(thread, await _in(thread, self.sync_engine.connect), self._begin)
            except BaseException:
                await thread.close()
                raise


def _engine(begin: str, synchronous: str, busy_timeout_ms: int, creator: Callable[[], sqlite3.Connection]) -> Engine:
    """Compiles for all connections of a pool; each stays in the thread that opened it."""
    engine = create_engine("sqlite://", poolclass=NullPool, creator=creator, json_deserializer=read_json)
    read_only = begin == "BEGIN"

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {busy_timeout_ms:d}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {synchronous}")
        cursor.execute("PRAGMA foreign_keys = ON")
        if read_only:
            cursor.execute("PRAGMA query_only = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction:  # a statement that went past SQLAlchemy may have begun it
            run_text(driver, begin)

    return engine


def _fetched(result: CursorResult[Any]) -> CursorResult[Any]:
    """A half-read cursor would hold its transaction open; and whoever closes it later does so in another thread."""
    cursor = result.cursor
    if result.returns_rows and cursor is not None:
        result.cursor_strategy = FullyBufferedCursorFetchStrategy(cursor, initial_buffer=cursor.fetchall())
        cursor.close()
        result.cursor = cast(Any, _Closed())
    return result


class _Closed:
    """In the place of a cursor that was closed in its own thread."""

    def close(self) -> None:
        """It is."""


async def _in(thread: aiosqlite.Connection, work: Callable[[], T]) -> T:
    """Run `work` in the connection's thread, to the end: a cancel of this task is raised only after it.

    aiosqlite has no public word for a piece of work of one's own; SQLAlchemy's dialect says it in the same way.
    """
    try:
        return await _asked(thread, work)
    except asyncio.CancelledError:
        # The thread takes one after the other: when it comes to nothing, the work is over. A shield would say the same,
        # but its two futures cost each of many thousand statements what a cancel needs once.
        over = _asked(thread, _nothing)
        while not over.done():
            try:
                await asyncio.wait({over})
            except asyncio.CancelledError:
                continue
        raise


def _asked(thread: aiosqlite.Connection, work: Callable[[], T]) -> "asyncio.Future[T]":
    if not thread._running:
        raise OSError("the connection is closed")
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    thread._tx.put_nowait((done, work))
    return done


def _nothing() -> None:
    return
