"""People who ask for screenshots in a simulated world, and what must be true of its pictures when it is over.

A world with `Climate.photographs` has a second lane in each Backend. People ask for pictures while pages are edited,
deleted and brought back; whoever is killed between a copy and its commit leaves a hold, which must be gone after its
time, and no published picture may be gone with it.
"""

from typing import TYPE_CHECKING

from sqlalchemy import select

from pagegate.actors.jobs.screenshot_order import fix_screenshots
from pagegate.storage import pages, schema, screenshots
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.projects import find_project
from pagegate.storage.screenshots import Asker, ScreenshotLaneFull
from tests.simulation.backend import SHOTS_MAX
from tests.simulation.moves import Violation
from tests.simulation.sources import mark_of, picture_of, sha256

if TYPE_CHECKING:
    from tests.simulation.people import Place
    from tests.simulation.world import World

COLLECT_S = 15.0
_VIEWPORTS = ("1280x720", "390x844", "390xauto")


async def photograph(world: "World") -> None:
    """Several requests over the storm, some at the same moment on two Backends."""
    chance = world.loop.chance
    for _ in range(chance.choice([3, 5])):
        await world.nap(chance.uniform(0, 4))
        place = chance.choice(world.people.places)
        for _ in range(chance.choice([1, 1, 2])):
            await _ask_for(world, place)


async def _ask_for(world: "World", place: "Place") -> None:
    chance = world.loop.chance
    backend = chance.choice(world.backends)
    asker = Asker(place.workspace_id, place.project_id, place.user_id)
    viewports = chance.sample(_VIEWPORTS, chance.choice([1, 2]))
    try:
        async with backend.wire.database.read() as tx:
            project = await find_project(tx, place.project_id)
            assert project is not None
            known = [entry.page for entry in await pages.list_pages(tx, place.project_id)]
            some = chance.sample(known, min(len(known), chance.choice([1, 2])))
            wanted = await fix_screenshots(tx, project, some, viewports)
        async with backend.wire.database.write() as tx:
            group_id = await screenshots.submit_group(tx, asker, wanted, active_jobs_max=SHOTS_MAX, deadline_ms=120_000)
    except (DatabaseUnavailable, ScreenshotLaneFull) as error:
        world.note("photographer", "was refused", why=type(error).__name__)
        return
    world.note("photographer", "asked for pictures", group=group_id, pictures=len(wanted))


async def held_pictures(world: "World") -> list[str]:
    """Holds whose time runs: they go when they are published or collected."""
    async with world.wire.read() as tx:
        holds = schema.page_screenshot_holds
        found = await tx.execute(select(holds.c.object_key).where(holds.c.expires_at.is_not(None)))
        return list(found.scalars())


async def judge_pictures(world: "World") -> None:
    """At the end: every published picture is there and right, and no object is known to nobody."""
    kept = world.around.objects.kept
    async with world.wire.read() as tx:
        artifacts = (await tx.execute(select(schema.page_screenshot_artifacts))).all()
        holds = set((await tx.execute(select(schema.page_screenshot_holds.c.object_key))).scalars())
        versions = (await tx.execute(select(schema.page_versions))).all()
        pointers = (await tx.execute(select(schema.page_screenshots))).all()
    sources = {(row.page_id, row.number): row.source for row in versions}
    for artifact in artifacts:
        content = kept.get(artifact.object_key, (b"", 0.0))[0]
        if content != picture_of(mark_of(sources[artifact.page_id, artifact.page_version])):
            raise Violation(f"picture {artifact.id} is gone, or is another one: {content!r}")
        assert sha256(content) == artifact.sha256
    for version in versions:
        if version.picture_key is not None and version.picture_key not in kept:
            raise Violation(f"the picture of page version {version.id} is gone")
    known = {artifact.object_key for artifact in artifacts} | holds
    if lost := [key for key in kept if key.startswith("pages/") and key not in known]:
        raise Violation(f"objects that nobody knows: {lost}")
    _judge_pointers(list(artifacts), list(pointers))


def _judge_pointers(artifacts: list[object], pointers: list[object]) -> None:
    by_id = {row.id: row for row in artifacts}  # type: ignore[attr-defined]  # rows are untyped
    for pointer in pointers:
        shown = by_id[pointer.artifact_id]  # type: ignore[attr-defined]
        of_page = [
            row.page_version for row in by_id.values() if (row.page_id, row.viewport) == (shown.page_id, shown.viewport)
        ]
        if shown.page_version != max(of_page):
            raise Violation(f"page {shown.page_id} is shown as version {shown.page_version}, {max(of_page)} was newer")
