"""Bytes that do not belong into a database: assets, pictures, archives (S2, B2).

Owns the object store: a local folder, memory for tests, or S3, behind one small API. Objects are written once, at keys
that name their content or that nobody else writes to, and are never changed: a reader may hold on to a key for ever.
A write is whole or absent. Survives everything the store survives; a write that was cut off leaves nothing behind (B2),
and what a killed process left of one goes with `delete_older`.
"""

import asyncio
import contextlib
import hashlib
import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import obstore
import structlog
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore, S3Store

from pagegate.storage.object_streams import PartWriter, object_file
from pagegate.storage.s3_uploads import Keys, OpenUploads

log = structlog.get_logger()

CHUNK_BYTES = 256 * 1024
STORE_TIMEOUT_S = 60.0
STORE_THREADS = 8
_CONNECT_TIMEOUT_S = 5.0
_RETRIES_MAX = 2  # of a request that failed; who asked has a retry of its own, and should hear of trouble soon
_RETRY_WITHIN_S = 20.0
_HALF_WRITTEN = re.compile(r"#[0-9]+$")  # what the library calls a file on a disk until it is whole


class ObjectMissing(Exception):
    """There is nothing at this key."""


class ObjectStoreUnavailable(Exception):
    """The store did not answer or refused. Infrastructure: try again (R9)."""


@dataclass(frozen=True)
class S3Options:
    """A bucket, at Amazon or at any server that speaks its protocol. The bucket exists; nothing here makes it.

    `endpoint_url` empty: Amazon's own for the region. Without keys, those of the environment or the machine are used
    (AWS_ACCESS_KEY_ID and its kin). All keys lie below `prefix`, so that deployments can share a bucket.
    """

    bucket: str
    endpoint_url: str = ""
    region: str = "us-east-1"
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    prefix: str = ""
    virtual_hosted_style: bool = False
    timeout_s: float = STORE_TIMEOUT_S  # of one call of ours, the store's own retries included


@dataclass(frozen=True)
class StoredAsset:
    """One file of a project, and where its bytes are. `key` is the object's, `media_type` is from the allow-list."""

    name: str
    media_type: str
    sha256: str
    size_bytes: int
    key: str


@dataclass(frozen=True)
class OpenObject:
    """An object that is being read, of `size_bytes` as a whole. `chunks` may be consumed once."""

    size_bytes: int
    chunks: AsyncIterator[bytes]


