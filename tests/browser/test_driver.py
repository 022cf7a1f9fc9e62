"""The driver's process: who knows it, and that nobody's start of it outlives its caller's patience."""

import asyncio
import contextlib
from pathlib import Path

import psutil
import pytest

from pagegate.renderer.driver import Driver


async def the_new_driver(before: set[int]) -> psutil.Process:
    async with asyncio.timeout(20.0):
        while True:
            for child in psutil.Process().children():
                if child.pid not in before and "run-driver" in child.cmdline():
                    return child
            await asyncio.sleep(0)


async def test_a_start_that_hangs_and_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    driver = Driver(tmp_path, 512)
    starting = asyncio.create_task(driver.get(browsers_open=0))
    process = await the_new_driver(before)
    process.suspend()
    for _ in range(
        200
    ):  # past the making of the process, which cleans up after itself: into the wait for its first word
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with asyncio.timeout(20.0):
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0.01)
    await driver.get(browsers_open=0)
    await driver.rest()
