"""What the Runtime and the Renderer read of one preview artifact (P1, V7), each call with the artifact's ticket.

Owns nothing: artifacts live in the runtime state, bytes in the object store. What has gone is answered with
`PREVIEW_ARTIFACT_UNAVAILABLE` and is never made up again from newer content (P2).
"""

from typing import Any

from aiohttp import web
from pydantic import Field

from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Params, Shown
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.runtime.contract import ArtifactManifest, Canvas, EntryPage, ModulesAnswer, ModulesRequest
from pagegate.storage.objects import ObjectMissing

internal = Noun("internal")

_AT = "/internal/runtime/preview-artifacts/{artifact_id}"
_MODULE_PATH_CHARS_MAX = 300


class ArtifactParams(Params):
    artifact_id: str


class ModuleParams(ArtifactParams):
    path: str = Field(max_length=_MODULE_PATH_CHARS_MAX, description="Logical, like `pages/q3-costs.vue`.")


class ArtifactAssetParams(ArtifactParams):
    name: str


class ConfigBundle(Shown):
    """The configuration a preview is made with."""

    canvas: Canvas
    entry_page: EntryPage
    theme: dict[str, Any] = Field(default_factory=dict)


@internal.route("GET", f"{_AT}/manifest", access="ticket")
async def get_artifact_manifest(call: Call[ArtifactParams, Nothing]) -> ArtifactManifest:
    """The entry, the modules that may be read, and the assets."""
    return await _manifest(call)


@internal.route("GET", f"{_AT}/config-bundle", access="ticket")
async def get_artifact_config(call: Call[ArtifactParams, Nothing]) -> ConfigBundle:
    """Canvas, title and notes."""
    manifest = await _manifest(call)
    return ConfigBundle(canvas=manifest.canvas, entry_page=manifest.entry_page)


@internal.route(
    "GET",
    f"{_AT}/modules",
    access="ticket",
    answer=Bytes("text/plain", "The module's source."),
    refusals=["MODULE_NOT_FOUND"],
)
async def get_artifact_module(call: Call[ModuleParams, Nothing]) -> web.StreamResponse:
    """One module's source."""
    path = call.params.path
    modules = await call.parts.artifacts.read_modules(call.params.artifact_id, [path])
    if path not in modules:
        raise ApiError("MODULE_NOT_FOUND")
    return web.Response(text=modules[path], content_type="text/plain", charset="utf-8")


@internal.route("POST", f"{_AT}/modules/batch", access="ticket")
async def read_artifact_modules(call: Call[ArtifactParams, ModulesRequest]) -> ModulesAnswer:
    """Up to 128 modules; a path that the artifact does not hold is absent."""
    modules = await call.parts.artifacts.read_modules(call.params.artifact_id, call.body.paths)
    return ModulesAnswer(modules=modules)


@internal.route(
    "GET",
    f"{_AT}/assets/{{name}}",
    access="ticket",
    answer=Bytes("application/octet-stream", "The asset's bytes, with its own media type."),
    refusals=["ASSET_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
)
async def get_artifact_asset(call: Call[ArtifactAssetParams, Nothing]) -> web.StreamResponse:
    """One asset, as it was when the artifact was made."""
    asset = await call.parts.artifacts.find_asset(call.params.artifact_id, call.params.name)
    if asset is None:
        raise ApiError("ASSET_NOT_FOUND", "The artifact has no such asset.")
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            asset.key,
            media_type=asset.media_type,
            sha256=asset.sha256,
            name=asset.name,
            inline=True,
        )
    except ObjectMissing:
        raise ApiError("ASSET_NOT_FOUND", "The asset's bytes are missing.", "Upload the asset again.") from None


async def _manifest(call: Call[ArtifactParams, Nothing]) -> ArtifactManifest:
    return ArtifactManifest.model_validate(await call.parts.artifacts.get_manifest(call.params.artifact_id))
