"""Screenshots over HTTP (S1): ask for pictures of pages in several viewports, follow the group, see a page's history.

A request makes a group and returns at once; the pictures are taken behind the checks. The group tells what became of
each, by polling or as a stream. Leaving stops nothing; deleting a group cancels what only it waits for.
"""

from typing import Annotated, Any

import structlog
from aiohttp import web
from pydantic import Field

from pagegate.actors.jobs.screenshot_order import fix_screenshots
from pagegate.actors.queues.control import CancelOneJob
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Id, Params, ProjectParams, Said, Shown, TimeMs
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.http.backend.screenshot_stream import (
    GroupView,
    PictureView,
    follow_group,
    look_at_group,
    show_picture,
)
from pagegate.storage import pages as page_storage
from pagegate.storage import screenshot_pictures as pictures
from pagegate.storage import screenshots as storage
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import JobNotFound
from pagegate.storage.objects import ObjectMissing
from pagegate.storage.pages import Page
from pagegate.storage.screenshot_context import viewport_text
from pagegate.storage.users import Caller

log = structlog.get_logger()
screenshots = Noun("screenshots")

_PAGES_MAX = 1000
_HISTORY_MAX = 200
_JOB_DEADLINE_MS = 1_800_000


class GroupParams(Params):
    group_id: Id


class ScreenshotParams(Params):
    screenshot_id: Id


class PageHistoryParams(Params):
    page_id: Id
    limit: int = Field(default=50, ge=1, le=_HISTORY_MAX)


class ViewportSaid(Said):
    """In CSS pixels. A height of null: as high as the page."""

    width_px: Annotated[int, Field(ge=16, le=8192)]
    height_px: Annotated[int, Field(ge=16, le=8192)] | None = None

    def text(self) -> str:
        return viewport_text(self.width_px, self.height_px)


class ScreenshotsWanted(Said):
    pages: list[Id] | None = Field(
        default=None, max_length=_PAGES_MAX, description="Ids of the project's pages; left out: all of them."
    )
    viewports: list[ViewportSaid] = Field(
        default=[], max_length=50, description="Each page in each of them; left out: each page in its own canvas."
    )


class HistoryView(Shown):
    """A picture of a page's history."""

    picture: PictureView
    page_version: int
    viewport: str = Field(description="`1280x720`, or `1280xauto`.")
    is_current: bool = Field(description="It shows the page in this viewport now.")
    content: dict[str, Any] = Field(description="All that the picture depends on, as digests.")
    created_at_ms: TimeMs


class HistoryList(Shown):
    screenshots: list[HistoryView]


@screenshots.route(
    "POST",
    "/projects/{project_id}/screenshot-groups",
    status=202,
    refusals=[
        "PROJECT_NOT_FOUND",
        "ROLE_REQUIRED",
        "PAGE_NOT_FOUND",
        "PAGE_SCREENSHOT_GROUP_TOO_LARGE",
        "PAGE_SCREENSHOT_ACTIVE_JOBS_LIMIT",
    ],
)
async def ask_for_screenshots(call: Call[ProjectParams, ScreenshotsWanted]) -> GroupView:
    """Ask for pictures of pages as they are now; pictures that exist and jobs that run already are shared."""
    limits, asked = call.parts.limits, call.body
    async with call.parts.db.read() as tx:
        project = await project_of(tx, call.user, call.params.project_id, need="editor")
        wanted_pages = await _pages_of(tx, project.id, asked.pages)
        size = len(wanted_pages) * max(1, len(asked.viewports))
        if size > limits.screenshot_group_max:
            raise ApiError(
                "PAGE_SCREENSHOT_GROUP_TOO_LARGE",
                f"{size} pictures are more than the {limits.screenshot_group_max} of one request.",
            )
        wanted = await fix_screenshots(tx, project, wanted_pages, [viewport.text() for viewport in asked.viewports])
    asker = storage.Asker(project.workspace_id, project.id, call.user.user_id)
    async with call.parts.db.write() as tx:
        group_id = await storage.submit_group(
            tx, asker, wanted, active_jobs_max=limits.screenshot_active_jobs_max, deadline_ms=_JOB_DEADLINE_MS
        )
    log.info("page.screenshot.job.requested", group_id=group_id, project_id=project.id, pictures=len(wanted))
    call.parts.wake_screenshots()
    return await look_at_group(call.parts, group_id)


@screenshots.route("GET", "/screenshot-groups/{group_id}", refusals=["SCREENSHOT_GROUP_NOT_FOUND"])
async def get_screenshot_group(call: Call[GroupParams, Nothing]) -> GroupView:
    """What became of each picture of a group so far."""
    await _group_of(call)
    return await look_at_group(call.parts, call.params.group_id)


