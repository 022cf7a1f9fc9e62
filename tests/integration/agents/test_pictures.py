"""The built-in agent asks for a picture: deferred, carried out by a job, and back with its address (A1, A4)."""

import asyncio
import json
from typing import Any

from pagegate.actors.agents.secrets import Secrets
from pagegate.actors.images.answers import Made
from pagegate.actors.images.credentials import ImageCredentials
from pagegate.actors.images.provider import ImageAccess, Wanted
from pagegate.actors.jobs.image_generation import ImageGeneration
from pagegate.actors.kernel import stop
from pagegate.actors.queues.queue import JobQueue
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import credentials
from pagegate.storage.credentials import NewCredential
from pagegate.storage.objects import Objects
from pagegate.storage.workspaces import put_member
from tests.integration.agents.conftest import World, call
from tests.integration.images.played_provider import picture


class Provider:
    """In a provider's place: answers at once, by whose key it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[ImageAccess, Wanted, str]] = []

    async def make(self, access: ImageAccess, wanted: Wanted, idempotency_key: str) -> Made:
        self.asked.append((access, wanted, idempotency_key))
        return Made(picture())


async def test_a_run_waits_for_its_picture_and_is_told_where_it_is(world: World) -> None:
    arguments = {"name": "hero.png", "prompt": "a lighthouse", "size": "1536x1024"}
    world.model.speak = world.model.steps([call("c1", "generate_image", json.dumps(arguments))], ["It is there."])
    replica = world.start()
    models, provider = replica.side.models, Provider()
    models._secrets = secrets = Secrets(["Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4MDEyMzQ1Njc="])
    async with world.db.write() as tx:
        await put_member(tx, world.workspace_id, world.user_id, "editor")
        for name, model in (("run's own", "m1"), ("newer", "m2")):
            new = NewCredential(world.user_id, name, "openai", None, "gpt", secrets.encrypt(name), model)
            await credentials.add_credential(tx, new)
        (own, _) = await credentials.list_credentials(tx, world.user_id)
    kind = ImageGeneration(
        world.db,
        Objects.local(world.folder / "objects"),
        provider,
        ImageCredentials(models),
        replica.feed,
        lambda: None,
    )
    times = LeaseTimes(lease_s=60.0, heartbeat_s=15.0)
    worker = JobWorker.start(world.db, kind, times, 10)
    queue: Any = JobQueue.start(world.db, kind.name, "host:1:x", [worker], times, poll_s=0.05)
    # The run's model is played, and its choice names a credential: the same one makes its pictures.
    choice = {"kind": "credential", "credential_id": own.id, "provider": "openai", "model": "gpt"}
    models.open = lambda *_: _Opened(world.model.model())  # type: ignore[method-assign]  # no client is made
    run_id = await world.ask(replica, "draw a lighthouse", model=choice)
    async with asyncio.timeout(20):
        ended = await world.is_over(run_id)
    assert (ended.status, ended.result["text"]) == ("succeeded", "It is there.")
    assert ended.result["assets"] == [{"asset": "hero.png", "version": 1}]
    told = world.model.results()["c1"]
    assert (told["saved"], told["asset_name"], told["import"]) == (True, "hero.png", "@assets/hero.png")
    assert (told["width_px"], told["height_px"], told["ratio"]) == (48, 32, 1.5)
    ((access, wanted, _),) = provider.asked
    assert (access.model, access.key, wanted.size) == ("m1", "run's own", "1536x1024")
    await stop(queue)
    await stop(worker)


class _Opened:
    def __init__(self, model: Any) -> None:
        self.model = model

    async def __aenter__(self) -> Any:
        return self.model

    async def __aexit__(self, *_: object) -> None:
        return
