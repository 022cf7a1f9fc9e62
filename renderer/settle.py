"""Waiting for a page until it is what a person would see (R11): loaded, scrolled through, 2.5 s older, and still.

Owns virtual time of one page. After the load the page's clock is stopped, its timers are released, and its time is run
ahead as fast as the processor allows, waiting only for the network. What CSS animates follows real time even then, so
animations are put to their end, and what they start is given time again. Afterwards time stands still and stays so.

A browser that cannot do that is waited for in real time: until nothing has happened for 300 ms, at most 5 s.

Every wait is bounded; a page that does not come to rest is looked at as it is, and `settled` says so. A stuck thread is
not noticed here but by the attempt's watch, which ends the attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from pagegate.renderer.asking import PageQuestions
from pagegate.renderer.gate import Gate
from pagegate.renderer.options import BrowserOptions
from pagegate.renderer.stage import START_MS, Stage

_QUIET_S = 1.0  # without a request: a load event that has not come by then will not come
_TICK_S = 0.05
_ROUNDS_MAX = 3
_ROUND_AHEAD_MS = 500
_ROUND_REAL_MAX_S = 2.0
_VIDEO_MAX_MS = 1000
# Tasks without a delay that may run before virtual time moves on anyway: a page that posts messages to itself for ever.
_STARVATION_TASKS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Settled:
    """How the page came to rest. Sizes in CSS pixels."""

    settled: bool
    mounted: bool
    width_px: int
    height_px: int


class VirtualTime:
    """The page's time. It starts when it is first stopped, and only runs inside `ahead`."""

    def __init__(self, cdp: CDPSession) -> None:
        self._cdp = cdp
        self._spent = asyncio.Event()
        self._enough = False
        cdp.on("Emulation.virtualTimeBudgetExpired", lambda _event: self._spent.set())

    def end_early(self) -> None:
        """No more time is needed: the page has shown that it never comes to rest, and was told why."""
        self._enough = True
        self._spent.set()

    async def begin(self, start_ms: int) -> bool:
        """Stop the page's time at `start_ms`. False when this browser cannot."""
        try:
            policy = {"policy": "pause", "initialVirtualTime": start_ms / 1000}
            await self._cdp.send("Emulation.setVirtualTimePolicy", policy)
        except PlaywrightError as error:
            if "wasn't found" in str(error) or "not supported" in str(error).lower():
                return False
            raise
        return True

    async def stop(self) -> None:
        await self._cdp.send("Emulation.setVirtualTimePolicy", {"policy": "pause"})

    async def ahead(
        self, budget_ms: int, real_max_s: float, first: Callable[[], Awaitable[object]] | None = None
    ) -> bool:
        """Run the page's time ahead, after `first`, during which frames are painted but time stands still.

        False when `real_max_s` were not enough (the network, or heavy work); time stands still again either way.
        """
        if self._enough:
            return True
        self._spent.clear()
        policy = {
            "policy": "pauseIfNetworkFetchesPending",
            "budget": budget_ms,
            "maxVirtualTimeTaskStarvationCount": _STARVATION_TASKS_MAX,
        }
        await self._cdp.send("Emulation.setVirtualTimePolicy", policy)
        if first is not None:
            await first()
        try:
            async with asyncio.timeout(real_max_s):
                await self._spent.wait()
        except TimeoutError:
            await self.stop()
            return False
        if self._enough:
            await self.stop()
        return True


