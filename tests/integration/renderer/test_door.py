"""The Renderer over HTTP, with real browsers: the wire that the Backend speaks (R2-R6, O1, O2)."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from pagegate.actors.systems.renderer import RendererOptions, RendererSystem
from pagegate.http.renderer import renderer_app
from pagegate.renderer import isolation
from pagegate.renderer.client import AttemptUnknown, RenderWorker, WorkerBusy, WorkerUnavailable
from pagegate.renderer.contract import PageBases, RenderResult, RenderTask, Viewport
from pagegate.renderer.egress import MemoryOrigin
from pagegate.renderer.options import BrowserOptions
from pagegate.renderer.token import issue_token

SECRET = "a-credential-of-thirty-two-chars!"
MOUNTED = "<script>document.documentElement.dataset.pagegateMounted='1'</script>"
GOOD = f"<!doctype html><html>{MOUNTED}<body style='margin:0;font:40px sans-serif'><h1>Good morning</h1>"


@dataclass
class Bench:
    """A Renderer behind its door, and the Runtime of its pages: path → HTML. `gate` holds answers back until set."""

    system: RendererSystem
    client: TestClient[web.Request, web.Application]
    worker: RenderWorker
    runtime_url: str
    pages: dict[str, str]
    gate: asyncio.Event
    asked: asyncio.Event

    def task(self, path: str = "good", **more: Any) -> RenderTask:
        base = f"{self.runtime_url}{path}/"
        return RenderTask(
            attempt_id=uuid4().hex,
            request_id=uuid4().hex,
            bases=PageBases(navigation_url=base, vendor_url=self.runtime_url, assets_url=self.runtime_url),
            viewport=Viewport(width_px=640, height_px=360),
            **more,
        )

    async def result(self, task: RenderTask) -> RenderResult:
        while True:
            try:
                await self.worker.start(task)
            except WorkerBusy:
                await asyncio.sleep(0.01)
            else:
                break
        result = None
        while result is None:
            result = await self.worker.wait(task.attempt_id, 30.0)
        return result


@asynccontextmanager
async def bench(**browser: Any) -> AsyncIterator[Bench]:
    pages = {"good": GOOD, "loop": "<!doctype html><body>text<script>for(;;);</script>"}
    gate, asked = asyncio.Event(), asyncio.Event()
    gate.set()

    async def answer(request: web.Request) -> web.Response:
        asked.set()
        await gate.wait()
        html = pages.get(request.match_info["page"])
        if html is None or not request.path.endswith("/index.html"):
            raise web.HTTPNotFound
        return web.Response(text=html, content_type="text/html")

    runtime_app = web.Application()
    runtime_app.router.add_get("/{page}/{file:.*}", answer)
    runtime = TestServer(runtime_app)
    await runtime.start_server()
    runtime_url = str(runtime.make_url("/"))
    options = RendererOptions(
        worker_id="renderer-7",
        credential=SECRET,
        navigation_base_urls=(runtime_url,),
        platform_asset_base_urls=(runtime_url,),
        browser=BrowserOptions(stuck_after_s=2.0, **browser),
    )
    async with RendererSystem(options) as system, ClientSession() as session:
        client = TestClient(TestServer(renderer_app(system)))
        await client.start_server()
        worker = RenderWorker(session, "renderer-7", str(client.make_url("/")), SECRET)
        yield Bench(system, client, worker, runtime_url, pages, gate, asked)
        gate.set()
        await client.close()
    await runtime.close()


async def sample(bench: Bench, name: str) -> float:
    """One series of `/metrics`."""
    text = await (await bench.client.get("/metrics")).text()
    return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)), 0.0)


async def test_an_attempt_from_its_start_to_its_picture() -> None:
    async with bench() as here:
        task = here.task()
        result = await here.result(task)
        assert (result.attempt_id, result.worker_id, result.error) == (task.attempt_id, "renderer-7", None)
        assert result.diagnosis is not None
        assert result.diagnosis.status == "passed"
        assert result.profile_digest == here.system.profile_digest != ""
        assert result.picture is not None
        png = await here.worker.picture(task.attempt_id)
        assert hashlib.sha256(png).hexdigest() == result.picture.sha256
        assert (result.picture.width_px, result.picture.height_px) == (640, 360)
        assert await here.worker.wait(task.attempt_id, 0.0) == result  # kept until it is deleted
        await here.worker.delete(task.attempt_id)
        with pytest.raises(AttemptUnknown):
            await here.worker.wait(task.attempt_id, 0.0)
        await here.worker.delete(task.attempt_id)
        assert await sample(here, 'pagegate_render_attempts_total{outcome="passed"}') == 1


async def test_a_call_without_a_good_token_is_refused_and_says_why() -> None:
    async with bench() as here:
        cases = {
            "": "RENDER_TOKEN_INVALID",
            "Bearer nonsense": "RENDER_TOKEN_INVALID",
            f"Bearer {issue_token('another', 'renderer-7')}": "RENDER_TOKEN_INVALID",
            f"Bearer {issue_token(SECRET, 'renderer-8')}": "RENDER_TOKEN_INVALID",
            f"Bearer {issue_token(SECRET, 'renderer-7', ttl_s=1, now_s=1.0)}": "RENDER_TOKEN_EXPIRED",
        }
        for header, code in cases.items():
            for method, path in (("GET", "/slot"), ("POST", "/attempts"), ("DELETE", "/attempts/x"), ("GET", "/nope")):
                answer = await here.client.request(method, path, headers={"Authorization": header})
                assert (answer.status, (await answer.json())["code"]) == (401, code)
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await here.client.get(path)).status == 200


async def test_a_second_attempt_is_refused_as_busy_and_the_first_sent_again_starts_nothing() -> None:
    async with bench() as here:
        here.gate.clear()
        first, second = here.task(), here.task()
        await here.worker.start(first)
        await here.asked.wait()
        await here.worker.start(first)
        with pytest.raises(WorkerBusy):
            await here.worker.start(second)
        assert await here.worker.wait(first.attempt_id, 0.05) is None
        assert (await here.system.view()).attempt_id == first.attempt_id
        here.gate.set()
        assert (await here.result(first)).error is None
        assert (await here.result(second)).error is None
        assert await sample(here, 'pagegate_render_attempts_total{outcome="passed"}') == 2


async def test_a_deleted_attempt_is_killed_and_the_next_one_is_fine() -> None:
    async with bench() as here:
        here.gate.clear()
        task = here.task()
        await here.worker.start(task)
        await here.asked.wait()
        waiting = asyncio.create_task(here.worker.wait(task.attempt_id, 20.0))
        await here.worker.delete(task.attempt_id)
        here.gate.set()
        assert (await here.result(here.task())).error is None
        with pytest.raises(AttemptUnknown):
            await waiting
        with pytest.raises(AttemptUnknown):
            await here.worker.wait(task.attempt_id, 0.0)
        assert await sample(here, 'pagegate_render_attempts_total{outcome="cancelled"}') == 1


async def test_a_caller_that_goes_away_stops_no_attempt() -> None:
    async with bench() as here:
        here.gate.clear()
        task = here.task()
        await here.worker.start(task)
        await here.asked.wait()
        waiting = asyncio.create_task(here.worker.wait(task.attempt_id, 20.0))
        await asyncio.sleep(0)
        waiting.cancel()
        here.gate.set()
        result = await here.result(task)
        assert result.error is None


async def test_content_and_infrastructure_are_different_fields() -> None:
    async with bench() as here:
        stuck = await here.result(here.task("loop"))
        assert stuck.error is None
        assert stuck.diagnosis is not None
        assert stuck.diagnosis.status == "failed"
        assert (stuck.picture, stuck.picture_error) == (None, "RENDER_PICTURE_NONE")
        lost = await here.result(here.task("gone"))
        assert lost.diagnosis is None
        assert lost.error is not None
        assert lost.error.code == "RENDER_OUTPUT_LOST"
        late = await here.result(here.task("loop", deadline_s=0.5))
        assert late.error is not None
        assert late.error.code == "RENDER_TIMEOUT"
        assert (await here.result(here.task())).error is None


async def test_a_screenshot_is_a_picture_without_a_verdict() -> None:
    async with bench() as here:
        result = await here.result(here.task(operation="page.screenshot"))
        assert (result.diagnosis, result.error) == (None, None)
        assert result.picture is not None
        without = await here.result(here.task(picture=False))
        assert (without.picture, without.picture_error) == (None, None)
        assert without.diagnosis is not None


async def test_bad_requests_are_told_in_one_shape() -> None:
    async with bench() as here:
        headers = {"Authorization": f"Bearer {issue_token(SECRET, 'renderer-7')}"}
        good = here.task().model_dump()
        outside = {**good, "bases": {**good["bases"], "navigation_url": "http://169.254.169.254/"}}
        cases: list[tuple[Any, int, str]] = [
            ({"json": outside}, 403, "RENDER_BASE_NOT_ALLOWED"),
            ({"json": {**good, "viewport": {"width_px": 0}}}, 422, "RENDER_REQUEST_INVALID"),
            ({"data": b"{"}, 422, "RENDER_REQUEST_INVALID"),
            ({"data": b"x" * 400_000}, 413, "HTTP_413"),
        ]
        for body, status, code in cases:
            answer = await here.client.post("/attempts", headers=headers, **body)
            problem = await answer.json()
            assert (answer.status, problem["code"]) == (status, code)
            assert set(problem) == {"code", "message", "hint"}
        answer = await here.client.get("/attempts/x?wait_s=nan", headers=headers)
        assert answer.status == 400
        assert (await here.system.view()).slot_state in ("idle", "broken")


async def test_the_spare_goes_after_a_while_without_work_and_the_next_attempt_gets_a_new_browser() -> None:
    async with bench(spare_idle_s=0.2) as here:
        async with asyncio.timeout(20.0):
            while await sample(here, "pagegate_render_spare ") == 0:
                await asyncio.sleep(0.02)
            while await sample(here, "pagegate_render_spare ") == 1:
                await asyncio.sleep(0.02)
        assert (await here.result(here.task())).error is None


async def test_a_spare_that_died_is_nobodys_failed_attempt() -> None:
    # Case 22, idle.
    async with bench() as here:
        engine = here.system._engine
        assert engine is not None
        await engine.keep_spare()
        assert engine._spare._coming is not None
        spare = (await engine._spare._coming).fresh
        spare.kill()
        while spare.alive:
            await asyncio.sleep(0.01)
        assert (await here.result(here.task())).error is None


@contextmanager
def moody_browser() -> Iterator[tuple[Path, Path]]:
    """A browser that does not start while the second path exists."""
    with tempfile.TemporaryDirectory() as name:
        folder, broken = Path(name), Path(name, "broken")
        folder.chmod(0o755)
        browser = folder / "chromium"
        browser.write_text(f'#!/bin/sh\n[ -e {broken} ] && exit 1\nexec {isolation.find_chromium()} "$@"\n')
        browser.chmod(0o755)
        yield browser, broken


async def test_a_renderer_without_a_browser_says_so_and_recovers_by_itself() -> None:
    with moody_browser() as (browser, broken):
        async with bench(chromium_path=browser) as here:
            assert (await here.result(here.task())).error is None
            await asyncio.to_thread(broken.touch)
            async with asyncio.timeout(30.0):
                while (await here.client.get("/readyz")).status == 200:
                    await here.system.render(here.task(), MemoryOrigin({}))
            with pytest.raises(WorkerUnavailable, match="RENDER_SERVICE_UNAVAILABLE"):
                await here.worker.start(here.task())
            await asyncio.to_thread(broken.unlink)
            async with asyncio.timeout(60.0):
                while (await here.client.get("/readyz")).status != 200:
                    await asyncio.sleep(0.05)
            assert (await here.result(here.task())).error is None


async def test_a_swollen_driver_is_replaced_between_attempts() -> None:
    async with bench(driver_memory_max_mb=1) as here:
        drivers = set()
        for _ in range(3):
            assert (await here.result(here.task())).error is None
            drivers.update(child.pid for child in psutil.Process().children() if "run-driver" in child.cmdline())
        assert len(drivers) >= 2


async def test_a_worker_that_is_not_there_is_infrastructure() -> None:
    async with bench() as here, ClientSession() as session:
        nowhere = RenderWorker(session, "renderer-7", "http://127.0.0.1:9/", SECRET)
        with pytest.raises(WorkerUnavailable, match="RENDER_SERVICE_UNAVAILABLE"):
            await nowhere.start(here.task())


async def test_a_door_without_a_credential_does_not_open() -> None:
    with pytest.raises(ValueError, match="RENDER_SERVICE_CREDENTIAL"):
        renderer_app(RendererSystem(RendererOptions()))
