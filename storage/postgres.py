"""Connections to PostgreSQL: SQLAlchemy's pool over asyncpg, with as few turns to the server as safety allows.

Owns the pool and what is set on each connection. A transaction begins with its first statement, so a lone one may go
without (`Tx.run`). Survives a server that was restarted: what rested is asked whether it lives before it is used.
"""

import time
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from pagegate.storage.stored_json import read_json

_TRUSTED_S = 1.0  # a connection that rested for longer is asked whether it lives


class PostgresPool:
    """SQLAlchemy's pool over asyncpg.

    A connection that rested is asked whether it lives before a statement is lost to it (a server may have been
    restarted); one that was in use a moment ago is not, since that question costs three turns to the server.
    """

    def __init__(self, url: URL, *, connections_max: int, connect_timeout_s: float, statement_timeout_s: float) -> None:
        statement_timeout_ms = int(statement_timeout_s * 1000)
        self.engine = create_async_engine(
            url,
            json_deserializer=read_json,
            pool_size=connections_max,
            max_overflow=0,
            pool_timeout=connect_timeout_s,
            connect_args={
                "timeout": connect_timeout_s,
                "command_timeout": statement_timeout_s * 1.5,  # for a server that is gone without a word
                "server_settings": {
                    "application_name": "pagegate",
                    "statement_timeout": str(statement_timeout_ms),
                    "idle_in_transaction_session_timeout": str(2 * statement_timeout_ms),
                },
            },
        )
        self.sync_engine = self.engine.sync_engine
        event.listen(self.sync_engine, "checkin", self._rests)
        event.listen(self.sync_engine, "checkout", self._is_wanted)

    async def take(self, *, read_only: bool) -> AsyncConnection:
        conn = await self.engine.connect()
        try:
            if read_only:
                await conn.execution_options(postgresql_readonly=True)
        except BaseException:
            await self.give_back(conn)
            raise
        return conn

    async def give_back(self, conn: AsyncConnection) -> None:
        """Roll back what is still open and return the connection; one that cannot even do that is thrown away."""
        try:
            await conn.close()
        except (DBAPIError, OSError, TimeoutError):
            await conn.invalidate()
            await conn.close()

    async def dispose(self) -> None:
        await self.engine.dispose()

    @staticmethod
    def _rests(_connection: object, record: Any) -> None:
        record.info["rests_since_s"] = time.monotonic()

    def _is_wanted(self, connection: Any, record: Any, _fairy: object) -> None:
        since_s = record.info.pop("rests_since_s", None)
        if since_s is None:
            return
        broken = connection.driver_connection.is_closed()
        if not broken and time.monotonic() - since_s > _TRUSTED_S:
            broken = not self._answers(connection)
        if broken:
            raise InvalidatePoolError

    def _answers(self, connection: Any) -> bool:
        dialect = self.sync_engine.dialect
        try:
            return dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error:
            return False
