"""The words that several requests and answers share.

Owns the field types and the models that are not one noun's own. A request refuses names it does not know: a misspelt
field would otherwise be silently without effect. Answers are built from the statements' rows by name.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pagegate.runtime.contract import Canvas

ID_MAX = 2**63 - 1  # what the databases can hold; a larger number names nothing
VERSION_MAX = 2**31 - 1

Id = Annotated[int, Field(ge=1, le=ID_MAX)]
VersionNumber = Annotated[int, Field(ge=1, le=VERSION_MAX)]
TimeMs = Annotated[int, Field(description="Milliseconds since 1970-01-01, UTC.")]


class Said(BaseModel):
    """Base of what a client sends. Types are strict: `"1"` is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Shown(BaseModel):
    """Base of what a client is shown; made from rows by name."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Params(BaseModel):
    """Base of what stands in an address or a query."""

    model_config = ConfigDict(frozen=True)


class WorkspaceParams(Params):
    workspace_id: Id


class ProjectParams(Params):
    project_id: Id


DEFAULT_CANVAS = Canvas(width_px=1280, height_px=720)
