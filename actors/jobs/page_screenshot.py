"""The page screenshot job: a picture of one version of a page, in one configuration and viewport (S1, S2).

Owns the decision whether a picture still shows the page: looked at before the capture, and again in the transaction
that publishes it, under the page's lock. A page or configuration that changed ends the job as skipped, and the newer
pointer stays. Survives a kill at any await: nothing is visible before the one transaction.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from pagegate.actors.jobs.candidate import (
    Candidate,
    canvas_of,
    canvas_text,
    context_of,
    load_material,
    saved_page,
    snapshot_of,
)
from pagegate.actors.jobs.page_check import PageCheck
from pagegate.actors.jobs.validation_screenshot_publisher import PictureLost, ValidationScreenshotPublisher
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.renderer.contract import Viewport
from pagegate.storage import jobs, pages, screenshots
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.pages import Page
from pagegate.storage.projects import find_project
from pagegate.storage.screenshot_context import CaptureContext, viewport_of
from pagegate.storage.screenshot_pictures import HeldPicture, Publication

log = structlog.get_logger()

PERMISSION_REVOKED = {
    "code": "PERMISSION_REVOKED",
    "message": "Nobody who asked for this screenshot is still a member of the workspace.",
    "hint": "Ask for it again as a member.",
}


@dataclass(frozen=True)
class _Subject:
    """What is to be photographed."""

    page: Page
    candidate: Candidate


class PageScreenshot:
    """The kind `page_screenshot_jobs`. `on_end` hears the project of a job that has ended: a hint."""

    name = screenshots.PAGE_SCREENSHOT
    tell = None  # groups read the jobs themselves

    def __init__(
        self,
        db: Database,
        check: PageCheck,
        publisher: ValidationScreenshotPublisher,
        on_end: Callable[[int], None],
    ) -> None:
        self._db, self._check, self._publisher, self._on_end = db, check, publisher, on_end

    def log_event(self, what: str) -> str:
        return f"page.screenshot.job.{what}"

    async def execute(self, job: ClaimedJob) -> Settle:
        subject = await self._subject(job)
        if subject is None:
            return _ending(job, _stale())
        width_px, height_px = viewport_of(job.row.viewport)
        captured = await self._check.capture(
            job.lease, subject.candidate, Viewport(width_px=width_px, height_px=height_px)
        )
        if captured.unavailable is not None:
            raise TryLater(*captured.unavailable, hint=captured.hint)
        if captured.picture is None:
            said = {
                "code": "PAGE_SCREENSHOT_FAILED",
                "message": captured.content_error or "The page cannot be photographed.",
                "hint": "Check the page again: its surroundings have changed since it was saved.",
            }
            return _ending(job, End("fail", error=said))
        try:
            held = await self._publisher.hold(job.lease, job.row.project_id, captured.picture)
        except PictureLost as error:
            raise TryLater("OBJECT_STORE_UNAVAILABLE", error.message) from error

        async def settle(tx: Tx) -> End:
            return await _stopped(tx, job) or await self._publish(tx, job, subject, held, captured.context)

        return settle

    async def ended(self, job: ClaimedJob) -> None:
        self._on_end(job.row.project_id)

    async def _subject(self, job: ClaimedJob) -> _Subject | None:
        """The page as the job fixed it; None when it is not so any more."""
        async with self._db.read() as tx:
            project = await find_project(tx, job.row.project_id)
            page = await pages.find_page(tx, job.row.page_id)
            if project is None or page is None or page.number != job.row.page_version:
                return None
            version = await pages.find_version(tx, page.id, page.number)
            assert version is not None, "a page's current version exists"
            candidate = await saved_page(tx, await load_material(tx, project), page, version)
        context = context_of(candidate, snapshot_of(candidate))
        return _Subject(page, candidate) if context.fingerprint == job.row.config_fingerprint else None

    async def _publish(
        self, tx: Tx, job: ClaimedJob, subject: _Subject, held: HeldPicture, taken: CaptureContext
    ) -> End:
        row, page = job.row, subject.page
        project = await find_project(tx, row.project_id)
        now = await pages.lock_page(tx, row.page_id)
        if project is None or now is None or now.number != row.page_version:
            return _stale()
        route = {"code": now.code, "title": now.title, "speaker_notes": now.speaker_notes}
        canvas = canvas_text(canvas_of(now, project))
        changed = await self._publisher.unfit(tx, project.id, taken, replace(taken, route=route, canvas=canvas))
        if changed is not None:
            log.info("page.screenshot.job.stale", job_id=job.id, page=page.code, changed=changed)
            return _stale()
        wanted = Publication(row.workspace_id, row.project_id, page.id, row.page_version, row.viewport, taken)
        key = await self._publisher.publish(tx, job.lease, held, wanted)
        if key is None:
            raise TryLater("PAGE_SCREENSHOT_HOLD_LOST", "the picture was held for too long")
        if row.viewport == canvas:
            await pages.set_missing_picture(tx, page.id, row.page_version, key)
        return End("finish", result={"picture_key": key, "page_version": row.page_version, "viewport": row.viewport})


def _stale() -> End:
    return End("skip", error=dict(screenshots.STALE))


def _ending(job: ClaimedJob, end: End) -> Settle:
    async def settle(tx: Tx) -> End:
        return await _stopped(tx, job) or end

    return settle


async def _stopped(tx: Tx, job: ClaimedJob) -> End | None:
    """Why nothing is published any more, whatever came of the capture (Q7)."""
    if await jobs.is_cancel_requested(tx, job.lease.table, job.id):
        return End("cancel", error=jobs.CANCELLED)
    if not await screenshots.is_wanted(tx, job.id, job.row.workspace_id, job.row.user_id):
        return End("cancel", error=PERMISSION_REVOKED)
    return None
