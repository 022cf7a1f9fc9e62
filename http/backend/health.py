"""Whether the process lives and is ready, and its numbers (O1, O2).

Readiness never asks the Renderer whether it lives: a Renderer that restarts must not take the Backend out of service.
"""

import asyncio

from aiohttp import web
from pydantic import Field

from pagegate.http.backend.errors import ApiError, Problem
from pagegate.http.backend.models import Shown
from pagegate.http.backend.parts import BackendParts
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.http.metrics import metrics_handler
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.health import touch
from pagegate.storage.runtime_state import StateUnavailable

health = Noun("operating")

_DATABASE_WAIT_S = 3.0
_STATE_WAIT_S = 1.0


class Alive(Shown):
    status: str = "ok"


class Ready(Shown):
    """What is on. A store for previews that does not answer delays checks and loses previews, nothing else (P2)."""

    status: str = "ready"
    render_workers: int
    runtime_state: str = Field(description="memory or redis; `redis: does not answer` for now.")


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
    return Ready(render_workers=call.parts.render_workers, runtime_state=await _state(call.parts))


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


async def _state(parts: BackendParts) -> str:
    try:
        async with asyncio.timeout(_STATE_WAIT_S):
            await parts.state.usage()
    except (StateUnavailable, TimeoutError):
        return f"{parts.state.kind}: does not answer"
    return parts.state.kind


def _configuration(parts: BackendParts) -> list[Problem]:
    if parts.render_workers:
        return []
    return [Problem(location="render_workers", code="NOT_READY", message="RENDER_WORKERS_CONFIG names none")]


def _own(parts: BackendParts) -> list[Problem]:
    reasons = [*parts.unready(), *(["shutting down"] if parts.feed.closed else [])]
    return [Problem(location="process", code="NOT_READY", message=reason) for reason in reasons]
