"""One way into the database, the same over SQLite and PostgreSQL.

Owns the connections, the transactions and the clock that leases are judged by (Q6).
`async with db.write() as tx` commits when its block ends, and leaves nothing behind when the block raises or its task
is cancelled; `db.read()` cannot write. Nothing else in `storage/` opens a connection.

Survives: a cancelled task (rolled back, the connection goes back clean), a restarted PostgreSQL (the pool replaces what
broke), a killed process (WAL). What may pass by itself is raised as `DatabaseUnavailable`; everything else is a bug and
raised as it is. A connection that breaks *during* a commit leaves the outcome unknown: every caller must be able to ask
again, which the fences and idempotency keys of the statements are for.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from zlib import crc32

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CursorResult,
    Engine,
    Executable,
    Table,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from pagegate.storage.postgres import PostgresPool
from pagegate.storage.present import PRESENT, server_now
from pagegate.storage.sqlite import Last, Rows, SqliteConnection, SqlitePool

T = TypeVar("T")

Dialect = Literal["sqlite", "postgresql"]

# What may pass by itself: lost connections, exhausted resources, shutdown and timeouts, serialisation, deadlock, locks.
_PASSING_SQLSTATES = ("08", "53", "57", "40001", "40P01", "55P03")
_PASSING_SQLITE_CODES = frozenset({5, 6, 10, 13, 14})  # BUSY, LOCKED, IOERR, FULL, CANTOPEN


class DatabaseUnavailable(Exception):
    """The database did not answer, or refused for a passing reason (lost connection, lock, deadlock, full disk).

    Infrastructure, never content (R9): try the whole transaction again.
    """


class Clock(Protocol):
    """Where a process takes the time from; a test can own it (ARCHITECTURE, "Actors")."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC (Q6)."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class DatabaseOptions:
    """How connections are made. Sizes count connections of this process.

    `sqlite_synchronous`: NORMAL keeps every commit through a killed process and may lose the last ones with the power;
    FULL keeps them through that too, at about an eighth of the speed (FINDINGS).
    """

    sqlite_synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    sqlite_busy_timeout_ms: int = 5_000
    reader_connections_max: int = 4
    postgres_connections_max: int = 10
    connect_timeout_s: float = 10.0
    statement_timeout_s: float = 30.0


class Tx:
    """One open transaction. Statements take it as their first argument and never commit by themselves."""

    def __init__(self, conn: AsyncConnection | SqliteConnection, dialect: Dialect, clock: Clock) -> None:
        self.conn = conn
        self.dialect: Dialect = dialect
        self._clock = clock
        self.ended = False  # nothing may follow

    @property
    def now(self) -> ColumnElement[int]:
        """The present, in ms, as SQL (Q6). Read it anew for each statement.

        PostgreSQL evaluates its own clock inside the statement, also when the statement had to wait for a row lock;
        SQLite has one process, whose clock is bound as a number.
        """
        if self.dialect == "postgresql":
            return server_now()
        return literal(self.present_ms(), BigInteger)

    def present_ms(self) -> int:
        """The present by this process's clock: what a statement on SQLite is told."""
        return self._clock.now_ms()

    async def now_ms(self) -> int:
        """The present of the clock that decides leases here, in ms (Q6)."""
        if self.dialect == "sqlite":
            return self._clock.now_ms()
        return int((await self.execute(select(self.now))).scalar_one())

    async def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        """Run one statement; rows are already fetched. Raises `DatabaseUnavailable`, or SQLAlchemy's own errors.

        Cancelled, it ends on SQLite first; on PostgreSQL it is interrupted, which costs its connection.
        """
        assert not self.ended, "the transaction has made its last statement"
        return await _translated(self.conn.execute(statement, parameters))

    async def run(self, statement: Executable, *, last: bool = False, **parameters: Any) -> Rows:
        """The rows of a statement that was built once (`present.py`): the present is one of its parameters.

        `last`: nothing follows in this transaction. On SQLite its commit is part of the same hop; on PostgreSQL a
        statement that is the only one needs no BEGIN and COMMIT around it.
        """
        if last and isinstance(self.conn, AsyncConnection) and not self.conn.in_transaction():
            await self.conn.execution_options(isolation_level="AUTOCOMMIT")
        (rows,) = await self.run_all((statement, parameters), last=lambda _: last)
        return rows

    async def run_all(
        self, *wanted: tuple[Executable, Mapping[str, Any]], last: Last = lambda _: False
    ) -> Sequence[Rows]:
        """`run` for several statements, one after the other, none of which waits for another's answer.

        On SQLite they are one hop to the connection's thread, and `last`, which is asked there, may make their
        transaction end with it.
        """
        assert not self.ended, "the transaction has made its last statement"
        if not isinstance(self.conn, SqliteConnection):
            found = [(await self.execute(statement, parameters)).all() for statement, parameters in wanted]
            self.ended = last(found)
            return found
        present = {PRESENT: self.present_ms()}
        one_hop = self.conn.run([(said, {**given, **present}) for said, given in wanted], last)
        found, self.ended = await _translated(one_hop)
        return found

    async def insert(self, table: Table, **values: Any) -> int:
        """Insert one row, answer its `id`."""
        return int((await self.execute(insert(table).values(**values).returning(table.c.id))).scalar_one())

    async def serialize(self, name: str) -> None:
        """Let one transaction at a time past this point until it ends, over all replicas.

        For limits that are counted and then acted upon. Call it first: a count made before it may be stale.
        SQLite has one writer: to begin is to be alone.
        """
        if isinstance(self.conn, SqliteConnection):
            await _translated(self.conn.begin())
        elif self.dialect == "postgresql":
            await self.execute(select(func.pg_advisory_xact_lock(crc32(name.encode()))))


