"""Runs of the built-in agent when their process ends (A7, CASES 52): real Backends, a real wire to a played model."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from pagegate.deploy.client import Api
from tests.integration.agents.fake_provider import KEY, Provider
from tests.integration.processes.conftest import StartServe
from tests.integration.processes.played import Played
from tests.integration.processes.serving import Project, Serve, finished, gauges


async def thinking_run(api: Api, project_id: int, provider: Provider) -> int:
    """A run whose model has begun to answer and does not go on."""
    new = {"name": "mine", "provider": "openai", "model": "gpt", "key": KEY, "base_url": f"{provider.base_url}/v1"}
    await api.call("POST", "/model-credentials", new)
    provider.trouble = "silent"
    asked = len(provider.asked)
    started = await api.call("POST", f"/projects/{project_id}/agent-runs", {"prompt": "make a page"})
    async with asyncio.timeout(30):
        while len(provider.asked) == asked:
            await asyncio.sleep(0.02)
    return int(started["run_id"])


def settings(folder: Path) -> dict[str, str]:
    return {"AI_MODEL_BASE_URLS": "*", "AI_SECRET_ENCRYPTION_KEY_FILE": str(folder / "secret_key")}


async def end_of(serve: Serve, run_id: int) -> Any:
    async with serve.api as api:
        run, kinds = await finished(api, run_id)
    assert kinds[-1] in {"run.failed", "run.finished"}
    return run


async def test_a_killed_backend_ends_its_runs_at_the_next_start(
    processes: StartServe, sqlite_url: str, tmp_path: Path
) -> None:
    serve = processes(sqlite_url, **settings(tmp_path))
    await serve.start()
    async with Provider().serving() as provider:
        async with serve.api as api:
            run_id = await thinking_run(api, (await Project.create(api)).id, provider)
        serve.send(signal.SIGKILL)
        await serve.ended()
        await serve.start()
        await serve.logged("agent.runs_recovered")
    run = await end_of(serve, run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "AI_RUN_INTERRUPTED")


async def test_a_stop_in_order_ends_thinking_runs_closes_streams_and_spares_waiting_runs(
    processes: StartServe, far: Played, sqlite_url: str, tmp_path: Path
) -> None:
    serve = processes(sqlite_url, DURABLE_JOB_DRAIN_GRACE_SECONDS="0.2", **settings(tmp_path))
    await serve.start()
    far.gate.clear()
    async with Provider().serving() as provider, serve.api as api:
        project = await Project.create(api)
        ask = {"prompt": "a one-page deck about stops", "use": {"credential_id": "scripted"}}
        waiting = int((await api.call("POST", f"/projects/{project.id}/agent-runs", ask))["run_id"])
        await far.has_begun()
        run_id = await thinking_run(api, project.id, provider)
        streams = [asyncio.create_task(first_stream(serve, run_id)) for _ in range(5)]
        await all_follow(serve, len(streams))
        serve.send(signal.SIGTERM)
        assert await serve.ended() == 0
        async with asyncio.timeout(10):
            await asyncio.gather(*streams)
    far.gate.set()
    await serve.start()
    stopped = await end_of(serve, run_id)
    assert stopped["error"]["code"] == "AI_RUN_PROCESS_STOPPED"
    assert (await end_of(serve, waiting))["status"] == "succeeded"


async def all_follow(serve: Serve, count: int) -> None:
    async with asyncio.timeout(20):
        while (await gauges(serve)).get("pagegate_http_streams") != count:
            await asyncio.sleep(0.05)


async def first_stream(serve: Serve, run_id: int) -> None:
    """One connection that follows the run until the server closes it."""
    async with serve.api as api:
        async for _ in api._stream(run_id, 0):
            pass
