"""A preview that Redis lost is made again from saved versions: the same, for what is left of its time, or none (P2)."""

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import delete, func, select, update

from pagegate.actors.previews import Previews, again, forget_expired_snapshots
from pagegate.actors.tickets import Tickets
from pagegate.storage import assets, components, pages, preview_snapshots, projects, schema
from pagegate.storage.engine import Database
from pagegate.storage.objects import StoredAsset
from pagegate.storage.pages import NewVersion
from pagegate.storage.preview_artifacts import ArtifactUnavailable, PreviewArtifacts
from pagegate.storage.redis_state import RedisState
from tests.redis_server import RedisServer
from tests.world import World

SOURCE = '<script setup>import T from "@components/T.vue"</script><template><img src="@assets/a b.svg" /></template>'


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def tickets() -> Tickets:
    return Tickets(rsa.generate_private_key(65537, 2048), "k")


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[RedisState]:
    redis_server.say("FLUSHALL")
    state = RedisState(redis_server.url)
    yield state
    await state.close()


@pytest.fixture
async def world(db: Database) -> World:
    world = World(db)
    await world.settle_in()
    return world


@pytest.fixture
def artifacts(redis: RedisState, db: Database) -> PreviewArtifacts:
    return PreviewArtifacts(redis, partial(again, db))


def version(world: World, source: str, pins: dict[str, int] | None = None) -> NewVersion:
    return NewVersion(
        source=source,
        title="Títle",
        speaker_notes="é",
        component_pins=pins or {},
        status="passed",
        verdict=None,
        picture_key=None,
        job_id=None,
        created_by=world.user_id,
    )


async def project_with_two_pages(world: World) -> tuple[int, int]:
    project_id = world.projects[0]
    logo = StoredAsset("a b.svg", "image/svg+xml", "a" * 64, 3, "assets/1/a")
    async with world.db.write() as tx:
        await assets.put_asset(tx, project_id, logo, world.user_id)
        tile, _ = await components.put_component(tx, project_id, "T.vue", "<template>old</template>", world.user_id)
        made = [
            await pages.insert_page_with_first_version(
                tx, project_id, code=code, framework="vue", version=version(world, SOURCE, {"T.vue": tile.id})
            )
            for code in ("one", "two")
        ]
    return made[0], made[1]


async def open_preview(world: World, artifacts: PreviewArtifacts, tickets: Tickets, page_id: int) -> str:
    async with world.db.read() as tx:
        project = await projects.find_project(tx, world.projects[0])
    assert project is not None
    opened = await Previews(world.db, artifacts, tickets, "http://runtime").open(project, page_id, 1)
    assert opened is not None
    return opened.artifact_id


async def everything(artifacts: PreviewArtifacts, root: str) -> str:
    """All that the Runtime can read of a preview, as one text."""
    manifest = await artifacts.get_manifest(root)
    read: list[object] = []
    for page in manifest["pages"]:
        own = await artifacts.get_manifest(page["artifact_id"])
        read += [own, await artifacts.read_modules(page["artifact_id"], own["modules"])]
        read += [str(await artifacts.find_asset(page["artifact_id"], name)) for name in own["assets"]]
    return json.dumps(read, sort_keys=True)


async def test_what_redis_lost_is_made_again_byte_for_byte(
    world: World, artifacts: PreviewArtifacts, tickets: Tickets, redis_server: RedisServer
) -> None:
    one, _ = await project_with_two_pages(world)
    root = await open_preview(world, artifacts, tickets, one)
    before = await everything(artifacts, root)
    assert "old" in before
    # The project moves on: a preview never does.
    async with world.db.write() as tx:
        await pages.add_page_version(tx, one, 1, version(world, "newer"))
        await components.put_component(tx, world.projects[0], "T.vue", "<template>newer</template>", world.user_id)
        await components.delete_component(tx, world.projects[0], "T.vue")
        await assets.delete_asset(tx, world.projects[0], "a b.svg")
        await pages.delete_page(tx, one)
    redis_server.restart()
    assert await everything(artifacts, root) == before
    redis_server.say("FLUSHALL")
    assert await everything(artifacts, root) == before
    assert 0 < int(redis_server.say("TTL", f"runtime:artifact:{root}").strip().removeprefix(":")) <= 3600


async def test_the_artifact_of_a_check_is_never_made_again(
    world: World, artifacts: PreviewArtifacts, redis_server: RedisServer
) -> None:
    artifact_id = await artifacts.create({"entry": "pages/a.vue"}, {"pages/a.vue": "x"}, {})
    redis_server.say("FLUSHALL")
    with pytest.raises(ArtifactUnavailable):
        await artifacts.get_manifest(artifact_id)


async def test_a_preview_whose_time_is_over_is_gone_and_forgotten(
    world: World, artifacts: PreviewArtifacts, tickets: Tickets, redis_server: RedisServer
) -> None:
    one, two = await project_with_two_pages(world)
    old, young = [await open_preview(world, artifacts, tickets, page) for page in (one, two)]
    table = schema.preview_snapshots
    async with world.db.write() as tx:
        mine = table.c.artifact_id.startswith(old, autoescape=True)
        await tx.execute(update(table).where(mine).values(expires_at_ms=tx.now - 1))
    redis_server.say("FLUSHALL")
    with pytest.raises(ArtifactUnavailable):
        await artifacts.get_manifest(old)
    assert await forget_expired_snapshots(world.db) == 2
    assert await forget_expired_snapshots(world.db) == 0
    assert (await artifacts.get_manifest(young))["artifact_id"] == young
    async with world.db.read() as tx:
        assert (await tx.execute(select(func.count()).select_from(table))).scalar_one() == 2


async def test_what_cannot_be_the_same_again_is_gone(
    world: World, artifacts: PreviewArtifacts, tickets: Tickets, redis_server: RedisServer
) -> None:
    """Versions never change. Should one be pruned, or a hand reach into the database, no other content is shown."""
    one, _ = await project_with_two_pages(world)
    root = await open_preview(world, artifacts, tickets, one)
    versions = schema.component_versions
    redis_server.say("FLUSHALL")
    async with world.db.write() as tx:
        await tx.execute(update(versions).values(source="another"))
    with pytest.raises(ArtifactUnavailable):
        await artifacts.get_manifest(root)
    async with world.db.write() as tx:
        await tx.execute(delete(versions))
    with pytest.raises(ArtifactUnavailable):
        await artifacts.get_manifest(root)


async def test_a_preview_that_redis_has_no_room_for_is_none(
    world: World, tickets: Tickets, redis_server: RedisServer, db: Database
) -> None:
    one, _ = await project_with_two_pages(world)
    with RedisServer(maxmemory="1b") as full:
        state = RedisState(full.url)
        from pagegate.storage.runtime_state import StateFull

        with pytest.raises(StateFull):
            await open_preview(world, PreviewArtifacts(state, partial(again, db)), tickets, one)
        assert full.say("DBSIZE").strip() == ":0"
        await state.close()


async def test_nothing_is_kept_durably_for_a_store_that_does_not_outlive_its_process(
    world: World, tickets: Tickets
) -> None:
    from pagegate.storage.runtime_state import MemoryState

    one, _ = await project_with_two_pages(world)
    await open_preview(world, PreviewArtifacts(MemoryState(10**6), partial(again, world.db)), tickets, one)
    assert not await world.read(preview_snapshots.any_expired)
    async with world.db.read() as tx:
        assert (await tx.execute(select(func.count()).select_from(schema.preview_snapshots))).scalar_one() == 0
