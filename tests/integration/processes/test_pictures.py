"""A real Backend is killed while a provider makes a picture: another life gets the same one, charged once (A1, Q5)."""

import asyncio
import signal
from pathlib import Path

from tests.integration.images.played_provider import KEY, ImagesApi
from tests.integration.processes.conftest import StartServe
from tests.integration.processes.serving import Project, finished

QUICKER = {"DURABLE_JOB_LEASE_SECONDS": "3", "DURABLE_JOB_HEARTBEAT_SECONDS": "1"}


async def test_a_backend_that_is_killed_while_a_picture_is_made_leaves_one_charge(
    processes: StartServe, sqlite_url: str, tmp_path: Path
) -> None:
    serve = processes(
        sqlite_url,
        AI_MODEL_BASE_URLS="*",
        AI_SECRET_ENCRYPTION_KEY_FILE=str(tmp_path / "secret_key"),
        **QUICKER,
    )
    await serve.start()
    async with ImagesApi(script=["hangs"]).serving() as provider, serve.api as api:
        project = await Project.create(api)
        new = {"name": "mine", "provider": "openai", "image_model": "m", "base_url": provider.base_url, "key": KEY}
        await api.call("POST", "/model-credentials", {**new, "image_keys_honoured": True})
        call = {"call_id": "c", "tool": "generate_image", "arguments": {"name": "hero.png", "prompt": "a lighthouse"}}
        sent = await api.call("POST", f"/projects/{project.id}/tool-calls", {"calls": [call]})
        await asyncio.wait_for(provider.came.get(), 30)
        serve.send(signal.SIGKILL)
        await serve.ended()
        await serve.start()
        run, _ = await finished(api, sent["run_id"])
        assert (run["status"], run["calls"][0]["result"]["asset_name"]) == ("succeeded", "hero.png")
        assert (len(provider.asked), len(set(provider.keys)), provider.charges) == (2, 1, 1)
        (asset,) = (await api.call("GET", f"/projects/{project.id}/assets"))["assets"]
        assert (asset["name"], asset["ratio"]) == ("hero.png", 1.5)
