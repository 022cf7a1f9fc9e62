"""Preview artifacts: the short-lived context of one preview or check (P1-P3).

Owns the keys `runtime:artifact:{id}` of the runtime state: one entry an artifact, with its manifest, its modules and
its assets' references. An artifact is written whole or not at all and never changed, so an id never points at other
content; it ends by `delete` (the check is over), by its time to live, or with the store.

A lost artifact is gone. Only where the store outlives a process (Redis), and only for a preview of saved versions, it
is made again by `again`, byte for byte the same and for the rest of its time; nobody ever makes it up from newer
content (P2). The artifact of a check has nothing durable to be made of.
"""

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pagegate.storage.objects import StoredAsset
from pagegate.storage.runtime_state import RuntimeState

ARTIFACT_TTL_S = 3600.0  # P2
ID_PREFIX = "rt_"

_MANIFEST = "manifest"


class ArtifactUnavailable(Exception):
    """The artifact has expired, was deleted, or never was (`PREVIEW_ARTIFACT_UNAVAILABLE`)."""


@dataclass(frozen=True)
class Content:
    """What an artifact holds: `modules` are sources by logical path, `assets` references by name."""

    manifest: Mapping[str, Any]
    modules: Mapping[str, str]
    assets: Mapping[str, StoredAsset]

    def fields(self) -> dict[str, bytes]:
        """The entry of the runtime state; the same content always gives the same bytes."""
        fields = {_MANIFEST: _json(self.manifest)}
        # A lone surrogate has no UTF-8; it comes back as it was.
        fields |= {f"module:{path}": text.encode("utf-8", "surrogatepass") for path, text in self.modules.items()}
        return fields | {f"asset:{name}": _json(asdict(asset)) for name, asset in self.assets.items()}

    def digest(self) -> str:
        """Names the content: what is made again must have the same."""
        digest = hashlib.sha256()
        for name, value in sorted(self.fields().items()):
            digest.update(f"{len(name)}:{name}{len(value)}:".encode("utf-8", "surrogatepass") + value)
        return digest.hexdigest()


@dataclass(frozen=True)
class Again:
    """An artifact made again from what is durable, for the rest of its time."""

    content: Content
    ttl_s: float


MakeAgain = Callable[[str], Awaitable[Again | None]]


class PreviewArtifacts:
    """The artifacts in one runtime state. `again` answers a lost one by its id, or None when it is really gone."""

    def __init__(self, state: RuntimeState, again: MakeAgain | None = None) -> None:
        self._state, self._again = state, again if state.kind == "redis" else None

    @property
    def can_make_again(self) -> bool:
        """Whether it is worth to keep durably what an artifact is made of."""
        return self._again is not None

    async def create(
        self,
        manifest: Mapping[str, Any],
        modules: Mapping[str, str],
        assets: Mapping[str, StoredAsset],
        ttl_s: float = ARTIFACT_TTL_S,
    ) -> str:
        """Write an artifact and answer its id, which no one can guess; `artifact_id` is added to the manifest.

        Raises `runtime_state.StateFull`, and then nothing of it was written (P3), or `StateUnavailable`.
        """
        artifact_id = new_artifact_id()
        content = Content({**manifest, "artifact_id": artifact_id}, modules, assets)
        await self.put({artifact_id: content}, ttl_s)
        return artifact_id

    async def put(self, contents: Mapping[str, Content], ttl_s: float) -> None:
        """Write artifacts of new ids together: all of them or, raising, none."""
        await self._state.put({_key(known): content.fields() for known, content in contents.items()}, ttl_s)

    async def get_manifest(self, artifact_id: str) -> dict[str, Any]:
        """The manifest. Raises `ArtifactUnavailable`."""
        manifest: dict[str, Any] = json.loads((await self._read(artifact_id, [_MANIFEST]))[_MANIFEST])
        return manifest

    async def read_modules(self, artifact_id: str, paths: Sequence[str]) -> dict[str, str]:
        """The sources at these logical paths; one that the artifact does not hold is absent.

        Raises `ArtifactUnavailable`: an artifact that has gone must not look like one without the module.
        """
        found = await self._read(artifact_id, [f"module:{path}" for path in paths])
        return {name.removeprefix("module:"): value.decode("utf-8", "surrogatepass") for name, value in found.items()}

    async def find_asset(self, artifact_id: str, name: str) -> StoredAsset | None:
        """Where an asset's bytes are. Raises `ArtifactUnavailable`."""
        value = (await self._read(artifact_id, [f"asset:{name}"])).get(f"asset:{name}")
        return None if value is None else StoredAsset(**json.loads(value))

    async def delete(self, artifact_id: str) -> None:
        """End an artifact; one that has gone is fine."""
        await self._state.delete([_key(artifact_id)])

    async def _read(self, artifact_id: str, names: Sequence[str]) -> dict[str, bytes]:
        found = await self._state.read(_key(artifact_id), names)
        if found is not None:
            return found
        again = await self._again(artifact_id) if self._again is not None else None
        if again is None:
            raise ArtifactUnavailable(artifact_id)
        fields = again.content.fields()
        await self._state.put({_key(artifact_id): fields}, again.ttl_s)
        return {name: fields[name] for name in names if name in fields}


def new_artifact_id() -> str:
    """`rt_` and 192 random bits."""
    return ID_PREFIX + secrets.token_urlsafe(24)


def _key(artifact_id: str) -> str:
    return f"runtime:artifact:{artifact_id}"


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode("utf-8", "surrogatepass")
