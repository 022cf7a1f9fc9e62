"""Nothing gets out of the page but to its own origin, in the best isolation and in the fallback alike (X1, case 32)."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from pagegate.renderer import isolation
from pagegate.renderer.browser import BrowserHouse
from pagegate.renderer.contract import PageBases
from pagegate.renderer.egress import HttpOrigin, OriginResponse
from pagegate.renderer.options import BrowserOptions
from tests.browser.looking import Looker, outcomes, page

LADDER = isolation.modes(os.geteuid() == 0)


@pytest.fixture(params=["netns", "proxy"])
async def walled(request: pytest.FixtureRequest, chromium: Path, work_folder: Path) -> AsyncIterator[Looker]:
    """The best mode of this host with the kernel's wall, and the best without it."""
    rungs = [mode for mode in LADDER if mode.name.startswith(request.param)]
    for mode in rungs:
        try:
            await isolation.probe(chromium, mode.name)
        except isolation.NoBrowser:
            continue
        break
    else:
        pytest.skip(f"no {request.param} mode on this host")
    house = BrowserHouse(BrowserOptions(work_folder=work_folder), chromium, mode)
    await house.open()
    yield Looker(house)
    await house.close()


@asynccontextmanager
async def canary() -> AsyncIterator[tuple[int, list[str]]]:
    """A port of this host that writes down whoever comes."""
    visits: list[str] = []

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append((await reader.readline()).decode(errors="replace"))
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], visits


VECTORS = """<body>
<img src="http://127.0.0.1:PORT/img"><img src="http://169.254.169.254/latest"><img src="FILE:///etc/passwd">
<img src="http://[::ffff:169.254.169.254]/mapped"><img src="http://2130706433:PORT/decimal">
<iframe src="http://127.0.0.1:PORT/frame"></iframe><iframe src="file:///etc/passwd"></iframe>
<iframe srcdoc="<img src='http://127.0.0.1:PORT/srcdoc'>"></iframe>
<link rel=stylesheet href="http://127.0.0.1:PORT/css"><link rel=preconnect href="http://127.0.0.1:PORT/">
<link rel=dns-prefetch href="http://localhost:PORT/"><link rel=prefetch href="http://127.0.0.1:PORT/prefetch">
<script src="http://127.0.0.1:PORT/script"></script><video src="http://127.0.0.1:PORT/video" autoplay></video>
<object data="http://127.0.0.1:PORT/object"></object><embed src="http://127.0.0.1:PORT/embed">
<style>@import "http://127.0.0.1:PORT/import"; p{background:url(http://127.0.0.1:PORT/background)}
@font-face{font-family:F;src:url(http://127.0.0.1:PORT/font)} p{font-family:F}</style><p>text</p>
<form id=f action="http://127.0.0.1:PORT/form" method=post target=_blank></form>
<a id=a href="https://example.com/" ping="http://127.0.0.1:PORT/ping">x</a>
<script>
const u = 'http://127.0.0.1:PORT/', quiet = () => {};
fetch(u + 'fetch').catch(quiet); fetch(u + 'post', {method: 'POST', body: 'x', mode: 'no-cors'}).catch(quiet);
fetch('/own', {method: 'POST'}).catch(quiet); fetch('/redirect').catch(quiet);
fetch('http://localhost:PORT/name').catch(quiet); fetch('https://example.com/data').catch(quiet);
const x = new XMLHttpRequest(); x.open('GET', u + 'xhr'); x.send();
navigator.sendBeacon(u + 'beacon'); addEventListener('pagehide', () => navigator.sendBeacon(u + 'bye'));
const attempt = (f) => { try { f() } catch {} };
attempt(() => new WebSocket('ws://127.0.0.1:PORT/ws')); attempt(() => new EventSource(u + 'events'));
attempt(() => new Worker(URL.createObjectURL(new Blob([`fetch('${u}worker')`]))));
attempt(() => new SharedWorker('/shared.js'));
attempt(() => navigator.serviceWorker.register('/sw.js').catch(quiet));
attempt(() => new WebTransport('https://127.0.0.1:PORT/wt').closed.catch(quiet));
attempt(() => new AudioContext().audioWorklet.addModule(u + 'worklet').catch(quiet));
attempt(() => CSS.paintWorklet && CSS.paintWorklet.addModule(u + 'paint').catch(quiet));
attempt(() => import(u + 'module').catch(quiet));
attempt(() => {
  const turn = {urls: 'turn:127.0.0.1:PORT?transport=tcp', username: 'u', credential: 'c'};
  const rtc = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:PORT'}, turn]});
  rtc.createDataChannel('x'); rtc.createOffer().then((offer) => rtc.setLocalDescription(offer));
});
f.submit(); a.click();
setTimeout(() => location.href = u + 'leave', 1000);
</script>"""