class Database:
    """The connections of one process to one database. `open`, then `write` and `read`, then `close`."""

    def __init__(self, url: URL, clock: Clock, options: DatabaseOptions) -> None:
        self.url = url
        self.clock = clock
        self.dialect: Dialect = dialect_of(url)
        if self.dialect == "sqlite":
            sqlite_path(url).parent.mkdir(parents=True, exist_ok=True)
            self._writers: _Connections = _sqlite(url, options, begin="BEGIN IMMEDIATE")
            self._readers: _Connections = _sqlite(url, options, begin="BEGIN")
        else:
            self._writers = self._readers = _postgres(url, options)

    @classmethod
    async def open(
        cls, url: str | URL, *, clock: Clock | None = None, options: DatabaseOptions | None = None
    ) -> "Database":
        """Open `sqlite+aiosqlite:///…` (a file) or `postgresql+asyncpg://…`.

        Changes nothing in the database: see `migrations.migrate` and `migrations.check_schema`. Raises `ValueError` for
        any other address.
        """
        return cls(make_url(url), clock or SystemClock(), options or DatabaseOptions())

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        """A transaction that commits when the block ends. Never wait in it for anything but the database (Q7).

        On SQLite its first statement begins it, and waits there for a writer of another process.

        A cancel that arrives while the commit is under way is raised after it: the outcome is then durable.
        """
        conn = await _taken(self._writers, read_only=False)
        try:
            yield Tx(conn, self.dialect, self.clock)
            await _whole(conn, _translated(conn.commit()))
        finally:
            await _whole(conn, self._writers.give_back(conn))

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        """A transaction that cannot write; on SQLite it does not wait for writers."""
        conn = await _taken(self._readers, read_only=True)
        try:
            yield Tx(conn, self.dialect, self.clock)
        finally:
            await _whole(conn, self._readers.give_back(conn))

    async def close(self) -> None:
        """Close every connection. Open transactions of other tasks end in an error."""
        await self._readers.dispose()
        await self._writers.dispose()


def dialect_of(url: str | URL) -> Dialect:
    """Which of the two databases an address means; `ValueError` for any other."""
    match make_url(url).drivername:
        case "sqlite+aiosqlite":
            sqlite_path(url)
            return "sqlite"
        case "postgresql+asyncpg":
            return "postgresql"
        case other:
            raise ValueError(f"DATABASE_URL starts with {other!r}; use sqlite+aiosqlite:///… or postgresql+asyncpg://…")


def sqlite_path(url: str | URL) -> Path:
    """The file of a SQLite address; `ValueError` for one in memory, which two connections could not share."""
    name = make_url(url).database
    if not name or name == ":memory:" or name.startswith("file:"):
        raise ValueError("DATABASE_URL must name a file: sqlite+aiosqlite:///data/pagegate.db")
    return Path(name)


class _Connections(Protocol):
    """Where transactions get their connection from."""

    @property
    def sync_engine(self) -> Engine: ...

    async def take(self, *, read_only: bool) -> AsyncConnection | SqliteConnection: ...

    async def give_back(self, conn: Any) -> None: ...

    async def dispose(self) -> None: ...


def _sqlite(url: URL, options: DatabaseOptions, *, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> SqlitePool:
    writes = begin == "BEGIN IMMEDIATE"
    return SqlitePool(
        sqlite_path(url),
        begin=begin,
        connections_max=1 if writes else options.reader_connections_max,
        wait_s=None if writes else options.connect_timeout_s,
        synchronous=options.sqlite_synchronous,
        busy_timeout_ms=options.sqlite_busy_timeout_ms,
    )


def _postgres(url: URL, options: DatabaseOptions) -> PostgresPool:
    return PostgresPool(
        url,
        connections_max=options.postgres_connections_max,
        connect_timeout_s=options.connect_timeout_s,
        statement_timeout_s=options.statement_timeout_s,
    )


async def _taken(pool: _Connections, *, read_only: bool) -> AsyncConnection | SqliteConnection:
    """A connection, or nothing: a cancel in the middle gives back what was got."""
    if isinstance(pool, SqlitePool):
        return await _translated(pool.take(read_only=read_only))  # keeps the promise by itself
    taking = asyncio.ensure_future(_translated(pool.take(read_only=read_only)))
    try:
        return await _to_the_end(taking)
    except asyncio.CancelledError:
        if taking.done() and not taking.cancelled() and taking.exception() is None:
            await _to_the_end(pool.give_back(taking.result()))
        raise


async def _whole(conn: AsyncConnection | SqliteConnection, work: Coroutine[Any, Any, T]) -> T:
    """`_to_the_end`, which what runs in a connection's own thread is already."""
    return await (work if isinstance(conn, SqliteConnection) else _to_the_end(work))


async def _to_the_end(work: "Coroutine[Any, Any, T] | asyncio.Future[T]") -> T:
    """Await `work` whole: a cancel of this task is raised only after it has ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            task.exception()  # seen: the cancel is what the caller hears of
        raise


async def _translated(work: Coroutine[Any, Any, T]) -> T:
    """Turn what may pass by itself into `DatabaseUnavailable`. Its text names no address and no statement."""
    try:
        return await work
    except DBAPIError as error:
        if not _may_pass(error):
            raise
        raise DatabaseUnavailable(f"the database refused for now ({type(error.orig).__name__})") from error
    except (OSError, TimeoutError, PoolTimeoutError) as error:
        raise DatabaseUnavailable(f"the database does not answer ({type(error).__name__})") from error


def _may_pass(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return int(code) & 0xFF in _PASSING_SQLITE_CODES
    state = getattr(error.orig, "sqlstate", None) or ""
    return state.startswith(_PASSING_SQLSTATES)
