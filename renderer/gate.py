"""Every request of the page comes through here: answered from the origin, or blocked and written down (X1, R10).

Owns the rules of what is answered, what a failure of the origin means, and the records of one attempt. Hears requests
from Playwright's interception, and from the browser what it stopped before that (mixed content, workers, WebSockets,
local files). Tells `fault` when the infrastructure behind the origin failed, which ends the attempt (R9): the page's
own four files and the frameworks' modules are ours to deliver, everything else the page asked for itself.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame, Request, Route

from pagegate.renderer.contract import AttemptError
from pagegate.renderer.egress import (
    ORIGIN,
    AddressRefused,
    Origin,
    OriginBodyTooLarge,
    OriginResponse,
    OriginUnreachable,
)
from pagegate.renderer.observation import BlockReason, Observation, RequestOutcome, RequestRecord
from pagegate.renderer.records import add, clip

log = structlog.get_logger()

URL_CHARS_MAX = 500

_DELIVERED = frozenset({"/", "/index.html", "/page.js", "/page.css"})
# Workers would run beside the page's thread and outside the interception. `'none'` covers service workers too.
_HEADERS = {"Content-Security-Policy": "worker-src 'none'", "Cache-Control": "no-store"}


def delivered_by_us(path: str, resource_type: str) -> bool:
    """Whether the page cannot be without it, so that a failure is ours and not the page's (R9)."""
    plain = path.partition("?")[0]
    return plain in _DELIVERED or (plain.startswith("/vendor/") and resource_type == "script")


def fault_of_status(path: str, resource_type: str, status: int) -> AttemptError | None:
    """What an answer's status says about the infrastructure; None when it is an answer, or the page's own mistake."""
    if delivered_by_us(path, resource_type):
        if status in (404, 410):
            return AttemptError(code="RENDER_OUTPUT_LOST", message="the Runtime no longer has the compiled page")
        if status != 200:
            return AttemptError(code="RENDER_ORIGIN_UNREACHABLE", message=f"the compiled page answers {status}")
    if status >= 500:
        return AttemptError(code="RENDER_ORIGIN_UNREACHABLE", message=f"the page's files answer {status}")
    if status in (401, 403) and path.startswith("/assets/"):
        return AttemptError(code="RENDER_ORIGIN_UNREACHABLE", message="the Backend refuses the ticket for assets")
    return None


class Gate:
    """The interception of one attempt. `fault` is called at most once."""

    def __init__(
        self, origin: Origin, seen: Observation, *, timeout_s: float, fault: Callable[[AttemptError], None]
    ) -> None:
        self._origin, self._seen, self._timeout_s = origin, seen, timeout_s
        self._tell_fault: Callable[[AttemptError], None] | None = fault
        self._page_asked_for = False
        self._recorded: set[tuple[str, RequestOutcome]] = set()
        self._pending = 0
        self.changes = 0  # goes up with every request that starts or ends

    @property
    def pending(self) -> int:
        return self._pending

    async def handle(self, route: Route, request: Request) -> None:
        """Playwright's route handler. Never raises: a browser that has gone needs no answer."""
        self._pending += 1
        self.changes += 1
        try:
            await self._answer(route, request)
        except PlaywrightError:
            return  # the page or the browser went away
        finally:
            self._pending -= 1
            self.changes += 1

    def blocked(self, url: str, resource_type: str, reason: BlockReason) -> None:
        """Write down what was stopped, here or by the browser itself."""
        self._record(_path_of(url), "blocked", resource_type, reason)

    async def _answer(self, route: Route, request: Request) -> None:
        url, kind = request.url.partition("#")[0], request.resource_type
        leaving = request.is_navigation_request() and _is_main_frame(request)
        if leaving and self._page_asked_for:
            self.blocked(url, kind, "navigation" if _is_ours(url) else "other-origin")
            await route.fulfill(status=204)  # the document stays; an abort would put an error page in its place
            return
        if not _is_ours(url):
            self.blocked(url, kind, "other-origin")
            await route.abort("blockedbyclient")
            return
        if request.method != "GET":
            self.blocked(url, kind, "method")
            await route.abort("blockedbyclient")
            return
        self._page_asked_for = self._page_asked_for or leaving
        await self._fetch(route, _path_of(url), kind)

    async def _fetch(self, route: Route, path: str, kind: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._origin.get(path)
        except AddressRefused:
            self._record(path, "blocked", kind, "address")
        except OriginBodyTooLarge:
            self._record(path, "blocked", kind, "too-large")
        except TimeoutError:
            self._record(path, "hanging", kind)
            if delivered_by_us(path, kind):
                self._fault(AttemptError(code="RENDER_ORIGIN_UNREACHABLE", message="the compiled page does not answer"))
        except OriginUnreachable:
            self._fault(AttemptError(code="RENDER_ORIGIN_UNREACHABLE", message="nobody answers behind the page"))
        except Exception:
            log.exception("renderer.origin_fault")
            self._fault(
                AttemptError(code="RENDER_FAULT", message="the Renderer failed to answer the page; see its log")
            )
        else:
            await self._deliver(route, path, kind, answer)
            return
        await route.abort("failed")

    async def _deliver(self, route: Route, path: str, kind: str, answer: OriginResponse) -> None:
        if (fault := fault_of_status(path, kind, answer.status)) is not None:
            self._fault(fault)
            await route.abort("failed")
            return
        ok = 200 <= answer.status < 300
        self._record(path, "ok" if ok else "failed", kind, status=answer.status)
        # A redirect is not followed (X1): the page sees an empty 404 in its place.
        status = answer.status if ok or answer.status >= 400 else 404
        headers = {**_HEADERS, "Content-Type": answer.content_type}
        await route.fulfill(status=status, headers=headers, body=answer.body if ok else b"")

    def _record(
        self,
        path: str,
        outcome: RequestOutcome,
        kind: str,
        reason: BlockReason = "",
        status: int | None = None,
    ) -> None:
        # A page that polls asks the same a hundred times, and the browser may tell what the interception has seen too.
        key = (path, outcome)
        if key not in self._recorded:
            self._recorded.add(key)
            add(
                self._seen, self._seen.requests, RequestRecord(clip(path, URL_CHARS_MAX), outcome, kind, reason, status)
            )

    def _fault(self, error: AttemptError) -> None:
        if self._tell_fault is not None:
            self._tell_fault(error)
            self._tell_fault = None


def blocked_by_browser(issue: dict[str, Any]) -> tuple[str, str, BlockReason] | None:
    """(url, resource type, reason) of a DevTools issue that says the browser stopped something; None for another."""
    details = issue.get("details", {})
    if (mixed := details.get("mixedContentIssueDetails")) is not None:
        if mixed.get("resolutionStatus") != "MixedContentBlocked":
            return None  # only warned about: it goes on to the interception
        return str(mixed.get("insecureURL", "")), str(mixed.get("resourceType", "other")).lower(), "other-origin"
    if (policy := details.get("contentSecurityPolicyIssueDetails")) is not None:
        if policy.get("violatedDirective") != "worker-src":
            return None
        return str(policy.get("blockedURL") or "worker"), "worker", "worker"
    return None


def _is_ours(url: str) -> bool:
    return url == ORIGIN or url.startswith(f"{ORIGIN}/")


def _path_of(url: str) -> str:
    return url.removeprefix(ORIGIN) or "/" if _is_ours(url) else url


def _is_main_frame(request: Request) -> bool:
    try:
        frame: Frame = request.frame
    except PlaywrightError:
        return True  # too early to have a frame: the page's own first navigation
    return frame.parent_frame is None
