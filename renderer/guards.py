"""Who ends a look before its time (R9, X3): the page's memory, its thread, its process, or its browser.

Owns the watching beside one attempt, and the line between content and infrastructure: a page that takes too much, that
loops while the browser answers, or that brings its own process down is content; a browser that goes away, that is
starved by its host, or that is killed from outside tells nothing about the page. Tells its `end`, more than once if it
must: the first word counts. Survives nothing.
"""

import asyncio
import itertools
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from playwright.async_api import Error as PlaywrightError

from pagegate.renderer import watch
from pagegate.renderer.contract import AttemptError
from pagegate.renderer.observation import Observation
from pagegate.renderer.options import BrowserOptions
from pagegate.renderer.stage import Stage

# What ends a look: the page (content), or what is told in the error (infrastructure).
Ending = Literal["stuck", "memory", "crashed", "left"] | AttemptError

_BEAT_S = 0.5
_POLLS_PER_TREE = 3
_WHERE_WITHIN_S = 0.5  # a page that takes memory does not get longer
_BROWSER_ANSWERS_WITHIN_S = 3.0
# A thread that is stuck works; one that is merely starved, on a host that does too much at once, does not.
_STUCK_PROCESSOR_SHARE_MIN = 0.2
# SIGBUS is not among them: a host whose shared memory is full ends the page's process with it.
_OWN_CRASHES = frozenset({signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV})


class Guards:
    """`memory` and `thread` run until they have something to tell. `heard` counts what the page has said so far,
    `where` interrupts the page's thread and tells its stack."""

    def __init__(
        self,
        stage: Stage,
        options: BrowserOptions,
        observed: Observation,
        heard: Callable[[], int],
        end: Callable[[Ending], None],
        where: Callable[[float], Awaitable[str]],
    ) -> None:
        self._stage, self._options, self._observed, self._heard, self._end = stage, options, observed, heard, end
        self._where = where
        self._fresh = stage.fresh
        stage.browser_cdp.on("Target.targetCrashed", self._page_crashed)

    async def memory(self) -> None:
        """Kill the browser when it takes too much: the host comes first, and the page has shown what it does."""
        tree: list[int] = []
        for poll in itertools.count():
            if poll % _POLLS_PER_TREE == 0:  # finding the processes costs more than counting their memory
                tree = watch.process_tree(self._fresh.pid)
            used_mb = watch.memory_mb(tree)
            self._observed.memory_peak_mb = max(self._observed.memory_peak_mb, used_mb)
            if used_mb > self._options.memory_max_mb:
                # Asking where it is also stops it, so that it grows no further meanwhile.
                self._observed.stuck_stack = await self._where(_WHERE_WITHIN_S)
                self._end("memory")
                self._fresh.kill()
                return
            await asyncio.sleep(self._options.memory_poll_s)

    async def thread(self) -> None:
        """Ask the page's thread for nothing, again and again. It is stuck when there is no answer for
        `stuck_after_s`."""
        while True:
            await asyncio.sleep(_BEAT_S)
            used_s, heard = watch.processor_s(watch.process_tree(self._fresh.pid)), self._heard()
            try:
                async with asyncio.timeout(self._options.stuck_after_s):
                    await self._fresh.cdp.send("Runtime.evaluate", {"expression": "0"})
            except TimeoutError:
                worked_s = watch.processor_s(watch.process_tree(self._fresh.pid)) - used_s
                await self._not_answering(worked_s, talks=self._heard() > heard)
                return
            except PlaywrightError:
                if not self._fresh.alive:
                    self._browser_gone()
                    return

    async def _not_answering(self, worked_s: float, *, talks: bool) -> None:
        """Whose fault the silence is. A browser that `talks` lives, even when a flood of messages hides its answer."""
        if talks:
            self._end("stuck")
            return
        try:
            async with asyncio.timeout(_BROWSER_ANSWERS_WITHIN_S):
                await self._stage.browser_cdp.send("Browser.getVersion")
        except (TimeoutError, PlaywrightError):
            self._end(AttemptError(code="RENDER_BROWSER_LOST", message="the browser no longer answers"))
            return
        if worked_s < _STUCK_PROCESSOR_SHARE_MIN * self._options.stuck_after_s:
            self._end(AttemptError(code="RENDER_BROWSER_LOST", message="the browser got too little processor time"))
            return
        self._end("stuck")

    def _page_crashed(self, event: dict[str, Any]) -> None:
        """The page's process is gone, and the browser says why. Killed from outside, nothing is known of the page."""
        status, signal_number = event.get("status"), event.get("errorCode")
        if status == "oom" or self._grew_large():
            self._end("memory")
        elif status == "crashed" and signal_number in _OWN_CRASHES:
            self._end("crashed")
        else:
            self._end(AttemptError(code="RENDER_BROWSER_LOST", message="the page's process was ended from outside"))

    def _browser_gone(self) -> None:
        """One that had grown large was ended by the host's limits, which are the page's."""
        if self._grew_large():
            self._end("memory")
        else:
            self._end(AttemptError(code="RENDER_BROWSER_LOST", message="the browser went away"))

    def _grew_large(self) -> bool:
        return self._observed.memory_peak_mb > self._options.memory_max_mb // 2
