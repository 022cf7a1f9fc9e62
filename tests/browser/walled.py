"""What a page must not do to the host it runs on, tried in one isolation mode: egress with canaries, and hostile pages.

`await tried(mode_name)` in this process, or `python -m tests.browser.walled MODE` in one of another user, which prints
the same as JSON.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pagegate.renderer import isolation
from pagegate.renderer.browser import BrowserHouse
from pagegate.renderer.egress import OriginResponse
from pagegate.renderer.options import BrowserOptions
from tests.browser.looking import Looker, outcomes, page

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
<meta http-equiv=refresh content="2;url=http://127.0.0.1:PORT/refresh">
<input type=image src="http://127.0.0.1:PORT/input">
<link rel=modulepreload href="http://127.0.0.1:PORT/preload.js"><link rel=manifest href="http://127.0.0.1:PORT/manifest">
<picture><source srcset="http://127.0.0.1:PORT/srcset 1x"><img></picture><audio src="http://127.0.0.1:PORT/audio"></audio>
<video><track default src="http://127.0.0.1:PORT/track"></video><iframe src="//127.0.0.1:PORT/schemeless"></iframe>
<svg><image href="http://127.0.0.1:PORT/svg"/><use href="http://127.0.0.1:PORT/use#x"/></svg>
<div style="background:image-set(url(http://127.0.0.1:PORT/set) 1x);width:9px;height:9px"></div>
<script type=speculationrules>{"prefetch": [{"source": "list", "urls": ["http://127.0.0.1:PORT/speculation"]}]}</script>
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
attempt(() => fetchLater(u + 'later', {activateAfter: 0}));
const late = Object.assign(document.createElement('link'), {rel: 'stylesheet', href: u + 'late'});
document.head.append(late);
attempt(() => window.open(u + 'popup')); attempt(() => { new Image().src = u + 'new-image' });
attempt(() => navigator.serviceWorker.register(u + 'foreign-sw.js').catch(quiet));
attempt(() => new Worker(`data:text/javascript,fetch('${u}data-worker')`));
f.submit(); a.click();
setTimeout(() => location.href = u + 'leave', 1000);
</script>"""

# Each must end as this field of the observation says, and leave the next attempt unharmed.
HOSTILE = {
    "stuck": "<script>setTimeout(() => { for (;;); }, 20)</script>",
    "killed_by_memory": "<script>const all = []; setInterval(() => all.push(new Uint8Array(32e6).fill(1)), 1)</script>",
    "popups": "<script>for (let i = 0; i < 50; i++) window.open('about:blank')</script>",
    "dialogs": "<script>alert(1)</script>",
    "crashed": """<script>let inner = document.body;
for (let i = 0; i < 6000; i++) inner = inner.appendChild(document.createElement('div'));
inner.textContent = 'x'</script>""",
}


@dataclass
class Tried:
    """`reason` says why a mode could not be tried on this host; otherwise it is empty."""

    mode: str
    reason: str = ""
    visits: list[str] = field(default_factory=list)  # what reached the canary: nothing, or a fault
    port: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    mounted: bool = False
    ended: dict[str, bool] = field(default_factory=dict)  # hostile pages that ended as they must
    works_after: bool = False


@asynccontextmanager
async def canary() -> AsyncIterator[tuple[int, list[str]]]:
    """A port of this host, TCP and UDP, that writes down whoever comes."""
    visits: list[str] = []

    class Datagrams(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            visits.append(f"udp {len(data)} bytes")

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append((await reader.readline()).decode(errors="replace"))
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, ("127.0.0.1", port))
    async with server:
        yield port, visits
    udp.close()


async def tried(mode_name: str, *, hostile: bool) -> Tried:
    """Start browsers in this mode and let pages try."""
    answer = Tried(mode_name)
    chromium = isolation.find_chromium()
    try:
        mode = await isolation.probe(chromium, mode_name)
    except isolation.NoBrowser as refused:
        answer.reason = str(refused)
        return answer
    with tempfile.TemporaryDirectory(prefix="pagegate-walled-") as name:
        os.chmod(name, 0o711)  # noqa: PTH101  the browser's user must pass through
        options = BrowserOptions(work_folder=Path(name), stuck_after_s=2.0, memory_max_mb=600)
        house = BrowserHouse(options, chromium, mode)
        await house.open()
        try:
            looker = Looker(house)
            await _egress(looker, answer)
            if hostile:
                await _hostile(looker, answer)
        finally:
            await house.close()
    return answer


async def _egress(looker: Looker, answer: Tried) -> None:
    async with canary() as (port, visits):
        html = page(VECTORS.replace("PORT", str(port)))
        observation = await looker.look(html, {"/redirect": OriginResponse(302, "text/plain", b"")}, stuck_after_s=20.0)
        answer.port, answer.visits = port, list(visits)
    answer.outcomes, answer.mounted = outcomes(observation), observation.mounted


async def _hostile(looker: Looker, answer: Tried) -> None:
    for what, html in HOSTILE.items():
        observation = await looker.look(page(f"<body>{html}"))
        answer.ended[what] = bool(getattr(observation, what))
    observation = await looker.look(page("<body style='background:green'>"))
    answer.works_after = observation.mounted and observation.png is not None


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(tried(sys.argv[1], hostile="hostile" in sys.argv[2:])))))
