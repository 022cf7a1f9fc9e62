"""A real coordinator against a real Renderer's door, with a wire between that loses, repeats and delays (R2, R5, R6).

Each leg of the protocol meets each mishap. Afterwards the job has its result, the slot is free, no attempt is left, and
no more attempts were made than were needed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from pagegate.actors.kernel import ask, stop
from pagegate.actors.rendering.coordinator import (
    AwaitRender,
    CancelRender,
    RenderCoordinator,
    RenderLimits,
    RenderWanted,
)
from pagegate.actors.rendering.drive import Drive
from pagegate.actors.systems.renderer import RendererOptions, RendererSystem
from pagegate.http.renderer import renderer_app
from pagegate.renderer.client import RenderWorker
from pagegate.renderer.contract import PageBases, Viewport
from pagegate.renderer.options import BrowserOptions
from pagegate.storage import renders
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects
from tests.world import World

SECRET = "a-credential-of-thirty-two-chars!"
PAGE = (
    "<!doctype html><html><script>document.documentElement.dataset.pagegateMounted='1'</script>"
    "<body style='margin:0;font:40px sans-serif'><h1>Good morning</h1>"
)

Leg = Literal["start", "wait", "picture", "delete"]
Mishap = Literal["lost", "answer lost", "repeated", "late"]
LEGS: tuple[Leg, ...] = ("start", "wait", "picture", "delete")
MISHAPS: tuple[Mishap, ...] = ("lost", "answer lost", "repeated", "late")
CALL_TIMEOUT_S = 1.0


def leg_of(request: web.Request) -> Leg | None:
    if request.path.endswith("/picture"):
        return "picture"
    if not request.path.startswith("/attempts"):
        return None
    return {"POST": "start", "GET": "wait", "DELETE": "delete"}[request.method]  # type: ignore[return-value]  # legs


@dataclass
class Wire:
    """A proxy in front of a Renderer. `mishaps`: what happens to the next calls of a leg, one each."""

    behind: str
    mishaps: dict[Leg, list[Mishap]] = field(default_factory=dict)
    heard: list[tuple[Leg | None, int]] = field(default_factory=list)  # what the Renderer was asked and answered
    down: bool = False
    late: set["asyncio.Task[Any]"] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.down:
            return await _hang_up(request)
        leg = leg_of(request)
        queue = self.mishaps.get(leg, []) if leg is not None else []
        mishap = queue.pop(0) if queue else None
        if mishap == "lost":
            return await _hang_up(request)
        if mishap == "late":  # it arrives when the caller has long given up
            task = asyncio.create_task(self._later(request, body))
            self.late.add(task)
            await asyncio.sleep(CALL_TIMEOUT_S + 30.0)
            return await _hang_up(request)
        status, answer, kind = await self._pass(request, body)
        if mishap == "repeated":
            status, answer, kind = await self._pass(request, body)
        if mishap == "answer lost":
            return await _hang_up(request)
        return web.Response(status=status, body=answer, content_type=kind)

    async def _later(self, request: web.Request, body: bytes) -> None:
        await asyncio.sleep(CALL_TIMEOUT_S * 3)
        await self._pass(request, body)

    async def _pass(self, request: web.Request, body: bytes) -> tuple[int, bytes, str]:
        url = self.behind.rstrip("/") + request.path_qs
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        async with (
            ClientSession() as session,
            session.request(request.method, url, data=body, headers=headers) as answer,
        ):
            content = await answer.read()
            self.heard.append((leg_of(request), answer.status))
            return answer.status, content, answer.content_type


async def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


@dataclass
class Bench:
    """One real Renderer behind one or two wires, a coordinator, and a database with a job that wants renders."""

    world: World
    system: RendererSystem
    wires: list[Wire]
    coordinator: Any
    objects: Objects
    runtime_url: str

    async def want(self, **options: Any) -> int:
        job = await self.world.claimed()
        url = f"{self.runtime_url}page/"
        bases = PageBases(navigation_url=url, vendor_url=self.runtime_url, assets_url=self.runtime_url)
        viewport = Viewport(width_px=640, height_px=360)
        payload = {"bases": bases.model_dump(), "viewport": viewport.model_dump(), "picture": True}
        what = {"klass": "interactive", "operation": "page.diagnose", "payload": payload} | options
        request_id = await self.world.enqueue(job, **what)
        self.coordinator.tell(RenderWanted())
        return request_id

    async def rendered(self, request_id: int) -> Any:
        return await ask(self.coordinator, AwaitRender(request_id), timeout_s=60.0)

    async def at_rest(self) -> None:
        """The slot is idle and holds nothing, once what comes late has come."""
        await asyncio.gather(*(task for wire in self.wires for task in wire.late))
        async with asyncio.timeout(30.0):
            while (view := await self.system.view()).slot_state != "idle" or view.attempt_id is not None:
                await asyncio.sleep(0.02)
        async with self.world.db.read() as tx:
            assert await renders.list_unreleased(tx) == []


@asynccontextmanager
async def bench(sqlite_url: str, tmp_path: Path, *, ids: tuple[str, ...] = ("renderer-7",)) -> AsyncIterator[Bench]:
    async def page(request: web.Request) -> web.Response:
        if not request.path.endswith("/index.html"):
            raise web.HTTPNotFound
        return web.Response(text=PAGE, content_type="text/html")

    runtime_app = web.Application()
    runtime_app.router.add_get("/{page}/{file:.*}", page)
    runtime = TestServer(runtime_app)
    await runtime.start_server()
    runtime_url = str(runtime.make_url("/"))
    options = RendererOptions(
        worker_id="renderer-7",
        credential=SECRET,
        navigation_base_urls=(runtime_url,),
        platform_asset_base_urls=(runtime_url,),
        browser=BrowserOptions(),
    )
    db = await Database.open(sqlite_url)
    world = World(db)
    await world.settle_in()
    servers: list[TestServer] = [runtime]
    async with RendererSystem(options) as system, ClientSession() as session:
        door = TestServer(renderer_app(system))
        await door.start_server()
        servers.append(door)
        wires, workers = [], []
        for worker_id in ids:
            wire = Wire(str(door.make_url("/")))
            app = web.Application()
            app.router.add_route("*", "/{any:.*}", wire.answer)
            proxy = TestServer(app)
            await proxy.start_server()
            servers.append(proxy)
            wires.append(wire)
            worker = RenderWorker(
                session, "renderer-7", str(proxy.make_url("/")), SECRET, call_timeout_s=CALL_TIMEOUT_S
            )
            workers.append(_named(worker, worker_id))
        objects = Objects.local(tmp_path / "objects")
        limits = RenderLimits(global_max=2, workspace_max=2, attempts_max=3, lease_s=20.0)
        coordinator = RenderCoordinator.start(db, "host:1:owner", workers, Drive(db, objects, 20.0), limits, tick_s=0.2)
        try:
            yield Bench(world, system, wires, coordinator, objects, runtime_url)
        finally:
            await stop(coordinator)
            for server in reversed(servers):
                await server.close()
            await db.close()


def _named(worker: RenderWorker, worker_id: str) -> RenderWorker:
    """Two ways to one Renderer are two workers to the coordinator; the Renderer itself knows one name."""
    if worker_id == worker.worker_id:
        return worker

    class Named(RenderWorker):
        pass

    named = Named(worker._session, worker_id, worker._base, SECRET, call_timeout_s=CALL_TIMEOUT_S)
    named._call = worker._call  # type: ignore[method-assign]  # its calls carry the Renderer's own name
    return named


async def test_each_leg_survives_each_mishap(sqlite_url: str, tmp_path: Path) -> None:
    async with bench(sqlite_url, tmp_path) as here:
        (wire,) = here.wires
        for leg in LEGS:
            for mishap in MISHAPS:
                wire.mishaps, wire.heard = {leg: [mishap]}, []
                ended = await here.rendered(await here.want())
                told = f"{leg} {mishap}: {ended.error} {wire.heard}"
                assert (ended.status, ended.attempt) == ("succeeded", 1), told
                assert ended.result["diagnosis"]["status"] == "passed", told
                assert len(await here.objects.get(ended.picture_key)) == ended.result["picture"]["size_bytes"], told
                assert wire.mishaps == {leg: []}, told
        await here.at_rest()
        started = await ask_slot(here)
        assert started == len(LEGS) * len(MISHAPS), "a mishap made no attempt that nobody needed"


async def ask_slot(here: Bench) -> float:
    """How many attempts the Renderer has carried out."""
    counted = here.system.registry.get_sample_value("pagegate_render_attempts_total", {"outcome": "passed"})
    return counted or 0.0


async def test_a_start_that_comes_after_its_attempt_was_given_up_starts_nothing(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with bench(sqlite_url, tmp_path) as here:
        (wire,) = here.wires
        wire.mishaps = {"start": ["late", "lost", "lost"]}
        request_id = await here.want()
        ended = await here.rendered(request_id)
        assert (ended.status, ended.attempt) == ("succeeded", 2)
        await here.at_rest()
        assert ("start", 410) in wire.heard, "the late start was refused"
        assert await ask_slot(here) == 1


async def test_a_result_that_comes_after_a_cancel_changes_nothing_and_the_slot_is_free(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with bench(sqlite_url, tmp_path) as here:
        (wire,) = here.wires
        wire.mishaps = {"wait": ["late"]}
        request_id = await here.want()
        async with asyncio.timeout(20.0):
            while not wire.late:
                await asyncio.sleep(0.01)
        async with here.world.db.write() as tx:
            await renders.cancel_request(tx, request_id)
        here.coordinator.tell(CancelRender(request_id))
        ended = await here.rendered(request_id)
        assert (ended.status, ended.result) == ("cancelled", None)
        assert (await here.rendered(await here.want())).status == "succeeded"
        await here.at_rest()


async def test_a_worker_that_is_down_is_skipped_and_comes_back_by_itself(sqlite_url: str, tmp_path: Path) -> None:
    async with bench(sqlite_url, tmp_path, ids=("renderer-7", "renderer-8")) as here:
        first, second = here.wires
        first.down = True
        attempts = [(await here.rendered(await here.want())).attempt for _ in range(3)]
        assert attempts == [2, 1, 1], "one attempt found out that it is down, and no other was spent on it"
        assert first.heard == []
        assert [status for leg, status in second.heard if leg == "start"] == [202, 202, 202]
        first.down = False
        async with asyncio.timeout(30.0):
            while not any(leg == "start" for leg, _ in first.heard):
                assert (await here.rendered(await here.want())).status == "succeeded"
        await here.at_rest()
