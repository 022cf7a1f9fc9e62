"""Statements run in a small world, once on a database of each kind."""

import pytest

from pagegate.storage.engine import Database
from tests.world import World


@pytest.fixture
async def world(db: Database) -> World:
    world = World(db)
    await world.settle_in()
    return world
