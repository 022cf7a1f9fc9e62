"""The way of a build's artifact through the Backend: a stream in, an archive looked at, its files beside it (B2, X4).

Owns nothing that lasts. No part of an artifact waits here: each block goes on into the object store as it comes, a few
parts in memory and none on a disk; the archive is then read where it lies, in ranges. While all of that goes on the
attempt's lease is renewed, and everything stops as soon as the build is cancelled or the lease is lost. What is put
into the store is nobody's until it is promoted; who calls this deletes it otherwise.
"""

import asyncio
import hashlib
import time
import zipfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn, TypeVar

import structlog
from aiohttp import web

from pagegate.http.backend.errors import ApiError
from pagegate.runtime.archive import ArchiveLimits, ArchiveRefused, SiteArchive, check_archive
from pagegate.storage import builds
from pagegate.storage.builds import Artifact
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.object_streams import RangeFailed
from pagegate.storage.objects import Objects, ObjectStoreUnavailable

log = structlog.get_logger()
T = TypeVar("T")

UNPACKED_TIMES = 4  # of the artifact's limit: text packs to a quarter
RENEW_S_MAX = 1.0  # so soon a cancelled build's upload ends
_BLOCK_WAIT_S = 60.0
_WRITE_BYTES = 1024 * 1024
_WHOLE_BYTES_MAX = 1024 * 1024  # a larger file of the site is streamed out of the archive
_FILES_AT_ONCE = 4


@dataclass(frozen=True)
class Received:
    """An archive in the object store, which nobody has looked at yet."""

    key: str
    sha256: str
    size_bytes: int


async def while_held(
    renew: Callable[[], Awaitable[bool]], period_s: float, lease_s: float, work: Coroutine[Any, Any, T]
) -> T:
    """The result of `work`, as long as the attempt may go on; what is stopped ends in `BUILD_ATTEMPT_OVER`.

    `renew` answers whether the build is asked to stop, and raises when the lease is lost.
    """
    working = asyncio.create_task(work)
    keeping = asyncio.create_task(_keep(renew, period_s, lease_s))
    try:
        await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else keeping.result()
    finally:
        for task in (working, keeping):
            task.cancel()
        await asyncio.gather(working, keeping, return_exceptions=True)


async def _keep(renew: Callable[[], Awaitable[bool]], period_s: float, lease_s: float) -> NoReturn:
    renewed_s = time.monotonic()
    while True:
        await asyncio.sleep(period_s)
        try:
            began_s = time.monotonic()
            if await renew():
                raise ApiError("BUILD_ATTEMPT_OVER", "The build was cancelled.")
            renewed_s = began_s
        except DatabaseUnavailable as error:
            if time.monotonic() - renewed_s > lease_s:
                raise ApiError("BUILD_ATTEMPT_OVER", "The lease could not be renewed.") from error


async def receive(request: web.Request, objects: Objects, key: str, bytes_max: int) -> Received:
    """The body, into the object store as it comes; stopped at the first byte over `bytes_max`. Nothing is left then.

    Raises `PROJECT_BUILD_ARTIFACT_TOO_LARGE` or `PROJECT_BUILD_UPLOAD_FAILED`.
    """
    too_large = ApiError(
        "PROJECT_BUILD_ARTIFACT_TOO_LARGE", f"The site is larger than the {bytes_max} bytes that are allowed."
    )
    said = request.content_length
    if said is not None and said > bytes_max:
        raise too_large
    digest, size_bytes, waiting = hashlib.sha256(), 0, bytearray()
    async with objects.writing(key, size_bytes_max=said or bytes_max) as write:
        while block := await _next_block(request):
            size_bytes += len(block)
            if size_bytes > bytes_max:
                raise too_large
            waiting += block
            if len(waiting) >= _WRITE_BYTES:
                await _pass_on(write, digest, waiting)
        await _pass_on(write, digest, waiting)
        if said is not None and size_bytes != said:
            raise ApiError("PROJECT_BUILD_UPLOAD_FAILED")
    return Received(key, digest.hexdigest(), size_bytes)


