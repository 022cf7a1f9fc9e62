"""The statements that only pictures have, on both databases: names, what was sent, pruning (A1)."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select, update

from pagegate.storage import assets, credentials, images, jobs, pruning, runs, schema
from pagegate.storage.credentials import NewCredential
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.lease import LeaseLost
from pagegate.storage.objects import StoredAsset
from pagegate.storage.pruning import START, Retention
from pagegate.storage.runs import CallSubmission, Submitted
from tests.world import TTL_MS, World


async def submitted(world: World, *names: str) -> Submitted:
    step = world.step()
    calls = [
        CallSubmission(f"call-{name}", "generate_image", {"name": name}, name, kind=images.IMAGE_GENERATION)
        for name in names
    ]
    return await world.write(runs.submit_step, type(step)(**{**vars(step), "calls": calls}))


async def claimed(world: World) -> ClaimedJob:
    job = await world.write(jobs.claim_job, images.IMAGE_GENERATION, "worker", TTL_MS)
    assert job is not None
    return job


async def save(world: World, wanted: str, ending: str) -> str:
    """Reserve a name and save a file of it, as a commit does."""
    async with world.db.write() as tx:
        name = await images.reserve_free_name(tx, world.projects[0], wanted, ending)
        stored = StoredAsset(name, "image/png", "0" * 64, 1, "key")
        await assets.put_asset(tx, world.projects[0], stored, world.user_id)
    return name


async def test_of_two_commits_at_once_each_gets_a_name_of_its_own(world: World) -> None:
    names = await asyncio.gather(*[save(world, f"sea{ending}", ".png") for ending in (".jpg", ".webp", ".png", ".png")])
    assert sorted(names) == ["sea-2.png", "sea-3.png", "sea-4.png", "sea.png"]
    assert {one.number for one in await world.read(assets.list_assets, world.projects[0])} == {1}


async def test_a_deleted_files_name_is_free_and_its_next_version_follows(world: World) -> None:
    await save(world, "sea.png", ".png")
    await world.write(assets.delete_asset, world.projects[0], "sea.png")
    assert await world.read(images.list_taken_names, world.projects[0]) == set()
    assert await save(world, "sea.png", ".png") == "sea.png"
    (asset,) = await world.read(assets.list_assets, world.projects[0])
    assert await world.read(images.list_taken_names, world.projects[0]) == {"sea.png"}
    assert asset.stored.name == "sea.png"


async def test_names_to_come_are_those_of_live_jobs_of_the_project(world: World) -> None:
    made = await submitted(world, "a.png", "b.png")
    assert await world.read(images.list_names_to_come, world.projects[0]) == {"a.png", "b.png"}
    assert await world.read(images.list_names_to_come, world.projects[1]) == set()
    await world.write(jobs.request_cancel, images.IMAGE_GENERATION, made.job_ids[0])
    assert await world.read(images.list_names_to_come, world.projects[0]) == {"b.png"}


async def test_what_was_sent_is_noted_under_the_fence_and_the_first_moment_stays(world: World) -> None:
    await submitted(world, "a.png")
    job = await claimed(world)
    await world.write(images.note_sent, job.lease, {"model": "m"})
    table = schema.image_generation_jobs
    async with world.db.write() as tx:
        await tx.execute(update(table).values(sent_at_ms=1))
    await world.write(images.note_sent, job.lease, {"model": "n"})
    row = await world.read(jobs.get_job, images.IMAGE_GENERATION, job.id)
    assert (row.sent_at_ms, row.sent_to) == (1, {"model": "n"})
    await world.write(images.note_nothing_made, job.lease)
    row = await world.read(jobs.get_job, images.IMAGE_GENERATION, job.id)
    assert (row.sent_at_ms, row.sent_to) == (None, None)
    await world.expire(job.lease)
    statements: list[Any] = [
        lambda tx: images.note_sent(tx, job.lease, {}),
        lambda tx: images.note_nothing_made(tx, job.lease),
    ]
    for statement in statements:
        with pytest.raises(LeaseLost):
            await world.write(statement)


async def test_a_run_with_pictures_is_pruned_as_a_whole(world: World) -> None:
    made = await submitted(world, "a.png")
    await world.write(runs.cancel_run, made.run_id)
    at_once = Retention(0, 0, 0)
    page = await world.read(pruning.list_prunable_runs, at_once, START, 10)
    assert page.run_ids == [made.run_id]
    assert await world.write(pruning.prune_runs, at_once, page.run_ids) == 1

    async def left(tx: Tx) -> list[Any]:
        return list((await tx.execute(select(schema.image_generation_jobs.c.id))).scalars())

    assert await world.read(left) == []


async def test_a_credential_keeps_what_it_is_for(world: World) -> None:
    plain = NewCredential(world.user_id, "plain", "openai", None, "gpt", "ciphertext")
    both = NewCredential(world.user_id, "both", "openai", None, "gpt", "ciphertext", "gpt-image-1", True)
    async with world.db.write() as tx:
        rows = [await credentials.add_credential(tx, new) for new in (plain, both)]
    assert [(row.image_model, row.image_keys_honoured) for row in rows] == [(None, False), ("gpt-image-1", True)]
