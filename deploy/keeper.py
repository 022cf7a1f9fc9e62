"""One child process of the supervisor: started, watched, started again, stopped (used by `lite.py`).

Owns the process and the restarts with backoff. Hears its end and the supervisor's stop; tells the supervisor when the
child answers, and raises `StartRefused` when starting it again would change nothing. Survives any death of the child;
the child does not survive the supervisor's: the kernel then sends it a SIGTERM.
"""

import asyncio
import contextlib
import ctypes
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pagegate.actors.kernel.backoff import Backoff

EXIT_BUSY = 75  # someone else has what this process needs (a port, the data folder): may pass
EXIT_REFUSED = 78  # the settings cannot be used: starting again would change nothing

READY_WAIT_S = 90.0
BUSY_WAIT_S = 60.0  # how long a predecessor may take to let go of the data folder
STOP_WAIT_S = 45.0
KILL_WAIT_S = 5.0
STEADY_S = 30.0  # a child that lived this long has no crash to its name any more
FIRST_STARTS_MAX = 4
LOG_BYTES_MAX = 10 * 1024 * 1024
_PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


class StartRefused(Exception):
    """The system cannot start as it is; `exit_code` is EXIT_BUSY, EXIT_REFUSED or 1."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Child:
    """One process to keep alive. `ready_path` answers 200 when it can work; `stop_wait_s` seconds may its stop take."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    host: str
    port: int
    ready_path: str
    stop_wait_s: float = STOP_WAIT_S

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


class Keeper:
    """Keeps one child alive until it is told to stop."""

    def __init__(self, child: Child, log: Path, say: Say) -> None:
        self.child, self.log, self._say = child, log, say
        self.process: asyncio.subprocess.Process | None = None
        self.ready = asyncio.Event()
        self._stopping = False
        self._backoff = Backoff(first_s=0.5, max_s=30.0)

    async def keep(self) -> None:
        """Start, wait, start again. Ends after `stop`; raises `StartRefused` when starting makes no sense."""
        failures, first_s, random_source = 0, time.monotonic(), random.Random()  # noqa: S311 - jitter
        while not self._stopping:
            started_s = time.monotonic()
            code = await self._live_once()
            if self._stopping:
                return
            if code == EXIT_REFUSED:
                raise StartRefused(f"{self.child.name} refuses to start:\n{self.last_lines()}", EXIT_REFUSED)
            failures = 1 if time.monotonic() - started_s >= STEADY_S else failures + 1
            if not self.ready.is_set() and self._gives_up(code, failures, time.monotonic() - first_s):
                told = self.last_lines()
                raise StartRefused(f"{self.child.name} does not start ({_ending(code)}):\n{told}", max(code, 1))
            delay_s = self._backoff.delay_s(failures, random_source)
            self._say(f"{self.child.name}: {_ending(code)}; starting it again in {delay_s:.1f} s")
            await asyncio.sleep(delay_s)

    @staticmethod
    def _gives_up(code: int, failures: int, tried_s: float) -> bool:
        """Whether a child that never answered is a lost cause."""
        return tried_s > BUSY_WAIT_S if code == EXIT_BUSY else failures >= FIRST_STARTS_MAX

    async def _live_once(self) -> int:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.child.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.child.environment},
                start_new_session=True,  # Ctrl-C reaches the supervisor only, which stops the three in order
                preexec_fn=_die_with_parent(os.getpid()),
            )
        waiting = asyncio.create_task(self._announce(time.monotonic()))
        try:
            return await self.process.wait()
        finally:
            waiting.cancel()

    async def _announce(self, started_s: float) -> None:
        """Say once that the child answers, after each of its starts."""
        while time.monotonic() - started_s < READY_WAIT_S:
            if await answers(self.child.host, self.child.port, self.child.ready_path):
                self._say(f"{self.child.name}: ready after {time.monotonic() - started_s:.1f} s at {self.child.url}")
                self.ready.set()
                return
            await asyncio.sleep(0.05)
        self._say(f"{self.child.name}: still not ready after {READY_WAIT_S:.0f} s; see {self.log}")

    def last_lines(self, count: int = 12) -> str:
        """The end of the child's log, for a person who wonders why it does not start."""
        with contextlib.suppress(OSError):
            return "\n".join("  " + line for line in self.log.read_text("utf-8", "replace").splitlines()[-count:])
        return ""

    async def stop(self, kill: asyncio.Event) -> None:
        """SIGTERM, then SIGKILL for its whole group when it takes too long or `kill` is set."""
        self._stopping = True
        process = self.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        ended, killed = asyncio.create_task(process.wait()), asyncio.create_task(kill.wait())
        try:
            await asyncio.wait({ended, killed}, timeout=self.child.stop_wait_s, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._say(f"{self.child.name}: killed")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await asyncio.wait({ended}, timeout=KILL_WAIT_S)
        finally:
            killed.cancel()


def _die_with_parent(parent_pid: int) -> Callable[[], None]:
    """For the child between fork and exec: a SIGTERM when its parent dies, also by SIGKILL."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent_pid:  # the parent died before the line above
            os._exit(1)

    return prepare


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


async def answers(host: str, port: int, path: str, wait_s: float = 2.0) -> bool:
    """Whether `GET path` answers 200. Spoken by hand: an HTTP client would be the largest part of this process."""
    try:
        async with asyncio.timeout(wait_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()
                status = await reader.readline()
                await reader.read()
            finally:
                writer.close()
        return status.split(b" ")[1:2] == [b"200"]
    except (OSError, TimeoutError, ValueError):
        return False


def make_room(log: Path) -> None:
    """Keep one older log when it has grown: disks of small boxes are small."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_suffix(".log.1"))
