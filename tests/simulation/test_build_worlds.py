"""Worlds with builds: Runtimes that die, sleep and stutter between the snapshot and the release (B1-B5, case 50).

`python -m tests.simulation --climate builders --seeds 100` plays more of them; `--climates` lists the others.
"""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from tests.simulation.backend import StateOfState
from tests.simulation.build_climates import BUILD_CLIMATES
from tests.simulation.world import Outcome, play, workshop

WORLDS_EACH = 4

# Without these a world would be a fair-weather one, and would prove little.
_WEATHER = {
    "KILLED",
    "FROZEN",
    "SUSPENDED",
    "goes on",
    "stopped",
    "again",
    "cancelled",
    "was refused",
    "is gone",
    "saved a page by hand",
    "show a release",
    "project.build.upload_refused",
    "project.build.interrupted",
    "project.build.objects_deleted",
    "runtime.build.heartbeat_failed",
}
_ABOUT_STATE = {"runtime.state.swept", "project.build.progress_lost"}
_ENDS = {
    "succeeded",
    "JOB_CANCELLED",
    "PROJECT_BUILD_SOURCE_ERROR",
    "PROJECT_BUILD_RUNTIME_UNAVAILABLE",
    "PROJECT_BUILD_UPLOAD_FAILED",
    "PROJECT_BUILD_ARTIFACT_TOO_LARGE",
    "PROJECT_BUILD_INTERRUPTED",
}


def _played(world: tuple[str, int], *, folder: object, template: object) -> Outcome:
    climate, seed = world
    return play(seed, folder, template, climate)  # type: ignore[arg-type]  # paths, as the workshop gives them


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[Outcome]]:
    """How each world ended; played by two processes."""
    wanted = [(climate, seed) for climate in BUILD_CLIMATES for seed in range(WORLDS_EACH)]
    with (
        workshop() as (folder, template),
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        yield list(pool.map(partial(_played, folder=folder, template=template), wanted))


def test_no_build_is_lost_promoted_twice_or_left_half(worlds: list[Outcome]) -> None:
    broken = [f"{world.violation}\n    {world.replay}" for world in worlds if world.violation is not None]
    assert not broken, "\n".join(broken)


def test_the_builds_of_the_worlds_end_in_every_way(worlds: list[Outcome]) -> None:
    seen = Counter(code for world in worlds for code in world.ends_of_builds)
    assert _ENDS - set(seen) == set()
    assert seen["succeeded"] > len(worlds) / 2


def test_the_worlds_of_builds_have_every_kind_of_weather(worlds: list[Outcome]) -> None:
    seen = Counter(event.what for world in worlds for event in world.trace)
    assert _WEATHER - set(seen) == set()


def test_clearing_the_runtime_state_at_any_moment_changes_no_build(seed: int) -> None:
    """The same world, with its progress lost at once, or with a store that never answers: event by event (B4)."""
    how: StateOfState = "away" if seed % 2 else "lost"
    with workshop() as (folder, template):
        kept = play(seed, folder, template, "sleeping builders")
        other = play(seed, folder, template, "sleeping builders", how)
    assert kept.ends_of_builds
    assert other.ends_of_builds == kept.ends_of_builds
    # The world that waits for less is over earlier.
    both = list(zip(_without_state(kept), _without_state(other), strict=False))
    assert len(both) > 30
    assert [one for one, _ in both] == [other for _, other in both]


def _without_state(world: Outcome) -> list[str]:
    return [str(event) for event in world.trace if event.what not in _ABOUT_STATE]
