"""Runtime state that is lost, cut off or hung in the middle of a check: an infrastructure retry, and nothing else (P2).

Real Backends with a real Redis, or with their own memory; the Runtime is played, but reads the artifact as a real one.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from aiohttp import web

from pagegate.runtime.contract import CompileRequest, ErrorBody, LightResult
from pagegate.runtime.refusals import SourceUnavailable
from pagegate.runtime.sources import HttpModuleSource
from tests.integration.processes.conftest import StartServe
from tests.integration.processes.played import Played
from tests.integration.processes.serving import (
    WAIT_S,
    Project,
    Serve,
    expect_one_of_everything,
    finished,
    gauges,
    job_rows,
)
from tests.redis_server import RedisServer


class Reading(Played):
    """Reads manifest and modules once the gate lets it, and gives the refusal of a real Runtime when it cannot."""

    async def _compile(self, request: web.Request) -> web.Response:
        asked = CompileRequest.model_validate_json(await request.read())
        self.begun.put_nowait(asked)
        await self.gate.wait()
        try:
            async with aiohttp.ClientSession() as session:
                source = HttpModuleSource(session, asked.backend_url, asked.artifact_id, asked.ticket, timeout_s=20)
                await source.read_modules((await source.manifest()).modules)
        except SourceUnavailable as error:
            body = ErrorBody(code=error.code, message=str(error))
            return web.Response(text=body.model_dump_json(), content_type="application/json", status=error.status)
        return await super()._compile(request)


class Measuring(Reading):
    """A light tool too: the first request fails, the next ones pass the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.measured, self.light = 0, asyncio.Event()
        self._server.app.router.add_post("/light/{tool}", self._measure)

    async def _measure(self, request: web.Request) -> web.Response:
        await request.read()
        self.measured += 1
        if self.measured == 1:
            return web.json_response(ErrorBody(code="RUNTIME_NOT_READY", message="later").model_dump(), status=503)
        self.light.set()
        await self.gate.wait()
        size = LightResult(ok=True, result={"width_px": 3, "height_px": 2, "ratio": 1.5})
        return web.Response(text=size.model_dump_json(), content_type="application/json")


@pytest.fixture
async def measuring() -> AsyncIterator[Measuring]:
    async with Measuring() as far:
        yield far


@pytest.fixture
async def reading() -> AsyncIterator[Reading]:
    async with Reading() as far:
        yield far


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


async def ready(serve: Serve) -> dict[str, object]:
    async with aiohttp.ClientSession() as session, session.get(serve.url + "/readyz") as answer:
        body: dict[str, object] = await answer.json()
        return body


async def held(serve: Serve, far: Reading) -> int:
    """The run of one job that is in the middle of its compile."""
    far.gate.clear()
    async with serve.api as api:
        run_id = await (await Project.create(api)).send("a")
    await far.has_begun()
    return run_id


async def until_entries(redis: RedisServer, count: int) -> None:
    """Wait until Redis holds no more entries than these; a picture that is made up for has one for a moment."""
    async with asyncio.timeout(WAIT_S):
        while int(redis.say("DBSIZE").strip().removeprefix(":")) > count:
            await asyncio.sleep(0.05)


async def expect_one_retry(serve: Serve, run_id: int, database_url: str) -> None:
    async with serve.api as api:
        expect_one_of_everything(*await finished(api, run_id))
    (job,) = await job_rows(database_url)
    assert (job.status, job.lease_losses) == ("succeeded", 0)
    assert job.infra_failures >= 1


@pytest.mark.parametrize("trouble", ["cleared", "away", "hung"])
async def test_redis_in_trouble_in_the_middle_of_a_check_costs_a_retry(
    processes: StartServe, reading: Reading, redis: RedisServer, sqlite_url: str, trouble: str
) -> None:
    serve = processes(sqlite_url, far_url=reading.url, REDIS_URL=redis.url)
    await serve.start()
    assert (await ready(serve))["runtime_state"] == "redis"
    run_id = await held(serve, reading)
    assert redis.say("DBSIZE").strip() == ":1"
    match trouble:
        case "cleared":
            redis.say("FLUSHALL")
        case "away":
            redis.stop()
            assert (await ready(serve))["runtime_state"] == "redis: does not answer"
        case "hung":
            redis.hang()
            body = await ready(serve)
            assert (body["status"], body["runtime_state"]) == ("ready", "redis: does not answer")
    reading.gate.set()
    await serve.logged("ai.page_mutation.job.execution_finished")
    match trouble:
        case "away":
            redis.start()
        case "hung":
            redis.go_on()
    await expect_one_retry(serve, run_id, sqlite_url)
    # The artifact goes when its check is over, but for the one that could not be deleted: its time ends it.
    await until_entries(redis, 1 if trouble == "hung" else 0)
    assert "api.request.failed" not in serve.events()


