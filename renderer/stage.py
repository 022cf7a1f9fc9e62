"""A fresh page made ready for any attempt, while nobody waits for it yet (R4, R11).

Owns what is installed before the first document: DevTools domains, the interception, the scripts of `probes/` that run
at the start of every document. Nothing of it knows the task; the attempt that gets the page plugs its gate in.
"""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from playwright.async_api import CDPSession, Request, Route

from pagegate.renderer.browser import FreshBrowser
from pagegate.renderer.egress import ORIGIN
from pagegate.renderer.hearing import DOMAINS, STEADY_URL

# The page's clock: every page is looked at from here on. Virtual time is recognised by lying within the span.
START_MS = 1_767_261_600_000  # 2026-01-01T10:00:00Z
_SPAN_MS = 24 * 3600 * 1000
_SEED = 20260101

WORLD = "pagegate"

RouteHandler = Callable[[Route, Request], Awaitable[None]]


@dataclass(slots=True)
class Stage:
    """A page ready for one attempt. `handler` answers its requests; until it is set, everything is aborted.

    `hold_url` is ours: while a request for it is under way, virtual time waits for it.
    """

    fresh: FreshBrowser
    browser_cdp: CDPSession  # answered by the browser itself, also when the page's process is stuck or gone
    release_event: str
    seal_event: str
    hold_url: str
    handler: RouteHandler | None = None
    let_go: asyncio.Event = field(default_factory=asyncio.Event)  # until it is set, `hold_url` does not answer


async def prepare(fresh: FreshBrowser) -> Stage:
    """Make a fresh browser's page ready. The events' names are secret, so that the page cannot send them itself."""
    secret = secrets.token_hex(8)
    browser_cdp = await fresh.browser.new_browser_cdp_session()
    await browser_cdp.send("Target.setDiscoverTargets", {"discover": True})
    stage = Stage(fresh, browser_cdp, f"release-{secret}", f"seal-{secret}", f"{ORIGIN}/hold-{secret}")

    async def handle(route: Route, request: Request) -> None:
        if request.url == stage.hold_url:
            await stage.let_go.wait()
            await route.fulfill(status=204)
        elif stage.handler is None:
            await route.abort()
        else:
            await stage.handler(route, request)

    await fresh.context.route("**/*", handle)
    for domain in DOMAINS:
        await fresh.cdp.send(f"{domain}.enable")
    config = {
        "startMs": START_MS,
        "spanMs": _SPAN_MS,
        "seed": _SEED,
        "releaseEvent": stage.release_event,
        "sealEvent": stage.seal_event,
    }
    steady = f"({_source('steady.js')})({json.dumps(config)})\n//# sourceURL={STEADY_URL}"
    await fresh.cdp.send("Page.addScriptToEvaluateOnNewDocument", {"source": steady})
    settle = {"source": _source("settle.js"), "worldName": WORLD}
    await fresh.cdp.send("Page.addScriptToEvaluateOnNewDocument", settle)
    return stage


@cache
def _source(name: str) -> str:
    # A file that ends in `;` is a program, one that does not is a function to be called.
    text = files("pagegate.renderer.probes").joinpath(name).read_text(encoding="utf-8").rstrip()
    return text if name == "settle.js" else text.removesuffix(";")
