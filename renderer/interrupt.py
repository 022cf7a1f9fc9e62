"""Where a page's thread is when it no longer answers (R9, X3): the loop that never ends has a line.

Owns DevTools' debugger of one page, which is enabled from the start and costs nothing until it is asked: a thread that
works can be paused from outside and then tells its stack. A `debugger` statement of the page pauses nothing.
Nothing here survives the attempt.
"""

import asyncio
from typing import Any

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

SCRIPTS_MAX = 1000
FRAMES_MAX = 50


class Interrupt:
    """Made before the page is opened, so that every script's address is known."""

    def __init__(self, cdp: CDPSession) -> None:
        self._cdp = cdp
        self._addresses: dict[str, str] = {}
        self._paused: asyncio.Future[list[dict[str, Any]]] | None = None
        self._goings_on: set[asyncio.Task[None]] = set()
        cdp.on("Debugger.scriptParsed", self._parsed)
        cdp.on("Debugger.paused", self._heard)

    async def where(self, timeout_s: float) -> str:
        """The stack of the busy thread, one `at name (url:line:column)` a line; empty when it cannot be had."""
        self._paused = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._cdp.send("Debugger.pause")
                frames = await self._paused
        except (TimeoutError, PlaywrightError):
            return ""
        return "\n".join(self._line(frame) for frame in frames[:FRAMES_MAX])

    def _line(self, frame: dict[str, Any]) -> str:
        place = frame["location"]
        address = self._addresses.get(str(place["scriptId"]), "")
        line, column = int(place["lineNumber"]) + 1, int(place.get("columnNumber", 0)) + 1
        return f"at {frame.get('functionName') or '<anonymous>'} ({address}:{line}:{column})"

    def _parsed(self, event: dict[str, Any]) -> None:
        if len(self._addresses) < SCRIPTS_MAX:
            self._addresses[str(event["scriptId"])] = str(event.get("url", ""))[:300]

    def _heard(self, event: dict[str, Any]) -> None:
        if self._paused is not None:
            if not self._paused.done():
                self._paused.set_result(list(event.get("callFrames", [])))
            return
        going_on = asyncio.ensure_future(self._go_on())
        self._goings_on.add(going_on)
        going_on.add_done_callback(self._goings_on.discard)

    async def _go_on(self) -> None:
        try:
            await self._cdp.send("Debugger.resume")
        except PlaywrightError:
            return  # gone with its page
