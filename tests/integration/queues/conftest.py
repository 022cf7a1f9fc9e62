"""A small world and a lane in it, once on a database of each kind."""

from collections.abc import AsyncIterator

import pytest

from pagegate.storage.engine import Database
from tests.integration.queues.lane import Lane, Scripted
from tests.world import World


@pytest.fixture
async def world(db: Database) -> World:
    world = World(db)
    await world.settle_in()
    return world


@pytest.fixture
async def lane(world: World) -> AsyncIterator[Lane]:
    lane = Lane(world, Scripted())
    yield lane
    await lane.stop()
