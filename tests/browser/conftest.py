"""Browsers for tests: the isolation mode is found once, a house is open for one test."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pagegate.renderer import isolation
from pagegate.renderer.browser import BrowserHouse
from pagegate.renderer.isolation import Mode
from pagegate.renderer.options import BrowserOptions
from tests.browser.looking import Looker


@pytest.fixture(scope="session")
def chromium() -> Path:
    return isolation.find_chromium()


@pytest.fixture(scope="session")
def mode(chromium: Path) -> Mode:
    """The best isolation of this machine."""
    return asyncio.run(isolation.probe(chromium))


@pytest.fixture
def work_folder() -> Iterator[Path]:
    """Where the browser's user may pass through, which is not so below pytest's own folder."""
    with tempfile.TemporaryDirectory(prefix="pagegate-test-renderer-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
async def looker(chromium: Path, mode: Mode, work_folder: Path) -> AsyncIterator[Looker]:
    """Hostile pages are stuck after 3 s here instead of 10, so that the tests are quicker."""
    house = BrowserHouse(BrowserOptions(work_folder=work_folder, stuck_after_s=3.0), chromium, mode)
    await house.open()
    try:
        yield Looker(house)
    finally:
        await house.close()
