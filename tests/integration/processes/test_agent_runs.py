"""Runs of the built-in agent when their process ends (A7, CASES 52): real Backends, a real wire to a played model."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from pagegate.deploy.client import Api
from tests.integration.agents.fake_provider import KEY, Provider
from tests.integration.processes.conftest import StartServe
from tests.integration.processes.played import Played
from tests.integration.processes.serving import SOURCE, Project, Serve, expect_one_of_everything, finished, gauges


async def credential(api: Api, name: str, provider: Provider) -> Any:
    new = {"name": name, "provider": "openai", "model": "gpt", "key": KEY, "base_url": f"{provider.base_url}/v1"}
    return {"credential_id": (await api.call("POST", "/model-credentials", new))["id"]}


async def thinking_run(api: Api, project_id: int, provider: Provider, name: str = "mine") -> int:
    """A run whose model has begun to answer and does not go on."""
    provider.trouble = ""
    ask = {"prompt": "make a page", "use": await credential(api, name, provider)}
    provider.trouble = "silent"
    asked = len(provider.asked)
    started = await api.call("POST", f"/projects/{project_id}/agent-runs", ask)
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


async def test_of_two_backends_one_is_killed_in_a_resume_and_the_other_takes_it_over_once(
    processes: StartServe, postgres_url: str
) -> None:
    """The survivor's own live run is left alone, also when the killed one starts again; the killed one's is ended."""
    shared = {"AI_MODEL_BASE_URLS": "*", "AI_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode()}
    pair = [processes(postgres_url, **shared) for _ in range(2)]
    for serve in pair:
        await serve.start()
    page = {"title": "One", "code": "one", "source": SOURCE}
    writing = Provider([[("c1", "create_project_page", page)], "All saved."])
    async with Provider().serving() as silent, writing.serving(), pair[0].api as api, pair[1].api as other:
        project = await Project.create(api)
        thinking = [
            await thinking_run(api, project.id, silent, "a"),
            await thinking_run(other, project.id, silent, "b"),
        ]
        run_id = await resumed_run(api, project.id, writing)
        (batch,) = (await api.call("GET", f"/runs/{run_id}/diagnosis"))["batches"]
        assert (batch["state"], batch["generation"]) == ("resuming", 1)
        hit = next(number for number, serve in enumerate(pair) if f":{serve.process.pid}:" in batch["worker_id"])
        killed, survivors_api = pair[hit], (other, api)[hit]
        killed.send(signal.SIGKILL)
        await killed.ended()
        writing.trouble, writing.silent_from_turn = "", None
        taken_over = await finished(survivors_api, run_id)
        await killed.start()
        await killed.logged("agent.runs_recovered")
        assert (await end_of(killed, thinking[hit]))["error"]["code"] == "AI_RUN_INTERRUPTED"
        assert (await survivors_api.call("GET", f"/runs/{thinking[1 - hit]}"))["status"] == "running"
        assert await Project(survivors_api, project.id).versions() == {"one": 1}
    run, kinds = taken_over
    expect_one_of_everything(run, kinds)
    assert run["result"]["text"] == "All saved."
    assert (len(writing.asked), kinds.count("run.resumed")) == (3, 2), "asked again once, in the second generation"


async def resumed_run(api: Api, project_id: int, provider: Provider) -> int:
    """A run whose page is saved, and whose model has been asked again and does not answer."""
    ask = {"prompt": "make a page", "use": await credential(api, "writes", provider)}
    provider.asked.clear()
    provider.silent_from_turn = 1
    started = await api.call("POST", f"/projects/{project_id}/agent-runs", ask)
    async with asyncio.timeout(60):
        while len(provider.asked) < 2:
            await asyncio.sleep(0.02)
    return int(started["run_id"])


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
