"""What a page would be after a call: the plan that a page mutation checks and commits (A2, S4, D4).

Owns the reading of a stored call against the project as it is now. Writes nothing. What cannot be done is a `Refused`:
content, final at once, with the next step. Nothing is kept; a plan that no longer fits at the commit is made again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from pagegate.actors.agents.tools import (
    ApplyPageEdits,
    ApplyPageEditsCall,
    CreateProjectPage,
    CreateProjectPageCall,
    derive_page_code,
)
from pagegate.actors.jobs.call_job import Refused, read_call, unreadable
from pagegate.actors.jobs.candidate import Candidate
from pagegate.actors.jobs.edits import EditRefused, apply_edits
from pagegate.runtime.contract import Canvas, EntryPage, Framework
from pagegate.storage import jobs, pages
from pagegate.storage.assets import load_assets
from pagegate.storage.components import load_component_sources
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.projects import Project
from pagegate.storage.screenshot_context import theme_digest


@dataclass(frozen=True)
class Target:
    """The part of a plan that the call decides. `page_id` and `base_number` are None for a new page."""

    code: str
    code_is_derived: bool
    title: str
    speaker_notes: str
    framework: Framework
    source: str
    canvas: Canvas | None  # the page's own; None: the project's
    page_id: int | None = None
    base_number: int | None = None


@dataclass(frozen=True)
class Plan:
    """A target with everything that it may import. `skip`: the caller would save it unseen (R8)."""

    call_id: str
    target: Target
    candidate: Candidate
    component_versions: Mapping[str, int]
    skip_visual_verification: bool

    @property
    def about(self) -> dict[str, str]:
        return {"page_code": self.target.code}

    def pins(self, used: frozenset[str]) -> dict[str, int]:
        """The versions of the components that the snapshot held (D4)."""
        return {name: version for name, version in self.component_versions.items() if f"components/{name}" in used}


async def plan_page(tx: Tx, job: ClaimedJob) -> Plan | Refused:
    """Read the job's call against the project as it is now."""
    stored = await read_call(tx, job)
    if isinstance(stored, Refused):
        return stored
    project = stored.project
    match stored.call:
        case CreateProjectPageCall(arguments=arguments):
            target = await _new_page(tx, job, arguments)
        case ApplyPageEditsCall(arguments=arguments):
            target = await _edited_page(tx, job, arguments)
        case _:
            target = unreadable("The stored call is none about a page.")
    if isinstance(target, Refused):
        return target
    components = await load_component_sources(tx, project.id)
    return Plan(
        call_id=stored.call_id,
        target=target,
        candidate=await _candidate(tx, project, target, {name: source for name, (_, source) in components.items()}),
        component_versions={name: version_id for name, (version_id, _) in components.items()},
        skip_visual_verification=stored.run.skip_visual_verification,
    )


def code_taken(code: str) -> Refused:
    return Refused(
        "PAGE_CODE_TAKEN",
        f"The project already has a page {code!r}.",
        "Edit that page with apply_page_edits, choose another code, or leave the code out.",
    )


def stale_base(code: str, base: int | None, current: int | None) -> Refused:
    now = f"version {current}" if current else "deleted"
    return Refused(
        "PAGE_BASE_STALE",
        f"The call is based on version {base} of {code!r}, which is now {now}.",
        "Read the page's current source and make the edits again from there.",
    )


async def _new_page(tx: Tx, job: ClaimedJob, arguments: CreateProjectPage) -> Target | Refused:
    code: str = job.row.candidate_code or await free_code(tx, job.row.project_id, arguments.title)
    if await pages.code_taken(tx, job.row.project_id, code):
        if arguments.code is not None:
            return code_taken(code)
        # The job may have been given another code already, by an earlier start of this very attempt (S4).
        again = (await jobs.get_job(tx, job.lease.table, job.id)).candidate_code
        if again != code and not await pages.code_taken(tx, job.row.project_id, again):
            code = again
        else:
            code = await free_code(tx, job.row.project_id, arguments.title)
    return Target(
        code=code,
        code_is_derived=arguments.code is None,
        title=arguments.title,
        speaker_notes=arguments.speaker_notes,
        framework=arguments.framework,
        source=arguments.source,
        canvas=arguments.canvas,
    )


async def free_code(tx: Tx, project_id: int, title: str) -> str:
    """A code derived from the title that neither a page nor a live job of the project has (S4)."""
    taken = await pages.list_codes(tx, project_id) | await jobs.list_candidate_codes(tx, project_id)
    return derive_page_code(title, taken.__contains__)


async def _edited_page(tx: Tx, job: ClaimedJob, arguments: ApplyPageEdits) -> Target | Refused:
    page = await pages.find_page_by_code(tx, job.row.project_id, arguments.page)
    if page is None:
        return Refused(
            "PAGE_NOT_FOUND", f"There is no page {arguments.page!r}.", "List the project's pages for their codes."
        )
    # A later edit of one step builds on what the earlier one wrote, whatever base it names (A2).
    earlier = await jobs.find_earlier_version(tx, job.row.batch_id, arguments.page, job.row.position)
    base = earlier or arguments.base_version
    if base != page.number:
        return stale_base(page.code, base, page.number)
    version = await pages.find_version(tx, page.id, page.number)
    assert version is not None, "a page's current version exists"
    try:
        source = apply_edits(version.source, [(edit.search, edit.replace) for edit in arguments.edits])
    except EditRefused as refusal:
        return Refused(refusal.code, refusal.message, refusal.hint)
    own_canvas = page.canvas_width_px and Canvas(width_px=page.canvas_width_px, height_px=page.canvas_height_px)
    return Target(
        code=page.code,
        code_is_derived=False,
        title=page.title,
        speaker_notes=page.speaker_notes,
        framework=cast("Framework", page.framework),
        source=source,
        canvas=own_canvas or None,
        page_id=page.id,
        base_number=page.number,
    )


async def _candidate(tx: Tx, project: Project, target: Target, components: Mapping[str, str]) -> Candidate:
    page_sources = await pages.load_page_sources(tx, project.id)
    return Candidate(
        workspace_id=project.workspace_id,
        entry=f"pages/{target.code}{pages.SUFFIX_OF_FRAMEWORK[target.framework]}",
        framework=target.framework,
        source=target.source,
        entry_page=EntryPage(code=target.code, title=target.title, speaker_notes=target.speaker_notes),
        canvas=target.canvas or Canvas(width_px=project.canvas_width_px, height_px=project.canvas_height_px),
        modules={
            **{f"components/{name}": source for name, source in components.items()},
            **{f"pages/{name}": source for name, source in page_sources.items()},
        },
        assets=await load_assets(tx, project.id),
        theme=await theme_digest(tx, project.id),
    )
