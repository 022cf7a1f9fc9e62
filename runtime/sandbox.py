"""A second wall around the compiler (X2): a process that sees the packages and its own folder, and no network at all.

The allow-list of `node/guard.mjs` is the first wall and works everywhere. Where the host has bubblewrap and allows
namespaces, this one is put around it. Owns nothing; decides once per process whether the host allows it.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64")  # programs and libraries; no /etc, no home, no data


def find_bubblewrap() -> Path | None:
    """bubblewrap when it is installed and the host lets it work, else None."""
    found = shutil.which("bwrap")
    if found is None:
        return None
    command = [found, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(found) if tried.returncode == 0 else None


def walled(
    command: Sequence[str], bubblewrap: Path, *, readable: Sequence[Path], writable: Sequence[Path]
) -> list[str]:
    """`command` with nothing in sight but the system's programs and the given folders, at their own places."""
    wall = [str(bubblewrap), "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
    for folder in _SYSTEM:
        wall += ["--ro-bind-try", folder, folder]
    for path in readable:
        wall += ["--ro-bind", str(path), str(path)]
    for path in writable:
        wall += ["--bind", str(path), str(path)]
    return [*wall, "--", *command]