async def _next_block(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(_BLOCK_WAIT_S):
            return await request.content.readany()
    except (TimeoutError, ConnectionError, web.HTTPException) as error:
        raise ApiError("PROJECT_BUILD_UPLOAD_FAILED", headers={"Connection": "close"}) from error


async def _pass_on(write: Callable[[bytes], Awaitable[None]], digest: Any, waiting: bytearray) -> None:
    block = bytes(waiting)
    waiting.clear()
    if block:
        await asyncio.to_thread(digest.update, block)
        await write(block)


async def unpack(objects: Objects, received: Received, artifact_bytes_max: int) -> Artifact:
    """Look at the archive, and put each of its files beside it. Raises `PROJECT_BUILD_ARCHIVE_REFUSED`."""
    limits = ArchiveLimits(UNPACKED_TIMES * artifact_bytes_max)
    file = objects.file(received.key, received.size_bytes)
    try:
        archive = await asyncio.to_thread(check_archive, file, received.size_bytes, limits)
        files = await _put_files(objects, received.key, archive)
    except ArchiveRefused as error:
        raise ApiError("PROJECT_BUILD_ARCHIVE_REFUSED", f"The archive is refused: {error}.") from None
    except RangeFailed as error:
        raise ObjectStoreUnavailable(f"reading an archive failed ({error})") from error
    return Artifact(received.key, received.sha256, received.size_bytes, files)


async def _put_files(objects: Objects, object_key: str, archive: SiteArchive) -> dict[str, tuple[str, int]]:
    """path → (digest, size). Small files go together, so that a distant store is not waited for file by file."""
    files: dict[str, tuple[str, int]] = {}
    small = (entry for entry in archive.entries if entry.file_size <= _WHOLE_BYTES_MAX)
    while group := list(islice(small, _FILES_AT_ONCE)):
        contents = await asyncio.to_thread(_read_whole, archive, group)
        digests = [hashlib.sha256(content).hexdigest() for content in contents]
        once = {builds.file_key(object_key, sha256): content for sha256, content in zip(digests, contents, strict=True)}
        await _to_their_end([objects.put(key, content) for key, content in once.items()])
        files |= {entry.filename: (sha256, entry.file_size) for entry, sha256 in zip(group, digests, strict=True)}
    for entry in archive.entries:
        if entry.file_size > _WHOLE_BYTES_MAX:
            files[entry.filename] = (await _stream_file(objects, object_key, archive, entry), entry.file_size)
    return files


def _read_whole(archive: SiteArchive, entries: Sequence[zipfile.ZipInfo]) -> list[bytes]:
    return [b"".join(archive.blocks(entry)) for entry in entries]


async def _stream_file(objects: Objects, object_key: str, archive: SiteArchive, entry: zipfile.ZipInfo) -> str:
    """Read twice: its place is named by what is in it, and a damaged one is found before anything is written."""
    sha256 = await asyncio.to_thread(_digest_of, archive, entry)
    key, blocks = builds.file_key(object_key, sha256), archive.blocks(entry)
    async with objects.writing(key, size_bytes_max=entry.file_size) as write:
        while (block := await asyncio.to_thread(next, blocks, None)) is not None:
            await write(block)
    return sha256


def _digest_of(archive: SiteArchive, entry: zipfile.ZipInfo) -> str:
    digest = hashlib.sha256()
    for block in archive.blocks(entry):
        digest.update(block)
    return digest.hexdigest()


async def _to_their_end(puts: Sequence[Coroutine[Any, Any, None]]) -> None:
    """All of them; who is cancelled meanwhile waits for them, so that none writes where everything was deleted."""
    together = asyncio.gather(*puts, return_exceptions=True)
    try:
        ends = await asyncio.shield(together)
    except asyncio.CancelledError:
        await together
        raise
    for end in ends:
        if isinstance(end, BaseException):
            raise end
