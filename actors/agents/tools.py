"""The tools an agent may call, as data: what a call says and what is wrong with it before anything is written (A2, A9).

Owns the models of the writing tools: of pages (`create_project_page`, `apply_page_edits`), of components
(`create_component`, `apply_component_edits`) and of pictures (`generate_image`). Every door parses a step's calls with
them, and the job that executes a call parses the stored one with them again, so both read the same words the same way.

Only what a call shows by itself is decided here. What depends on the state at execution (a stale base, an edit that
matches nothing or twice, an unknown page) is refused by the job, call by call, so that one bad call does not sink its
siblings.
Nothing here is stored; it survives in `ai_agent_tool_calls`.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from pagegate.actors.agents.arguments import (
    BIGGEST_INT,
    SOURCE_BYTES_MAX,
    Arguments,
    CallId,
    ComponentName,
    OneLine,
    PageCode,
    PictureName,
    SearchReplace,
    SourceText,
    StorableText,
    WholeCanvas,
)
from pagegate.runtime.contract import Framework

SPEAKER_NOTES_CHARS_MAX = 20_000
EDITS_MAX = 200
IMAGE_PROMPT_CHARS_MAX = 4000
# How codes begin that are no fault of a prompt; what changing it cannot mend counts against no repair budget (A11).
IMAGE_INFRASTRUCTURE = ("IMAGE_PROVIDER_", "IMAGE_ANSWER_", "IMAGE_MAY_")

ImageSize = Literal["auto", "256x256", "512x512", "1024x1024", "1536x1024", "1024x1536", "1792x1024", "1024x1792"]


class ToolCallsRefused(Exception):
    """A step's calls were refused as a whole; nothing was written. `code` is stable, `hint` is the next step."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.hint = code, message, hint


class CreateProjectPage(Arguments):
    """Create a page from its whole source. Without a `code` one is derived from the title (S4)."""

    title: OneLine
    framework: Framework = "vue"
    code: PageCode | None = None
    source: SourceText
    speaker_notes: Annotated[StorableText, Field(max_length=SPEAKER_NOTES_CHARS_MAX)] = ""
    canvas: WholeCanvas | None = Field(default=None, description="The page's own canvas; without it, the project's.")


class Edits(Arguments):
    """Edits of one source."""

    base_version: int = Field(ge=1, le=BIGGEST_INT)
    edits: list[SearchReplace] = Field(min_length=1, max_length=EDITS_MAX)

    @model_validator(mode="after")
    def _bounded(self) -> "Edits":
        size_bytes = sum(len(edit.search.encode()) + len(edit.replace.encode()) for edit in self.edits)
        if size_bytes > SOURCE_BYTES_MAX:
            raise PydanticCustomError(
                "PAGE_SOURCE_TOO_LARGE",
                "the edits have {size_bytes} bytes together, {max_bytes} are allowed",
                {"size_bytes": size_bytes, "max_bytes": SOURCE_BYTES_MAX},
            )
        return self


class ApplyPageEdits(Edits):
    """Edit a page: all edits apply, in order, to `base_version`, or none does."""

    page: PageCode


class CreateComponent(Arguments):
    """Create a component from its whole source; `name` has its ending, which says the framework (D3)."""

    name: ComponentName
    source: SourceText


class ApplyComponentEdits(Edits):
    """Edit a component: all edits apply, in order, to `base_version`, or none does."""

    component: ComponentName


class GenerateImage(Arguments):
    """Let a provider make a picture; it becomes a file of the project.

    Without `quality` and `background` the provider's own are taken; not every model knows every size.
    """

    name: PictureName
    prompt: Annotated[StorableText, Field(min_length=1, max_length=IMAGE_PROMPT_CHARS_MAX)]
    size: ImageSize = "1024x1024"
    quality: Literal["low", "medium", "high", "standard", "hd"] | None = None
    background: Literal["transparent", "opaque"] | None = None

    @model_validator(mode="after")
    def _can_be(self) -> "GenerateImage":
        if not self.prompt.strip():
            raise PydanticCustomError("text_empty", "the prompt is empty")
        if self.background == "transparent" and not self.name.lower().endswith((".png", ".webp")):
            raise PydanticCustomError("image_background", "a transparent picture needs a name in .png or .webp")
        return self


class CreateProjectPageCall(Arguments):
    call_id: CallId
    tool: Literal["create_project_page"]
    arguments: CreateProjectPage


