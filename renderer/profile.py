"""The render profile: everything outside the page that a picture depends on, and its digest (R6).

Two workers with one digest give one picture. Computed once at the start: browser and version, fonts, flags, isolation
mode. No path of this machine is in it: two installations of the same packages are the same profile.
"""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from pagegate.renderer.browser import profile_of_launch
from pagegate.renderer.isolation import Mode
from pagegate.renderer.options import BrowserOptions

# Raised when what is done to a page before its picture changes (`settle.py`, `probes/`), so that pictures may differ.
CAPTURE_VERSION = 1

_TOOL_TIMEOUT_S = 20.0


def digest_of(profile: dict[str, Any]) -> str:
    """The digest of a profile, the same for the same profile everywhere."""
    canonical = json.dumps(profile, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


async def read_profile(options: BrowserOptions, chromium: Path, mode: Mode) -> dict[str, Any]:
    """The profile of this machine. The fonts are told by content: the same name may hide another version."""
    version, fonts = await asyncio.gather(_output(str(chromium), "--version", "--no-sandbox"), _fonts())
    return {
        "browser": chromium.name,
        "version": version_of(version),
        "isolation": mode.name,
        "fonts": hashlib.sha256("\n".join(fonts).encode()).hexdigest(),
        "fonts_count": len(fonts),
        "capture": CAPTURE_VERSION,
        **profile_of_launch(options),
    }


def version_of(output: str) -> str:
    """The version's numbers in what `--version` prints: its last word that begins with a digit."""
    words = [word for word in output.split() if word[:1].isdigit()]
    return words[-1] if words else "unknown"


def font_lines(fc_list: str) -> list[str]:
    """What `fc-list` says, sorted, without the folders: file name, family, style, version."""
    lines = []
    for line in fc_list.splitlines():
        file, _, rest = line.partition(":")
        if rest:
            lines.append(f"{Path(file).name}:{rest.strip()}")
    return sorted(set(lines))


async def _fonts() -> list[str]:
    try:
        listed = await _output("fc-list", "--format", "%{file}: %{family}|%{style}|%{fontversion}\n")
    except OSError:
        return []  # no fontconfig: Chromium has nothing to draw with either, and `pagegate doctor` says so
    return font_lines(listed)


async def _output(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_TOOL_TIMEOUT_S):
            output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return output.decode(errors="replace")
