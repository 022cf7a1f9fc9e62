"""`pagegate lite`: Backend, Runtime and Renderer on one machine under one supervisor (issue: one small box).

Owns three child processes, their logs in `data/logs`, and the lock on the data folder. Starts them together, says when
they are ready, starts again (with backoff) what crashed, and at SIGTERM or SIGINT stops them in reverse order, so that
the Backend can bring its work to an end while the others still answer; a second signal kills at once.

Survives: the crash or `kill -9` of any child. Is not survived by them: when the supervisor dies, however it dies, the
kernel sends each child a SIGTERM. Keeps nothing in memory that matters; what is durable is in the data folder.

Imports nothing heavy on purpose: this process lives as long as the three, and its memory counts.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pagegate.deploy.keeper import EXIT_BUSY, EXIT_REFUSED, STOP_WAIT_S, Child, Keeper, Say, StartRefused, make_room

WEEK_S = 7 * 24 * 3600.0
READY_WORDS = "pagegate is at"
ADDRESS_FILE = "address"  # in the data folder while all three answer: where `pagegate user` finds the server
PORT_FILE = "runtime_port"  # in the data folder: addresses of sites begin with it, and outlive a start


@dataclass(frozen=True)
class LiteOptions:
    """Port 0 is any free one. `data` holds everything durable, and may be deleted to begin anew."""

    data: Path = Path("data")
    host: str = "127.0.0.1"
    port: int = 8080
    runtime_port: int = 0
    renderer_port: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


def free_port(host: str) -> int:
    """A port that is free now. Whoever takes it before the child does makes the child fail, and it is tried again."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_taken(host: str, port: int) -> bool:
    """Whether another program listens there. Asked as the child will ask: connections that ended do not count."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.errno == errno.EADDRINUSE  # what else is wrong with an address, the child will say
    return False


def kept_port(data: Path, say: Say) -> int:
    """The port that the Runtime had at the last start on this folder. One that is taken is not forgotten by this."""
    try:
        kept = int((data / PORT_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        kept = 0
    if kept in range(1, 65536):
        if not is_taken("127.0.0.1", kept):
            return kept
        say(f"port {kept} is taken by another program: addresses of sites have another one until the next start")
        return free_port("127.0.0.1")
    port = free_port("127.0.0.1")
    (data / PORT_FILE).write_text(f"{port}\n", encoding="utf-8")
    return port


def plan(options: LiteOptions) -> list[Child]:
    """The three children, in the order they are listed and reverse order of stopping.

    What the operator set in the environment wins, except how the three find each other.
    """
    runtime_port = options.runtime_port or free_port("127.0.0.1")
    renderer_port = options.renderer_port or free_port("127.0.0.1")
    port = options.port or free_port(options.host)
    backend_url, runtime_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{runtime_port}"
    data = options.data.resolve()
    environment = {
        "PAGEGATE_PROFILE": "lite",
        "DATABASE_URL": f"sqlite+aiosqlite:///{data / 'pagegate.db'}",
        "REDIS_URL": "memory://lite",
        "ASSET_STORAGE_LOCAL_DIR": str(data / "objects"),
        "RUNTIME_RSA_PRIVATE_KEY_FILE": str(data / "runtime_rsa_key.pem"),
        "OPERATOR_TOKEN_FILE": str(data / "operator_token"),
        "AI_SECRET_ENCRYPTION_KEY_FILE": str(data / "ai_secret_encryption_key"),
        "RENDER_WORKER_ID": "renderer-1",
        **options.environment,
        "BACKEND_HOST": options.host,
        "BACKEND_PORT": str(port),
        "BACKEND_INTERNAL_URL": backend_url,
        "RUNTIME_HOST": "127.0.0.1",
        "RUNTIME_PORT": str(runtime_port),
        "RUNTIME_PUBLIC_URL": runtime_url,
        "RUNTIME_BASE_URLS": runtime_url,
        "RUNTIME_BACKEND_BASE_URLS": backend_url,
        "RENDERER_HOST": "127.0.0.1",
        "RENDERER_PORT": str(renderer_port),
        "RENDER_RUNTIME_NAVIGATION_BASE_URL": runtime_url + "/",
        "RENDER_RUNTIME_ASSET_BASE_URL": runtime_url + "/",
        "RENDER_PLATFORM_ASSET_BASE_URL": backend_url + "/",
    }
    worker_id = environment["RENDER_WORKER_ID"]
    environment["RENDER_WORKERS_CONFIG"] = f'[{{"id": "{worker_id}", "base_url": "http://127.0.0.1:{renderer_port}"}}]'
    if not (environment.get("RENDER_SERVICE_CREDENTIAL") or environment.get("RENDER_SERVICE_CREDENTIAL_FILE")):
        environment["RENDER_SERVICE_CREDENTIAL"] = secrets.token_hex(32)
    command = [sys.executable, "-P", "-m", "pagegate.deploy.process"]  # -P: no module comes from the folder we stand in
    reach = "127.0.0.1" if options.host in {"0.0.0.0", "::"} else options.host  # noqa: S104 - what the operator asked for
    return [
        Child("runtime", [*command, "runtime"], environment, "127.0.0.1", runtime_port, "/healthz"),
        Child("renderer", [*command, "renderer"], environment, "127.0.0.1", renderer_port, "/healthz"),
        Child("backend", [*command, "serve"], environment, reach, port, "/readyz", _drain_wait_s(environment)),
    ]


def _drain_wait_s(environment: Mapping[str, str]) -> float:
    """Longer than the Backend lets its running jobs take. What is no number is the Backend's to refuse."""
    try:
        grace_s = float(environment.get("DURABLE_JOB_DRAIN_GRACE_SECONDS", ""))
    except ValueError:
        return STOP_WAIT_S
    return max(STOP_WAIT_S, min(grace_s, WEEK_S) + 25.0)


