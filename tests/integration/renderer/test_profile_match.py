"""A worker that draws by another profile than `RENDER_PROFILE_DIGEST` says is not used (R6)."""

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from pagegate.renderer.client import RenderWorker, WorkerUnavailable
from pagegate.renderer.contract import PageBases, RenderTask, SlotView, Viewport

SECRET = "0123456789abcdef0123456789abcdef"
TASK = RenderTask(
    attempt_id="a",
    request_id="r",
    bases=PageBases(navigation_url="http://x/", vendor_url="http://x/", assets_url="http://x/"),
    viewport=Viewport(width_px=640, height_px=360),
)


@pytest.mark.parametrize(("wanted", "used"), [("", True), ("sha256:of-this-worker", True), ("sha256:another", False)])
async def test_only_a_worker_of_the_wanted_profile_gets_an_attempt(wanted: str, used: bool) -> None:
    started: list[str] = []

    async def slot(_: web.Request) -> web.Response:
        view = SlotView(worker_id="renderer-7", slot_state="idle", profile_digest="sha256:of-this-worker")
        return web.Response(text=view.model_dump_json(), content_type="application/json")

    async def start(request: web.Request) -> web.Response:
        started.append((await request.json())["attempt_id"])
        return web.Response(status=202)

    app = web.Application()
    app.add_routes([web.get("/slot", slot), web.post("/attempts", start)])
    server = TestServer(app)
    await server.start_server()
    async with ClientSession() as session:
        worker = RenderWorker(session, "renderer-7", str(server.make_url("/")), SECRET, profile_digest=wanted)
        if used:
            await worker.start(TASK)
        else:
            with pytest.raises(WorkerUnavailable) as caught:
                await worker.start(TASK)
            assert caught.value.code == "RENDER_PROFILE_MISMATCH"
    await server.close()
    assert started == (["a"] if used else [])
