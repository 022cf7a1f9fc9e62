"""Pages and their versions over HTTP (D2): reading, deleting, bringing back. Sources go through the gate only."""

from typing import Any

from aiohttp import web
from pydantic import Field

from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Id, Params, ProjectParams, Said, Shown, TimeMs, VersionNumber
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.runtime.contract import Canvas
from pagegate.storage import pages as storage
from pagegate.storage.engine import Tx
from pagegate.storage.objects import ObjectMissing
from pagegate.storage.projects import Project
from pagegate.storage.users import Caller
from pagegate.storage.workspaces import Role

pages = Noun("pages")


class PageParams(Params):
    page_id: Id


class VersionParams(PageParams):
    number: VersionNumber


class PageEntryView(Shown):
    id: int
    code: str
    title: str
    framework: str
    version: int
    status: str = Field(description="What the current version was judged to be: passed, warning or unavailable.")
    has_picture: bool
    updated_at_ms: TimeMs


class PageList(Shown):
    pages: list[PageEntryView]


class VersionView(Shown):
    """A saved version. It never changes."""

    number: int
    title: str
    speaker_notes: str
    source: str
    component_pins: dict[str, int] = Field(description="Component name → id of the version it was checked with.")
    status: str
    verdict: dict[str, Any] | None
    has_picture: bool
    created_by: int
    created_at_ms: TimeMs


class VersionEntry(Shown):
    number: int
    title: str
    status: str
    has_picture: bool
    size_bytes: int
    created_by: int
    created_at_ms: TimeMs


class VersionList(Shown):
    versions: list[VersionEntry]


class Restore(Said):
    base_version: VersionNumber = Field(description="The version that is current now; another one is refused.")


class PageView(Shown):
    """A page and its current version."""

    id: int
    project_id: int
    code: str
    title: str
    speaker_notes: str
    framework: str
    canvas: Canvas = Field(description="The page's own, else the project's.")
    created_at_ms: TimeMs
    updated_at_ms: TimeMs
    version: VersionView


@pages.route("GET", "/projects/{project_id}/pages", refusals=["PROJECT_NOT_FOUND"])
async def list_pages(call: Call[ProjectParams, Nothing]) -> PageList:
    """List the pages of a project."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
        found = await storage.list_pages(tx, call.params.project_id)
    return PageList(pages=[_entry(entry) for entry in found])


@pages.route("GET", "/pages/{page_id}", refusals=["PAGE_NOT_FOUND"])
async def get_page(call: Call[PageParams, Nothing]) -> PageView:
    """A page with its current version."""
    async with call.parts.db.read() as tx:
        page, project = await page_of(tx, call.user, call.params.page_id)
        version = await version_of(tx, page.id, page.number)
    return _view(page, project, version)


@pages.route("GET", "/pages/{page_id}/versions", refusals=["PAGE_NOT_FOUND"])
async def list_page_versions(call: Call[PageParams, Nothing]) -> VersionList:
    """List a page's versions, newest first."""
    async with call.parts.db.read() as tx:
        page, _ = await page_of(tx, call.user, call.params.page_id)
        found = await storage.list_versions(tx, page.id)
    return VersionList(versions=[_version_entry(version) for version in found])


@pages.route("GET", "/pages/{page_id}/versions/{number}", refusals=["PAGE_NOT_FOUND", "PAGE_VERSION_NOT_FOUND"])
async def get_page_version(call: Call[VersionParams, Nothing]) -> VersionView:
    """One version of a page, with its source and verdict."""
    async with call.parts.db.read() as tx:
        page, _ = await page_of(tx, call.user, call.params.page_id)
        return _version_view(await version_of(tx, page.id, call.params.number))


@pages.route(
    "GET",
    "/pages/{page_id}/versions/{number}/picture",
    answer=Bytes("image/png", "The version's picture."),
    refusals=["PAGE_NOT_FOUND", "PAGE_VERSION_NOT_FOUND", "PICTURE_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
)
async def get_page_picture(call: Call[VersionParams, Nothing]) -> web.StreamResponse:
    """The picture that was taken when the version was checked."""
    async with call.parts.db.read() as tx:
        page, _ = await page_of(tx, call.user, call.params.page_id)
        version = await version_of(tx, page.id, call.params.number)
    if version.picture_key is None:
        raise ApiError("PICTURE_NOT_FOUND")
    sha256 = version.picture_key.rpartition("/")[2].removesuffix(".png")
    name = f"{page.code}-{version.number}.png"
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            version.picture_key,
            media_type="image/png",
            sha256=sha256,
            name=name,
            inline=True,
        )
    except ObjectMissing:
        raise ApiError("PICTURE_NOT_FOUND", "The picture's bytes are missing.", "Check the page again.") from None


