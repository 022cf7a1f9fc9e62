"""The folder in which a Renderer keeps the rooms of its browsers.

Owned by one process, which holds a lock in it for as long as it lives. A kill -9 leaves the folder behind and frees the
lock; the next Renderer on this machine sweeps it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "pagegate-renderer-"


class WorkFolder:
    """Made and locked at construction (after a sweep of `root`), removed by `close`."""

    def __init__(self, root: Path | None = None) -> None:
        root = root or Path(tempfile.gettempdir())
        root.mkdir(parents=True, exist_ok=True)
        sweep(root)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def sweep(root: Path) -> int:
    """Remove the work folders whose owner is gone. Returns how many."""
    removed = 0
    for folder in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # being made or removed right now, another user's, or in use
            lock = os.open(folder / "lock", os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
            finally:
                os.close(lock)
    return removed


def remove_room(room: Path) -> None:
    """Remove one browser's room. A dying process may still write for a moment: a few tries, the sweep gets the rest."""
    for _ in range(3):
        shutil.rmtree(room, ignore_errors=True)
        if not room.exists():
            return
