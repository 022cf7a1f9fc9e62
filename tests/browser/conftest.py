"""Browsers for tests: the isolation mode is found once, and one house serves all tests of the run.

A driver for every test would take longer than what most of them look at. So the tests of this folder share one event
loop, and a Looker launches a fresh browser for each look.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from pagegate.renderer import isolation
from pagegate.renderer.browser import BrowserHouse
from pagegate.renderer.isolation import Mode
from pagegate.renderer.options import BrowserOptions
from tests.browser.looking import Looker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and asyncio.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


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


@pytest.fixture(scope="session")
def house_folder() -> Iterator[Path]:
    """The folder that the shared house works in."""
    with tempfile.TemporaryDirectory(prefix="pagegate-test-house-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(chromium: Path, mode: Mode, house_folder: Path) -> AsyncIterator[BrowserHouse]:
    """Hostile pages are stuck after 3 s here instead of 10, so that the tests are quicker."""
    house = BrowserHouse(BrowserOptions(work_folder=house_folder, stuck_after_s=3.0), chromium, mode)
    await house.open()
    try:
        yield house
    finally:
        await house.close()


@pytest.fixture
def looker(house: BrowserHouse) -> Looker:
    return Looker(house)
