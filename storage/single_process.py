"""SQLite is for one process: the lock that a second one meets (K5).

Survives a kill -9 of its holder: the kernel lets go of it.
"""

import fcntl
import os
from pathlib import Path


class SingleProcessLockHeld(Exception):
    """Another process has this SQLite database open (K5)."""


class SingleProcessLock:
    """SQLite is single-instance (K5): whoever opens the database for good holds `<database>.single-process.lock`.

    The kernel lets go of it when the process ends, however it ends; the file itself stays.
    """

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".single-process.lock")
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock or raise `SingleProcessLockHeld`; never waits."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise SingleProcessLockHeld(
                f"sqlite_single_process=true: another process holds {self.path.name}. "
                "Stop it first, or use PostgreSQL, which many processes can share."
            ) from error
        self._fd = fd

    def release(self) -> None:
        """Let go; harmless when not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> "SingleProcessLock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
