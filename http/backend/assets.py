"""The files of a project over HTTP (D1, D3, X4): pages use them as `@assets/<name>`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import Field

from pagegate.actors.jobs.asset_ratio import read_answer
from pagegate.actors.queues.kinds import TryLater
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import file_name, media_type_of, receive, send_object
from pagegate.http.backend.light import run_light
from pagegate.http.backend.models import Id, Params, ProjectParams, Shown, TimeMs
from pagegate.http.backend.parts import BackendParts
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.storage import assets as storage
from pagegate.storage.asset_names import MEDIA_TYPES
from pagegate.storage.objects import ObjectMissing, StoredAsset, asset_key

assets = Noun("assets")

_MEASURE_WAIT_S = 15.0  # an upload is not kept waiting for longer; the file is measured later
_LATER_HINT = "The file is saved, and it is measured by itself as soon as that can be done."
_CHUNK_BYTES = 256 * 1024


class AssetParams(Params):
    project_id: Id
    name: str = Field(description=f"A file name without folders; accepted endings: {', '.join(sorted(MEDIA_TYPES))}.")


class Unmeasured(Shown):
    code: str = Field(
        description="ASSET_…: something is wrong with the file. Else measuring it failed, and is retried."
    )
    message: str
    hint: str


class AssetView(Shown):
    name: str
    version: int
    media_type: str
    size_bytes: int
    sha256: str
    width_px: int | None = Field(description="As a browser shows it; null: it has no size, or was not measured yet.")
    height_px: int | None
    ratio: float | None = Field(description="Width by height, finer than the whole pixels where the file tells more.")
    unmeasured: Unmeasured | None = Field(
        description="Why a picture or video has no size; null while it waits to be measured."
    )
    updated_at_ms: TimeMs


class SavedAsset(AssetView):
    added: bool = Field(description="False when the bytes are the current version's: nothing was written.")


class AssetList(Shown):
    assets: list[AssetView]


@assets.route("GET", "/projects/{project_id}/assets", refusals=["PROJECT_NOT_FOUND"])
async def list_assets(call: Call[ProjectParams, Nothing]) -> AssetList:
    """List the files of a project."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
        found = await storage.list_assets(tx, call.params.project_id)
    return AssetList(assets=[_view(asset) for asset in found])


@assets.route(
    "PUT",
    "/projects/{project_id}/assets/{name}",
    upload=Bytes("application/octet-stream", "The file's bytes."),
    refusals=[
        "PROJECT_NOT_FOUND",
        "ROLE_REQUIRED",
        "ASSET_NAME_INVALID",
        "ASSET_TYPE_NOT_ALLOWED",
        "ASSET_TOO_LARGE",
        "ASSET_EMPTY",
        "REQUEST_TIMEOUT",
        "OBJECT_STORE_UNAVAILABLE",
    ],
)
async def put_asset(call: Call[AssetParams, Nothing]) -> SavedAsset:
    """Upload a file, or replace it; pages that were saved before keep what they were checked with."""
    name = file_name(call.params.name)
    media_type = media_type_of(name)
    limits = call.parts.limits
    async with call.parts.db.read() as tx:
        project = await project_of(tx, call.user, call.params.project_id, need="editor")
    async with receive(call.request, bytes_max=limits.asset_bytes_max, wait_s=limits.upload_wait_s) as upload:
        stored = StoredAsset(name, media_type, upload.sha256, upload.size_bytes, asset_key(project.id, upload.sha256))
        await call.parts.objects.put(stored.key, upload.file)
        measured = await _measured(call.parts, media_type, upload.file)
    async with call.parts.db.write() as tx:
        await project_of(tx, call.user, project.id, need="editor")  # again: an upload may take minutes
        version, added = await storage.put_asset(
            tx, project.id, stored, call.user.user_id, measured.size, unmeasured=measured.fault
        )
    if measured.later is not None and version.size is None and version.unmeasured is None:
        call.parts.wake_ratios()  # its row says that it waits; this saves it a period
        return SavedAsset(**{**_view(version).model_dump(), "unmeasured": measured.later}, added=added)
    return SavedAsset(**_view(version).model_dump(), added=added)


@assets.route(
    "GET",
    "/projects/{project_id}/assets/{name}",
    answer=Bytes("application/octet-stream", "The file's bytes, with its own media type."),
    refusals=["PROJECT_NOT_FOUND", "ASSET_NOT_FOUND", "ASSET_NAME_INVALID", "OBJECT_STORE_UNAVAILABLE"],
)
async def get_asset(call: Call[AssetParams, Nothing]) -> web.StreamResponse:
    """Download a file."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
        asset = await storage.find_asset(tx, call.params.project_id, file_name(call.params.name))
    if asset is None:
        raise ApiError("ASSET_NOT_FOUND")
    stored = asset.stored
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            stored.key,
            media_type=stored.media_type,
            sha256=stored.sha256,
            name=stored.name,
        )
    except ObjectMissing:
        raise ApiError("ASSET_NOT_FOUND", "The file's bytes are missing.", "Upload the file again.") from None


@assets.route(
    "DELETE",
    "/projects/{project_id}/assets/{name}",
    status=204,
    refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED", "ASSET_NOT_FOUND", "ASSET_NAME_INVALID"],
)
async def delete_asset(call: Call[AssetParams, Nothing]) -> Nothing:
    """Take a file out of what pages may use."""
    async with call.parts.db.write() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
        if not await storage.delete_asset(tx, call.params.project_id, file_name(call.params.name)):
            raise ApiError("ASSET_NOT_FOUND")
    return Nothing()


@dataclass(frozen=True)
class _Measured:
    """One of the three, or nothing for a file that has no size: `fault` is of the file, `later` of what measures."""

    size: storage.AssetSize | None = None
    fault: Mapping[str, Any] | None = None
    later: Unmeasured | None = None


async def _measured(parts: BackendParts, media_type: str, file: Path) -> _Measured:
    """The size of a picture or video, or why it has none: no reason to refuse the file (V9)."""
    if not storage.is_measurable(media_type):
        return _Measured()
    try:
        told = await run_light(parts, "asset-ratio", {"media_type": media_type}, _chunks(file), wait_s=_MEASURE_WAIT_S)
        found = read_answer(told)
    except (ApiError, TryLater) as error:
        return _Measured(later=Unmeasured(code=error.code, message=error.message, hint=_LATER_HINT))
    return _Measured(size=found) if isinstance(found, storage.AssetSize) else _Measured(fault=found.error)


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(file.open, "rb") as opened:
        while chunk := await asyncio.to_thread(opened.read, _CHUNK_BYTES):
            yield chunk


def _view(asset: storage.AssetVersion) -> AssetView:
    return AssetView(
        name=asset.stored.name,
        version=asset.number,
        media_type=asset.stored.media_type,
        size_bytes=asset.stored.size_bytes,
        sha256=asset.stored.sha256,
        width_px=asset.size.width_px if asset.size else None,
        height_px=asset.size.height_px if asset.size else None,
        ratio=asset.size.ratio if asset.size else None,
        unmeasured=Unmeasured.model_validate(asset.unmeasured) if asset.unmeasured else None,
        updated_at_ms=asset.created_at_ms,
    )
