"""Whether the process lives and is ready, and its numbers (O1, O2).

Readiness never asks the Renderer whether it lives: a Renderer that restarts must not take the Backend out of service.
"""

import asyncio

from aiohttp import web

from pagegate.http.backend.errors import ApiError, Problem
from pagegate.http.backend.models import Shown
from pagegate.http.backend.parts import BackendParts
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.http.metrics import metrics_handler
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.health import touch

health = Noun("operating")

_DATABASE_WAIT_S = 3.0


class Alive(Shown):
    status: str = "ok"


class Ready(Shown):
    status: str = "ready"
    render_workers: int


@health.route("GET", "/healthz", access="public")
async def is_alive(_: Call[Nothing, Nothing]) -> Alive:
    """The process answers."""
    return Alive()


@health.route("GET", "/readyz", access="public", refusals=["NOT_READY"])
async def is_ready(call: Call[Nothing, Nothing]) -> Ready:
    """The database is reachable and render workers are configured."""
    problems = [*await _database(call.parts), *_configuration(call.parts), *_own(call.parts)]
    if problems:
        raise ApiError("NOT_READY", details=problems)
    return Ready(render_workers=call.parts.render_workers)


@health.route("GET", "/metrics", access="public", answer=Bytes("text/plain", "Prometheus' text format."))
async def show_metrics(call: Call[Nothing, Nothing]) -> web.StreamResponse:
    """Every series of this process."""
    await call.parts.refresh_numbers()
    return await metrics_handler(call.parts.registry)(call.request)


async def _database(parts: BackendParts) -> list[Problem]:
    try:
        async with asyncio.timeout(_DATABASE_WAIT_S):
            await touch(parts.db)
    except (DatabaseUnavailable, TimeoutError):
        return [Problem(location="database", code="DATABASE_UNAVAILABLE", message="does not answer")]
    return []


def _configuration(parts: BackendParts) -> list[Problem]:
    if parts.render_workers:
        return []
    return [Problem(location="render_workers", code="NOT_READY", message="RENDER_WORKERS_CONFIG names none")]


def _own(parts: BackendParts) -> list[Problem]:
    reasons = [*parts.unready(), *(["shutting down"] if parts.feed.closed else [])]
    return [Problem(location="process", code="NOT_READY", message=reason) for reason in reasons]
