"""People who ask for builds in a simulated world, and what must be true of its releases when it is over.

A world with `Climate.builders` has Runtimes that pull builds (`builders.py`) and Backends that offer them. Builds are
asked for while pages are edited, well and badly; some are cancelled, some releases are rolled back.
"""

import asyncio
from typing import TYPE_CHECKING

import pykka

from pagegate.actors.jobs.build_snapshot import fix_project
from pagegate.actors.kernel import ask
from pagegate.actors.queues.control import CancelOneJob
from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.storage import builds
from pagegate.storage.builds import BuildLaneFull, ReleaseNotFound
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.projects import find_project
from tests.simulation.build_rules import left_behind
from tests.simulation.moves import BUILDS, Violation
from tests.simulation.sources import sha256

if TYPE_CHECKING:
    from tests.simulation.people import Place
    from tests.simulation.world import World

BUILDS_MAX = 4
_ANSWER_TIMEOUT_S = 4.0


async def order_builds(world: "World") -> None:
    """Several over the storm, some at the same moment."""
    chance = world.loop.chance
    for _ in range(chance.choice(world.climate.builds)):
        await world.nap(chance.choice([0.0, chance.uniform(0, 5)]))
        job_id = await _order(world, chance.choice(world.people.places))
        if job_id is not None and chance.random() < world.climate.cancels:
            world.background(_cancel(world, job_id))


async def _order(world: "World", place: "Place") -> int | None:
    chance = world.loop.chance
    backend = chance.choice(world.backends)
    try:
        async with backend.wire.database.write() as tx:
            project = await find_project(tx, place.project_id)
            assert project is not None
            fixed = await fix_project(tx, project, None)
            if fixed is None:
                return None
            job_id = await builds.submit_build(
                tx,
                workspace_id=place.workspace_id,
                project_id=place.project_id,
                user_id=place.user_id,
                fixed=fixed,
                routes=chance.choice(["hash", "clean"]),
                deadline_ms=chance.choice(world.climate.build_deadline_ms),
                active_jobs_max=BUILDS_MAX,
            )
    except (DatabaseUnavailable, BuildLaneFull) as error:
        world.note("builder", "was refused", why=type(error).__name__)
        return None
    world.note("builder", "asked for a build", job=job_id)
    if chance.random() < 0.7 and backend.actors["builds"].is_alive():  # the hint may be lost
        backend.actors["builds"].tell(JobsSubmitted())
    return job_id


async def _cancel(world: "World", job_id: int) -> None:
    await asyncio.sleep(world.loop.chance.uniform(0, 8))
    backend = world.loop.chance.choice(world.backends)
    try:
        answer = await ask(backend.actors["control"], CancelOneJob(BUILDS, job_id, 1), _ANSWER_TIMEOUT_S)
    except (TimeoutError, DatabaseUnavailable, pykka.ActorDeadError):
        return
    world.note("builder", "cancelled", job=job_id, answer=answer)


async def roll_back(world: "World") -> None:
    """A site is made to show an older release."""
    place = world.loop.chance.choice(world.people.places)
    number = world.loop.chance.choice([1, 1, 2, 9])
    try:
        async with world.wire.write() as tx:
            await builds.show_release(tx, place.project_id, number)
    except ReleaseNotFound:
        return
    world.note("people", "show a release", number=number)


async def judge_releases(world: "World") -> None:
    """At the end: each release has all of its files, unchanged; and each site shows one that there is."""
    for key, digest in world.books.released.items():
        content = world.around.objects.kept.get(key, (b"", 0.0))[0]
        if sha256(content) != digest:
            raise Violation(f"{key} of a release is gone, or is another one")
    async with world.wire.read() as tx:
        for place in world.people.places:
            site = await builds.find_site(tx, place.project_id)
            numbers = [release.number for release in await builds.list_releases(tx, place.project_id)]
            if (site.release_number if site is not None else None) not in (numbers or [None]):
                raise Violation(f"the site of project {place.project_id} shows {site}, of {numbers}")


def staged(world: "World") -> list[str]:
    """What uploads left, whole or half, that no release is made of."""
    half = [f"half of {stream.key}" for stream in world.around.objects.half_written]
    return [*left_behind(world.books), *half]
