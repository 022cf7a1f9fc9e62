"""Questions to the page, in an isolated world where the page cannot answer for us.

Playwright's own `evaluate` has no time limit, serialises slowly and can be fooled by a patched prototype; this goes to
DevTools directly and takes JSON strings only. Keeps the world's id for as long as the document lives.
"""

import asyncio
import json
from typing import Any

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from pagegate.renderer.stage import WORLD


class NoAnswer(Exception):
    """The script failed, took too long, or its document went away."""


class PageQuestions:
    """Questions to one frame."""

    def __init__(self, cdp: CDPSession, frame_id: str) -> None:
        self._cdp, self._frame_id = cdp, frame_id
        self._context_id: int | None = None

    async def ask(self, expression: str, timeout_s: float) -> Any:
        """The parsed JSON that the expression (or its promise) evaluates to. Raises `NoAnswer`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(expression)
        except (TimeoutError, PlaywrightError, KeyError, ValueError) as error:
            raise NoAnswer(type(error).__name__) from error

    async def settle(self, call: str, timeout_s: float) -> dict[str, Any]:
        """One function of `probes/settle.js`."""
        answer = await self.ask(f"pagegateSettle.{call}", timeout_s)
        return answer if isinstance(answer, dict) else {}

    async def _ask(self, expression: str) -> Any:
        if self._context_id is None:
            world = {"frameId": self._frame_id, "worldName": WORLD}
            self._context_id = (await self._cdp.send("Page.createIsolatedWorld", world))["executionContextId"]
        question = {"expression": expression, "contextId": self._context_id, "awaitPromise": True}
        answer = await self._cdp.send("Runtime.evaluate", question)
        if "exceptionDetails" in answer:
            described = answer["exceptionDetails"].get("exception", {}).get("description", "the script failed")
            raise NoAnswer(str(described))
        return json.loads(answer["result"]["value"])
