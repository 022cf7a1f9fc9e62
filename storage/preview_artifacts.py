"""Preview artifacts: the short-lived context of one preview or check (P1-P3).

Owns the keys `runtime:artifact:{id}:…` of the runtime state: one for the manifest, one a module, one an asset's
reference. An artifact is written whole or not at all and never changed, so an id never points at other content; it
ends by `delete` (the check is over), by its time to live, or with the process when the state is in memory. Then it is
gone: no reader ever gets half of one, and nobody makes it up again from newer content (P2).
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pagegate.storage.objects import StoredAsset
from pagegate.storage.runtime_state import RuntimeState

ARTIFACT_TTL_S = 3600.0  # P2


class ArtifactUnavailable(Exception):
    """The artifact has expired, was deleted, or never was (`PREVIEW_ARTIFACT_UNAVAILABLE`)."""


class PreviewArtifacts:
    """The artifacts in one runtime state."""

    def __init__(self, state: RuntimeState) -> None:
        self._state = state

    async def create(
        self,
        manifest: Mapping[str, Any],
        modules: Mapping[str, str],
        assets: Mapping[str, StoredAsset],
        ttl_s: float = ARTIFACT_TTL_S,
    ) -> str:
        """Write an artifact and answer its id, `rt_` and 192 random bits; `artifact_id` is added to the manifest.

        `modules` are sources by logical path, `assets` references by name. Raises `runtime_state.StateFull`, and then
        nothing of it was written (P3).
        """
        artifact_id = "rt_" + secrets.token_urlsafe(24)
        items = {_key(artifact_id, "manifest"): _json({**manifest, "artifact_id": artifact_id})}
        items.update({_key(artifact_id, "module", path): source.encode() for path, source in modules.items()})
        items.update({_key(artifact_id, "asset", name): _json(asdict(asset)) for name, asset in assets.items()})
        await self._state.put_many(items, ttl_s)
        return artifact_id

    async def get_manifest(self, artifact_id: str) -> dict[str, Any]:
        """The manifest. Raises `ArtifactUnavailable`."""
        value = await self._state.get(_key(artifact_id, "manifest"))
        if value is None:
            raise ArtifactUnavailable(artifact_id)
        manifest: dict[str, Any] = json.loads(value)
        return manifest

    async def read_modules(self, artifact_id: str, paths: Sequence[str]) -> dict[str, str]:
        """The sources at these logical paths; one that the artifact does not hold is absent.

        Raises `ArtifactUnavailable`: an artifact that has gone must not look like one without the module.
        """
        found = await self._read(artifact_id, {path: _key(artifact_id, "module", path) for path in paths})
        return {path: value.decode() for path, value in found.items()}

    async def find_asset(self, artifact_id: str, name: str) -> StoredAsset | None:
        """Where an asset's bytes are. Raises `ArtifactUnavailable`."""
        found = await self._read(artifact_id, {name: _key(artifact_id, "asset", name)})
        return StoredAsset(**json.loads(found[name])) if name in found else None

    async def delete(self, artifact_id: str) -> None:
        """End an artifact; one that has gone is fine."""
        await self._state.delete_prefix(_key(artifact_id))

    async def _read(self, artifact_id: str, keys: Mapping[str, str]) -> dict[str, bytes]:
        manifest = _key(artifact_id, "manifest")
        found = await self._state.get_many([manifest, *keys.values()])
        if manifest not in found:
            raise ArtifactUnavailable(artifact_id)
        return {name: found[key] for name, key in keys.items() if key in found}


def _key(artifact_id: str, *parts: str) -> str:
    return ":".join(("runtime:artifact", artifact_id, *parts)) if parts else f"runtime:artifact:{artifact_id}:"


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
