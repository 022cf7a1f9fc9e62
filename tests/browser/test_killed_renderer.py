"""A Renderer that is killed outright leaves nothing running, and its folder is swept by the next one (R4)."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from pagegate.renderer.watch import process_tree
from pagegate.renderer.workfolder import sweep

PROGRAM = """
import asyncio, sys
from pathlib import Path
from pagegate.renderer import isolation
from pagegate.renderer.browser import BrowserHouse
from pagegate.renderer.options import BrowserOptions

async def main():
    chromium = isolation.find_chromium()
    mode = await isolation.probe(chromium)
    house = BrowserHouse(BrowserOptions(work_folder=Path(sys.argv[1])), chromium, mode)
    await house.open()
    await house.launch()
    print("launched", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_renderer_killed_outright_leaves_nothing_running(work_folder: Path) -> None:
    renderer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(work_folder), stdout=asyncio.subprocess.PIPE, cwd="/"
    )
    assert renderer.stdout is not None
    async with asyncio.timeout(60.0):
        assert await renderer.stdout.readline() == b"launched\n"
    tree = process_tree(renderer.pid)
    assert len(tree) >= 6  # itself, the driver, and a browser's
    os.kill(renderer.pid, signal.SIGKILL)
    await renderer.wait()
    async with asyncio.timeout(20.0):
        while any(map(lives, tree)):
            await asyncio.sleep(0.02)
    assert sweep(work_folder) == 1
    assert sweep(work_folder) == 0


def lives(pid: int) -> bool:
    """False also for a zombie, which whoever adopted it has yet to collect."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
