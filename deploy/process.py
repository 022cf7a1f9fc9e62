"""One process of pagegate, from its settings to its exit code: `python -m pagegate.deploy.process NAME`.

Owns the signals, the listening socket and the exit codes; what the process *is* comes from `backend_process.py`,
`runtime_process.py` or `renderer_process.py`, each imported only when it is wanted, so that no process carries another
one's libraries (R1).

A first SIGTERM or SIGINT stops the process in order: it drains while its door is still open, then closes what it
started, in reverse. A second one ends it at once, as a kill would; what it held is rescued when the leases are over.

Exit codes: 0 after a signal, 128 + its number after a second one; 75 when something else has what this process needs (a
port, the database's lock, the database itself) and trying again may work; 78 when its settings or its machine must be
repaired first.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import structlog
from aiohttp import web

from pagegate.deploy.keeper import EXIT_BUSY, EXIT_REFUSED
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.process_settings import ProcessSettings, SettingsError, load
from pagegate.deploy.settings import misspelt

log = structlog.get_logger()

HANDLERS_WAIT_S = 10.0  # for requests in hand when the door closes


class ProcessRefused(Exception):
    """The process cannot run here; `exit_code` says whether trying again may help."""

    def __init__(self, message: str, exit_code: int = EXIT_REFUSED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


async def _nothing() -> None:
    return


@dataclass(frozen=True)
class Serving:
    """A started system with its door. `drain` runs after the stop signal while the door is still open."""

    app: web.Application
    host: str
    port: int
    drain: Callable[[], Awaitable[None]] = _nothing


@dataclass(frozen=True)
class Kind:
    """What one process is: its settings, the context that starts and stops its system, and what runs its loop."""

    name: str
    settings: type[ProcessSettings]
    serving: Callable[[Any], AbstractAsyncContextManager[Serving]]
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run


def kind_of(name: str) -> Kind:
    """Raises KeyError for an unknown name."""
    match name:
        case "serve":
            from pagegate.deploy.backend_process import BACKEND

            return BACKEND
        case "runtime":
            from pagegate.deploy.runtime_process import RUNTIME

            return RUNTIME
        case "renderer":
            from pagegate.deploy.renderer_process import RENDERER

            return RENDERER
        case _:
            raise KeyError(name)


def run_process(name: str, env_file: Path | None = None, **given: Any) -> int:
    """Run until a signal; the exit code. Problems are told on stderr, one a line."""
    kind = kind_of(name)
    try:
        settings = load(kind.settings, env_file, **given)
    except SettingsError as error:
        _tell(f"pagegate {name} cannot start; repair these settings:", *(f"  {line}" for line in error.problems))
        return EXIT_REFUSED
    configure_logs(kind.name, level=settings.log_level, style=settings.log_format)
    for warning in misspelt():
        log.warning("settings.misspelt", problem=warning)
    try:
        kind.run(_serve(kind, settings))
    except ProcessRefused as refused:
        _tell(f"pagegate {name} cannot start: {refused}")
        return refused.exit_code
    except KeyboardInterrupt:  # before the signal handlers were in place
        return 130
    return 0


async def _serve(kind: Kind, settings: ProcessSettings) -> None:
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            log.warning("process.ended_at_once", signal=number.name)
            _end_at_once(128 + number)
        log.info("process.signal", signal=number.name)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    async with kind.serving(settings) as serving, _open(serving) as url:
        log.info("process.ready", url=url)
        await stop.wait()
        log.info("process.stopping")
        await serving.drain()


@contextlib.asynccontextmanager
async def _open(serving: Serving) -> AsyncIterator[str]:
    """The open door; its address. Raises `ProcessRefused` when the port is taken."""
    runner = web.AppRunner(serving.app, access_log=None, shutdown_timeout=HANDLERS_WAIT_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, serving.host, serving.port)
        try:
            await site.start()
        except OSError as error:
            what = f"cannot listen on {serving.host}:{serving.port} ({error.strerror})"
            raise ProcessRefused(what, EXIT_BUSY) from error
        yield f"http://{serving.host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _end_at_once(exit_code: int) -> NoReturn:
    """End without asking anything that is still at work: it may be what does not end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def _tell(*lines: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    # By its own name: as `__main__` its exceptions would be others than those that the kinds raise.
    from pagegate.deploy import process

    sys.exit(process.run_process(sys.argv[1]))
