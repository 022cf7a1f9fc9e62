"""A PostgreSQL of the benchmark's own: installed as it comes, durable as it comes, gone afterwards.

Owns the process and its folder. Runs as user `postgres` when the benchmark runs as root, which PostgreSQL refuses.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BINS = Path("/usr/lib/postgresql")
_TIMEOUT_S = 60


class PostgresMissing(Exception):
    """There is no PostgreSQL to start on this machine."""


@contextmanager
def own_postgres() -> Iterator[int]:
    """The port of a server that trusts everybody on this machine. Raises `PostgresMissing`."""
    found = sorted(_BINS.glob("*/bin/pg_ctl"), key=lambda path: int(path.parent.parent.name))
    if not found:
        raise PostgresMissing("no PostgreSQL server is installed; bash deploy/setup.sh installs one")
    bins, user = found[-1].parent, "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pagegate-bench-postgres-"))
    if user is not None:
        shutil.chown(folder, user, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [str(bins / program), "-D", str(folder / "data"), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user,
            cwd=folder,
            timeout=_TIMEOUT_S,
        )

    try:
        call("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C.UTF-8")
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
        call("pg_ctl", "-w", "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield port
        finally:
            call("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
