"""Playwright's driver: one Node process that speaks to every browser this Renderer starts.

Owns the process and knows when it must go: a page that floods the console swells it, and what it has taken it keeps. It
dies when this process dies (its pipe closes), and the browsers die with it.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import structlog
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, async_playwright

log = structlog.get_logger()

_STOP_TIMEOUT_S = 5.0


class DriverLost(Exception):
    """The driver died while it was starting."""


class Driver:
    """Started at the first `get`, let go by `rest`. `folder` takes its temporary files."""

    def __init__(self, folder: Path, memory_max_mb: int) -> None:
        self._folder, self._memory_max_mb = folder, memory_max_mb
        self._playwright: Playwright | None = None
        self._process: psutil.Process | None = None
        self._guard = asyncio.Lock()

    async def get(self, *, browsers_open: int) -> Playwright:
        """The running driver. A dead one is replaced, a swollen one too as soon as no browser hangs on it.

        Raises `DriverLost` when it dies before it is up.
        """
        async with self._guard:
            if self._playwright is not None and self._must_go(browsers_open):
                await self._stop()
            if self._playwright is None:
                await self._start()
            assert self._playwright is not None
            return self._playwright

    async def rest(self) -> None:
        """Let the process go; the next `get` starts a new one."""
        async with self._guard:
            await self._stop()

    @property
    def swollen(self) -> bool:
        return self._memory_mb() >= self._memory_max_mb

    async def _start(self) -> None:
        hush(asyncio.get_running_loop())
        before = {child.pid for child in psutil.Process().children()}
        with _temporary_files_in(self._folder):
            try:
                self._playwright = await async_playwright().start()
            except BaseException as error:
                # A start that hangs is cancelled by its caller's deadline, and nobody else knows its process.
                if (half := _driver_started_since(before)) is not None:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        half.kill()
                if isinstance(error, Exception):  # Playwright has no class of its own for this
                    raise DriverLost(type(error).__name__) from error
                raise
        self._process = _driver_started_since(before)

    def _must_go(self, browsers_open: int) -> bool:
        gone = self._process is None or not _runs(self._process)  # None: it died before it could be found
        return gone or (self.swollen and browsers_open == 0)

    def _memory_mb(self) -> int:
        if self._process is None:
            return 0
        try:
            return int(self._process.memory_info().rss) >> 20
        except psutil.Error:
            return 0

    async def _stop(self) -> None:
        playwright, process = self._playwright, self._process
        self._playwright = self._process = None
        if playwright is None:
            return
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await playwright.stop()
        except (PlaywrightError, TimeoutError, ConnectionError):
            log.warning("renderer.driver_killed")
            if process is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


class _Hushed:
    """A loop's exception handler that leaves out what nobody can do anything about: of a driver that died, the calls
    that nobody waited for any more. Whoever did wait has been told. Everything else goes on to the handler before."""

    def __init__(self, before: "Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None") -> None:
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        unheard = "never retrieved" in str(context.get("message", "")) and "task" not in context
        if unheard and isinstance(context.get("exception"), PlaywrightError):
            return
        if self._before is None:
            loop.default_exception_handler(context)
        else:
            self._before(loop, context)


def hush(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop leave out what a dead driver leaves behind; see `_Hushed`. Repeating it is harmless."""
    before = loop.get_exception_handler()
    if not isinstance(before, _Hushed):
        loop.set_exception_handler(_Hushed(before))


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _driver_started_since(before: set[int]) -> psutil.Process | None:
    started = (child for child in psutil.Process().children() if child.pid not in before)
    return next((child for child in started if _is_driver(child)), None)


def _is_driver(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return "run-driver" in process.cmdline()
    return False


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """The driver reads TMPDIR once, when it starts; Playwright has no other way to be told.

    Python's own answer is fixed first, so that nobody else in this process moves along.
    """
    tempfile.gettempdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
