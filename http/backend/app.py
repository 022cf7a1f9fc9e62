"""The Backend's HTTP door: the application with every route, its middlewares and its end.

Owns the way every request is wrapped: a request id, a log line, numbers, one shape of error. Handlers parse, ask and
respond; nothing is decided here. On shutdown the streams end at once and requests in hand are finished.
"""

import asyncio
import re
import time
import uuid
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import Gauge

from pagegate.http.backend import auth
from pagegate.http.backend.agent_runs import agent_runs
from pagegate.http.backend.assets import assets
from pagegate.http.backend.builds import builds
from pagegate.http.backend.components import components
from pagegate.http.backend.errors import ApiError, error_answer, refusal_of
from pagegate.http.backend.health import health
from pagegate.http.backend.internal import internal
from pagegate.http.backend.internal_builds import internal_builds
from pagegate.http.backend.internal_sites import internal_sites
from pagegate.http.backend.job_diagnosis import job_diagnosis
from pagegate.http.backend.jobs import jobs
from pagegate.http.backend.lanes import lanes
from pagegate.http.backend.mcp_door import mcp_door
from pagegate.http.backend.model_credentials import model_credentials
from pagegate.http.backend.openapi import describe
from pagegate.http.backend.pages import pages
from pagegate.http.backend.parts import PARTS, BackendParts
from pagegate.http.backend.previews import previews
from pagegate.http.backend.projects import projects
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun, Route, serve
from pagegate.http.backend.runs import runs
from pagegate.http.backend.screenshots import screenshots
from pagegate.http.backend.tool_calls import tool_calls
from pagegate.http.backend.users import users
from pagegate.http.backend.visual_edits import visual_edits
from pagegate.http.backend.webhooks import webhooks
from pagegate.http.backend.workspaces import workspaces
from pagegate.http.metrics import HttpMetrics

log = structlog.get_logger()
about = Noun("operating")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_STARTED = web.RequestKey("pagegate_answer_started", bool)
_ID = web.RequestKey("pagegate_request_id", str)
_QUIET = ("/healthz", "/readyz", "/metrics", "/internal/")  # asked for every few seconds


@about.route("GET", "/openapi.json", access="public", answer=Bytes("application/json", "OpenAPI 3.1."))
async def get_openapi(_: Call[Nothing, Nothing]) -> web.StreamResponse:
    """This description."""
    return web.json_response(await asyncio.to_thread(_document))


@about.route("GET", "/.well-known/jwks.json", access="public", answer=Bytes("application/json", "A JSON Web Key Set."))
async def get_jwks(call: Call[Nothing, Nothing]) -> web.StreamResponse:
    """The keys that tickets are verified by."""
    return web.json_response(call.parts.tickets.jwks(), headers={"Cache-Control": "public, max-age=60"})


NOUNS = (
    users,
    workspaces,
    projects,
    previews,
    components,
    assets,
    tool_calls,
    runs,
    agent_runs,
    mcp_door,
    model_credentials,
    webhooks,
    pages,
    screenshots,
    visual_edits,
    builds,
    lanes,
    jobs,
    job_diagnosis,
    internal,
    internal_builds,
    internal_sites,
    health,
    about,
)


def all_routes() -> list[Route]:
    """The one table of routes."""
    return [route for noun in NOUNS for route in noun.routes]


def make_app(parts: BackendParts) -> web.Application:
    """The application. Its shutdown closes `parts.feed`; everything else of `parts` belongs to the composition."""
    routes = all_routes()
    app = web.Application(middlewares=[HttpMetrics(parts.registry).middleware(), _wrap])
    app[PARTS] = parts
    for route in routes:
        app.router.add_route(route.method, route.path, _handler(route, parts))
    streams = Gauge("pagegate_http_streams", "Event streams that are open now.", registry=parts.registry)
    streams.set_function(lambda: parts.feed.streams + parts.screenshot_feed.streams)
    app.on_response_prepare.append(_mark_started)
    app.on_shutdown.append(_end_streams)
    return app


def _handler(route: Route, parts: BackendParts) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        caller = await auth.find_out_who_asks(route, parts, request)
        if caller is not None:
            structlog.contextvars.bind_contextvars(user_id=caller.user_id)
        return await serve(route, parts, request, caller)

    return handle


@web.middleware
async def _wrap(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request an id, and every answer one shape and a log line."""
    request[_ID] = request_id = _request_id(request)
    started_s = time.perf_counter()
    with structlog.contextvars.bound_contextvars(request_id=request_id, user_id=None):
        answer = await _answer(request, handler, request_id)
        say = log.debug if request.path.startswith(_QUIET) else log.info
        elapsed_ms = round((time.perf_counter() - started_s) * 1000, 1)
        say("api.request.finished", method=request.method, path=request.path, status=answer.status, ms=elapsed_ms)
    return answer


async def _answer(request: web.Request, handler: Handler, request_id: str) -> web.StreamResponse:
    try:
        return await handler(request)
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            log.exception("api.request.failed", method=request.method, path=request.path)
            refusal = ApiError("INTERNAL")
        elif refusal.status >= 500:
            log.warning("api.request.refused", code=refusal.code, cause=repr(error))
        if request.get(_STARTED):
            # Part of another answer has been sent: cutting the connection is the only honest end left.
            if request.transport is not None:
                request.transport.abort()
            raise
        return error_answer(refusal, request_id)


def _request_id(request: web.Request) -> str:
    given = request.headers.get("X-Request-Id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


async def _mark_started(request: web.Request, answer: web.StreamResponse) -> None:
    request[_STARTED] = True
    answer.headers.setdefault("X-Request-Id", request.get(_ID, ""))
    answer.headers.setdefault("X-Content-Type-Options", "nosniff")
    answer.headers.setdefault("Cache-Control", "no-store")


async def _end_streams(app: web.Application) -> None:
    app[PARTS].feed.close()
    app[PARTS].screenshot_feed.close()


@cache
def _document() -> dict[str, Any]:
    """Made when somebody first asks for it: that costs more than all the rest of a start."""
    return describe(all_routes(), _version())


def _version() -> str:
    try:
        return version("pagegate")
    except PackageNotFoundError:
        return "0"
