"""Real Backend processes on real databases; the Runtime and the Renderer beside them are played (see `played.py`)."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.integration.processes.played import Played
from tests.integration.processes.serving import Serve

StartServe = Callable[..., Serve]


@pytest.fixture
async def far() -> AsyncIterator[Played]:
    """The Runtime and the Renderer."""
    async with Played() as played:
        yield played


@pytest.fixture
async def processes(tmp_path: Path, far: Played) -> AsyncIterator[StartServe]:
    """Make Backend processes; all are killed after the test."""
    made: list[Serve] = []

    def make(database_url: str, *, far_url: str | None = None, **settings: str) -> Serve:
        made.append(Serve(tmp_path, database_url, far_url or far.url, **settings))
        return made[-1]

    yield make
    for serve in made:
        await serve.stop()