@screenshots.route(
    "GET",
    "/screenshot-groups/{group_id}/events",
    answer=Bytes("text/event-stream", "`screenshot` events with a member each, then `group.ended`."),
    refusals=["SCREENSHOT_GROUP_NOT_FOUND", "TOO_MANY_STREAMS", "SHUTTING_DOWN"],
    headers={"Last-Event-ID": "Understood and not needed: a stream begins with the state of every member."},
)
async def follow_screenshot_group(call: Call[GroupParams, Nothing]) -> web.StreamResponse:
    """Follow a group until every picture has been taken or given up; closing the stream stops nothing."""
    await _group_of(call)
    return await follow_group(call.request, call.parts, call.user, call.params.group_id)


@screenshots.route(
    "DELETE",
    "/screenshot-groups/{group_id}",
    status=202,
    refusals=["SCREENSHOT_GROUP_NOT_FOUND", "ROLE_REQUIRED", "BACKEND_BUSY"],
)
async def cancel_screenshot_group(call: Call[GroupParams, Nothing]) -> GroupView:
    """Cancel the jobs that only this group waits for; shared ones go on, pictures stay."""
    await _group_of(call, write=True)
    async with call.parts.db.read() as tx:
        mine = await storage.list_only_of_group(tx, call.params.group_id)
    for job_id in mine:
        try:
            await call.ask_jobs(CancelOneJob(storage.PAGE_SCREENSHOT, job_id, call.user.user_id))
        except JobNotFound:
            continue
    return await look_at_group(call.parts, call.params.group_id)


@screenshots.route("GET", "/pages/{page_id}/screenshots", refusals=["PAGE_NOT_FOUND"])
async def list_page_screenshots(call: Call[PageHistoryParams, Nothing]) -> HistoryList:
    """A page's pictures with the content that each shows, newest first."""
    async with call.parts.db.read() as tx:
        page = await page_storage.find_page(tx, call.params.page_id)
        if page is None:
            raise ApiError("PAGE_NOT_FOUND")
        await project_of(tx, call.user, page.project_id, not_found="PAGE_NOT_FOUND")
        found = await pictures.list_history(tx, page.id, call.params.limit)
    return HistoryList(
        screenshots=[
            HistoryView(
                picture=show_picture(row),
                page_version=row.page_version,
                viewport=row.viewport,
                is_current=row.is_current,
                content=row.content,
                created_at_ms=row.created_at_ms,
            )
            for row in found
        ]
    )


@screenshots.route(
    "GET",
    "/screenshots/{screenshot_id}/picture",
    answer=Bytes("image/png", "The picture. It never changes."),
    refusals=["SCREENSHOT_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
)
async def get_screenshot_picture(call: Call[ScreenshotParams, Nothing]) -> web.StreamResponse:
    """The bytes of a picture."""
    async with call.parts.db.read() as tx:
        artifact = await pictures.find_artifact(tx, call.params.screenshot_id)
        if artifact is None:
            raise ApiError("SCREENSHOT_NOT_FOUND")
        await project_of(tx, call.user, artifact.project_id, not_found="SCREENSHOT_NOT_FOUND")
    name = f"page-{artifact.page_id}-v{artifact.page_version}-{artifact.viewport}.png"
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            artifact.object_key,
            media_type="image/png",
            sha256=artifact.sha256,
            name=name,
            inline=True,
        )
    except ObjectMissing:
        raise ApiError("SCREENSHOT_NOT_FOUND", "The picture's bytes are missing.", "Ask for it again.") from None


async def _pages_of(tx: Tx, project_id: int, ids: list[int] | None) -> list[Page]:
    """The project's pages, or those that were named, in their order. A page of elsewhere does not exist (X5)."""
    if ids is None:
        return [entry.page for entry in await page_storage.list_pages(tx, project_id)]
    found: list[Page] = []
    for page_id in dict.fromkeys(ids):
        page = await page_storage.find_page(tx, page_id)
        if page is None or page.project_id != project_id:
            raise ApiError("PAGE_NOT_FOUND", f"The project has no page {page_id}.")
        found.append(page)
    return found


async def _group_of(call: Call[GroupParams, Nothing], *, write: bool = False) -> None:
    async with call.parts.db.read() as tx:
        await may_see_group(tx, call.user, call.params.group_id, write=write)


async def may_see_group(tx: Tx, caller: Caller, group_id: int, *, write: bool = False) -> None:
    """Raises `SCREENSHOT_GROUP_NOT_FOUND` for strangers, `ROLE_REQUIRED` for viewers who want to write."""
    group = await storage.get_group(tx, group_id)
    need = "editor" if write else "viewer"
    await project_of(tx, caller, group.project_id, need, not_found="SCREENSHOT_GROUP_NOT_FOUND")  # type: ignore[arg-type]  # both are roles
