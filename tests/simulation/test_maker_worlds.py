"""Worlds with components, pictures and sizes of files: written once, charged once, never measured late (A1, D4, V9).

`python -m tests.simulation --climate makers --seeds 100` plays more of them; `--climates` lists the others.
"""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from tests.simulation.maker_climates import MAKER_CLIMATES
from tests.simulation.world import Outcome, play, workshop

WORLDS_EACH = 5

# Without these a world would be a fair-weather one, and would prove little.
_WEATHER = {
    "KILLED",
    "SUSPENDED",
    "goes on",
    "charges",
    "put a file",
    "deleted a file",
    "image.generation.job.answer_found",
    "image.generation.staged.swept",
    "asset.ratio.job.stale",
}
_ENDS = {
    "component_mutation_jobs succeeded",
    "component_mutation_jobs COMPONENT_VALIDATION_FAILED",
    "component_mutation_jobs COMPONENT_NAME_TAKEN",
    "image_generation_jobs succeeded",
    "image_generation_jobs IMAGE_MAY_BE_CHARGED",
    "image_generation_jobs JOB_CANCELLED",
    "asset_ratio_backfill_jobs succeeded",
    "asset_ratio_backfill_jobs ASSET_UNREADABLE",
    "asset_ratio_backfill_jobs ASSET_RATIO_JOB_STALE",
}


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[Outcome]]:
    """How each world ended; played by two processes."""
    wanted = [(climate, seed) for climate in MAKER_CLIMATES for seed in range(WORLDS_EACH)]
    with (
        workshop() as (folder, template),
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        yield list(pool.map(partial(_played, folder=folder, template=template), wanted))


def _played(world: tuple[str, int], *, folder: object, template: object) -> Outcome:
    climate, seed = world
    return play(seed, folder, template, climate)  # type: ignore[arg-type]  # paths, as the workshop gives them


def test_nothing_is_charged_twice_lost_or_measured_late(worlds: list[Outcome]) -> None:
    broken = [f"{world.violation}\n    {world.replay}" for world in worlds if world.violation is not None]
    assert not broken, "\n".join(broken)


def test_the_jobs_of_the_worlds_end_in_every_way(worlds: list[Outcome]) -> None:
    seen = Counter(code for world in worlds for code in world.ends_of_makers)
    assert _ENDS - set(seen) == set()


def test_the_worlds_have_every_kind_of_weather(worlds: list[Outcome]) -> None:
    seen = Counter(event.what for world in worlds for event in world.trace)
    assert _WEATHER - set(seen) == set()
