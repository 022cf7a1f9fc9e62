"""Visual editing over HTTP (V9): what of a page can be changed by pointing at it, and changing it.

A visual edit is a change of the page like any other: it becomes a call of `apply_page_edits`, goes through the gate,
and is saved only when the page still holds. The answer is the run to follow.
"""

import hashlib
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from pagegate.actors.agents.arguments import OneLine
from pagegate.actors.agents.runs import StartApiRun
from pagegate.actors.agents.tools import EDITS_MAX
from pagegate.actors.agents.visual_edits import Splice, edit_call
from pagegate.http.backend.errors import REFUSALS, ApiError
from pagegate.http.backend.light import RUNTIME_REFUSALS, run_light
from pagegate.http.backend.models import Said, Shown, VersionNumber
from pagegate.http.backend.pages import PageParams, page_of, version_of
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.http.backend.tool_calls import IDEMPOTENCY_KEY_HEADER, AcceptedRun, idempotency_key
from pagegate.runtime.contract import LightResult
from pagegate.storage.pages import SUFFIX_OF_FRAMEWORK, Page, PageVersion
from pagegate.storage.runs import get_run
from pagegate.storage.steps import find_run_by_key

visual_edits = Noun("visual edits")

VALUE_CHARS_MAX = 100_000
EDIT_REFUSALS = [code for code in REFUSALS if code.startswith("VISUAL_EDIT_")]


class EditablesParams(PageParams):
    version: VersionNumber | None = Field(default=None, description="An earlier version; without it, the current one.")


class TextRange(Shown):
    """A place in the source: offsets in UTF-16 units from 0, lines and columns from 1; the end is not part of it."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


class ElementView(Shown):
    """The element a node belongs to; a rendered page carries its place as `data-pg-loc="<file>:<line>:<column>"`."""

    id: str
    tag: str
    line: int
    column: int


class WhyNot(Shown):
    code: Literal["EXPRESSION", "REPEATED", "COMPONENT"]
    message: str
    hint: str


class EditableNode(Shown):
    """One value of the page. Its id is a path through the elements: it stays when values change."""

    id: str
    kind: Literal["text", "attribute", "class", "prop", "component"]
    element: ElementView
    name: str | None = Field(description="The attribute's name.")
    value: str | None = Field(description="As a reader sees it, line ends as LF; null: the attribute is not there yet.")
    range: TextRange
    can: list[Literal["set", "remove", "clear"]] = Field(description="What an edit may do; empty: nothing.")
    reason: WhyNot | None = Field(description="Why it may not be changed, or not without `all_repetitions`.")


class Editables(Shown):
    page_id: int
    version: int
    language: Literal["vue", "react"]
    source_sha256: str
    nodes: list[EditableNode]


class GivenRange(Said):
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class VisualEdit(Said):
    node: str = Field(min_length=1, max_length=10_000)
    value: str | None = Field(max_length=VALUE_CHARS_MAX, description="Plain text, not markup; null removes.")
    range: GivenRange | None = Field(default=None, description="Where the node was listed; refused when it moved.")
    all_repetitions: bool = Field(default=False, description="In a loop: change every repetition at once.")


class VisualEdits(Said):
    """Edits of one page. All of them apply to `base_version`, or none does."""

    base_version: VersionNumber
    source_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    edits: list[VisualEdit] = Field(min_length=1, max_length=EDITS_MAX)
    idempotency_key: Annotated[OneLine, Field(max_length=200)] | None = None
    skip_visual_verification: bool = False


@visual_edits.route(
    "GET",
    "/pages/{page_id}/editable-nodes",
    refusals=["PAGE_NOT_FOUND", "PAGE_VERSION_NOT_FOUND", *EDIT_REFUSALS, *RUNTIME_REFUSALS],
)
async def list_editable_nodes(call: Call[EditablesParams, Nothing]) -> Editables:
    """What of a page can be changed by pointing at it, and what cannot and why."""
    async with call.parts.db.read() as tx:
        page, _ = await page_of(tx, call.user, call.params.page_id)
        version = await version_of(tx, page.id, call.params.version or page.number)
    told = _result(await run_light(call.parts, "visual-edit", {"action": "list", **_source(page, version)}))
    return Editables(page_id=page.id, version=version.number, **told)


@visual_edits.route(
    "POST",
    "/pages/{page_id}/visual-edits",
    status=202,
    refusals=[
        "PAGE_NOT_FOUND",
        "ROLE_REQUIRED",
        "PAGE_VERSION_NOT_FOUND",
        *EDIT_REFUSALS,
        *RUNTIME_REFUSALS,
        "AI_PAGE_MUTATION_ACTIVE_JOBS_LIMIT",
        "PAGE_SOURCE_TOO_LARGE",
        "IDEMPOTENCY_KEY_REUSED",
        "BACKEND_BUSY",
    ],
    headers={IDEMPOTENCY_KEY_HEADER: "Instead of `idempotency_key` in the body."},
    body_bytes_max=lambda limits: limits.source_body_bytes_max(),
)
async def submit_visual_edits(call: Call[PageParams, VisualEdits]) -> AcceptedRun:
    """Change values of a page; the changed page goes through the gate as a call of `apply_page_edits`."""
    body = call.body
    key = idempotency_key(body.idempotency_key, call.request.headers.get(IDEMPOTENCY_KEY_HEADER))
    async with call.parts.db.read() as tx:
        page, project = await page_of(tx, call.user, call.params.page_id, write=True)
        again = key is not None and await find_run_by_key(tx, call.user.user_id, key) is not None
        if page.number != body.base_version and not again:
            message = f"The page is at version {page.number} now, and the edits were made for {body.base_version}."
            raise ApiError("VISUAL_EDIT_STALE", message)
        version = await version_of(tx, page.id, body.base_version)
    edits: list[JsonValue] = [edit.model_dump(exclude_none=True) | {"value": edit.value} for edit in body.edits]
    told = _result(await run_light(call.parts, "visual-edit", _order(page, version, body.source_sha256, edits)))
    splices = [Splice(**splice) for splice in told["splices"]]
    if not splices:
        raise ApiError("VISUAL_EDIT_NO_CHANGE")
    edit = edit_call(page.code, version.number, version.source, splices)
    started = await call.ask_runs(
        StartApiRun(call.user.user_id, project.id, (edit,), key, body.skip_visual_verification)
    )
    async with call.parts.db.read() as tx:
        run = await get_run(tx, started.run_id)
    return AcceptedRun(run_id=started.run_id, status=run.status, created=started.created)


def _source(page: Page, version: PageVersion) -> dict[str, JsonValue]:
    path = f"pages/{page.code}{SUFFIX_OF_FRAMEWORK[page.framework]}"
    return {"path": path, "source": version.source}


def _order(page: Page, version: PageVersion, sha256: str | None, edits: list[JsonValue]) -> dict[str, JsonValue]:
    """A version never changes, so its number says as much as a hash does."""
    known = sha256 or hashlib.sha256(version.source.encode()).hexdigest()
    return {"action": "apply", **_source(page, version), "source_sha256": known, "edits": edits}


def _result(told: LightResult) -> dict[str, Any]:
    """What the tool answered. Raises its refusal."""
    if told.ok:
        return told.result
    error = told.errors[0]
    place = f" (line {error.line})" if error.line else ""
    raise ApiError(error.code if error.code in EDIT_REFUSALS else "INTERNAL", error.message + place, error.hint or None)