class Settling:
    """Brings one page to rest. `scroll_to_px` is how far it is scrolled through, 0 for not at all."""

    def __init__(
        self,
        stage: Stage,
        questions: PageQuestions,
        gate: Gate,
        options: BrowserOptions,
        *,
        scroll_to_px: int,
        heard: Callable[[], int] = lambda: 0,
    ) -> None:
        self._stage, self._questions, self._gate, self._options = stage, questions, gate, options
        self._scroll_to_px, self._heard = scroll_to_px, heard
        self._time = VirtualTime(stage.fresh.cdp)
        self._loaded = asyncio.Event()
        stage.fresh.cdp.on("Page.loadEventFired", lambda _event: self._loaded.set())
        # A script that does not answer by then is the watch's business; this is only so that nothing waits for ever.
        self._patience_s = options.stuck_after_s + 5.0

    def end_early(self) -> None:
        """Look at the page as it is now: an update that triggers itself for ever changes nothing that is seen."""
        self._time.end_early()

    @property
    def loaded(self) -> bool:
        return self._loaded.is_set()

    async def wait_for_load(self) -> None:
        """Return at the load event, or when no request has started or ended for a while, or at `load_wait_s`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._options.load_wait_s
        changes, quiet_since_s = -1, loop.time()
        while not self._loaded.is_set() and (now_s := loop.time()) < deadline_s:
            if self._gate.pending or self._gate.changes != changes:
                changes, quiet_since_s = self._gate.changes, now_s
            elif now_s - quiet_since_s > _QUIET_S:
                return
            try:
                async with asyncio.timeout(_TICK_S):
                    await self._loaded.wait()
            except TimeoutError:
                continue

    async def run(self) -> Settled:
        """Bring the page to rest. Raises `NoAnswer` when it no longer answers."""
        state = await self._ask(f"begin({_VIDEO_MAX_MS})")
        if self._scroll_to_px and state["height"] > self._viewport_height_px():
            await self._ask(f"scrollThrough({self._scroll_to_px})")
        if not self._options.settle_virtually or not await self._time.begin(START_MS):
            return await self._run_in_real_time()
        state = await self._ask(f"tell({self._stage.release_event!r})")
        in_time = await self._time.ahead(self._options.settle_ahead_ms, self._options.settle_real_max_s)
        at_rest = in_time or self._gate.pending == 0
        await self._let_follow(state["changes"], ended_meanwhile=state["animations"] > 0)
        state = await self._ask(f"tell({self._stage.seal_event!r})")
        at_rest = at_rest and state["imagesPending"] == 0 and state["fonts"] != "loading"
        return Settled(at_rest, state["mounted"], state["width"], state["height"])

    async def _run_in_real_time(self) -> Settled:
        """Until nothing has happened for a while: no error or message, no request, no change of the page."""
        loop = asyncio.get_running_loop()
        state = await self._ask(f"tell({self._stage.release_event!r})")
        deadline_s, quiet_since_s = loop.time() + self._options.settle_quiet_max_s, loop.time()
        seen: tuple[int, ...] = ()
        quiet = False
        while not quiet and loop.time() < deadline_s:
            await asyncio.sleep(_TICK_S)
            state = await self._ask("state()")
            happened = (state["changes"], self._gate.changes, self._heard(), state["animations"])
            if happened != seen or self._gate.pending:
                seen, quiet_since_s = happened, loop.time()
            quiet = loop.time() - quiet_since_s >= self._options.settle_quiet_s
        await self._ask("still()")
        state = await self._ask(f"tell({self._stage.seal_event!r})")
        # A page that changes for ever is at rest too, as long as it waits for nothing.
        at_rest = self._gate.pending == 0 and state["imagesPending"] == 0 and state["fonts"] != "loading"
        return Settled(at_rest, state["mounted"], state["width"], state["height"])

    async def _let_follow(self, changes: int, *, ended_meanwhile: bool) -> None:
        """Still what moves, and give time to what follows from it and from all that changed, a bounded few times.

        Time that ran ahead has ended animations too, but that they ended is told in the next frame.
        """
        changed_before = False
        for _ in range(_ROUNDS_MAX):
            state = await self._ask("still()")
            changed = state["changes"] != changes
            if not state["moved"] and not ended_meanwhile and (not changed or changed_before):
                return
            # Changes alone get one round: a page that changes for ever is at rest too.
            changes, changed_before, ended_meanwhile = state["changes"], changed, False
            await self._another_round()
        await self._ask("still()")

    async def _another_round(self) -> None:
        """Something changed since the last look: let it be painted and observed, and give what follows its time."""
        self._stage.let_go.clear()
        await self._ask(f"hold({self._stage.hold_url!r})")

        async def paint() -> None:
            try:
                await self._ask("painted()")
            finally:
                self._stage.let_go.set()

        await self._time.ahead(_ROUND_AHEAD_MS, _ROUND_REAL_MAX_S, first=paint)

    def _viewport_height_px(self) -> int:
        size = self._stage.fresh.page.viewport_size
        return size["height"] if size else 0

    async def _ask(self, call: str) -> dict[str, Any]:
        return await self._questions.settle(call, self._patience_s)