@pages.route("DELETE", "/pages/{page_id}", status=204, refusals=["PAGE_NOT_FOUND", "ROLE_REQUIRED"])
async def delete_page(call: Call[PageParams, Nothing]) -> Nothing:
    """Delete a page; it keeps its code and versions and can be brought back."""
    async with call.parts.db.write() as tx:
        page, _ = await page_of(tx, call.user, call.params.page_id, write=True)
        await storage.delete_page(tx, page.id)
    return Nothing()


@pages.route("POST", "/pages/{page_id}/bring-back", refusals=["PAGE_NOT_FOUND", "ROLE_REQUIRED"])
async def bring_back_page(call: Call[PageParams, Nothing]) -> PageView:
    """Bring a deleted page back as it was; for one that is not deleted nothing changes."""
    async with call.parts.db.write() as tx:
        project_id = await storage.find_page_project(tx, call.params.page_id)
        if project_id is None:
            raise ApiError("PAGE_NOT_FOUND")
        await project_of(tx, call.user, project_id, need="editor", not_found="PAGE_NOT_FOUND")
        await storage.bring_back_page(tx, call.params.page_id)
        page, project = await page_of(tx, call.user, call.params.page_id)
        version = await version_of(tx, page.id, page.number)
    return _view(page, project, version)


@pages.route(
    "POST",
    "/pages/{page_id}/versions/{number}/restore",
    refusals=["PAGE_NOT_FOUND", "PAGE_VERSION_NOT_FOUND", "ROLE_REQUIRED", "PAGE_CHANGED"],
)
async def restore_page_version(call: Call[VersionParams, Restore]) -> PageView:
    """Save an earlier version once more, as the newest, with the verdict and the component versions it had."""
    async with call.parts.db.write() as tx:
        page, project = await page_of(tx, call.user, call.params.page_id, write=True)
        old = await version_of(tx, page.id, call.params.number)
        again = storage.NewVersion(
            source=old.source,
            title=old.title,
            speaker_notes=old.speaker_notes,
            component_pins=old.component_pins,
            status=old.status,
            verdict=old.verdict,
            picture_key=old.picture_key,
            job_id=None,
            created_by=call.user.user_id,
        )
        number = await storage.add_page_version(tx, page.id, call.body.base_version, again)
        page, _ = await page_of(tx, call.user, page.id)
        version = await version_of(tx, page.id, number)
    return _view(page, project, version)


async def page_of(tx: Tx, caller: Caller, page_id: int, *, write: bool = False) -> tuple[storage.Page, Project]:
    """A page with its project. Raises `PAGE_NOT_FOUND`, `ROLE_REQUIRED`."""
    page = await storage.find_page(tx, page_id)
    if page is None:
        raise ApiError("PAGE_NOT_FOUND")
    need: Role = "editor" if write else "viewer"
    return page, await project_of(tx, caller, page.project_id, need, not_found="PAGE_NOT_FOUND")


async def version_of(tx: Tx, page_id: int, number: int) -> storage.PageVersion:
    """Raises `PAGE_VERSION_NOT_FOUND`."""
    version = await storage.find_version(tx, page_id, number)
    if version is None:
        raise ApiError("PAGE_VERSION_NOT_FOUND")
    return version


def _entry(entry: storage.PageEntry) -> PageEntryView:
    page = entry.page
    return PageEntryView(
        id=page.id,
        code=page.code,
        title=page.title,
        framework=page.framework,
        version=page.number,
        status=entry.status,
        has_picture=entry.has_picture,
        updated_at_ms=page.updated_at_ms,
    )


def _view(page: storage.Page, project: Project, version: storage.PageVersion) -> PageView:
    if page.canvas_width_px is not None:
        canvas = Canvas(width_px=page.canvas_width_px, height_px=page.canvas_height_px)
    else:
        canvas = Canvas(width_px=project.canvas_width_px, height_px=project.canvas_height_px)
    return PageView(
        id=page.id,
        project_id=page.project_id,
        code=page.code,
        title=page.title,
        speaker_notes=page.speaker_notes,
        framework=page.framework,
        canvas=canvas,
        created_at_ms=page.created_at_ms,
        updated_at_ms=page.updated_at_ms,
        version=_version_view(version),
    )


def _version_view(version: storage.PageVersion) -> VersionView:
    return VersionView(
        number=version.number,
        title=version.title,
        speaker_notes=version.speaker_notes,
        source=version.source,
        component_pins=version.component_pins,
        status=version.status,
        verdict=version.verdict,
        has_picture=version.picture_key is not None,
        created_by=version.created_by,
        created_at_ms=version.created_at_ms,
    )


def _version_entry(version: storage.PageVersion) -> VersionEntry:
    return VersionEntry(
        number=version.number,
        title=version.title,
        status=version.status,
        has_picture=version.picture_key is not None,
        size_bytes=len(version.source.encode()),
        created_by=version.created_by,
        created_at_ms=version.created_at_ms,
    )
