"""How far the browser is locked away, and which browser it is (X1, R6).

Owns the ladder of isolation modes, from an empty network namespace under an unprivileged user with Chromium's own
sandbox on, down to a proxy that denies everything for hosts where `unshare` is refused. `probe` starts a browser once
in each mode from the top and takes the first that works; nothing here is kept after that but the `Mode`. Whatever the
mode, the page's requests are answered by this process at the made-up origin (`gate.py`): the mode is the second wall.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534

_NAMESPACES = ("--net", "--ipc", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
_AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# In front of everything, where the host has them: a core dump of a browser is large and full of a stranger's page, and
# an orphan of a dead driver must not live on.
_ALWAYS = {"prlimit": ("prlimit", "--core=0"), "setpriv": ("setpriv", "--pdeathsig=KILL")}

_PLACES = (
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/bin/chromium-headless-shell",
    "/usr/lib/chromium/chromium",
    "/usr/bin/chromium",
)


class NoBrowser(Exception):
    """No Chromium was found, or none of the isolation modes could start it."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One rung. `prefix` is put in front of the browser's own command line."""

    name: str
    prefix: tuple[str, ...]
    sandbox: bool
    as_nobody: bool = False
    network: bool = False  # True: the browser sees the host's network, so a denying proxy is needed


def modes(is_root: bool) -> tuple[Mode, ...]:
    """The rungs to try on this host, best first."""
    locked: tuple[str, ...]
    if is_root:
        locked = ("unshare", *_NAMESPACES, *_AS_NOBODY)
        return (
            Mode("netns-nobody-sandbox", locked, sandbox=True, as_nobody=True),
            Mode("netns-nobody", locked, sandbox=False, as_nobody=True),
            Mode("proxy-nobody-sandbox", _AS_NOBODY, sandbox=True, as_nobody=True, network=True),
            Mode("proxy-nobody", _AS_NOBODY, sandbox=False, as_nobody=True, network=True),
            Mode("proxy", (), sandbox=False, network=True),
        )
    locked = ("unshare", "--user", "--map-current-user", *_NAMESPACES)
    return (
        Mode("netns-user-sandbox", locked, sandbox=True),
        Mode("netns-user", locked, sandbox=False),
        Mode("proxy-sandbox", (), sandbox=True, network=True),
        Mode("proxy", (), sandbox=False, network=True),
    )


def find_chromium(given: Path | None = None) -> Path:
    """The browser to start: the given path, `RENDERER_CHROMIUM`, Debian's places, Playwright's own download.

    Raises `NoBrowser`. The headless shell comes first: it starts in half the time and takes half the memory.
    """
    wanted = given or (Path(named) if (named := os.environ.get("RENDERER_CHROMIUM")) else None)
    if wanted is not None:
        if not os.access(wanted, os.X_OK):
            raise NoBrowser(f"{wanted.name} is not an executable file; check RENDERER_CHROMIUM")
        return wanted
    for place in (*map(Path, _PLACES), *_downloaded()):
        if os.access(place, os.X_OK):
            return place
    raise NoBrowser("no Chromium found; install chromium-headless-shell or set RENDERER_CHROMIUM")


def _downloaded() -> Iterator[Path]:
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    for pattern in ("chromium_headless_shell-*/*/headless_shell", "chromium_headless_shell-*/*/chrome-headless-shell"):
        yield from sorted(folder.glob(pattern), reverse=True)
    yield from sorted(folder.glob("chromium-*/*/chrome"), reverse=True)


def wrapper_script(chromium: Path, mode: Mode) -> str:
    """A shell script that starts the browser in this mode, with its profile in `$PAGEGATE_ROOM`.

    Playwright makes a profile folder of its own; it is empty and is removed here, so that the one folder of an attempt
    is the room. The pid in `$PAGEGATE_ROOM/pid` stays the same through every exec, and leads the process group.
    """
    always = [word for tool, words in _ALWAYS.items() if shutil.which(tool) for word in words]
    command = shlex.join((*always, *mode.prefix, str(chromium)))
    return f"""#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n - 1))
  case "$a" in --user-data-dir=*)
    rmdir "${{a#--user-data-dir=}}" 2>/dev/null
    a="--user-data-dir=$PAGEGATE_ROOM/home/profile" ;;
  esac
  set -- "$@" "$a"
done
echo $$ > "$PAGEGATE_ROOM/pid"
exec {command} "$@"
"""


def write_wrapper(script: Path, chromium: Path, mode: Mode) -> None:
    """Put the wrapper where it can be started, and let the browser's user pass through the folder to its room."""
    script.write_text(wrapper_script(chromium, mode))
    script.chmod(0o700)
    script.parent.chmod(0o711)


def make_room(folder: Path, mode: Mode) -> None:
    """The private folder of one browser: `home` is its HOME, TMPDIR and profile, the rest is ours."""
    home = folder / "home"
    home.mkdir(parents=True)
    folder.chmod(0o711)
    home.chmod(0o700)
    if mode.as_nobody:
        os.chown(home, NOBODY, NOBODY)


def room_environment(folder: Path) -> dict[str, str]:
    """All that the browser sees of the environment: no secret of the Renderer's is in it."""
    home = str(folder / "home")
    kept = {name: os.environ[name] for name in ("PATH", "FONTCONFIG_PATH", "FONTCONFIG_FILE") if name in os.environ}
    return {**kept, "PAGEGATE_ROOM": str(folder), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "TZ": "UTC"}


async def probe(chromium: Path, wanted: str = "auto", *, folder: Path | None = None, timeout_s: float = 15.0) -> Mode:
    """The best mode that starts this browser here, with its files below `folder` as later.

    Raises `NoBrowser` when there is none, or not the wanted one.
    """
    ladder = modes(os.geteuid() == 0)
    if wanted != "auto":
        ladder = tuple(mode for mode in ladder if mode.name == wanted)
        if not ladder:
            raise NoBrowser(f"there is no isolation mode {wanted} on this host")
    for mode in ladder:
        if await _starts(chromium, mode, folder, timeout_s):
            return mode
    raise NoBrowser(f"{chromium.name} starts in none of the modes {', '.join(mode.name for mode in ladder)}")


async def _starts(chromium: Path, mode: Mode, parent: Path | None, timeout_s: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="pagegate-probe-", dir=parent, ignore_cleanup_errors=True) as name:
        room, script = Path(name, "room"), Path(name, "browser")
        make_room(room, mode)
        write_wrapper(script, chromium, mode)
        flags = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=x"]
        flags += [] if mode.sandbox else ["--no-sandbox"]
        page = "data:text/html,<p>it starts</p>"
        return b"it starts" in await _output(
            [str(script), *flags, "--dump-dom", page], room_environment(room), timeout_s
        )


async def _output(command: Sequence[str], environment: dict[str, str], timeout_s: float) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
            return output
    except TimeoutError:
        return b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


def shared_memory_is_small(folder: Path = Path("/dev/shm"), *, wanted_bytes: int = 512 << 20) -> bool:  # noqa: S108  looked at, not written
    """True where containers give `/dev/shm` 64 MB: a large canvas would crash the browser there."""
    try:
        return shutil.disk_usage(folder).total < wanted_bytes
    except OSError:
        return True
