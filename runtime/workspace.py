"""The folders that compiles work in (V3).

Owns one root per process, one base per slot inside it (the installed packages, linked, and room for the worker), and a
`.runtime-task/<uuid>` folder per task that is removed whatever happens. Survives `kill -9`: a root is locked while its
process lives, and the next process removes the roots that nobody holds.
"""

import asyncio
import fcntl
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pagegate.runtime.contract import ArtifactManifest
from pagegate.runtime.refusals import SourceUnavailable

_LOGICAL_PATH = re.compile(r"(pages|components)/[^/\\\0]+\.(vue|tsx)")
_PREFIX = "pagegate-runtime-"
_UNLOCKED_PREFIX = ".pagegate-runtime-"


class Workspace:
    """The root of this process. `home` is where package.json and node_modules are."""

    def __init__(self, home: Path, parent: Path | None = None) -> None:
        self._home = home
        parent = parent or Path(tempfile.gettempdir())
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        fresh = Path(tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX, dir=parent)).resolve()
        self._lock = os.open(fresh / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under its real name only once it is locked: nobody may take it for an abandoned one in between.
        self.root = fresh.rename(fresh.with_name(_PREFIX + fresh.name.removeprefix(_UNLOCKED_PREFIX)))

    def slot(self) -> "SlotBase":
        return SlotBase(Path(tempfile.mkdtemp(prefix="slot-", dir=self.root)), self._home)

    async def remove(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)
        os.close(self._lock)


class SlotBase:
    """What a slot's worker sees as its own: packages, a temporary folder, and the tasks."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self._tasks = path / ".runtime-task"
        self._tasks.mkdir()
        (path / "tmp").mkdir()
        (path / "node_modules").symlink_to((home / "node_modules").resolve(), target_is_directory=True)

    @property
    def temporary(self) -> Path:
        return self.path / "tmp"

    @property
    def tasks(self) -> Path:
        return self._tasks

    @asynccontextmanager
    async def task(self) -> AsyncIterator[Path]:
        """A new empty folder, gone when the block is left."""
        folder = self._tasks / str(uuid.uuid4())
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            # Not awaited beyond a cancel: the removal runs in its thread to its end either way.
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def check_artifact(manifest: ArtifactManifest) -> None:
    """Raises `SourceUnavailable` for a manifest that no Backend should give: paths that are none, an entry it lacks."""
    if malformed := [path for path in manifest.modules if not _LOGICAL_PATH.fullmatch(path)]:
        raise SourceUnavailable(f"the artifact lists {malformed[0]!r}, which is no path of a module")
    if manifest.entry not in manifest.modules:
        raise SourceUnavailable("the artifact does not list its own entry")


def _remove_abandoned(parent: Path) -> None:
    for root in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(root / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(root, ignore_errors=True)
        except OSError:
            continue  # its process lives
        finally:
            os.close(lock)
