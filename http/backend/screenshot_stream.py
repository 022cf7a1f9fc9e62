"""A group of screenshots as it is seen: its view, and the stream of what becomes of its members.

Owns one open connection and a place in the feed. The state is rows; the feed only says when to look, and once a second
the stream looks anyway. A stream begins with every member as it is, so who comes back needs no memory of the last one.
"""

import asyncio
import json
from typing import Any

import structlog
from aiohttp import web
from pydantic import Field
from sqlalchemy import Row

from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Shown, TimeMs
from pagegate.http.backend.parts import BackendParts
from pagegate.http.backend.sse import KEEP_ALIVE_S, POLL_S, RETRY_MS, WRITE_WAIT_S
from pagegate.storage import screenshots as storage
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.projects import find_project_access
from pagegate.storage.screenshots import GroupNotFound
from pagegate.storage.users import Caller, find_user

log = structlog.get_logger()


class PictureView(Shown):
    screenshot_id: int
    url: str = Field(description="Where its bytes are, below this API; they never change.")
    sha256: str
    size_bytes: int
    width_px: int
    height_px: int
    cut: bool = Field(description="The page is higher than the limit of a picture, which ends there.")


class MemberView(Shown):
    """One picture that was asked for."""

    position: int
    page_id: int
    page_code: str
    page_version: int
    viewport: str = Field(description="`1280x720`, or `1280xauto`.")
    state: str = Field(description="pending, running, succeeded, failed, cancelled or skipped.")
    job_id: int | None = Field(description="The job of `page_screenshot_jobs`; null: the picture was there already.")
    error: dict[str, Any] | None = Field(description="Why there is no picture: code, message, hint.")
    picture: PictureView | None


class GroupView(Shown):
    id: int
    project_id: int
    created_at_ms: TimeMs
    ended: bool = Field(description="Every picture has been taken, or given up.")
    members: list[MemberView]


def show_picture(row: Row[Any]) -> PictureView:
    return PictureView(
        screenshot_id=row.id,
        url=f"/screenshots/{row.id}/picture",
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        width_px=row.width_px,
        height_px=row.height_px,
        cut=row.cut,
    )


async def look_at_group(parts: BackendParts, group_id: int) -> GroupView:
    """The group now. Raises `GroupNotFound`."""
    async with parts.db.read() as tx:
        group = await storage.get_group(tx, group_id)
        members = await storage.list_members(tx, group_id)
    return GroupView(
        id=group.id,
        project_id=group.project_id,
        created_at_ms=group.created_at_ms,
        ended=all(member.ended for member in members),
        members=[
            MemberView(
                position=member.position,
                page_id=member.page_id,
                page_code=member.page_code,
                page_version=member.page_version,
                viewport=member.viewport,
                state=member.state,
                job_id=member.job_id,
                error=member.error,
                picture=None if member.picture is None else show_picture(member.picture),
            )
            for member in members
        ],
    )


async def follow_group(request: web.Request, parts: BackendParts, caller: Caller, group_id: int) -> web.StreamResponse:
    """Stream the members as they change, until all have ended, the client has gone or the process stops."""
    feed = parts.screenshot_feed
    if feed.closed:
        raise ApiError("SHUTTING_DOWN")
    if feed.streams + parts.feed.streams >= parts.limits.streams_max:
        raise ApiError("TOO_MANY_STREAMS", headers={"Retry-After": "5"})
    group = await look_at_group(parts, group_id)
    stream = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
    told: dict[int, MemberView] = {}
    with feed.subscribe(group.project_id) as subscription:
        await stream.prepare(request)
        try:
            await _write(stream, f"retry: {RETRY_MS}\n\n")
            quiet_since_s = asyncio.get_running_loop().time()
            while not feed.closed and request.transport is not None:  # None: the client has hung up
                subscription.quiet()
                seen = await _look(parts, group_id)
                news = [] if seen is None else [one for one in seen.members if told.get(one.position) != one]
                for one in news:
                    await _write(stream, _event("screenshot", one.model_dump()))
                    told[one.position] = one
                if seen is not None and seen.ended:
                    await _write(stream, _event("group.ended", {"id": group_id}))
                    break
                now_s = asyncio.get_running_loop().time()
                if news:
                    quiet_since_s = now_s
                elif now_s - quiet_since_s >= KEEP_ALIVE_S:
                    if not await _may_still_follow(parts, caller, group.project_id):
                        break
                    await _write(stream, ": still here\n\n")
                    quiet_since_s = now_s
                await subscription.news(POLL_S)
            await stream.write_eof()
        except (ConnectionError, TimeoutError):
            log.debug("api.stream.client_gone", group_id=group_id)
            stream.force_close()
        except GroupNotFound:  # pruned while somebody looked at its end
            await stream.write_eof()
    return stream


async def _look(parts: BackendParts, group_id: int) -> GroupView | None:
    """The group now; None while the database is away, which only delays the news."""
    try:
        return await look_at_group(parts, group_id)
    except DatabaseUnavailable:
        log.warning("api.stream.database_unavailable", group_id=group_id)
        return None


async def _may_still_follow(parts: BackendParts, caller: Caller, project_id: int) -> bool:
    """A user who was disabled or taken out of the workspace meanwhile sees no more of it (X5)."""
    try:
        async with parts.db.read() as tx:
            user = await find_user(tx, caller.user_id)
            access = await find_project_access(tx, project_id, caller.user_id)
    except DatabaseUnavailable:
        return True
    return access is not None and user is not None and not user.disabled


def _event(kind: str, data: dict[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {text}\n\n"


async def _write(stream: web.StreamResponse, text: str) -> None:
    async with asyncio.timeout(WRITE_WAIT_S):
        await stream.write(text.encode())
