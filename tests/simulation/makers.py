"""The lanes of components, pictures and sizes of files in a simulated Backend, and who gives them work.

A world with `Climate.makes` has all of them: agents call for components and pictures beside pages, people put files by
hand, replace them and delete them while they are measured.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pykka
from sqlalchemy import select

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.images.sweeper import StagedSweeper
from pagegate.actors.jobs.asset_ratio import AssetRatio
from pagegate.actors.jobs.asset_ratio_scan import AssetRatioScan, RatioJobEnded, ScanLimits
from pagegate.actors.jobs.component_check import ComponentCheck
from pagegate.actors.jobs.component_mutation import ComponentMutation
from pagegate.actors.jobs.image_generation import ImageGeneration
from pagegate.actors.queues.kinds import JobKind
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.queue import JobQueue, JobsSubmitted
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.tickets import Tickets
from pagegate.storage import assets, schema
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.objects import Objects, ObjectStoreUnavailable, StoredAsset, asset_key, sha256_of
from tests.simulation.maker_edges import file_of
from tests.simulation.sources import mark_of, source_of

if TYPE_CHECKING:
    from tests.simulation.backend import Backend, Rules
    from tests.simulation.people import Place
    from tests.simulation.world import World

MAKING_MAX_S = 50.0
STAGED_S = 70.0  # longer than a job may be tried
LANES = ("components", "images", "ratios")
COMPONENTS = ("Tile.vue", "Card.vue")
PICTURES = ("hero.png", "hero-2.png", "team.png")
FILES = ("logo.png", "map.svg")


def open_lanes(backend: "Backend", rules: "Rules", feed: RunFeed, on_end: Callable[[], None]) -> dict[str, Any]:
    """Start them in a Backend; answers their queues by kind."""
    actors, around = backend.actors, backend.around
    db, objects = backend.wire.database, cast(Objects, around.objects)

    def ended() -> None:
        on_end()
        if actors["queue"].is_alive():
            actors["queue"].tell(JobsSubmitted())

    check = ComponentCheck(
        around.states[backend.address], backend.tickets(Tickets), actors["admission"], backend.address, rules.check
    )
    provider = around.provider
    limits = ScanLimits(active_jobs_max=3, period_s=5.0, job_deadline_s=90.0)
    actors["scan"] = scan = AssetRatioScan.start(db, lambda: actors["ratios"].tell(JobsSubmitted()), limits)
    actors["staged"] = StagedSweeper.start(objects, kept_s=STAGED_S, period_s=20.0)
    kinds: dict[str, JobKind] = {
        "components": ComponentMutation(db, check, feed, ended),
        "images": ImageGeneration(db, objects, cast(Any, provider), provider, feed, ended),
        "ratios": AssetRatio(db, objects, actors["admission"], on_end=lambda: scan.tell(RatioJobEnded())),
    }
    return {kind.name: _start(backend, rules, name, kind) for name, kind in kinds.items()}


def _start(backend: "Backend", rules: "Rules", name: str, kind: JobKind) -> pykka.ActorRef[Any]:
    db, actors = backend.wire.database, backend.actors
    writer = LaneWriter(db, kind, rules.times)
    worker = JobWorker.start(db, kind, rules.times, rules.infra_failures_max, writer=writer)
    actors[f"worker of {name}"] = worker
    queue: pykka.ActorRef[Any] = JobQueue.start(
        db,
        kind.name,
        f"{backend.owner}:{name}",
        [worker],
        rules.times,
        lease_losses_max=rules.lease_losses_max,
        poll_s=2.0,
        sweep_s=4.0,
    )
    actors[name] = queue
    return queue


# -- agents ------------------------------------------------------------------------------------------------------------


async def calls_of(world: "World", place: "Place", mark: Callable[[], str], call: Callable[..., Any]) -> list[Any]:
    """One step: components and pictures, and pages that use them."""
    chance = world.loop.chance
    async with world.wire.read() as tx:
        table, versions = schema.components, schema.component_versions
        rows = await tx.execute(
            select(table.c.name, versions.c.number, versions.c.source)
            .join(versions, versions.c.component_id == table.c.id)
            .where(table.c.project_id == place.project_id, versions.c.number == table.c.current_version_number)
        )
        known = {row.name: (row.number, mark_of(row.source)) for row in rows}
    calls: list[Any] = []
    for _ in range(chance.choice(world.climate.calls)):
        name = chance.choice(COMPONENTS)
        pictures = ["picture"] * (8 if world.climate.asked == "pictures" else 2)
        match chance.choice([*pictures, "component", "component", "page"]):
            case "picture":
                calls.append(call("generate_image", name=chance.choice(PICTURES), prompt=f"a picture {mark()}"))
            case "component" if name in known and chance.random() < 0.7:
                number, old = known[name]
                edit = {"search": old, "replace": mark()}
                calls.append(call("apply_component_edits", component=name, base_version=number, edits=[edit]))
                known[name] = (number + 1, edit["replace"])
            case "component":
                calls.append(call("create_component", name=name, source=_template(mark())))
            case _:
                uses = f"<script setup>import One from '@components/{name}'</script>\n"
                calls.append(call("create_project_page", title="Page", source=uses + _template(mark())))
    return calls


def _template(mark: str) -> str:
    return source_of("good", 0).replace("[good 0]", mark)


# -- people who put files ----------------------------------------------------------------------------------------------


async def put_files(world: "World") -> None:
    """Files over the storm, some of them again and again, some deleted while they are measured."""
    chance = world.loop.chance
    for number in range(chance.choice(world.climate.files)):
        await world.nap(chance.choice([0.0, chance.uniform(0, 4)]))
        place, name = chance.choice(world.people.places), chance.choice(FILES)
        nature = chance.choice(["good", "good", "good", "broken"])
        content = file_of(number, nature, chance.randint(1, 999), chance.randint(1, 999))
        await _put(world, place, name, content)
        if chance.random() < 0.2:
            await asyncio.sleep(chance.uniform(0, 3))
            await _delete(world, place, name)


async def _put(world: "World", place: "Place", name: str, content: bytes) -> None:
    sha256 = sha256_of(content)
    media_type = "image/png" if name.endswith("png") else "image/svg+xml"
    stored = StoredAsset(name, media_type, sha256, len(content), asset_key(place.project_id, sha256))
    backend = world.loop.chance.choice(world.backends)
    try:
        await world.around.objects.put(stored.key, content)
        async with backend.wire.database.write() as tx:
            current, _ = await assets.put_asset(tx, place.project_id, stored, place.user_id)
    except (DatabaseUnavailable, ObjectStoreUnavailable):
        return
    world.note("people", "put a file", name=name, version=current.number)


async def _delete(world: "World", place: "Place", name: str) -> None:
    async with world.wire.write() as tx:
        if await assets.delete_asset(tx, place.project_id, name):
            world.note("people", "deleted a file", name=name)
