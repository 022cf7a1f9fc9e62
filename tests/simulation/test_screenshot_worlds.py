"""Worlds with a lane of screenshots: people ask for pictures while everything fails (S1, S2, S5, S6).

`python -m tests.simulation --climate photographers --seeds 100` plays more of them.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from tests.simulation.world import Outcome, play, workshop

WORLDS = 10


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[Outcome]]:
    with (
        workshop() as (folder, template),
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        one = partial(play, folder=folder, template=template, climate="photographers")
        yield list(pool.map(one, range(WORLDS)))


def test_no_picture_is_lost_wrong_or_left_behind(worlds: list[Outcome]) -> None:
    broken = [f"{world.violation}\n    {world.replay}" for world in worlds if world.violation is not None]
    assert not broken, "\n".join(broken)


def test_the_worlds_have_every_turn_that_a_screenshot_can_take(worlds: list[Outcome]) -> None:
    """Without these a world would prove little."""
    told = "\n".join(f"{event.what} {event.about}" for world in worlds for event in world.trace)
    for turn in (
        "running -> succeeded",
        "running -> skipped",
        "page.picture.not_kept",
        "page.screenshot.job.created",
        "render.pictures.collected",
        "job.rescued kind=page_screenshot_jobs",
    ):
        assert turn in told, turn