async def test_no_vector_reaches_the_host_and_each_is_reported(walled: Looker) -> None:
    async with canary() as (port, visits):
        redirect = OriginResponse(302, "text/plain", b"")
        html = page(VECTORS.replace("PORT", str(port)))
        observation = await walled.look(html, {"/redirect": redirect})
        assert visits == []
    assert observation.mounted
    found = outcomes(observation)
    here = f"http://127.0.0.1:{port}/"
    for name in (
        "img",
        "frame",
        "css",
        "script",
        "video",
        "fetch",
        "xhr",
        "beacon",
        "events",
        "font",
        "import",
        "leave",
    ):
        assert found[here + name] == "blocked other-origin", name
    assert found["http://169.254.169.254/latest"] == "blocked other-origin"
    assert found["http://[::ffff:a9fe:a9fe]/mapped"] == "blocked other-origin"
    assert found["https://example.com/data"] == "blocked other-origin"
    assert found["file:///etc/passwd"] == "blocked local-file"
    assert found[f"ws://127.0.0.1:{port}/ws"] == "blocked websocket"
    assert found["/own"] == "blocked method"
    assert found["/redirect"] == "failed 302"
    assert found["blob"] == found["/sw.js"] == "blocked worker"


class Service:
    """A Runtime and Backend in one, with what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.html = page("<body><img src=/assets/a.svg><img src=/assets/big.bin><img src=/assets/moved.svg>")
        self.lost: set[str] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, request.headers.get("Authorization")))
        if request.path in self.lost:
            raise web.HTTPNotFound
        if request.path == "/outputs/o1/index.html":
            return web.Response(text=self.html, content_type="text/html")
        if request.path.endswith("moved.svg"):
            raise web.HTTPFound("/assets-of/a.svg")
        if request.path.endswith("big.bin"):
            return web.Response(body=b"x" * 5000)
        if request.path.endswith(".svg"):
            return web.Response(body=b"<svg xmlns='http://www.w3.org/2000/svg'/>", content_type="image/svg+xml")
        raise web.HTTPNotFound


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[HttpOrigin]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", service.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    base = f"http://{host}:{port}"
    bases = PageBases(
        navigation_url=f"{base}/outputs/o1/",
        vendor_url=f"{base}/vendor/",
        assets_url=f"{base}/assets-of/",
        ticket="t1cket",
    )
    async with ClientSession() as session:
        yield HttpOrigin(session, bases, timeout_s=5.0, body_bytes_max=4000)
    await runner.cleanup()


async def test_the_ticket_goes_to_the_assets_alone_and_redirects_and_large_answers_do_not_pass(looker: Looker) -> None:
    service = Service()
    async with serving(service) as origin:
        observation = await looker.look(origin)
    assert outcomes(observation) == {
        "/": "ok",
        "/assets/a.svg": "ok",
        "/assets/big.bin": "blocked too-large",
        "/assets/moved.svg": "failed 302",
    }
    assert dict(service.asked) == {
        "/outputs/o1/index.html": None,
        "/outputs/o1/page.js.map": None,
        "/assets-of/a.svg": "Bearer t1cket",
        "/assets-of/big.bin": "Bearer t1cket",
        "/assets-of/moved.svg": "Bearer t1cket",
    }
    assert "t1cket" not in str(observation)


async def test_a_lost_output_and_a_dead_service_are_infrastructure(looker: Looker) -> None:
    service = Service()
    async with serving(service) as origin:
        service.lost = {"/outputs/o1/index.html"}
        seen = await looker.attempt(origin)
        assert seen.error is not None
        assert seen.error.code == "RENDER_OUTPUT_LOST"
        service.lost, service.html = {"/vendor/vue.js"}, page("<body><script type=module src=/vendor/vue.js></script>")
        seen = await looker.attempt(origin)
        assert seen.error is not None
        assert seen.error.code == "RENDER_OUTPUT_LOST"
    seen = await looker.attempt(origin)
    assert seen.error is not None
    assert seen.error.code == "RENDER_ORIGIN_UNREACHABLE"
    assert seen.observation is None