class ApplyPageEditsCall(Arguments):
    call_id: CallId
    tool: Literal["apply_page_edits"]
    arguments: ApplyPageEdits


class CreateComponentCall(Arguments):
    call_id: CallId
    tool: Literal["create_component"]
    arguments: CreateComponent


class ApplyComponentEditsCall(Arguments):
    call_id: CallId
    tool: Literal["apply_component_edits"]
    arguments: ApplyComponentEdits


class GenerateImageCall(Arguments):
    call_id: CallId
    tool: Literal["generate_image"]
    arguments: GenerateImage


AnyToolCall = (
    CreateProjectPageCall | ApplyPageEditsCall | CreateComponentCall | ApplyComponentEditsCall | GenerateImageCall
)
ToolCall = Annotated[AnyToolCall, Field(discriminator="tool")]

# The arguments of each writing tool: what a door shows of it.
TOOLS: dict[str, type[Arguments]] = {
    "create_project_page": CreateProjectPage,
    "apply_page_edits": ApplyPageEdits,
    "create_component": CreateComponent,
    "apply_component_edits": ApplyComponentEdits,
    "generate_image": GenerateImage,
}

# What a call may be about, as events and results name it: the columns of `jobs.SUBJECTS`, without a database.
SUBJECTS = ("page_code", "component_name", "asset_name")

_TOOL_CALL: TypeAdapter[AnyToolCall] = TypeAdapter(ToolCall)


def parse_tool_call(call_id: str, tool: str, arguments: Any) -> AnyToolCall:
    """A stored call as its model. Raises `pydantic.ValidationError`, which for a stored call is a broken invariant."""
    return _TOOL_CALL.validate_python({"call_id": call_id, "tool": tool, "arguments": arguments})


def subject_of(said: Mapping[str, Any]) -> str:
    """The page's code, the component's name or what else an event or a result is about."""
    return next((str(said[name]) for name in SUBJECTS if said.get(name)), "")


def refuse_step(calls: Sequence[AnyToolCall], *, batch_size_max: int, source_bytes_max: int) -> None:
    """Raises `ToolCallsRefused` when the calls of one step cannot be accepted together (Q9).

    Codes: `AI_PAGE_MUTATION_BATCH_TOO_LARGE`, `TOOL_CALL_ID_DUPLICATE`, `PAGE_SOURCE_TOO_LARGE`.
    """
    if len(calls) > batch_size_max:
        raise ToolCallsRefused(
            "AI_PAGE_MUTATION_BATCH_TOO_LARGE",
            f"{len(calls)} calls in one step, {batch_size_max} are allowed.",
            "Split the step into several requests; none of these calls was accepted.",
        )
    twice = _first_duplicate([call.call_id for call in calls])
    if twice is not None:
        raise ToolCallsRefused(
            "TOOL_CALL_ID_DUPLICATE",
            f"The call_id {twice!r} occurs twice.",
            "Give each call of a step its own call_id; verdicts are returned under it.",
        )
    for call in calls:
        size_bytes = _source_bytes(call)
        if size_bytes > source_bytes_max:
            raise ToolCallsRefused(
                "PAGE_SOURCE_TOO_LARGE",
                f"The source of call {call.call_id!r} has {size_bytes} bytes, {source_bytes_max} are allowed.",
                "Move data and repeated markup into assets and components.",
            )


def _source_bytes(call: AnyToolCall) -> int:
    """How much source a call brings: the whole, or the largest text that an edit puts in. The job checks the result."""
    if isinstance(call.arguments, Edits):
        return max(len(edit.replace.encode()) for edit in call.arguments.edits)
    if isinstance(call.arguments, GenerateImage):
        return 0
    return len(call.arguments.source.encode())


def request_digest(project_id: int, calls: Sequence[AnyToolCall], skip_visual_verification: bool) -> str:
    """What an idempotency key was used for: equal for equal requests, however written (A9). Hex sha256."""
    said = {
        "project_id": project_id,
        "calls": [call.model_dump(mode="json") for call in calls],
        "skip_visual_verification": skip_visual_verification,
    }
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _first_duplicate(values: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def derive_page_code(title: str, taken: Callable[[str], bool]) -> str:
    """A free code from a title (S4): its letters without accents, its digits, else `page`; then `-2`, … until free."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain.lower())
    stem = "-".join(words)[:60].strip("-") or "page"
    code, number = stem, 1
    while taken(code):
        number += 1
        code = f"{stem}-{number}"
    return code
