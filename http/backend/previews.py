"""Previews over HTTP (P4): a member opens one, and gets an address that anyone may look at for an hour."""

from pydantic import Field

from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Id, Params, Said, Shown, TimeMs, VersionNumber
from pagegate.http.backend.routes import Call, Noun
from pagegate.storage import pages as storage

previews = Noun("previews")


class PreviewedPageParams(Params):
    page_id: Id


class NewPreview(Said):
    version: VersionNumber | None = Field(
        default=None, description="A saved version; the current one when it is left out. Other pages show theirs."
    )


class PreviewView(Shown):
    artifact_id: str
    url: str = Field(description="Open it in a browser. Who has it may look at this preview, and at nothing else.")
    expires_at_ms: TimeMs


@previews.route(
    "POST",
    "/pages/{page_id}/previews",
    status=201,
    refusals=["PAGE_NOT_FOUND", "PAGE_VERSION_NOT_FOUND", "RUNTIME_STATE_FULL", "RUNTIME_STATE_UNAVAILABLE"],
)
async def open_preview(call: Call[PreviewedPageParams, NewPreview]) -> PreviewView:
    """Open a preview of a page, with the project's other pages around it."""
    async with call.parts.db.read() as tx:
        page = await storage.find_page(tx, call.params.page_id)
        if page is None:
            raise ApiError("PAGE_NOT_FOUND")
        project = await project_of(tx, call.user, page.project_id, not_found="PAGE_NOT_FOUND")
    opened = await call.parts.previews.open(project, page.id, call.body.version or page.number)
    if opened is None:
        raise ApiError("PAGE_VERSION_NOT_FOUND")
    return PreviewView.model_validate(opened)
