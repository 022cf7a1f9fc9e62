"""The Runtime's door, with a Backend of the test behind it (V5, V7, V8, P1, X1)."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from pagegate.actors.systems.runtime import LaneSize, RuntimeOptions, RuntimeSystem
from pagegate.http.runtime import may_fetch_from, runtime_app
from pagegate.runtime.client import RuntimeUnavailable, compile_page, delete_output, run_light
from pagegate.runtime.contract import ArtifactManifest, Canvas, CompileRequest, EntryPage, LightRequest, ModulesAnswer

from .conftest import vue

pytestmark = pytest.mark.asyncio(loop_scope="module")

BASE = "/internal/runtime/preview-artifacts/rt_1"
TICKET = "a-ticket"


@dataclass
class FakeBackend:
    """What a Backend answers, and what it was asked. `mode` makes it old, slow or broken."""

    modules: dict[str, str] = field(default_factory=lambda: {"pages/page.vue": vue()})
    mode: str = "batch"
    asked: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_get(f"{BASE}/manifest", self.manifest)
        app.router.add_post(f"{BASE}/modules/batch", self.batch)
        app.router.add_get(f"{BASE}/modules", self.module)
        return app

    async def manifest(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers.get("Authorization", ""))
        if self.mode == "gone":
            return web.json_response({"code": "PREVIEW_ARTIFACT_UNAVAILABLE"}, status=404)
        if self.mode == "redirect":
            raise web.HTTPFound("http://169.254.169.254/latest/meta-data")
        if self.mode == "nonsense":
            return web.Response(text="<html>")
        if self.mode == "held":
            self.waiting.set()
            await self.held.wait()
        manifest = ArtifactManifest(
            artifact_id="rt_1",
            entry="pages/page.vue",
            framework="vue",
            modules=list(self.modules),
            known_modules=["components/StatTile.vue"],
            known_assets=["logo.svg"],
            entry_page=EntryPage(code="page", title="A page"),
            canvas=Canvas(width_px=1280, height_px=720),
        )
        return web.json_response(text=manifest.model_dump_json())

    async def batch(self, request: web.Request) -> web.Response:
        paths = (await request.json())["paths"]
        self.batches.append(len(paths))
        if self.mode in {"404", "405"}:
            return web.Response(status=int(self.mode))
        if self.mode == "500":
            return web.Response(status=500)
        found = {path: self.modules[path] for path in paths if path in self.modules and self.mode != "empty"}
        return web.json_response(text=ModulesAnswer(modules=found).model_dump_json())

    async def module(self, request: web.Request) -> web.Response:
        path = request.query["path"]
        self.asked.append(path)
        return web.Response(text=self.modules[path]) if path in self.modules else web.Response(status=404)


@dataclass
class Door:
    url: str
    session: aiohttp.ClientSession
    system: RuntimeSystem
    backend_url: str
    backend: FakeBackend

    def request(self, task_id: str = "t1", **changes: object) -> CompileRequest:
        given = {"task_id": task_id, "artifact_id": "rt_1", "backend_url": self.backend_url, "ticket": TICKET}
        return CompileRequest.model_validate({**given, **changes})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[RuntimeSystem, TestServer, TestServer]]:
    routed = FakeBackend()

    async def forward(request: web.Request) -> web.StreamResponse:
        handlers = {"manifest": current[0].manifest, "batch": current[0].batch, "modules": current[0].module}
        return await handlers[request.path.rsplit("/", 1)[-1]](request)

    current = [routed]
    app = web.Application()
    app.router.add_route("*", BASE + "/{path:.*}", forward)
    backend = TestServer(app)
    await backend.start_server()
    options = RuntimeOptions(
        backend_base_urls=(str(backend.make_url("/")),),
        work_dir=tmp_path_factory.mktemp("runtime"),
        check=LaneSize(queue_size_max=1),
        light_file_bytes_max=5_000_000,
    )
    async with RuntimeSystem(options) as system:
        server = TestServer(runtime_app(system))
        await server.start_server()
        system.public_base_url = str(server.make_url("/")).rstrip("/")
        server.current_backend = current  # type: ignore[attr-defined]  # the test's own handle
        await system.ready.wait()
        yield system, server, backend
        await server.close()
    await backend.close()


@pytest_asyncio.fixture(loop_scope="module")
async def door(running: tuple[RuntimeSystem, TestServer, TestServer]) -> AsyncIterator[Door]:
    system, server, backend_server = running
    backend = FakeBackend()
    server.current_backend[0] = backend  # type: ignore[attr-defined]
    async with aiohttp.ClientSession() as session:
        yield Door(str(server.make_url("/")), session, system, str(backend_server.make_url("/")), backend)


async def read(door: Door, url: str) -> tuple[int, str, str]:
    async with door.session.get(url) as response:
        return response.status, response.content_type, await response.text()


def sample(door: Door, name: str, lane: str) -> float | None:
    return door.system.registry.get_sample_value(name, {"lane": lane, "class": "interactive"})


async def test_compiled_page_can_be_read_until_it_is_deleted(door: Door) -> None:
    result = await compile_page(door.session, door.url, door.request(), timeout_s=60)
    assert result.ok
    assert result.output is not None
    assert door.backend.asked == [f"Bearer {TICKET}"]
    folder = result.output.navigation_url
    assert folder.startswith(door.url)
    for name, kind in {
        "": "text/html",
        "index.html": "text/html",
        "page.js": "text/javascript",
        "page.css": "text/css",
        "page.js.map": "application/json",
    }.items():
        status, content_type, text = await read(door, folder + name)
        assert (status, content_type, bool(text)) == (200, kind, True)
    assert (await read(door, result.output.vendor_url + "vue.js"))[:2] == (200, "text/javascript")
    assert (await read(door, folder + "../../vendor/manifest.json"))[0] == 404
    await delete_output(door.session, door.url, result.output.output_id)
    status, _, text = await read(door, folder)
    assert status == 404
    assert "RUNTIME_OUTPUT_UNAVAILABLE" in text


async def test_refused_source_is_an_answer_and_no_error(door: Door) -> None:
    door.backend.modules = {"pages/page.vue": "<template><p></template>"}
    result = await compile_page(door.session, door.url, door.request(), timeout_s=60)
    assert (result.ok, result.errors[0].code) == (False, "PAGE_TEMPLATE_SYNTAX")


async def test_what_exists_and_was_not_sent_is_named_in_hints(door: Door) -> None:
    """V6, V8: a minimal snapshot holds only what the page names, and a misspelt name is no name of anything."""
    door.backend.modules = {
        "pages/page.vue": vue("import A from '@components/StatTiles.vue'\nimport l from '@assets/lago.svg'")
    }
    result = await compile_page(door.session, door.url, door.request(), timeout_s=60)
    assert "@components/StatTile.vue" in result.errors[0].hint
    assert "@assets/logo.svg" in result.errors[1].hint


async def test_modules_are_read_in_batches_of_at_most_128(door: Door) -> None:
    """V7."""
    door.backend.modules |= {f"components/C{n}.vue": vue() for n in range(300)}
    assert (await compile_page(door.session, door.url, door.request(), timeout_s=60)).ok
    assert door.backend.batches == [128, 128, 45]


@pytest.mark.parametrize("mode", ["404", "405"])
async def test_older_backend_is_read_one_module_at_a_time(door: Door, mode: str) -> None:
    """V7."""
    door.backend.mode = mode
    door.backend.modules["components/图表 & 50%?.vue"] = vue()
    assert (await compile_page(door.session, door.url, door.request(), timeout_s=60)).ok
    assert door.backend.asked[1:] == ["pages/page.vue", "components/图表 & 50%?.vue"]


@pytest.mark.parametrize("mode", ["gone", "redirect", "nonsense", "500", "empty"])
async def test_backend_that_does_not_give_the_source_is_infrastructure(door: Door, mode: str) -> None:
    door.backend.mode = mode
    with pytest.raises(RuntimeUnavailable) as refused:
        await compile_page(door.session, door.url, door.request(), timeout_s=60)
    assert (refused.value.code, refused.value.full) == ("RUNTIME_SOURCE_UNAVAILABLE", False)


async def test_no_other_address_than_the_known_backends_is_fetched(door: Door) -> None:
    for url in ("http://169.254.169.254/", "http://127.0.0.1:1/", "file:///etc/passwd", door.backend_url + "@evil"):
        with pytest.raises(RuntimeUnavailable) as refused:
            await compile_page(door.session, door.url, door.request(backend_url=url), timeout_s=60)
        assert refused.value.code == "RUNTIME_BACKEND_NOT_ALLOWED"
    assert door.backend.asked == []


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://backend:8080", True),
        ("http://backend:8080/", True),
        ("http://BACKEND:8080", True),
        ("http://backend:8081", False),
        ("https://backend:8080", False),
        ("http://backend:8080/other", False),
        ("http://backend:8080@evil", False),
        ("http://user@backend:8080", False),
        ("http://backend:8080?x", False),
        ("http://backend:99999", False),
        ("http://backend", False),
        ("", False),
    ],
)
async def test_backend_is_known_by_scheme_host_port_and_path(url: str, allowed: bool) -> None:
    assert may_fetch_from(url, ("http://backend:8080", "nonsense")) is allowed


async def test_full_queue_answers_429(door: Door) -> None:
    door.backend.mode = "held"
    first = asyncio.create_task(compile_page(door.session, door.url, door.request("t1"), timeout_s=60))
    await door.backend.waiting.wait()
    second = asyncio.create_task(compile_page(door.session, door.url, door.request("t2"), timeout_s=60))
    while sample(door, "pagegate_vite_queue_depth", "check") != 1:
        await asyncio.sleep(0.01)
    with pytest.raises(RuntimeUnavailable) as refused:
        await compile_page(door.session, door.url, door.request("t3"), timeout_s=60)
    assert (refused.value.code, refused.value.full) == ("RUNTIME_VITE_QUEUE_FULL", True)
    door.backend.held.set()
    assert (await first).ok
    assert (await second).ok


async def test_caller_that_goes_away_cancels_its_compile(door: Door) -> None:
    """V5: one cancel signal covers the fetch too."""
    door.backend.mode = "held"
    first = asyncio.create_task(compile_page(door.session, door.url, door.request("t1"), timeout_s=60))
    await door.backend.waiting.wait()
    first.cancel()
    while sample(door, "pagegate_vite_running", "check") != 0:
        await asyncio.sleep(0.01)
    door.backend.mode = "batch"
    assert (await compile_page(door.session, door.url, door.request("t2"), timeout_s=60)).ok


async def test_light_tool_is_asked_over_the_wire_with_and_without_a_file(door: Door) -> None:
    """V9. The answer comes from the worker; the file arrives in pieces, and is all there before the tool starts."""

    async def drawing() -> AsyncIterator[bytes]:
        yield b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 30 20'><!--"
        for _ in range(40):
            yield b"." * 100_000
        yield b"--></svg>"

    request = LightRequest(task_id="l1", input={"media_type": "image/svg+xml"})
    without = await run_light(door.session, door.url, "asset-ratio", request, None, timeout_s=60)
    assert (without.ok, [error.code for error in without.errors]) == (False, ["ASSET_UNREADABLE"])
    measured = await run_light(door.session, door.url, "asset-ratio", request, drawing(), timeout_s=60)
    assert (measured.ok, measured.errors, measured.result["ratio"]) == (True, [], 1.5)

    source = "<template>\n<h1>季度</h1>\n</template>\n"
    asked = LightRequest(task_id="l2", input={"action": "list", "path": "pages/p.vue", "source": source})
    listed = await run_light(door.session, door.url, "visual-edit", asked, None, timeout_s=60)
    assert listed.ok, listed.errors
    assert "季度" in json.dumps(listed.result, ensure_ascii=False)


async def test_light_request_without_its_file_or_with_too_much_of_it_is_refused(door: Door) -> None:
    parts = aiohttp.MultipartWriter("form-data")
    parts.append_json({"task_id": "l1"}).set_content_disposition("form-data", name="request")
    async with door.session.post(door.url + "light/asset-ratio", data=parts) as response:
        assert (await response.json())["code"] == "RUNTIME_SOURCE_UNAVAILABLE"

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield bytes(1_000_000)

    with pytest.raises(RuntimeUnavailable) as refused:
        await run_light(door.session, door.url, "asset-ratio", LightRequest(task_id="l2"), chunks(), timeout_s=60)
    assert refused.value.code == "RUNTIME_FILE_TOO_LARGE"


async def test_caller_that_goes_away_in_the_middle_of_its_file_cancels_the_light_tool(door: Door) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield bytes(100_000)
        begun.set()
        await never.wait()

    request = LightRequest(task_id="l1")
    asking = asyncio.create_task(run_light(door.session, door.url, "asset-ratio", request, stalled(), timeout_s=60))
    await begun.wait()
    while sample(door, "pagegate_vite_running", "light") != 1:
        await asyncio.sleep(0.01)
    asking.cancel()
    while sample(door, "pagegate_vite_running", "light") != 0:
        await asyncio.sleep(0.01)
    assert (await run_light(door.session, door.url, "asset-ratio", request, timeout_s=60)).timings.compile_ms > 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "compiles", "{", 422, "RUNTIME_REQUEST_INVALID"),
        ("POST", "compiles", "{}", 422, "RUNTIME_REQUEST_INVALID"),
        ("POST", "compiles", "x" * 100_000, 413, "HTTP_413"),
        ("POST", "light/unknown", "{}", 404, "RUNTIME_LIGHT_TOOL_UNKNOWN"),
        ("POST", "light/asset-ratio", "{}", 422, "RUNTIME_REQUEST_INVALID"),
        ("POST", "light/asset-ratio", "x" * 9_000_000, 413, "HTTP_413"),
        ("GET", "outputs/unknown/index.html", None, 404, "RUNTIME_OUTPUT_UNAVAILABLE"),
        ("GET", "vendor/manifest.json", None, 404, "RUNTIME_FILE_UNKNOWN"),
        ("GET", "vendor/..%2f..%2fpackage.json", None, 404, "RUNTIME_FILE_UNKNOWN"),
        ("GET", "vendor/unknown.js", None, 404, "RUNTIME_FILE_UNKNOWN"),
        ("GET", "unknown", None, 404, "HTTP_404"),
        ("PUT", "compiles", None, 405, "HTTP_405"),
    ],
)
async def test_every_refusal_has_the_one_shape(
    door: Door, method: str, path: str, body: str | None, status: int, code: str
) -> None:
    data = None if body is None else io.BytesIO(body.encode())
    async with door.session.request(method, door.url + path, data=data) as response:
        assert response.status == status
        refusal = await response.json()
    assert refusal["code"] == code
    assert set(refusal) == {"code", "message", "hint"}


async def test_health_and_numbers_can_be_read(door: Door) -> None:
    assert (await read(door, door.url + "healthz"))[0] == 200
    assert (await read(door, door.url + "readyz"))[0] == 200
    await compile_page(door.session, door.url, door.request(), timeout_s=60)
    status, _, text = await read(door, door.url + "metrics")
    assert status == 200
    assert 'pagegate_vite_tasks_total{class="interactive",lane="check",outcome="compiled"}' in text
    assert 'pagegate_vite_run_seconds_count{class="interactive",lane="check"}' in text
    assert "pagegate_runtime_output_bytes " in text


async def test_runtime_is_not_ready_before_its_first_warm_worker(tmp_path: Path) -> None:
    system = RuntimeSystem(RuntimeOptions(work_dir=tmp_path))
    server = TestServer(runtime_app(system))
    await server.start_server()
    try:
        async with aiohttp.ClientSession() as session, session.get(server.make_url("/readyz")) as response:
            assert response.status == 503
            assert (await response.json())["code"] == "RUNTIME_NOT_READY"
    finally:
        await server.close()