@contextlib.contextmanager
def data_folder(folder: Path) -> Iterator[None]:
    """Hold the data folder for this supervisor. Raises `StartRefused` when another one has it (K5)."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lite.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StartRefused(
            f"another pagegate lite has {folder}: stop it, or choose another folder with --data "
            "(sqlite_single_process=true)",
            EXIT_BUSY,
        ) from error
    try:
        (folder / ADDRESS_FILE).unlink(missing_ok=True)  # a killed predecessor's
        yield
    finally:
        (folder / ADDRESS_FILE).unlink(missing_ok=True)
        os.close(descriptor)


async def run(options: LiteOptions, say: Say, ready: Callable[[list[Child]], None]) -> int:
    """Supervise until a signal; the exit code. Calls `ready` once, when all three answer.

    Raises `StartRefused`.
    """
    stop, kill = asyncio.Event(), asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            say(f"{signal.Signals(number).name} again: killing what is left")
            kill.set()
        else:
            say(f"{signal.Signals(number).name}: stopping; once more kills at once")
            stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    with data_folder(options.data):
        keepers = []
        if is_taken(options.host, options.port):  # whoever has it would be taken for our Backend
            raise StartRefused(f"port {options.port} is taken by another program: choose one with --port", EXIT_BUSY)
        runtime_port = options.runtime_port or kept_port(options.data, say)
        for child in plan(replace(options, runtime_port=runtime_port)):
            log = options.data / "logs" / f"{child.name}.log"
            make_room(log)
            keepers.append(Keeper(child, log, say))
        try:
            return await _supervise(keepers, stop, ready)
        finally:
            for keeper in reversed(keepers):
                await keeper.stop(kill)


async def _supervise(keepers: list[Keeper], stop: asyncio.Event, ready: Callable[[list[Child]], None]) -> int:
    async def announce() -> None:
        for keeper in keepers:
            await keeper.ready.wait()
        ready([keeper.child for keeper in keepers])

    keeping = [asyncio.create_task(keeper.keep()) for keeper in keepers]
    announcing, stopping = asyncio.create_task(announce()), asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # raises what a keeper refused with
        return 0
    finally:
        for task in (*keeping, announcing, stopping):
            task.cancel()
        await asyncio.gather(*keeping, announcing, stopping, return_exceptions=True)


def run_lite(data: Path, host: str, port: int, env_file: Path | None) -> int:
    """`pagegate lite`, until a signal; the exit code."""

    def say(line: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"lite  {line}\n")

    def ready(children: list[Child]) -> None:
        url = next(child.url for child in children if child.name == "backend")
        (data / ADDRESS_FILE).write_text(url + "\n", encoding="utf-8")
        say(f"{READY_WORDS} {url}   (data and logs in {data}, stop with Ctrl-C)")
        where = "" if data == Path("data") else f" --data {data}"
        say(f"make an administrator and its token:  pagegate user create NAME --admin{where}")

    try:
        options = LiteOptions(data=data, host=host, port=port, environment=_settings_of(env_file))
        return asyncio.run(run(options, say, ready))
    except StartRefused as refused:
        say(f"cannot start: {refused}")
        return refused.exit_code


def _settings_of(env_file: Path | None) -> dict[str, str]:
    """What the operator set: the file's settings under the environment's. The children check them."""
    from_file: dict[str, str] = {}
    if env_file is not None:
        from dotenv import dotenv_values  # comes with pydantic-settings; reading one file is all that is needed here

        if not env_file.is_file():
            raise StartRefused(f"{env_file}: there is no such file", EXIT_REFUSED)
        from_file = {name: value for name, value in dotenv_values(env_file).items() if value}
    return {**from_file, **os.environ}
