"""Nothing gets out of the page but to its own origin, in every isolation mode of this host, as root and as an ordinary
user (X1, X3, case 32). The run says which modes were tried; in CI the isolated one must be among them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from pagegate.renderer import isolation
from pagegate.renderer.contract import PageBases
from pagegate.renderer.egress import HttpOrigin
from tests.browser.looking import Looker, outcomes, page
from tests.browser.walled import HOSTILE, Tried, tried

IS_ROOT = os.geteuid() == 0
ORDINARY_UID = 61234  # nobody's
ROOT_OF_CHECKOUT = Path(__file__).parents[2]
# Hostile pages are tried in the best mode and in the fallback; egress in all of them.
HOSTILE_IN = {"netns-nobody-sandbox", "netns-user-sandbox", "proxy-nobody-sandbox", "proxy-sandbox"}
MODES = [(who, mode.name) for who in ("root", "user") for mode in isolation.modes(who == "root")]
_told: dict[tuple[str, str], str] = {}


async def try_as(who: str, mode: str) -> Tried:
    """As whoever runs the tests in this process; as an ordinary user, when that is root, in another one."""
    hostile = mode in HOSTILE_IN
    if who == ("root" if IS_ROOT else "user"):
        return await tried(mode, hostile=hostile)
    if not IS_ROOT:
        return Tried(mode, reason="the tests do not run as root")
    if shutil.which("setpriv") is None:
        return Tried(mode, reason="there is no setpriv to become another user")
    return _as_ordinary_user(mode, hostile=hostile)


def _as_ordinary_user(mode: str, *, hostile: bool) -> Tried:
    become = ["setpriv", f"--reuid={ORDINARY_UID}", f"--regid={ORDINARY_UID}", "--clear-groups", "--no-new-privs"]
    command = [*become, sys.executable, "-m", "tests.browser.walled", mode, *(["hostile"] if hostile else [])]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT_OF_CHECKOUT, env=environment, capture_output=True, timeout=120, check=False)
    if done.returncode != 0 and b"ermission denied" in done.stderr:
        return Tried(mode, reason="an ordinary user cannot read this checkout")
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return Tried(**json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(("who", "mode"), MODES)
async def test_no_vector_reaches_the_host_and_each_is_reported(who: str, mode: str) -> None:
    answer = await try_as(who, mode)
    _told[who, mode] = answer.reason or ("tried, with hostile pages" if answer.ended else "tried")
    if answer.reason:
        pytest.skip(answer.reason)
    assert answer.visits == []
    assert answer.mounted
    found = answer.outcomes
    here = f"http://127.0.0.1:{answer.port}/"
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
        "input",
        "srcset",
        "audio",
        "svg",
        "set",
        "late",
        "new-image",
    ):
        assert found[here + name] == "blocked other-origin", name
    assert found[f"https://127.0.0.1:{answer.port}/schemeless"] == "blocked other-origin"
    assert found["http://169.254.169.254/latest"] == "blocked other-origin"
    assert found["http://[::ffff:a9fe:a9fe]/mapped"] == "blocked other-origin"
    assert found["https://example.com/data"] == "blocked other-origin"
    assert found["file:///etc/passwd"] == "blocked local-file"
    assert found[f"ws://127.0.0.1:{answer.port}/ws"] == "blocked websocket"
    assert found["/own"] == "blocked method"
    assert found["/redirect"] == "failed 302"
    assert found["blob"] == found["/sw.js"] == "blocked worker"
    if answer.ended:
        assert answer.ended == dict.fromkeys(HOSTILE, True)
        assert answer.works_after


def test_the_run_says_which_modes_were_tried(record_property: Callable[[str, object], None]) -> None:
    lines = [f"{who:<5} {mode:<22} {_told.get((who, mode), 'not asked for')}" for who, mode in MODES]
    record_property("table", "\n".join(lines))
    if not os.environ.get("CI") or not _told:
        return
    isolated = [told for (_, mode), told in _told.items() if mode.startswith("netns")]
    assert any(told.startswith("tried") for told in isolated), "no isolated mode could be tried:\n" + "\n".join(lines)


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
