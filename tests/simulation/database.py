"""The database server of a simulation: the real SQL on one SQLite file, behind wires that fail.

Owns the connections, who writes (one at a time, in the order of asking) and what is on its way between a process and
the server. Every statement takes a seeded moment to arrive and runs whole when it does, also when its sender is dead by
then; a commit either arrives or not, and its answer may be lost. The transactions of a process that was killed, or that
sleeps in the middle of one, are rolled back by the server.

Each commit is shown to a `Witness` just before it is made: what the transaction changed, and which leases its process
presented. The clock is the server's own, as on PostgreSQL.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy import Connection, CursorResult, Engine, Executable, create_engine, event
from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import NullPool

from pagegate.storage import schema
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx, _to_the_end
from pagegate.storage.lease import Lease
from pagegate.storage.present import PRESENT
from pagegate.storage.sqlite import Last, Rows
from pagegate.storage.stored_json import read_json
from tests.simulation.virtual_loop import LIFE, Life, LoopClock, VirtualLoop

T = TypeVar("T")

_IN_FLIGHT_S = (0.0002, 0.004)
_STRAGGLES_S = (3.0, 8.0, 12.0, 18.0)
_NOTICED_S = (0.0, 0.0, 0.02, 1.5)  # until the server rolls back what nobody talks about any more


class Witness(Protocol):
    """Who looks at every commit. Raises what it does not like; then the simulation is over."""

    def presented(self, session: "Session", lease: Lease) -> None: ...

    def committing(self, session: "Session") -> None: ...

    def broken(self, error: BaseException) -> None: ...


def _engine() -> Engine:
    """One engine for all simulations here: its compiled statements are worth keeping, its connections are not."""
    engine = create_engine("sqlite://", poolclass=NullPool, json_deserializer=read_json, creator=_connect)

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(connection.info["begin"])

    return engine


def _connect() -> sqlite3.Connection:
    raw = sqlite3.connect(_path, isolation_level=None, timeout=0, cached_statements=512)
    for pragma in ("journal_mode = WAL", "synchronous = OFF", "foreign_keys = ON", "wal_autocheckpoint = 0"):
        raw.execute(f"PRAGMA {pragma}")
    return raw


_path = Path()
_ENGINE = _engine()


def make_template(path: Path) -> None:
    """An empty database of today's schema."""
    engine = create_engine(f"sqlite:///{path}")
    schema.metadata.create_all(engine)
    engine.dispose()


class Wire:
    """One process's way to the server.

    `cut`: nothing arrives. `loses`: how likely a commit or its answer is lost. `refuses`: how likely a statement is
    refused for a passing reason, as a lock or a deadlock is. `lands_late`: how likely the answer to a commit is lost
    while the commit itself is still under way. `straggles`: how likely a transaction begins much later
    than it was asked for. `trap`: what happens as soon as the process has committed a change to certain tables, before
    it hears of it.
    """

    def __init__(self, server: "Server", life: Life | None = None) -> None:
        self.server, self.life = server, life
        self.cut, self.loses, self.refuses, self.straggles, self.slow_s = False, 0.0, 0.0, 0.0, 0.0
        self.lands_late = 0.0
        self.trap: tuple[Callable[[set[str]], bool], Callable[[], None]] | None = None

    def heal(self) -> None:
        self.cut, self.loses, self.refuses, self.straggles, self.slow_s = False, 0.0, 0.0, 0.0, 0.0
        self.lands_late = 0.0
        self.trap = None

    @property
    def database(self) -> Database:
        """This wire, to those who want the whole class; they use `write` and `read`."""
        return cast(Database, self)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        session = Session(self, writes=True)
        await session.begin()
        try:
            yield session.tx
            if not session.ended:
                await _to_the_end(session.commit())
        finally:
            await session.close()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        session = Session(self, writes=False)
        await session.begin()
        try:
            yield session.tx
        finally:
            await session.close()


