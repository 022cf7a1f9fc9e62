"""Pictures through the doors, HTTP and MCP: a real lane behind them, and a played provider (A1, A9)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from cryptography.fernet import Fernet

from pagegate.actors.agents.models import Models
from pagegate.actors.agents.secrets import Secrets
from pagegate.actors.images.credentials import ImageCredentials
from pagegate.actors.images.provider import HttpImageProvider
from pagegate.actors.jobs.image_generation import ImageGeneration
from pagegate.actors.kernel import stop
from pagegate.actors.queues.queue import JobQueue
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import credentials, jobs, runs
from pagegate.storage.credentials import NewCredential
from tests.integration.http.conftest import RUN_LIMITS, Person, World
from tests.integration.http.test_mcp import speaking
from tests.integration.images.played_provider import KEY, ImagesApi

CALL = {"call_id": "c", "tool": "generate_image", "arguments": {"name": "hero.png", "prompt": "a lighthouse"}}


@pytest.fixture
async def api() -> AsyncIterator[ImagesApi]:
    async with ImagesApi().serving() as one:
        yield one


@pytest.fixture
async def studio(world: World, api: ImagesApi) -> AsyncIterator[World]:
    """The world with a lane that makes pictures, and an editor whose credential does."""
    secrets = Secrets([Fernet.generate_key().decode()])
    models = Models(world.db, secrets, base_urls=[api.base_url])
    async with world.db.write() as tx:
        about = (world.editor.user_id, "mine", "openai", api.base_url, "gpt", secrets.encrypt(KEY))
        await credentials.add_credential(tx, NewCredential(*about, image_model="gpt-image-1"))
    kind = ImageGeneration(
        world.db,
        world.parts.objects,
        HttpImageProvider(10.0),
        ImageCredentials(models),
        world.parts.feed,
        lambda: None,
    )
    times = LeaseTimes(lease_s=60.0, heartbeat_s=15.0)
    worker = JobWorker.start(world.db, kind, times, 10)
    queue: Any = JobQueue.start(world.db, kind.name, "host:1:x", [worker], times, poll_s=0.05)
    yield world
    await stop(queue)
    await stop(worker)


async def test_a_call_makes_a_file_that_pages_can_use_at_once(studio: World, api: ImagesApi) -> None:
    editor = studio.editor
    sent = await editor.post(f"{studio.project}/tool-calls", {"calls": [CALL], "idempotency_key": "k"})
    assert sent.status == 202, sent.body
    again = await editor.post(f"{studio.project}/tool-calls", {"calls": [CALL], "idempotency_key": "k"})
    assert (again.body["run_id"], again.body["created"]) == (sent.body["run_id"], False)
    async with asyncio.timeout(10):
        while True:
            (call,) = (await editor.get(f"/runs/{sent.body['run_id']}")).body["calls"]
            if call["status"] != "pending":
                break
            await asyncio.sleep(0.02)
    assert (call["status"], call["job_kind"]) == ("succeeded", jobs.IMAGE_GENERATION)
    run = (await editor.get(f"/runs/{sent.body['run_id']}")).body
    assert run["assets"] == [{"asset": "hero.png", "version": 1}]
    assert (call["result"]["import"], call["result"]["ratio"]) == ("@assets/hero.png", 1.5)
    (asset,) = (await editor.get(f"{studio.project}/assets")).body["assets"]
    assert (asset["name"], asset["width_px"], asset["height_px"], asset["media_type"]) == (
        "hero.png",
        48,
        32,
        "image/png",
    )
    file = await editor.get(f"{studio.project}/assets/hero.png")
    assert file.raw == api.content
    assert api.charges == 1
    seen = await editor.get(f"/jobs/{call['job_kind']}/{call['job_id']}")
    assert (seen.status, seen.body["asset_name"], seen.body["status"]) == (200, "hero.png", "succeeded")
    assert KEY not in str(seen.body)


async def test_what_a_call_shows_by_itself_is_refused_at_the_door(world: World) -> None:
    for arguments, code in (
        ({"name": "../hero.png"}, "ASSET_NAME_INVALID"),
        ({"name": "hero.svg"}, "ASSET_TYPE_NOT_ALLOWED"),
        ({"name": "hero.gif"}, "ASSET_TYPE_NOT_ALLOWED"),
        ({"prompt": "  "}, "REQUEST_INVALID"),
        ({"prompt": "x" * 4001}, "REQUEST_INVALID"),
        ({"size": "1x1"}, "REQUEST_INVALID"),
        ({"name": "hero.jpg", "background": "transparent"}, "REQUEST_INVALID"),
        ({"seed": 1}, "REQUEST_INVALID"),
    ):
        call = {**CALL, "arguments": {"name": "hero.png", "prompt": "a lighthouse", **arguments}}
        refused = await world.editor.post(f"{world.project}/tool-calls", {"calls": [call]})
        assert (refused.status in {415, 422}, refused.code) == (True, code), arguments


async def test_no_more_pictures_are_accepted_than_the_lane_may_hold(world: World) -> None:
    calls = [{**CALL, "call_id": f"c{n}", "arguments": {"name": f"{n}.png", "prompt": "x"}} for n in range(4)]
    for first in (0, 4):
        named = [{**one, "arguments": {"name": f"{first}-{n}.png", "prompt": "x"}} for n, one in enumerate(calls)]
        assert (await world.editor.post(f"{world.project}/tool-calls", {"calls": named})).status == 202
    full = await world.editor.post(f"{world.project}/tool-calls", {"calls": [CALL]})
    assert (full.status, full.code) == (429, "IMAGE_GENERATION_ACTIVE_JOBS_LIMIT")
    assert RUN_LIMITS.active_jobs_max == 8


async def test_an_mcp_client_waits_for_its_picture(studio: World) -> None:
    async with speaking(studio.editor, studio.project) as client:
        made = await client.call_tool("generate_image", {"name": "sea.webp", "prompt": "a calm sea"})
        assert made.structured_content is not None
        said = made.structured_content
        assert (said["saved"], said["asset_name"], said["media_type"]) == (True, "sea.png", "image/png")
        seen = await client.call_tool("get_verdict", {"asset": "sea.webp", "run_id": said["run_id"]})
        assert seen.structured_content is not None
        assert seen.structured_content["import"] == "@assets/sea.png"
        taken = await client.call_tool("generate_image", {"name": "sea.png", "prompt": "a calm sea"})
        assert taken.structured_content is not None
        assert (taken.structured_content["saved"], taken.structured_content["code"]) == (False, "ASSET_NAME_TAKEN")


async def test_an_mcp_client_that_does_not_wait_gets_a_handle(world: World) -> None:
    limits = replace(world.parts.limits, mcp_wait_s=0.0)
    async with (
        world.another_door(limits=limits) as base,
        speaking(world.editor, world.project, base=base) as client,
    ):
        made = await client.call_tool("generate_image", {"name": "sea.png", "prompt": "a calm sea"})
        assert made.structured_content is not None
        said = made.structured_content
        assert (said["status"], said["asset_name"]) == ("pending", "sea.png")
        assert "get_verdict with asset 'sea.png'" in said["next"]
    async with world.db.read() as tx:
        assert (await runs.get_run(tx, said["run_id"])).status == "waiting_external"


async def test_a_credential_for_pictures_only_is_tried_without_making_one(world: World, api: ImagesApi) -> None:
    models = Models(world.db, Secrets([Fernet.generate_key().decode()]), base_urls=[api.base_url, "http://127.0.0.1:1"])
    new = {"name": "n", "provider": "openai", "base_url": api.base_url, "image_model": "gpt-image-1", "key": KEY}
    async with world.another_door(models=models) as base:
        editor = Person(world.http, base, world.editor.user_id, world.editor.token)
        for changed, status, word in (
            ({"key": "sk-wrong"}, 422, "AI_CREDENTIAL_REFUSED"),
            ({"base_url": "http://127.0.0.1:1"}, 503, "AI_MODEL_UNREACHABLE"),
            ({"base_url": "http://127.0.0.1:2"}, 422, "AI_MODEL_BASE_URL_NOT_ALLOWED"),
            ({"provider": "anthropic", "base_url": None}, 422, "image_model needs openai"),
            ({"image_model": None}, 422, "name a model"),
        ):
            refused = await editor.post("/model-credentials", {**new, **changed})
            assert (refused.status, word in str(refused.body)) == (status, True), refused.body
        saved = await editor.post("/model-credentials", new)
        shown = {"model": "", "image_model": "gpt-image-1", "image_keys_honoured": False}
        assert (saved.status, {name: saved.body[name] for name in shown}) == (201, shown)
        run = {"prompt": "x", "use": {"credential_id": saved.body["id"]}}
        unusable = await editor.post(f"{world.project}/agent-runs", run)
        assert (unusable.code, "pictures only" in unusable.body["message"]) == ("AI_CREDENTIAL_NOT_FOUND", True)
    assert (api.asked, api.charges) == ([], 0)
