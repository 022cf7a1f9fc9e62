"""Real servers for the tests: started on a free port, owned by the test run, gone with it.

A server dies with the process that started it, also when that is killed (`PR_SET_PDEATHSIG`).
"""

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import asyncpg

_PR_SET_PDEATHSIG = 1
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 2 * 1024**3


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def dies_with_parent(signum: int) -> Callable[[], None]:
    """For `preexec_fn`: the kernel sends `signum` to the child when the starting thread ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signum)


def quick_folder(prefix: str) -> Path:
    """A new folder for what may be lost: in memory where there is plenty of it, since disks are shared and slow."""
    in_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES_MIN
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_MEMORY if in_memory else None))


class PostgresServer:
    """A PostgreSQL with nothing in it, without fsync: for tests. Runs as user `postgres` when the tests run as root.

    `durable`: what was committed survives a `stop`; without it the last moments before may be lost.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self.port = free_port()
        self._bin = _postgres_bin()
        self._folder = quick_folder("pagegate-test-postgres-")
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user, self._user)
        self._process: subprocess.Popen[str] | None = None
        self._databases = 0
        self._given_back: list[str] = []

    def __enter__(self) -> "PostgresServer":
        initdb = [
            self._bin / "initdb",
            "-D",
            self._folder / "data",
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "-N",
        ]
        initdb += ["--locale", "C.UTF-8"]
        subprocess.run(initdb, check=True, capture_output=True, user=self._user, cwd=self._folder, timeout=60)
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start, and wait until it says that it is ready."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
            "fsync": "off",
            "synchronous_commit": "on" if self._durable else "off",
            "full_page_writes": "off",
            "max_connections": "200",
            "deadlock_timeout": "100ms",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "autovacuum": "off",  # it would look into every database of every test
        }
        command = [str(self._bin / "postgres"), "-D", str(self._folder / "data")]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        self._process = subprocess.Popen(
            command,
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=dies_with_parent(signal.SIGQUIT),  # noqa: PLW1509 - one system call, looked up before the fork
        )
        assert self._process.stderr is not None
        said: list[str] = []
        for line in self._process.stderr:
            said.append(line)
            if "ready to accept connections" in line:
                break
        else:
            raise RuntimeError("PostgreSQL did not start:\n" + "".join(said))
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def stop(self) -> None:
        """Stop at once, as a crash would: connections break, transactions in progress are gone."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None

    def url(self, database: str) -> str:
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/{database}"

    def give_back(self, url: str) -> None:
        """The database of this address is not needed any more; it goes when the next one is made."""
        self._given_back.append(url.rsplit("/", 1)[1])

    def create_database(self, template: str = "template1") -> str:
        """A new database, a copy of `template`; answers its address."""
        self._databases += 1
        name = f"t{self._databases}"
        unwanted, self._given_back = self._given_back, []

        async def create() -> None:
            conn = await asyncpg.connect(host="127.0.0.1", port=self.port, user="postgres", database="postgres")
            try:
                for old in unwanted:
                    await conn.execute(f'DROP DATABASE IF EXISTS "{old}" WITH (FORCE)')
                # Copied as files: block by block through the log, the default, costs five times as much.
                await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
            finally:
                await conn.close()

        # The caller may be inside a running loop.
        failed: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(create())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return self.url(name)


def _postgres_bin() -> Path:
    found = shutil.which("postgres")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not folders:
        raise RuntimeError("these tests need PostgreSQL: run deploy/setup.sh")
    return folders[0]
