"""`deploy/demo.sh` as a person runs it, apart from the setup that it begins with."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import psutil
from PIL import Image

from pagegate.deploy.client import Api
from pagegate.deploy.deck import Deck

DEMO = [sys.executable, "-m", "pagegate.deploy.demo"]


async def test_the_demo_shows_the_right_verdicts_and_leaves_the_server_up_when_asked(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*DEMO, "--keep", "--pictures", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    told = ""
    try:
        async with asyncio.timeout(180):
            while "curl" not in told:
                line = await process.stdout.readline()
                assert line, f"the demo ended early:\n{told}"
                told += line.decode()
        found = re.search(r"address +(\S+)\n +token +(\S+)\n", told)
        assert found, told
        async with Api(found[1], found[2]) as api:
            listed = await api.call("GET", "/projects/1/pages")
        saved = {page["code"] for page in listed["pages"]}
        assert saved == {page.code for page in Deck().pages if page.expect != "failed"}
        tree = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            assert await process.wait() == 0, told
    finally:
        if process.returncode is None:
            process.kill()
    assert "every verdict is the one that deck.json expects" in told
    assert "fault located" in told
    with Image.open(tmp_path / "contact-sheet.png") as sheet:
        assert sheet.width > 1200
    pictures = await asyncio.to_thread(lambda: {file.stem for file in tmp_path.iterdir()})
    assert pictures == {*saved, "contact-sheet"}
    _, alive = await asyncio.to_thread(psutil.wait_procs, tree, 15)
    assert alive == []


async def test_ctrl_c_in_the_middle_of_the_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*DEMO, "--pictures", str(tmp_path)), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(120):
        while b"[2/12]" not in await process.stderr.readline():
            pass
    tree = psutil.Process(process.pid).children(recursive=True)
    assert len(tree) > 4
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        await process.communicate()
    assert process.returncode == 130
    _, alive = await asyncio.to_thread(psutil.wait_procs, tree, 15)
    assert alive == []
