"""What the browser tells about the page while it runs: console, errors, dialogs, popups, downloads (R10).

Owns the subscription of one attempt and the translation of DevTools events into the observation's records, which counts
lines and columns from 1 and fills in format specifiers. Ends with the page.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from playwright.async_api import Dialog, Download, Page, WebSocket
from playwright.async_api import Error as PlaywrightError

from pagegate.renderer.browser import FreshBrowser
from pagegate.renderer.gate import Gate, blocked_by_browser
from pagegate.renderer.observation import RECORDS_MAX, ConsoleMessage, Observation, PageError
from pagegate.renderer.records import add, clip

STEADY_URL = "pagegate-steady.js"
DOMAINS = ("Runtime", "Log", "Page", "Audits", "Debugger")
DIALOGS_MAX = 100  # a page that asks this often asks for ever

_PLACEHOLDER = re.compile(r"%[sdifoOc%]")
_LOOPS = re.compile(r"Maximum (?:update depth|recursive updates) exceeded")  # react, vue
_LOCAL_FILE = re.compile(
    r"(?:Not allowed to load local resource: |Fetch API cannot load )(file:\S+?)\.?(?:\s|$)", re.IGNORECASE
)


class Hearing:
    """Writes what it hears into `seen`. Calls once each: `too_many_dialogs` when a page never stops asking, `left` when
    its document is gone, `looping` when its framework says that it updates itself for ever."""

    def __init__(
        self,
        seen: Observation,
        gate: Gate,
        *,
        too_many_dialogs: Callable[[], None],
        left: Callable[[], None],
        looping: Callable[[], None] = lambda: None,
    ) -> None:
        self._seen, self._gate, self._too_many_dialogs, self._left = seen, gate, too_many_dialogs, left
        self._looping: Callable[[], None] | None = looping
        self._document: str | None = None  # the loader of the page's own document
        self.heard = 0  # goes up with every console call

    def attach(self, fresh: FreshBrowser) -> None:
        """Subscribe. The DevTools domains were enabled when the browser was made ready."""
        cdp, page = fresh.cdp, fresh.page
        cdp.on("Runtime.consoleAPICalled", self._console)
        cdp.on("Runtime.exceptionThrown", self._exception)
        cdp.on("Log.entryAdded", lambda event: self._log(event["entry"]))
        cdp.on("Audits.issueAdded", lambda event: self._issue(event["issue"]))
        cdp.on("Page.windowOpen", lambda _event: self._popup())
        cdp.on("Page.frameNavigated", self._navigated)
        page.on("dialog", self._dialog)
        page.on("download", self._download)
        page.on("websocket", self._websocket)
        fresh.context.on("page", self._new_page)

    def _console(self, event: dict[str, Any]) -> None:
        self.heard += 1
        if len(self._seen.console) >= RECORDS_MAX:
            self._seen.records_dropped += 1  # at once: a flood must not cost more than it has to
            return
        stack = event.get("stackTrace")
        url, line, column = _place(stack)
        text = format_arguments(event.get("args", []))
        if self._looping is not None and _LOOPS.search(text):
            self._looping()
            self._looping = None
        kind = str(event.get("type", "log"))
        message = ConsoleMessage(kind, clip(text), clip(url), line, column, clip(stack_text(stack)))
        add(self._seen, self._seen.console, message)

    def _exception(self, event: dict[str, Any]) -> None:
        details = event["exceptionDetails"]
        exception = details.get("exception", {})
        described = str(exception.get("description") or _show(exception) or details.get("text", "error"))
        url, line, column = _place(details.get("stackTrace"))
        if not url:
            url = str(details.get("url", ""))
            line, column = int(details.get("lineNumber", -1)) + 1, int(details.get("columnNumber", -1)) + 1
        message, _, rest = described.partition("\n    at ")
        stack = _without_ours(f"at {rest}".replace("\n    at ", "\nat ")) if rest else ""
        stack = stack or stack_text(details.get("stackTrace"))
        error = PageError(clip(message), clip(stack), clip(url), line, column)
        rejected = "(in promise)" in str(details.get("text", ""))
        add(self._seen, self._seen.rejections if rejected else self._seen.errors, error)

    def _log(self, entry: dict[str, Any]) -> None:
        source, text = str(entry.get("source", "other")), str(entry.get("text", ""))
        if (local := _LOCAL_FILE.search(text)) is not None:
            self._gate.blocked(local[1], "other", "local-file")
            return
        if source == "network" or "Mixed Content:" in text or "Content Security Policy" in text:
            return  # the gate's records say it better
        message = ConsoleMessage(
            str(entry.get("level", "info")),
            clip(text),
            clip(str(entry.get("url", ""))),
            int(entry.get("lineNumber", -1)) + 1,
            0,
            clip(stack_text(entry.get("stackTrace"))),
            source,
        )
        add(self._seen, self._seen.console, message)

    def _issue(self, issue: dict[str, Any]) -> None:
        if (stopped := blocked_by_browser(issue)) is not None:
            self._gate.blocked(*stopped)

    def _popup(self) -> None:
        self._seen.popups += 1

    def _navigated(self, event: dict[str, Any]) -> None:
        frame = event["frame"]
        if "parentId" in frame:
            return
        if self._document is None:
            self._document = frame["loaderId"]
        elif frame["loaderId"] != self._document:
            self._seen.navigated_away = True
            self._left()

    async def _dialog(self, dialog: Dialog) -> None:
        self._seen.dialogs += 1
        if self._seen.dialogs == DIALOGS_MAX:
            self._too_many_dialogs()
        try:
            await dialog.dismiss()
        except PlaywrightError:
            return  # gone with its page

    async def _download(self, download: Download) -> None:
        self._seen.downloads += 1
        try:
            await download.cancel()
        except PlaywrightError:
            return

    def _websocket(self, socket: WebSocket) -> None:
        self._gate.blocked(socket.url, "websocket", "websocket")

    async def _new_page(self, page: Page) -> None:
        """A window that got past --block-new-web-contents; it is closed before it can show or ask anything."""
        self._seen.popups += 1
        try:
            await page.close()
        except PlaywrightError:
            return


def format_arguments(arguments: list[dict[str, Any]]) -> str:
    """The text of a console call, with `%s` and its kin filled in as the console does, and `%c` styles dropped."""
    if not arguments:
        return ""
    first, rest = arguments[0], list(arguments[1:])
    if first.get("type") != "string":
        return " ".join(_show(argument) for argument in arguments)

    def fill(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        if not rest:
            return found[0]
        value = rest.pop(0)
        return "" if found[0] == "%c" else _show(value)

    text = _PLACEHOLDER.sub(fill, str(first.get("value", "")))
    return " ".join([text, *(_show(argument) for argument in rest)])


def _show(value: dict[str, Any]) -> str:
    if "value" in value:
        plain = value["value"]
        return plain if isinstance(plain, str) else json.dumps(plain)
    return str(value.get("unserializableValue") or value.get("description") or value.get("type", ""))


def stack_text(stack: dict[str, Any] | None) -> str:
    """One `at name (url:line:column)` per frame."""
    return "\n".join(
        f"at {frame.get('functionName') or '<anonymous>'} "
        f"({frame.get('url', '')}:{int(frame.get('lineNumber', -1)) + 1}:{int(frame.get('columnNumber', -1)) + 1})"
        for frame in _frames(stack)
    )


def _place(stack: dict[str, Any] | None) -> tuple[str, int, int]:
    for frame in _frames(stack):
        url, line, column = str(frame.get("url", "")), int(frame.get("lineNumber", -1)), frame.get("columnNumber", -1)
        return url, line + 1, int(column) + 1
    return "", 0, 0


def _frames(stack: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The frames of the page's own code, without those of `probes/steady.js` around and inside it."""
    return [frame for frame in (stack or {}).get("callFrames", []) if frame.get("url") != STEADY_URL]


def _without_ours(stack: str) -> str:
    return "\n".join(line for line in stack.splitlines() if STEADY_URL not in line)
