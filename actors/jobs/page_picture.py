"""The picture of a page check, on its way into the commit (S3, S5).

Owns what becomes of the PNG that the judging browser took: published with the page when everything it depends on is
still so, dropped otherwise, kept with the job of a refused page. A saved page without a fitting picture gets its
screenshot job in the same commit; the write itself is never affected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from pagegate.actors.jobs.candidate import canvas_of, canvas_text, context_of, load_material, saved_page, snapshot_of
from pagegate.actors.jobs.page_check import Checked
from pagegate.actors.jobs.validation_screenshot_publisher import PictureLost, ValidationScreenshotPublisher
from pagegate.storage import pages, screenshots
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.pages import Page, PageVersion
from pagegate.storage.projects import Project, find_project
from pagegate.storage.screenshot_context import CaptureContext, digest_of
from pagegate.storage.screenshot_pictures import HeldPicture, Publication
from pagegate.storage.screenshots import Asker, Wanted

log = structlog.get_logger()


@dataclass(frozen=True)
class Saved:
    """What the transaction has just written."""

    page_id: int
    number: int


@dataclass
class PagePictures:
    """`active_jobs_max` as `PAGE_SCREENSHOT_MAX_ACTIVE_JOBS`; `on_ordered` wakes the screenshot lane, after the commit.

    `deadline_s`: how long a screenshot that is still missing is tried for.
    """

    db: Database
    publisher: ValidationScreenshotPublisher
    active_jobs_max: int = 64
    deadline_s: float = 1800.0
    on_ordered: Callable[[], None] = lambda: None
    _ordered_by: set[int] = field(default_factory=set)

    async def hold(self, job: ClaimedJob, checked: Checked) -> HeldPicture | None:
        """Bring the temporary PNG to its own place, outside the transaction; one that fails is none. `LeaseLost`."""
        if checked.picture is None:
            return None
        try:
            return await self.publisher.hold(job.lease, job.row.project_id, checked.picture)
        except (PictureLost, DatabaseUnavailable) as error:
            log.warning("page.picture.not_kept", job_id=job.id, reason=str(error))
            return None

    async def keep_refused(self, tx: Tx, held: HeldPicture | None) -> str | None:
        """A refused page's picture stays with its job."""
        return None if held is None else await self.publisher.keep_refused(tx, held)

    async def attach(
        self, tx: Tx, job: ClaimedJob, saved: Saved, checked: Checked, held: HeldPicture | None
    ) -> dict[str, Any]:
        """Publish the picture with the page that was saved in this transaction, or order one for later.

        Answers what the result says: `picture_key`, and `screenshot` = published | pending | missing.
        """
        project = await find_project(tx, job.row.project_id)
        page, version = (
            await pages.find_page(tx, saved.page_id),
            await pages.find_version(tx, saved.page_id, saved.number),
        )
        assert project is not None, "the page that was just saved has its project"
        assert page is not None, "the page was just saved"
        assert version is not None, "the version was just saved"
        if held is not None:
            key = await self._publish(tx, job, project, page, version, checked.context, held)
            if key is not None:
                await pages.set_missing_picture(tx, page.id, version.number, key)
                return {"picture_key": key, "screenshot": "published"}
        return await self._order(tx, job, project, page, version)

    def ended(self, job_id: int) -> None:
        """The job's end is durable: wake the lane if it ordered a screenshot."""
        if job_id in self._ordered_by:
            self._ordered_by.discard(job_id)
            self.on_ordered()

    async def _publish(
        self,
        tx: Tx,
        job: ClaimedJob,
        project: Project,
        page: Page,
        version: PageVersion,
        taken: CaptureContext,
        held: HeldPicture,
    ) -> str | None:
        canvas = canvas_text(canvas_of(page, project))
        saved = replace(
            taken,
            source=digest_of(version.source),
            route={"code": page.code, "title": version.title, "speaker_notes": version.speaker_notes},
            canvas=canvas,
        )
        changed = await self.publisher.unfit(tx, project.id, taken, saved)
        if changed is not None:
            log.info("page.picture.dropped", job_id=job.id, page=page.code, changed=changed)
            return None
        wanted = Publication(project.workspace_id, project.id, page.id, version.number, canvas, taken)
        return await self.publisher.publish(tx, job.lease, held, wanted)

    async def _order(
        self, tx: Tx, job: ClaimedJob, project: Project, page: Page, version: PageVersion
    ) -> dict[str, Any]:
        if not await screenshots.has_room(tx, self.active_jobs_max):
            log.warning("page.screenshot.job.not_made", job_id=job.id, page=page.code, reason="the lane is full")
            return {"picture_key": None, "screenshot": "missing"}
        candidate = await saved_page(tx, await load_material(tx, project), page, version)
        fingerprint = context_of(candidate, snapshot_of(candidate)).fingerprint
        wanted = Wanted(page.id, page.code, version.number, fingerprint, canvas_text(candidate.canvas))
        asker = Asker(project.workspace_id, project.id, job.row.user_id)
        order, _ = await screenshots.insert_job(tx, asker, wanted, deadline_ms=int(self.deadline_s * 1000))
        self._ordered_by.add(job.id)
        log.info("page.screenshot.job.created", job_id=order, page=page.code, version=version.number, by=job.id)
        return {"picture_key": None, "screenshot": "pending", "screenshot_job_id": order}
