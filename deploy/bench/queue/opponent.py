"""The opponent on PostgreSQL: procrastinate, with a task that does nothing, as its documentation shows.

Owns a database in the benchmark's server. It claims and ends each job by a function of its own in the database; it has
no lease that a statement checks, so it does less. Nobody listens for new jobs, since all are there before the start.
"""

import logging
import time
from types import TracebackType
from typing import Any, Self

_CHUNK = 1_000


class ProcrastinateMissing(Exception):
    """The opponent is not installed."""


class Procrastinate:
    """A context manager: a connected app with its schema."""

    def __init__(self, port: int, database: str) -> None:
        try:
            import procrastinate
        except ImportError as error:
            raise ProcrastinateMissing("procrastinate is not installed: pip install 'pagegate[bench]'") from error
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        conninfo = f"host=127.0.0.1 port={port} user=postgres dbname={database}"
        self._app: Any = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=conninfo, max_size=20))

        @self._app.task(name="no_op")
        async def no_op() -> None:
            """Nothing."""

        self._task: Any = no_op

    async def __aenter__(self) -> Self:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._app.close_async()

    async def drain(self, jobs: int, workers: int) -> float:
        """Put `jobs` jobs there, then run them to their ends; jobs a second of the latter."""
        for start in range(0, jobs, _CHUNK):
            await self._task.batch_defer_async(*[{}] * min(_CHUNK, jobs - start))
        started_s = time.perf_counter()
        await self._app.run_worker_async(
            wait=False, concurrency=workers, listen_notify=False, install_signal_handlers=False
        )
        return jobs / (time.perf_counter() - started_s)
