"""The page mutation job: one call of `create_project_page` or `apply_page_edits`, from its arguments to the commit.

Owns the decision about a verdict, and what the final transaction re-checks and writes: page, version, picture, and
through the job's end the external task (A2, A3, Q7, R8, S5). What the page would be is `page_plan`'s, the check is
`page_check`'s, the picture's way is `page_picture`'s. Survives a kill at any await: nothing is visible before the one
transaction, and a version's `job_id` is unique.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.submissions import refuse_cut
from pagegate.actors.jobs.asset_bytes import Lost
from pagegate.actors.jobs.call_job import CallTeller, Refused, about_of, ending
from pagegate.actors.jobs.page_check import Checked, PageCheck, Stopwatch
from pagegate.actors.jobs.page_picture import PagePictures, Saved
from pagegate.actors.jobs.page_plan import Plan, code_taken, plan_page, stale_base
from pagegate.actors.jobs.validation_screenshot_publisher import ValidationScreenshotPublisher
from pagegate.actors.jobs.verdict import Verdict
from pagegate.actors.jobs.verdict_memory import VerdictMemory
from pagegate.actors.queues.kinds import End, Settle, StartOver, TryLater
from pagegate.storage import components, images, jobs, pages
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.objects import Objects
from pagegate.storage.pages import NewVersion, PageChanged, PageCodeTaken
from pagegate.storage.screenshot_pictures import HeldPicture

log = structlog.get_logger()

_REPAIR = "Repair the findings of severity error in the source and submit the whole page again; nothing was saved."
_REPAIR_FIRST = (
    "The component {name}, called before this page in the same step, was not saved. Repair that one first, as its own "
    "result says; then send this page again as it is. Nothing was saved."
)
_SEE_TO_PICTURE = (
    "The picture {name}, called before this page in the same step, was not made. See to that one first, as its own "
    "result says; then send this page again as it is, or without it when there can be none. Nothing was saved."
)
_LATER = "This says nothing about the source: do not change it for that. Send the call again later. Nothing was saved."
_SAVED = "The page is saved; nothing needs to be done."
_SAVED_WITH_WARNINGS = "The page is saved. Look at its findings; repair what was not meant with apply_page_edits."
_SAVED_UNSEEN = "The page is saved, but nobody has looked at it: check it again when rendering is available."


def decide(verdict: Verdict, skip_visual_verification: bool, lost: Lost | None = None) -> Refused | TryLater | None:
    """Why a page is not saved now, or None when it is (R8, R9). `lost`: it was not looked at for its assets. Pure."""
    if verdict.success or (verdict.status == "unavailable" and skip_visual_verification):
        return None
    if verdict.status == "unavailable":
        code, hint = ("RENDER_SERVICE_UNAVAILABLE", _LATER) if lost is None else (lost.code, lost.hint)
        message = lost.message if lost is not None else f"the page could not be looked at ({verdict.unavailable_code})"
        return TryLater(code, message, result=told(verdict, code=code, next=hint), hint=hint)
    return Refused("PAGE_VALIDATION_FAILED", verdict.summary(), _REPAIR)


def repair_first(verdict: Verdict, refused: Sequence[str], pictures: Sequence[str] = ()) -> str | None:
    """What to do about a page that misses a component or a picture of its own step, which was refused (A11). Pure."""
    missing = _misses(verdict, "PAGE_IMPORT_NOT_FOUND")
    named = (name for name in refused if any(f"components/{name}" in message for message in missing))
    first = next((_REPAIR_FIRST.format(name=name) for name in named), None)
    if first is not None:
        return first
    missing = _misses(verdict, "PAGE_ASSET_NOT_FOUND")
    named = (name for name in pictures if any(_names_asset(message, name) for message in missing))
    return next((_SEE_TO_PICTURE.format(name=name) for name in named), None)


def _misses(verdict: Verdict, code: str) -> list[str]:
    """What findings of this code say."""
    return [finding.message for finding in verdict.findings if finding.code == code]


def _names_asset(message: str, name: str) -> bool:
    """An address may carry a query or a fragment."""
    return any(f'"@assets/{name}{end}' in message for end in '"?#')


def told(verdict: Verdict, **more: Any) -> dict[str, Any]:
    """What the agent is told of a check: the verdict in its words, what changed, and what to do next (A11)."""
    return {**verdict.model_dump(exclude_none=True), "summary": verdict.summary(), **more}


class PageMutation:
    """The kind `ai_page_mutation_jobs`. `on_end` is called when a job's end is durable: a hint to the coordinator."""

    name = jobs.PAGE_MUTATION

    def __init__(
        self,
        db: Database,
        objects: Objects,
        check: PageCheck,
        feed: RunFeed,
        on_end: Callable[[], None],
        pictures: PagePictures | None = None,
    ) -> None:
        self._db, self._check, self._teller = db, check, CallTeller(db, feed, on_end)
        self._pictures = pictures or PagePictures(db, ValidationScreenshotPublisher(db, objects))
        self._memory = VerdictMemory()

    def log_event(self, what: str) -> str:
        return f"ai.page_mutation.job.{what}"

    async def execute(self, job: ClaimedJob) -> Settle:
        async with self._db.read() as tx:
            plan = await plan_page(tx, job)
        if isinstance(plan, Refused):
            return ending(job, plan.end(about_of(job)))
        if (known := await self._find_refusal(job, plan)) is not None:
            return ending(job, known)
        if plan.target.page_id is None and plan.target.code != job.row.candidate_code:
            async with self._db.write() as tx:
                await jobs.change_candidate_code(tx, job.lease, plan.target.code)

        async def progress(stage: str) -> None:
            await self._teller.progress(job, plan.call_id, plan.about, stage)

        checked = await self._check.run(job.lease, plan.candidate, progress)
        self._memory.heed(checked)
        refusal = decide(checked.verdict, plan.skip_visual_verification, checked.lost)
        if isinstance(refusal, TryLater):
            raise refusal
        held = await self._pictures.hold(job, checked)
        if refusal is not None:
            return ending(job, lambda tx: self._refuse(tx, job, refusal, plan, checked, held))
        return ending(job, lambda tx: self._save(tx, job, plan, checked, held))

    async def tell(self, tx: Tx, job: ClaimedJob, news: End | TryLater) -> None:
        await self._teller.news(tx, job, news)

    async def ended(self, job: ClaimedJob) -> None:
        self._teller.ended(job)
        self._pictures.ended(job.id)

    async def _find_refusal(self, job: ClaimedJob, plan: Plan) -> End | None:
        """Why nothing has to be checked: the source is cut short, or was refused as it is before (A11)."""
        target = plan.target
        result = refuse_cut(plan.candidate.entry, target.source, plan.about)
        if result is not None:
            error = {"code": result["code"], "message": result["summary"], "hint": result["next"]}
            return End("fail", result=result, error=error)
        async with self._db.read() as tx:
            known = await self._memory.find(tx, job.row.project_id, plan.candidate)
        if known is None:
            return None
        log.info("ai.page_mutation.verdict.repeated", job_id=job.id, page=target.code)
        error = {"code": "PAGE_VALIDATION_FAILED", "message": known.get("summary", ""), "hint": known["next"]}
        return End("fail", result=known, error=error)

    async def _refuse(
        self, tx: Tx, job: ClaimedJob, refusal: Refused, plan: Plan, checked: Checked, held: HeldPicture | None
    ) -> End:
        picture = {"picture_key": await self._pictures.keep_refused(tx, held)}
        refused = await components.list_refused_of_step(tx, job.row.batch_id, job.row.position)
        pictures = []
        if _misses(checked.verdict, "PAGE_ASSET_NOT_FOUND"):
            pictures = await images.list_refused_of_step(tx, job.row.batch_id, job.row.position)
        hint = repair_first(checked.verdict, refused, pictures) or refusal.hint
        result = told(checked.verdict, code=refusal.code, next=hint, **_of(plan, checked), **picture)
        await self._memory.keep(tx, job.row.project_id, checked, result)
        return End("fail", result=result, error={**refusal.error, "hint": hint})

    async def _save(self, tx: Tx, job: ClaimedJob, plan: Plan, checked: Checked, held: HeldPicture | None) -> End:
        watch = Stopwatch()
        try:
            saved = await _write_page(tx, job, plan, checked)
        except PageCodeTaken:
            if plan.target.code_is_derived:
                raise StartOver from None
            return code_taken(plan.target.code).end(plan.about)
        except PageChanged:
            page = await pages.find_page_by_code(tx, job.row.project_id, plan.target.code)
            return stale_base(plan.target.code, plan.target.base_number, page.number if page else None).end(plan.about)
        picture = await self._pictures.attach(tx, job, saved, checked, held)
        watch.lap("save_ms")
        log.info(
            "ai.page_mutation.save.finished", job_id=job.id, page=plan.target.code, version=saved.number, **watch.laps
        )
        more = {**_of(plan, checked), **picture}
        more["timings_ms"] |= watch.laps
        if checked.verdict.status == "unavailable":
            unseen = {"skipped_visual_verification": True}  # the audit mark of R8
            result = told(checked.verdict, version=saved.number, next=_SAVED_UNSEEN, **more, **unseen)
            return End("finish", result=result)
        next_step = _SAVED_WITH_WARNINGS if checked.verdict.findings else _SAVED
        return End("finish", result=told(checked.verdict, version=saved.number, next=next_step, **more))


async def _write_page(tx: Tx, job: ClaimedJob, plan: Plan, checked: Checked) -> Saved:
    target = plan.target
    version = NewVersion(
        source=target.source,
        title=target.title,
        speaker_notes=target.speaker_notes,
        component_pins=plan.pins(checked.used),
        status=checked.verdict.status,
        verdict=checked.verdict.model_dump(exclude_none=True),
        picture_key=None,  # it comes in the same transaction, when it fits what is saved
        job_id=job.id,
        created_by=job.row.user_id,
    )
    if target.page_id is not None:
        assert target.base_number is not None, "an edit has a base"
        number = await pages.add_page_version(tx, target.page_id, target.base_number, version)
        return Saved(target.page_id, number)
    page_id = await pages.insert_page_with_first_version(
        tx,
        job.row.project_id,
        code=target.code,
        framework=target.framework,
        version=version,
        canvas_width_px=target.canvas.width_px if target.canvas else None,
        canvas_height_px=target.canvas.height_px if target.canvas else None,
    )
    return Saved(page_id, 1)


def _of(plan: Plan, checked: Checked) -> dict[str, Any]:
    return {"page_code": plan.target.code, "timings_ms": dict(checked.timings_ms)}
