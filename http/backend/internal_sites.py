"""What Runtimes ask about sites: which release one shows, and the files of a release (B5).

Owns nothing. A site's key is all that it takes to look at it, as it is for the person in front of the Runtime.
"""

import mimetypes
from pathlib import Path

from aiohttp import web
from pydantic import Field

from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Params, Shown, VersionNumber
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.storage import builds
from pagegate.storage.objects import ObjectMissing

internal_sites = Noun("internal")


class SiteParams(Params):
    site: str = Field(max_length=100)


class SiteFileParams(SiteParams):
    number: VersionNumber
    path: str = Field(max_length=2000)


class SiteView(Shown):
    release: int


@internal_sites.route("GET", "/internal/runtime/sites/{site}", access="public", refusals=["RELEASE_NOT_FOUND"])
async def get_site(call: Call[SiteParams, Nothing]) -> SiteView:
    """Which release a site shows. Who knows the site's key may look at it."""
    async with call.parts.db.read() as tx:
        site = await builds.find_site_by_key(tx, call.params.site)
    if site is None:
        raise ApiError("RELEASE_NOT_FOUND", "There is no such site.")
    return SiteView(release=site.release_number)


@internal_sites.route(
    "GET",
    "/internal/runtime/sites/{site}/releases/{number}/file",
    access="public",
    answer=Bytes("application/octet-stream", "The file, with the media type of its ending."),
    refusals=["RELEASE_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
    headers={"Range": "A part of it."},
)
async def get_site_file(call: Call[SiteFileParams, Nothing]) -> web.StreamResponse:
    """One file of a release."""
    async with call.parts.db.read() as tx:
        site = await builds.find_site_by_key(tx, call.params.site)
        if site is None:
            raise ApiError("RELEASE_NOT_FOUND", "There is no such site.")
        release = await builds.get_release(tx, site.project_id, call.params.number)
    found = release.files.get(call.params.path)
    if found is None:
        raise ApiError("RELEASE_NOT_FOUND", "The release has no such file.")
    sha256, _ = found
    media_type = _MEDIA_TYPES.get(Path(call.params.path).suffix.lower()) or mimetypes.guess_type(call.params.path)[0]
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            builds.file_key(release.object_key, sha256),
            media_type=media_type or "application/octet-stream",
            sha256=sha256,
            name=Path(call.params.path).name,
            inline=True,
        )
    except ObjectMissing:
        raise ApiError("RELEASE_NOT_FOUND", "The file's bytes are missing.") from None


# What browsers insist on, whatever this machine's own table says.
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".woff2": "font/woff2",
    ".json": "application/json",
}
