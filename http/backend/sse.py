"""A run's events as a stream (A7): replayed from any index, then followed to the run's end.

Owns one open connection and a place in the feed. Events are rows; the feed only says when to look, and once a second
the stream looks anyway, for other replicas and lost wake-ups. Closing the stream stops nothing. On shutdown it ends at
once, and the client comes back with the last index it saw.
"""

import asyncio
import json
from typing import Any

import structlog
from aiohttp import web
from pydantic import Field

from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Shown, TimeMs
from pagegate.http.backend.parts import BackendParts
from pagegate.storage import runs as storage
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.projects import find_project_access
from pagegate.storage.transitions import RUN
from pagegate.storage.users import Caller, find_user

log = structlog.get_logger()

POLL_S = 1.0
KEEP_ALIVE_S = 15.0
WRITE_WAIT_S = 10.0  # a client that reads nothing for so long is gone
RETRY_MS = 1000  # how soon a browser comes back
_BATCH = 200


class EventView(Shown):
    index: int = Field(description="Counts from 1 within the run.")
    kind: str
    at_ms: TimeMs
    data: dict[str, Any]


def show_event(event: storage.RunEvent) -> EventView:
    return EventView(index=event.index, kind=event.kind, at_ms=event.at_ms, data=dict(event.data))


async def follow(
    request: web.Request, parts: BackendParts, caller: Caller, run_id: int, after: int
) -> web.StreamResponse:
    """Stream the events after index `after` until the run has ended, the client has gone or the process stops."""
    if parts.feed.closed:
        raise ApiError("SHUTTING_DOWN")
    if parts.feed.streams >= parts.limits.streams_max:
        raise ApiError("TOO_MANY_STREAMS", headers={"Retry-After": "5"})
    stream = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
    with parts.feed.subscribe(run_id) as subscription:
        await stream.prepare(request)
        try:
            await _write(stream, f"retry: {RETRY_MS}\n\n")
            quiet_since_s = asyncio.get_running_loop().time()
            while not parts.feed.closed and request.transport is not None:  # None: the client has hung up
                subscription.quiet()
                events, ended = await _look(parts, run_id, after)
                for event in events:
                    await _write(stream, _event_text(event))
                    after = event.index
                if ended:
                    break
                now_s = asyncio.get_running_loop().time()
                if events:
                    quiet_since_s = now_s
                    continue  # there may be more than one batch
                if now_s - quiet_since_s >= KEEP_ALIVE_S:
                    if not await _may_still_follow(parts, caller, run_id):
                        break
                    await _write(stream, ": still here\n\n")
                    quiet_since_s = now_s
                await subscription.news(POLL_S)
            await stream.write_eof()
        except (ConnectionError, TimeoutError):
            log.debug("api.stream.client_gone", run_id=run_id, after=after)
            stream.force_close()
    return stream


async def _look(parts: BackendParts, run_id: int, after: int) -> tuple[list[storage.RunEvent], bool]:
    """The next events, and whether these are the last. A database that is away for a while only delays them."""
    try:
        async with parts.db.read() as tx:
            run = await storage.get_run(tx, run_id)
            events = await storage.list_events(tx, run_id, after, _BATCH)
    except DatabaseUnavailable:
        log.warning("api.stream.database_unavailable", run_id=run_id)
        return [], False
    last = events[-1].index if events else after
    return events, run.status in RUN.terminal and last >= run.last_event_index


async def _may_still_follow(parts: BackendParts, caller: Caller, run_id: int) -> bool:
    """Streams live long: a user who was disabled or taken out of the workspace meanwhile sees no more of it (X5)."""
    try:
        async with parts.db.read() as tx:
            run = await storage.get_run(tx, run_id)
            user = await find_user(tx, caller.user_id)
            access = await find_project_access(tx, run.project_id, caller.user_id)
    except DatabaseUnavailable:
        return True
    return access is not None and user is not None and not user.disabled


def _event_text(event: storage.RunEvent) -> str:
    data = json.dumps(show_event(event).model_dump(), ensure_ascii=False, separators=(",", ":"))
    return f"id: {event.index}\nevent: {event.kind}\ndata: {data}\n\n"


async def _write(stream: web.StreamResponse, text: str) -> None:
    async with asyncio.timeout(WRITE_WAIT_S):
        await stream.write(text.encode())