class Objects:
    """The object store of one deployment. Every call raises `ObjectStoreUnavailable` when the store fails.

    The store's blocking calls run in threads of ours. Its own asynchronous ones finish on threads that may still hold
    Python objects when a process ends right after its last put: that process was aborted (8 times of 40) instead of
    ending with its exit code.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        timeout_s: float = STORE_TIMEOUT_S,
        delete_unfinished: Callable[[str, datetime], int] | None = None,
    ) -> None:
        """`delete_unfinished(prefix, before)`: what killed writers left; it blocks and answers how many it deleted."""
        self._store, self._timeout_s, self._delete_unfinished = store, timeout_s, delete_unfinished
        self._threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="objects")

    @classmethod
    def local(cls, folder: Path) -> "Objects":
        """Objects as files below `folder`, which is made when missing."""
        folder.mkdir(parents=True, exist_ok=True)
        store = LocalStore(prefix=folder.resolve(), automatic_cleanup=True)  # no folder stays behind its last file
        return cls(store, delete_unfinished=partial(_delete_half_written, folder.resolve()))

    @classmethod
    def in_memory(cls) -> "Objects":
        return cls(MemoryStore())

    @classmethod
    def s3(cls, options: S3Options) -> "Objects":
        """Objects in a bucket. Nothing is asked here: `check` says whether it can be used."""
        keys: dict[str, Any] = {}
        if options.endpoint_url:
            keys["endpoint"] = options.endpoint_url
        if options.access_key_id:
            keys |= {"access_key_id": options.access_key_id, "secret_access_key": options.secret_access_key}
        store = S3Store(
            options.bucket,
            prefix=options.prefix.strip("/") or None,
            region=options.region,
            virtual_hosted_style_request=options.virtual_hosted_style,
            client_options={
                "allow_http": options.endpoint_url.startswith("http://"),
                "connect_timeout": timedelta(seconds=min(_CONNECT_TIMEOUT_S, options.timeout_s)),
                "timeout": timedelta(seconds=options.timeout_s),
            },
            retry_config={
                "max_retries": _RETRIES_MAX,
                "retry_timeout": timedelta(seconds=min(_RETRY_WITHIN_S, options.timeout_s)),
            },
            **keys,
        )
        return cls(store, timeout_s=options.timeout_s, delete_unfinished=_uploads_of(options))

    async def put(self, key: str, content: bytes | Path) -> None:
        """Write an object once, from memory or a file. What is already at `key` is the same content and stays."""
        with contextlib.suppress(AlreadyExistsError):
            await self._call("writing", obstore.put, self._store, key, content, mode="create")

    @asynccontextmanager
    async def writing(self, key: str, *, size_bytes_max: int) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        """Write an object block by block with what this gives, holding a few parts of it at a time.

        The object is there, whole, when the block ended well. Ended otherwise, also by a cancel, nothing is left of it.
        """
        writer: PartWriter = await self._call("writing", PartWriter, self._store, key, size_bytes_max)

        async def write(block: bytes) -> None:
            await self._call("writing", writer.write, block)

        try:
            yield write
            await self._call("writing", writer.finish)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._abort(writer, key)))
            raise

    async def _abort(self, writer: PartWriter, key: str) -> None:
        """What cannot be aborted now is found by `delete_older`, whose caller remembers the place."""
        try:
            await self._call("aborting", writer.abort)
            await self.delete(key)
        except ObjectStoreUnavailable as error:
            log.warning("object_store.write_left", key=key, reason=str(error))

    def file(self, key: str, size_bytes: int) -> io.BufferedReader:
        """An object of this size as a file to read and seek in: blocking, for a thread. Raises `RangeFailed`."""
        return object_file(self._store, key, size_bytes)

    async def get(self, key: str) -> bytes:
        """A whole object; for small ones. Raises `ObjectMissing`."""
        return b"".join([chunk async for chunk in (await self.open(key)).chunks])

    async def open(self, key: str, part: range | None = None) -> OpenObject:
        """Begin to read an object, or a `part` of its bytes, which must lie inside. Raises `ObjectMissing`."""
        options: obstore.GetOptions | None = {"range": (part.start, part.stop)} if part else None
        try:
            found = await self._call("reading", obstore.get, self._store, key, options=options)
        except FileNotFoundError:
            raise ObjectMissing(key) from None
        return OpenObject(size_bytes=found.meta["size"], chunks=self._chunks(found))

    async def size_bytes(self, key: str) -> int:
        """How large an object is, without reading it. Raises `ObjectMissing`."""
        try:
            found = await self._call("looking", obstore.head, self._store, key)
        except FileNotFoundError:
            raise ObjectMissing(key) from None
        return int(found["size"])

    async def delete(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        with contextlib.suppress(FileNotFoundError):
            await self._call("deleting", obstore.delete, self._store, key)

    async def delete_older(self, prefix: str, age_s: float, *, keep: str = "") -> int:
        """Delete what has been below `prefix` for longer than `age_s`, by the store's clock; answers how much.

        What killed writers left unfinished goes too. Objects below `keep`, when it is given, stay.
        """

        def work() -> int:
            before, deleted = datetime.now(UTC) - timedelta(seconds=age_s), 0
            if self._delete_unfinished is not None:
                deleted += self._delete_unfinished(prefix, before)
            for page in obstore.list(self._store, prefix):
                for found in page:
                    if keep and found["path"].startswith(keep):
                        continue
                    if found["last_modified"] < before:
                        with contextlib.suppress(FileNotFoundError):  # another replica was quicker
                            obstore.delete(self._store, found["path"])
                            deleted += 1
            return deleted

        return int(await self._call("tidying", work))

    async def count(self, prefix: str, *, keep: str = "") -> int:
        """How many whole objects are below `prefix`, those below `keep` left out."""

        def work() -> int:
            found = [one["path"] for page in obstore.list(self._store, prefix) for one in page]
            return sum(not (keep and path.startswith(keep)) for path in found)

        return int(await self._call("counting", work))

    async def check(self) -> None:
        """Ask the store what is at a place where nothing is: it answers, or `ObjectStoreUnavailable`.

        A list and not a get: a bucket that does not exist has no objects either, and must not look well.
        """

        def work() -> None:
            for _ in obstore.list(self._store, "readiness"):
                return

        try:
            await self._call("asking", work)
        except FileNotFoundError as error:
            raise ObjectStoreUnavailable("asking failed (there is no such bucket)") from error

    async def _chunks(self, found: "obstore.GetResult") -> AsyncIterator[bytes]:
        chunks = iter(found.stream(min_chunk_size=CHUNK_BYTES))
        while (chunk := await self._call("reading", next, chunks, None)) is not None:
            yield bytes(chunk)

    async def _call(self, doing: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await loop.run_in_executor(self._threads, partial(work, *args, **kwargs))
        except (FileNotFoundError, AlreadyExistsError):
            raise
        except (BaseError, OSError, TimeoutError) as error:
            raise ObjectStoreUnavailable(f"{doing} failed ({type(error).__name__})") from error


def _delete_half_written(folder: Path, prefix: str, before: datetime) -> int:
    """Files on a disk whose writer was killed: no list of objects shows them. Folders that are empty then go too."""
    deleted, at = 0, folder / prefix
    for file in at.rglob("*#*"):
        with contextlib.suppress(FileNotFoundError):  # another replica was quicker
            if _HALF_WRITTEN.search(file.name) and file.stat().st_mtime < before.timestamp():
                file.unlink()
                deleted += 1
    with contextlib.suppress(OSError):  # one that is not empty ends it, and one that is not there
        while at != folder:
            at.rmdir()
            at = at.parent
    return deleted


def _uploads_of(options: S3Options) -> Callable[[str, datetime], int]:
    endpoint = options.endpoint_url.rstrip("/") or f"https://s3.{options.region}.amazonaws.com"
    inside = bool(options.endpoint_url) and options.virtual_hosted_style  # then the endpoint is the bucket's own
    url = endpoint if inside else f"{endpoint}/{options.bucket}"
    keys = Keys.find(options.access_key_id, options.secret_access_key)
    uploads = OpenUploads(url, options.region, keys, options.timeout_s)
    ours = f"{options.prefix.strip('/')}/".lstrip("/")
    return lambda prefix, before: uploads.abort_older(ours + prefix, before)


def asset_key(project_id: int, sha256: str) -> str:
    """Where an asset's bytes are: by project, so that deleting one project can never touch another's."""
    return f"assets/{project_id}/{sha256}"


def picture_key(project_id: int, sha256: str) -> str:
    """Where a page's picture is (S2)."""
    return f"pages/{project_id}/{sha256}.png"


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
