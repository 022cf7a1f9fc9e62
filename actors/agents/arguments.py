"""What the arguments of tools are made of: texts, names, sources, and what is wrong with one (A2, A9, D2, D3).

Owns the types that every tool and every door shares, so that a name is a name everywhere. What a type refuses has an
error type of its own, which is the code that a client is told. Nothing here knows a tool.
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from pagegate.runtime.contract import Canvas
from pagegate.storage.asset_names import AssetNameInvalid, asset_name

SOURCE_BYTES_MAX = 8 * 1024 * 1024  # UTF-8; whatever PAGE_SOURCE_MAX_BYTES says, which `refuse_step` looks at
PAGE_CODE_PATTERN = r"[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?"
COMPONENT_NAME_PATTERN = r"[A-Z][A-Za-z0-9]{0,79}\.(?:vue|tsx)"

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
PICTURE_NAME_CHARS_MAX = 100

_PAGE_CODE, _COMPONENT_NAME = re.compile(PAGE_CODE_PATTERN), re.compile(COMPONENT_NAME_PATTERN)
BIGGEST_INT = 2**31 - 1


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


def component_name(value: str) -> str:
    """The file behind `@components/`, with its ending (D3). Error type `COMPONENT_NAME_INVALID`."""
    if not _COMPONENT_NAME.fullmatch(value):
        raise PydanticCustomError("COMPONENT_NAME_INVALID", "is not PascalCase with .vue or .tsx, like StatTile.vue")
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


def picture_name(value: str) -> str:
    """The file behind `@assets/` that a picture will be. Errors `ASSET_NAME_INVALID`, `ASSET_TYPE_NOT_ALLOWED`."""
    try:
        name = asset_name(value)
    except AssetNameInvalid:
        raise PydanticCustomError("ASSET_NAME_INVALID", "is no usable file name, like hero.png") from None
    if not name.lower().endswith(PICTURE_ENDINGS) or len(name) > PICTURE_NAME_CHARS_MAX:
        raise PydanticCustomError("ASSET_TYPE_NOT_ALLOWED", "must be short and end in .png, .jpg, .jpeg or .webp")
    return name


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
ComponentName = Annotated[
    str, AfterValidator(component_name), Field(json_schema_extra={"pattern": f"^{COMPONENT_NAME_PATTERN}$"})
]
PictureName = Annotated[
    str,
    AfterValidator(picture_name),
    Field(json_schema_extra={"maxLength": PICTURE_NAME_CHARS_MAX}, description="A file name, like `hero.png`."),
]
SourceText = Annotated[str, AfterValidator(source_text), Field(json_schema_extra={"minLength": 1})]


class Arguments(BaseModel):
    """A name the tool does not know is refused: a misspelt argument would otherwise be silently without effect.

    Types are strict: a number in quotes is a mistake that is better told than guessed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SearchReplace(Arguments):
    """One edit: `search` must occur exactly once in the source at the time of the edit."""

    search: Annotated[StorableText, Field(min_length=1)]
    replace: StorableText


CallId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")]
