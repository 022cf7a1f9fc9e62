"""The simulation can fail: with a fence taken out, a world breaks a rule; and stories hold while none is.

Saved worlds are played first, others of the mutant's weather only when none of these breaks any more, because worlds or
statements have changed; `python -m tests.simulation.hunt --search` saves others.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.simulation.hunt import is_noticed, saved
from tests.simulation.mutants import MUTANTS, SURVIVORS
from tests.simulation.stories import BUILD_STORIES, MAKER_STORIES, STORIES, tell
from tests.simulation.world import workshop

_KILLED = [place for place, mutant in enumerate(MUTANTS) if mutant.name not in SURVIVORS]


def _hunted(place: int) -> bool:
    with workshop() as (folder, template):
        return is_noticed(MUTANTS[place], folder, template)


@pytest.fixture(scope="module")
def hunts() -> Iterator[dict[int, "Future[bool]"]]:
    """Each mutant in its saved worlds; played by two processes."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield {place: pool.submit(_hunted, place) for place in _KILLED}


@pytest.mark.parametrize("place", _KILLED, ids=[MUTANTS[place].name for place in _KILLED])
def test_a_mutant_is_noticed(place: int, hunts: "dict[int, Future[bool]]") -> None:
    look_anew = f"python -m tests.simulation.hunt --search --only '{MUTANTS[place].name}'"
    assert hunts[place].result(), f"no world of its weather breaks; look at more: {look_anew}"


def test_every_mutant_has_a_world_or_a_reason_to_survive() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS)
    assert set(saved()) | set(SURVIVORS) == names
    assert set(saved()) & set(SURVIVORS) == set()


@pytest.mark.parametrize("place", [place for place in range(len(MUTANTS)) if place not in _KILLED])
def test_a_survivor_is_still_made_of_the_source_that_it_was_made_of(place: int) -> None:
    assert MUTANTS[place].made().__name__ == MUTANTS[place].function


@pytest.mark.parametrize("name", [*STORIES, *BUILD_STORIES, *MAKER_STORIES])
def test_a_story_holds(name: str, seed: int, tmp_path: Path) -> None:
    with workshop() as (_, template):
        assert tell(name, seed, tmp_path, template) is None
