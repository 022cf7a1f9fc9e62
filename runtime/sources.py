"""Where the modules of a compile come from (P1, V7).

A `ModuleSource` gives one artifact's manifest and sources. `HttpModuleSource` reads them from the Backend over its
internal endpoints; `MemoryModuleSource` has them at hand. Nothing is kept beyond one compile. Every failure is a
`SourceUnavailable`: infrastructure, never a word about the page.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import BaseModel, ValidationError

from pagegate.runtime.contract import MODULE_BATCH_PATHS_MAX, ArtifactManifest, ModulesAnswer, ModulesRequest
from pagegate.runtime.refusals import ArtifactGone, SourceUnavailable

_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_NO_SUCH_CALL = {404, 405}

M = TypeVar("M", bound=BaseModel)


class ModuleSource(Protocol):
    async def manifest(self) -> ArtifactManifest:
        """Raises `SourceUnavailable`."""

    async def read_modules(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Sources by logical path. Raises `SourceUnavailable`, also when one of `paths` is absent."""


class MemoryModuleSource:
    """An artifact that is already here."""

    def __init__(self, manifest: ArtifactManifest, modules: Mapping[str, str]) -> None:
        self._manifest, self._modules = manifest, modules

    async def manifest(self) -> ArtifactManifest:
        return self._manifest

    async def read_modules(self, paths: Sequence[str]) -> Mapping[str, str]:
        return _complete({path: self._modules[path] for path in paths if path in self._modules}, paths)


class HttpModuleSource:
    """An artifact of the Backend at `backend_url`, read with the ticket of the request. The session is lent."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        backend_url: str,
        artifact_id: str,
        ticket: str,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        artifact = quote(artifact_id, safe="")
        self._base = f"{backend_url.rstrip('/')}/internal/runtime/preview-artifacts/{artifact}"
        self._session = session
        self._headers = {"Authorization": f"Bearer {ticket}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, connect=min(5.0, timeout_s))

    async def manifest(self) -> ArtifactManifest:
        status, body = await self._call("GET", "/manifest")
        if status == 404:
            raise ArtifactGone("the Backend does not have the artifact any more")
        if status != 200:
            raise _unavailable(f"answered {status} for the manifest")
        return _parsed(ArtifactManifest, body)

    async def read_modules(self, paths: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(paths), MODULE_BATCH_PATHS_MAX):
            read = await self._read_batch(paths[start : start + MODULE_BATCH_PATHS_MAX])
            if read is None:
                found |= await self._read_singly(paths)
                break
            found |= read
        return _complete(found, paths)

    async def _read_batch(self, paths: Sequence[str]) -> dict[str, str] | None:
        """None: this Backend is older than the batch call (V7)."""
        request = ModulesRequest(paths=list(paths))
        status, body = await self._call("POST", "/modules/batch", json=request.model_dump())
        if status in _NO_SUCH_CALL:
            return None
        if status != 200:
            raise _unavailable(f"answered {status} for the modules")
        return _parsed(ModulesAnswer, body).modules

    async def _read_singly(self, paths: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in paths:
            status, body = await self._call("GET", "/modules", params={"path": path})
            if status == 200:
                try:
                    found[path] = body.decode()
                except UnicodeDecodeError as error:
                    raise _unavailable("gave a module that is no text") from error
            elif status != 404:
                raise _unavailable(f"answered {status} for a module")
        return found

    async def _call(
        self, method: str, path: str, *, json: object = None, params: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """No redirects: an address that was not allowed must not be reached through one that was."""
        try:
            async with self._session.request(
                method,
                self._base + path,
                json=json,
                params=params,
                headers=self._headers,
                timeout=self._timeout,
                allow_redirects=False,
            ) as response:
                body = await response.content.read(_ANSWER_BYTES_MAX + 1)
                while len(body) <= _ANSWER_BYTES_MAX and (more := await response.content.read(_ANSWER_BYTES_MAX)):
                    body += more
                if len(body) > _ANSWER_BYTES_MAX:
                    raise _unavailable("gave more than a page can hold")
                return response.status, body
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unavailable(f"cannot be read ({type(error).__name__})") from error


def _parsed(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _unavailable("gave an answer of another shape") from error


def _complete(found: Mapping[str, str], paths: Sequence[str]) -> Mapping[str, str]:
    if missing := [path for path in paths if path not in found]:
        raise SourceUnavailable(f"the artifact lists {missing[0]!r} and does not hold it")
    return found


def _unavailable(what: str) -> SourceUnavailable:
    return SourceUnavailable(f"the Backend {what}")
