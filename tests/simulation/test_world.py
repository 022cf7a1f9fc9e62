"""Worlds by seed, as many as CI has time for: none breaks a rule, and their weather bites.

`python -m tests.simulation` plays more of them, and one of them with its trace.
"""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.simulation.climates import CLIMATES, PLAYED_APART, RARE_CLIMATES
from tests.simulation.world import Outcome, play, workshop

WORLDS = 176
RARE_WORLDS_EACH = 4

# Without these a world would be a fair-weather one, and would prove little.
_WEATHER = {
    "KILLED",
    "FROZEN",
    "SUSPENDED",
    "goes on",
    "stopped",
    "actor crashes",
    "compile timed out",
    "commit lost",
    "answer of a commit lost",
    "job.rescued",
    "render.worker.busy",
    "render.worker.unavailable",
    "render.worker.attempt_failed",
    "render.reserve.conflict",
    "render.dispatch.lease_lost",
    "render.coordinator.attempt_expired",
    "render.pictures.collected",
    "external.resumed",
    "job.lease_lost",
    "sleeps after",
    "saved a page by hand",
    "job.pruned",
    "external.lease_lost",
    "steps",
}
_ENDS_OF_JOBS = {
    "PAGE_VALIDATION_FAILED",
    "PERMISSION_REVOKED",
    "PAGE_BASE_STALE",
    "PAGE_CODE_TAKEN",
    "JOB_CANCELLED",
    "RENDER_SERVICE_UNAVAILABLE",
    "RUNTIME_UNREACHABLE",
    "DATABASE_UNAVAILABLE",
    "JOB_LEASE_LOST",
}


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[Outcome]]:
    """How each world ended; played by two processes."""
    with (
        workshop() as (folder, template),
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        yield list(pool.map(partial(play, folder=folder, template=template), range(WORLDS), chunksize=4))


@pytest.fixture(scope="module")
def all_worlds(worlds: list[Outcome]) -> list[Outcome]:
    """With some that are made for what is rare."""
    with workshop() as (folder, template):
        rare = [play(seed, folder, template, climate) for climate in RARE_CLIMATES for seed in range(RARE_WORLDS_EACH)]
    return worlds + rare


def test_no_world_breaks_a_rule(all_worlds: list[Outcome]) -> None:
    broken = [f"{world.violation}\n    {world.replay}" for world in all_worlds if world.violation is not None]
    assert not broken, "\n".join(broken)


def test_a_seed_plays_the_same_world_again(worlds: list[Outcome], tmp_path: Path) -> None:
    """In another process, where sets and dicts of strings have another order."""
    with workshop() as (folder, template):
        for seed in (0, 1, 2):
            assert play(seed, folder, template).trace == worlds[seed].trace


def test_the_worlds_have_every_climate(worlds: list[Outcome]) -> None:
    assert {world.climate for world in worlds} == set(CLIMATES) - PLAYED_APART


def test_the_worlds_have_every_kind_of_weather(all_worlds: list[Outcome]) -> None:
    seen = Counter(event.what for world in all_worlds for event in world.trace)
    assert _WEATHER - set(seen) == set()


def test_the_jobs_of_the_worlds_end_in_every_way(all_worlds: list[Outcome]) -> None:
    seen = Counter(code for world in all_worlds for code in world.ends)
    assert _ENDS_OF_JOBS - set(seen) == set()
    assert seen["succeeded"] > WORLDS