class Session:
    """One transaction, from the first word about it to its end."""

    def __init__(self, wire: Wire, *, writes: bool) -> None:
        self.wire, self.writes, self.server = wire, writes, wire.server
        self.tx = _Tx(self)
        self.conn: Connection | None = None
        self.ended = False
        self.landing = False  # its process has given it up, and the server is about to commit it
        self.now_ms = 0  # what its last statement took for the present
        self.granted: asyncio.Future[None] | None = None
        self.stale: list[Lease] = []
        self.held: dict[tuple[str, int], Lease] = {}
        self.touched: set[str] = set()

    @property
    def who(self) -> str:
        return self.wire.life.name if self.wire.life is not None else "people"

    @property
    def raw(self) -> sqlite3.Connection:
        assert self.conn is not None
        return cast(sqlite3.Connection, self.conn.connection.driver_connection)

    async def begin(self) -> None:
        self.granted = self.server.loop.create_future()
        chance, straggles = self.server.loop.chance, self.wire.straggles
        late = straggles > 0 and chance.random() < straggles
        self._send(self._arrive, chance.choice(_STRAGGLES_S) if late else 0.0)
        try:
            await self.granted
        except asyncio.CancelledError:
            self.server.end(self)
            raise

    def execute(self, statement: Executable, parameters: Any) -> "asyncio.Future[CursorResult[Any]]":
        return self._call(lambda: self._run(statement, parameters))

    def run(
        self, wanted: Sequence[tuple[Executable, Mapping[str, Any]]], last: Last
    ) -> "asyncio.Future[tuple[list[Rows], bool]]":
        """Several in one hop, and the commit with them when `last` says so."""

        def work() -> tuple[list[Rows], bool]:
            found = [self._run(statement, parameters).all() for statement, parameters in wanted]
            ended = last(found)
            if ended:
                self.server.commit(self)
            return found, ended

        return self._call(work)

    def commit(self) -> "asyncio.Future[None]":
        return self._call(lambda: self.server.commit(self))

    async def close(self) -> None:
        if not self.ended:
            await _to_the_end(self._call(lambda: self.server.end(self)))

    def refuse(self, why: str) -> None:
        """It does not begin."""
        assert self.granted is not None
        if not self.granted.done():
            self.granted.set_exception(DatabaseUnavailable(why))
            self.granted.exception()  # seen: a dead asker never looks

    def _run(self, statement: Executable, parameters: Any) -> CursorResult[Any]:
        """Rows are fetched at once, as the real engine's are: a half-read cursor would hold the transaction open."""
        assert self.conn is not None
        if self.wire.refuses and self.server.loop.chance.random() < self.wire.refuses:
            self.server.end(self)
            raise DatabaseUnavailable("a lock, or a deadlock")
        result = self.conn.execute(statement, parameters)
        if result.returns_rows and result.cursor is not None:
            rows = result.cursor.fetchall()
            result.cursor_strategy = FullyBufferedCursorFetchStrategy(result.cursor, initial_buffer=rows)
        return result

    def _arrive(self) -> None:
        assert self.granted is not None
        if self.granted.done():
            self.server.end(self)
        elif self.wire.cut:
            self.ended = True
            self.refuse("cut off")
        else:
            self.server.open(self)

    def _call(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        answer: asyncio.Future[T] = self.server.loop.create_future()

        def arrive() -> None:
            try:
                if self.wire.cut:
                    self.server.end(self)
                    raise DatabaseUnavailable("cut off")
                if self.ended:
                    raise DatabaseUnavailable("the transaction is gone")
                answer.set_result(work())
            except Exception as error:
                answer.set_exception(error)
                answer.exception()  # seen, as above

        self._send(arrive)
        return answer

    def _send(self, arrive: Callable[[], None], late_s: float = 0.0) -> None:
        chance = self.server.loop.chance
        takes_s = late_s + chance.uniform(*_IN_FLIGHT_S)
        if self.wire.slow_s and chance.random() < 0.3:
            takes_s += chance.uniform(0, self.wire.slow_s)
        self.server.loop.call_outside(takes_s, arrive)


class _Tx(Tx):
    """A transaction whose statements travel."""

    def __init__(self, session: Session) -> None:
        super().__init__(cast(AsyncConnection, None), "sqlite", session.server.clock)
        self.session = session

    def present_ms(self) -> int:
        self.session.now_ms = self.session.server.clock.now_ms()
        return self.session.now_ms

    async def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        return await _to_the_end(self.session.execute(statement, parameters))

    async def run_all(
        self, *wanted: tuple[Executable, Mapping[str, Any]], last: Last = lambda _: False
    ) -> Sequence[Rows]:
        present = {PRESENT: self.present_ms()}
        hop = self.session.run([(said, {**given, **present}) for said, given in wanted], last)
        found, self.ended = await _to_the_end(hop)
        return found


class Server:
    """`note` hears what happens here that is worth telling."""

    def __init__(self, loop: VirtualLoop, path: Path, note: Callable[..., None]) -> None:
        global _path  # noqa: PLW0603  the engine's connections go to the database of the simulation that runs
        _path = path
        self.loop, self.clock, self.note = loop, LoopClock(loop), note
        self.witness: Witness | None = None
        self.writer = self._connection("BEGIN IMMEDIATE")
        self._readers: list[Connection] = []
        self._open: dict[Session, None] = {}
        self._waiting: deque[Session] = deque()
        self._writing: Session | None = None

    def open(self, session: Session) -> None:
        """Its transaction begins, for a writer as soon as it is the only one."""
        self._open[session] = None
        if not session.writes:
            session.conn = self._readers.pop() if self._readers else self._connection("BEGIN")
            self._begin(session)
        elif self._writing is None:
            self._grant(session)
        else:
            self._waiting.append(session)

    def commit(self, session: Session) -> None:
        assert session.conn is not None
        chance = self.loop.chance
        loses = session.wire.loses
        if loses and chance.random() < loses / 2:
            self.note(session.who, "commit lost")
            self.end(session)
            raise DatabaseUnavailable("the commit was lost")
        if session.wire.lands_late and session.writes and chance.random() < session.wire.lands_late:
            session.ended = session.landing = True
            self.loop.call_outside(chance.choice([0.02, 0.3, 2.0]), self._land, session)
            raise DatabaseUnavailable("the commit is under way, and nobody hears of it")
        self._make_durable(session)
        trap = session.wire.trap
        if trap is not None and trap[0](session.touched):
            session.wire.trap = None
            trap[1]()
        if loses and chance.random() < loses:
            self.note(session.who, "answer of a commit lost")
            raise DatabaseUnavailable("the commit's answer was lost")

    def _land(self, session: Session) -> None:
        session.landing = False
        self.note(session.who, "a commit lands late")
        self._make_durable(session)

    def _make_durable(self, session: Session) -> None:
        assert session.conn is not None
        if self.witness is not None:
            try:
                self.witness.committing(session)
            except BaseException as error:
                self.witness.broken(error)
        transaction = session.conn.get_transaction()
        assert transaction is not None
        transaction.commit()
        self.end(session)

    def end(self, session: Session) -> None:
        """Roll back what is not committed, and let the next one write."""
        session.ended = True
        if session not in self._open or session.landing:
            return
        del self._open[session]
        if session.conn is None:
            self._waiting.remove(session)
            session.refuse("the connection is gone")
            return
        transaction = session.conn.get_transaction()
        if transaction is not None:
            transaction.rollback()
        if session.writes:
            self._writing = None
            while self._writing is None and self._waiting:
                self._grant(self._waiting.popleft())
        else:
            self._readers.append(session.conn)

    def lose_touch(self, life: Life) -> None:
        """A process says nothing any more: its transactions end soon, unless it goes on before."""
        for session in [session for session in self._open if session.wire.life is life]:
            self.loop.call_outside(self.loop.chance.choice(_NOTICED_S), self._give_up, session)

    def close(self) -> None:
        for session in list(self._open):
            self.end(session)
        for conn in (self.writer, *self._readers):
            conn.close()

    def _give_up(self, session: Session) -> None:
        assert session.wire.life is not None
        if session.wire.life.stopped:
            self.end(session)

    def _grant(self, session: Session) -> None:
        if session.wire.life is not None and session.wire.life.stopped:
            self._open.pop(session, None)
            session.ended = True
            session.refuse("nobody asked for it any more")
            return
        self._writing = session
        session.conn = self.writer
        self._begin(session)

    def _begin(self, session: Session) -> None:
        assert session.conn is not None
        assert session.granted is not None
        if session.granted.done():
            self.end(session)
            return
        session.conn.begin()
        session.granted.set_result(None)

    def _connection(self, begin: str) -> Connection:
        conn = _ENGINE.connect()
        conn.info["begin"] = begin
        return conn


def session_of(tx: Tx) -> Session:
    """The session of a simulation's transaction."""
    assert isinstance(tx, _Tx)
    return tx.session


def life_here() -> Life | None:
    """The process that the running code is a part of."""
    return LIFE.get()
