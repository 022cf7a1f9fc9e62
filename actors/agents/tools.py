"""The tools an agent may call, as data: what a call says and what is wrong with it before anything is written (A2, A9).

Owns the models of `create_project_page` and `apply_page_edits`. Every door parses a step's calls with them, and the job
that executes a call parses the stored one with them again, so both read the same words the same way.

Only what a call shows by itself is decided here. What depends on the state at execution (a stale base, an edit that
matches nothing or twice, an unknown page) is refused by the job, call by call, so that one bad call does not sink its
siblings.
Nothing here is stored; it survives in `ai_agent_tool_calls`.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from pagegate.runtime.contract import Canvas, Framework

SOURCE_BYTES_MAX = 8 * 1024 * 1024  # UTF-8; whatever PAGE_SOURCE_MAX_BYTES says, which `refuse_step` looks at
SPEAKER_NOTES_CHARS_MAX = 20_000
EDITS_MAX = 200
PAGE_CODE_PATTERN = r"[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?"

_PAGE_CODE = re.compile(PAGE_CODE_PATTERN)
_BIGGEST_INT = 2**31 - 1


class ToolCallsRefused(Exception):
    """A step's calls were refused as a whole; nothing was written. `code` is stable, `hint` is the next step."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.hint = code, message, hint


def storable_text(value: str) -> str:
    """Text that both databases and UTF-8 can hold. A lone surrogate or a NUL is refused, not repaired."""
    if "\x00" in value:
        raise PydanticCustomError("text_nul", "contains a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text_surrogate", "contains half of a surrogate pair") from None
    return value


def one_line(value: str) -> str:
    """A name or title as people mean it: trimmed, without control characters, not empty."""
    value = storable_text(value).strip()
    if not value:
        raise PydanticCustomError("text_empty", "is empty")
    if any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in value):
        raise PydanticCustomError("text_control", "contains a control character or a line break")
    return value


def page_code(value: str) -> str:
    """A page's stable slug (D2). Error type `PAGE_CODE_INVALID`."""
    if not _PAGE_CODE.fullmatch(value):
        raise PydanticCustomError(
            "PAGE_CODE_INVALID", "is no page code: 1 to 80 of a-z, 0-9 and '-', not beginning or ending with '-'"
        )
    return value


def source_text(value: str) -> str:
    """A whole source. Error types `PAGE_SOURCE_EMPTY`, `PAGE_SOURCE_TOO_LARGE`."""
    value = storable_text(value)
    if not value.strip():
        raise PydanticCustomError("PAGE_SOURCE_EMPTY", "is empty; send the whole source")
    size_bytes = len(value.encode())
    if size_bytes > SOURCE_BYTES_MAX:
        raise PydanticCustomError(
            "PAGE_SOURCE_TOO_LARGE",
            "has {size_bytes} bytes, {max_bytes} are allowed",
            {"size_bytes": size_bytes, "max_bytes": SOURCE_BYTES_MAX},
        )
    return value


def whole_canvas(value: Any) -> Any:
    """`height_px` must be said, null included: forgetting it would silently make a page of any height."""
    if isinstance(value, dict) and "width_px" in value and "height_px" not in value:
        raise PydanticCustomError("canvas_height", "height_px is missing; null lets the page decide its own height")
    return value


WholeCanvas = Annotated[Canvas, BeforeValidator(whole_canvas)]
StorableText = Annotated[str, AfterValidator(storable_text)]
OneLine = Annotated[str, Field(max_length=200), AfterValidator(one_line)]
PageCode = Annotated[
    str, AfterValidator(page_code), Field(json_schema_extra={"pattern": f"^{PAGE_CODE_PATTERN}$", "maxLength": 80})
]
SourceText = Annotated[str, AfterValidator(source_text), Field(json_schema_extra={"minLength": 1})]


class Arguments(BaseModel):
    """A name the tool does not know is refused: a misspelt argument would otherwise be silently without effect.

    Types are strict: a number in quotes is a mistake that is better told than guessed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CreateProjectPage(Arguments):
    """Create a page from its whole source. Without a `code` one is derived from the title (S4)."""

    title: OneLine
    framework: Framework = "vue"
    code: PageCode | None = None
    source: SourceText
    speaker_notes: Annotated[StorableText, Field(max_length=SPEAKER_NOTES_CHARS_MAX)] = ""
    canvas: WholeCanvas | None = Field(default=None, description="The page's own canvas; without it, the project's.")


class SearchReplace(Arguments):
    """One edit: `search` must occur exactly once in the page's source at the time of the edit."""

    search: Annotated[StorableText, Field(min_length=1)]
    replace: StorableText


class ApplyPageEdits(Arguments):
    """Edit a page: all edits apply, in order, to `base_version`, or none does."""

    page: PageCode
    base_version: int = Field(ge=1, le=_BIGGEST_INT)
    edits: list[SearchReplace] = Field(min_length=1, max_length=EDITS_MAX)

    @model_validator(mode="after")
    def _bounded(self) -> "ApplyPageEdits":
        size_bytes = sum(len(edit.search.encode()) + len(edit.replace.encode()) for edit in self.edits)
        if size_bytes > SOURCE_BYTES_MAX:
            raise PydanticCustomError(
                "PAGE_SOURCE_TOO_LARGE",
                "the edits have {size_bytes} bytes together, {max_bytes} are allowed",
                {"size_bytes": size_bytes, "max_bytes": SOURCE_BYTES_MAX},
            )
        return self


CallId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")]


class CreateProjectPageCall(Arguments):
    call_id: CallId
    tool: Literal["create_project_page"]
    arguments: CreateProjectPage


class ApplyPageEditsCall(Arguments):
    call_id: CallId
    tool: Literal["apply_page_edits"]
    arguments: ApplyPageEdits


ToolCall = Annotated[CreateProjectPageCall | ApplyPageEditsCall, Field(discriminator="tool")]
TOOL_NAMES = ("create_project_page", "apply_page_edits")

_TOOL_CALL: TypeAdapter[CreateProjectPageCall | ApplyPageEditsCall] = TypeAdapter(ToolCall)


def parse_tool_call(call_id: str, tool: str, arguments: Any) -> CreateProjectPageCall | ApplyPageEditsCall:
    """A stored call as its model. Raises `pydantic.ValidationError`, which for a stored call is a broken invariant."""
    return _TOOL_CALL.validate_python({"call_id": call_id, "tool": tool, "arguments": arguments})


def refuse_step(
    calls: Sequence[CreateProjectPageCall | ApplyPageEditsCall], *, batch_size_max: int, source_bytes_max: int
) -> None:
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


def _source_bytes(call: CreateProjectPageCall | ApplyPageEditsCall) -> int:
    """How much source a call brings: the page, or the largest text that an edit puts in. The job checks the result."""
    if isinstance(call, CreateProjectPageCall):
        return len(call.arguments.source.encode())
    return max(len(edit.replace.encode()) for edit in call.arguments.edits)


def request_digest(
    project_id: int, calls: Sequence[CreateProjectPageCall | ApplyPageEditsCall], skip_visual_verification: bool
) -> str:
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