async def test_a_process_that_is_killed_loses_its_memory_and_no_job(
    processes: StartServe, reading: Reading, sqlite_url: str
) -> None:
    serve = processes(sqlite_url, far_url=reading.url)
    await serve.start()
    assert (await ready(serve))["runtime_state"] == "memory"
    run_id = await held(serve, reading)
    assert (await gauges(serve))['pagegate_runtime_state_bytes{store="memory"}'] > 0
    serve.send(signal.SIGKILL)
    await serve.ended()
    reading.gate.set()
    await serve.start()
    async with serve.api as api:
        expect_one_of_everything(*await finished(api, run_id))
    async with asyncio.timeout(WAIT_S):
        while (await gauges(serve))['pagegate_runtime_state_bytes{store="memory"}'] > 0:  # a picture is made up for
            await asyncio.sleep(0.05)


async def test_a_redis_that_is_not_there_stops_the_start_and_says_so(
    processes: StartServe, reading: Reading, redis: RedisServer, sqlite_url: str
) -> None:
    redis.stop()
    serve = processes(sqlite_url, far_url=reading.url, REDIS_URL=redis.url.replace("redis://", "redis://:s3cret@"))
    with pytest.raises(AssertionError) as told:
        await serve.start()
    assert await serve.ended() == 75
    assert "REDIS_URL: Redis does not answer as it should" in str(told.value)
    assert "s3cret" not in str(told.value)


async def test_an_artifact_on_redis_is_read_through_any_backend_of_it(
    processes: StartServe, reading: Reading, redis: RedisServer, postgres_url: str
) -> None:
    """What a replica wrote, another one gives out: a preview opened here is read there."""
    serve = processes(postgres_url, far_url=reading.url, REDIS_URL=redis.url)
    key = serve.token_file.parent / f"key-{serve.port}.pem"
    await serve.start()
    other = processes(postgres_url, far_url=reading.url, REDIS_URL=redis.url, RUNTIME_RSA_PRIVATE_KEY_FILE=str(key))
    await other.start()
    async with serve.api as api:
        project = await Project.create(api)
        await finished(api, await project.send("a"))
        (page,) = (await api.call("GET", f"/projects/{project.id}/pages"))["pages"]
        opened = await api.call("POST", f"/pages/{page['id']}/previews", {})
    token = opened["url"].rstrip("/").rpartition("/")[2]
    path = f"/internal/runtime/preview-artifacts/{opened['artifact_id']}/manifest"
    headers = {"Authorization": f"Bearer {token}"}
    async with asyncio.timeout(WAIT_S), aiohttp.ClientSession(headers=headers) as session:
        for clear in (False, True):
            if clear:
                redis.say("FLUSHALL")
            for backend in (serve, other):
                async with session.get(backend.url + path) as answer:
                    assert (answer.status, (await answer.json())["entry"]) == (200, "pages/a.vue")


async def test_redis_that_is_cleared_while_a_file_is_measured_changes_nothing(
    processes: StartServe, measuring: Measuring, redis: RedisServer, sqlite_url: str
) -> None:
    """Not even a retry: claim, lease and result of this lane are rows, and it keeps nothing else (P2, Q3)."""
    serve = processes(sqlite_url, far_url=measuring.url, REDIS_URL=redis.url)
    await serve.start()
    measuring.gate.clear()
    async with serve.api as api:
        assets = f"/projects/{(await Project.create(api)).id}/assets"
        saved = await api.call("PUT", f"{assets}/a.png", data=b"bytes")
        assert (saved["ratio"], saved["unmeasured"]["code"]) == (None, "RUNTIME_UNAVAILABLE")
        async with asyncio.timeout(WAIT_S):
            await measuring.light.wait()
        redis.say("FLUSHALL")
        measuring.gate.set()
        await serve.logged("asset.ratio.job.execution_finished")
        (listed,) = (await api.call("GET", assets))["assets"]
        (job,) = (await api.call("GET", "/jobs?lane=asset_ratio_backfill_jobs"))["jobs"]
    assert (listed["ratio"], listed["width_px"], listed["unmeasured"]) == (1.5, 3, None)
    assert (job["status"], job["attempt"], job["infra_failures"], measuring.measured) == ("succeeded", 1, 0, 2)
    assert (job["asset_name"], job["page_code"]) == ("a.png", None)
