"""The Renderer's composition (R4, R6): the engine with its browsers, and the slot above it.

Owns both; `start` builds from the ground up, `stop` in reverse. The same system serves a process (`http/renderer.py`)
and a program that looks at pages by itself (`pagegate check`), which calls `render`. Survives nothing.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import pykka
import structlog
from prometheus_client import CollectorRegistry

from pagegate.actors.kernel import ask, stop
from pagegate.actors.rendering.gauges import SlotGauges
from pagegate.actors.rendering.slot import (
    AttemptUnknown,
    AwaitAttempt,
    DropAttempt,
    RenderSlot,
    SlotBroken,
    SlotBusy,
    StartAttempt,
    ViewSlot,
)
from pagegate.renderer.contract import AttemptError, RenderResult, RenderTask, SlotView
from pagegate.renderer.diagnosis import diagnose
from pagegate.renderer.egress import AllowedBases, HttpOrigin, Origin
from pagegate.renderer.engine import Engine, Performed, find_browser
from pagegate.renderer.options import BrowserOptions
from pagegate.renderer.probes import probe_steps
from pagegate.renderer.profile import digest_of, read_profile

log = structlog.get_logger()

_ASK_TIMEOUT_S = 10.0
_BUSY_RETRY_S = 0.02


@dataclass(frozen=True)
class RendererOptions:
    """`credential` may be empty for a system without an HTTP door. The base URLs are the allow-list of X1, by prefix:
    the Runtime's outputs, its frameworks, the Backend's assets."""

    worker_id: str = "renderer-1"
    credential: str = field(default="", repr=False)
    navigation_base_urls: tuple[str, ...] = ()
    runtime_asset_base_urls: tuple[str, ...] = ()
    platform_asset_base_urls: tuple[str, ...] = ()
    result_ttl_s: float = 300.0
    browser: BrowserOptions = field(default_factory=BrowserOptions)


class RendererSystem:
    """`start`, then `render` in process, or the slot's messages through the methods the HTTP door uses."""

    def __init__(self, options: RendererOptions) -> None:
        self.options = options
        self.registry = CollectorRegistry()
        self.allowed = AllowedBases(
            navigation=_prefixes(options.navigation_base_urls),
            vendor=_prefixes(options.runtime_asset_base_urls or options.navigation_base_urls),
            assets=_prefixes(options.platform_asset_base_urls),
        )
        self._engine: Engine | None = None
        self._slot: pykka.ActorRef[Any] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Raises `NoBrowser` when this machine cannot show a page."""
        options = self.options
        engine = await Engine.open(options.browser, options.worker_id, diagnose, probe_steps())
        self._engine = engine
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), connector=aiohttp.TCPConnector(limit=16), trust_env=False
        )
        self._slot = RenderSlot.start(
            engine,
            options.worker_id,
            SlotGauges(self.registry),
            result_ttl_s=options.result_ttl_s,
            spare_idle_s=options.browser.spare_idle_s,
        )
        log.info(
            "renderer.started",
            worker_id=options.worker_id,
            isolation=engine.profile["isolation"],
            browser=f"{engine.profile['browser']} {engine.profile['version']}",
            profile_digest=engine.profile_digest,
        )

    async def stop(self) -> None:
        """The slot first, which ends the attempt in hand; then every browser; then the connections. Works twice."""
        slot, self._slot = self._slot, None
        if slot is not None:
            await stop(slot)
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def profile(self) -> dict[str, Any]:
        return self._engine.profile if self._engine else {}

    @property
    def profile_digest(self) -> str:
        return self._engine.profile_digest if self._engine else ""

    async def render(self, task: RenderTask, origin: Origin) -> tuple[RenderResult, bytes | None]:
        """One attempt in this process, in turn with others; the result and its PNG. Infrastructure is in `error` (R9).

        Cancelling it ends the attempt.
        """
        async with self._turn:
            try:
                if not await self._started(task, origin):
                    return self._unavailable(task), None
                performed = None
                while performed is None:
                    performed = await self.wait(task.attempt_id, wait_s=task.deadline_s + 30.0)
                return performed.result, performed.png
            except AttemptUnknown:
                return self._unavailable(task), None
            finally:
                await asyncio.shield(self.drop(task.attempt_id))

    async def _started(self, task: RenderTask, origin: Origin) -> bool:
        give_up_s = time.monotonic() + task.deadline_s
        while time.monotonic() < give_up_s:
            try:
                await ask(self._actor(), StartAttempt(task, origin), _ASK_TIMEOUT_S)
            except SlotBusy:
                await asyncio.sleep(_BUSY_RETRY_S)
            except SlotBroken:
                return False
            else:
                return True
        return False

    # -- for the door ---------------------------------------------------------------------------------------------

    async def start_attempt(self, task: RenderTask) -> None:
        """Accept a task of the Backend. Raises `BaseRefused`, `SlotBusy`, `SlotBroken`."""
        self.allowed.admit(task.bases)
        assert self._session is not None
        origin = HttpOrigin(
            self._session,
            task.bases,
            timeout_s=self.options.browser.origin_timeout_s,
            body_bytes_max=self.options.browser.origin_body_bytes_max,
        )
        await ask(self._actor(), StartAttempt(task, origin), _ASK_TIMEOUT_S)

    async def wait(self, attempt_id: str, *, wait_s: float) -> Performed | None:
        """What the attempt gave, or None when it has not ended within `wait_s`. Raises `AttemptUnknown`."""
        return await ask(self._actor(), AwaitAttempt(attempt_id, wait_s), wait_s + _ASK_TIMEOUT_S)

    async def drop(self, attempt_id: str) -> None:
        """End it if it runs, forget it. An unknown one is fine."""
        if self._slot is not None:
            await ask(self._slot, DropAttempt(attempt_id), _ASK_TIMEOUT_S)

    async def view(self) -> SlotView:
        return await ask(self._actor(), ViewSlot(), _ASK_TIMEOUT_S)

    def _actor(self) -> pykka.ActorRef[Any]:
        if self._slot is None:
            raise pykka.ActorDeadError("the Renderer is stopping")
        return self._slot

    def _unavailable(self, task: RenderTask) -> RenderResult:
        return RenderResult(
            attempt_id=task.attempt_id,
            worker_id=self.options.worker_id,
            profile_digest=self.profile_digest,
            error=AttemptError(code="RENDER_SERVICE_UNAVAILABLE", message="no browser was free in time"),
        )


async def read_profile_here(options: BrowserOptions) -> tuple[dict[str, Any], str]:
    """The profile of this machine and its digest, for `pagegate renderer --print-profile`. Raises `NoBrowser`."""
    chromium, mode = await find_browser(options)
    profile = await read_profile(options, chromium, mode)
    return profile, digest_of(profile)


def _prefixes(urls: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(url if url.endswith("/") else f"{url}/" for url in urls)
