"""How bytes come in and go out: uploads as a bounded stream, objects as a stream with safe headers (X4, X6).

Owns nothing that lasts: an upload is collected in a temporary file that vanishes with the request, hashed on the way,
and put into the object store once it is whole. A cut-off upload leaves nothing (B2).
"""

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from aiohttp import web

from pagegate.http.backend.errors import ApiError
from pagegate.storage.asset_names import MEDIA_TYPES, AssetNameInvalid, asset_name
from pagegate.storage.objects import Objects

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True)
class Upload:
    """A whole upload, in a temporary file that ends with it."""

    file: Path
    size_bytes: int
    sha256: str


def file_name(value: str) -> str:
    """A usable file name, in one Unicode form. Raises `ASSET_NAME_INVALID`."""
    try:
        return asset_name(value)
    except AssetNameInvalid:
        raise ApiError("ASSET_NAME_INVALID") from None


def media_type_of(name: str) -> str:
    """The media type that the name's ending stands for. Raises `ASSET_TYPE_NOT_ALLOWED`."""
    ending = PurePosixPath(name).suffix.lower()
    if ending not in MEDIA_TYPES:
        allowed = ", ".join(sorted(MEDIA_TYPES))
        raise ApiError(
            "ASSET_TYPE_NOT_ALLOWED",
            f"Files ending in {ending or 'nothing'} are not accepted.",
            f"Accepted are {allowed}.",
        )
    return MEDIA_TYPES[ending]


@asynccontextmanager
async def receive(request: web.Request, *, bytes_max: int, wait_s: float) -> AsyncIterator[Upload]:
    """The request's body as a file. Raises `ASSET_TOO_LARGE` at once, `REQUEST_TIMEOUT`, `ASSET_EMPTY`."""
    too_large = ApiError("ASSET_TOO_LARGE", f"The file is larger than the {bytes_max} bytes that are allowed.")
    if request.content_length is not None and request.content_length > bytes_max:
        raise too_large
    digest, size_bytes = hashlib.sha256(), 0
    with tempfile.NamedTemporaryFile(prefix="pagegate-upload-") as file:
        try:
            async with asyncio.timeout(wait_s):
                async for chunk in request.content.iter_any():
                    size_bytes += len(chunk)
                    if size_bytes > bytes_max:
                        raise too_large
                    digest.update(chunk)
                    file.write(chunk)
        except TimeoutError:
            raise ApiError("REQUEST_TIMEOUT", headers={"Connection": "close"}) from None
        if not size_bytes:
            raise ApiError("ASSET_EMPTY")
        file.flush()
        yield Upload(Path(file.name), size_bytes, digest.hexdigest())


async def send_object(
    request: web.Request, objects: Objects, key: str, *, media_type: str, sha256: str, name: str, inline: bool = False
) -> web.StreamResponse:
    """Answer with an object. Its address may show newer bytes later, so a browser asks again by the ETag.

    A part of it for who asks for one: browsers look into videos that way, and cannot seek without.

    Raises `ObjectMissing` before anything was sent. A store that fails later cuts the connection: a short body must not
    look whole.
    """
    headers = {
        "ETag": f'"{sha256}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        # Uploaded files are strangers' content at our own address: never a page with rights, an SVG neither (X6).
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "Content-Disposition": f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{quote(name, safe='')}",
    }
    if f'"{sha256}"' in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    part = None
    if request.headers.get("Range") and request.headers.get("If-Range", f'"{sha256}"') == f'"{sha256}"':
        size_bytes = await objects.size_bytes(key)
        part = asked_part(request.headers["Range"], size_bytes)
        if part is not None and not part:
            return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{size_bytes}"})
    found = await objects.open(key, part)
    answer = web.StreamResponse(headers={**headers, "Content-Type": media_type})
    answer.content_length = found.size_bytes
    if part is not None:
        answer.set_status(206)
        answer.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{found.size_bytes}"
        answer.content_length = len(part)
    await answer.prepare(request)
    async for chunk in found.chunks:
        await answer.write(chunk)
    await answer.write_eof()
    return answer


def asked_part(header: str, size_bytes: int) -> range | None:
    """The bytes that a Range header asks for: empty when there are none such, None when all are to be sent. Pure.

    Several ranges, other units and what is malformed are answered with everything, as HTTP wants it.
    """
    asked = _RANGE.fullmatch(header.strip())
    if asked is None or not any(asked.groups()):
        return None
    first, last = asked.groups()
    if not first:
        return range(max(0, size_bytes - int(last)), size_bytes)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, size_bytes) if last else size_bytes)
