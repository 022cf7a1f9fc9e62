"""Bytes that do not belong into a database: assets, pictures, archives (S2, B2).

Owns the object store: a local folder, memory for tests, or S3, behind one small API. Objects are written once at keys
that name their content and are never changed, so a reader may hold on to a key for ever and writing again is harmless.
A write is whole or absent. Survives everything the store survives; a put that was cut off leaves nothing behind (B2).
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore

CHUNK_BYTES = 256 * 1024
STORE_TIMEOUT_S = 60.0


class ObjectMissing(Exception):
    """There is nothing at this key."""


class ObjectStoreUnavailable(Exception):
    """The store did not answer or refused. Infrastructure: try again (R9)."""


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
    """An object that is being read. `chunks` may be consumed once."""

    size_bytes: int
    chunks: AsyncIterator[bytes]


class Objects:
    """The object store of one deployment. Every call raises `ObjectStoreUnavailable` when the store fails."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def local(cls, folder: Path) -> "Objects":
        """Objects as files below `folder`, which is made when missing."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(LocalStore(prefix=folder.resolve()))

    @classmethod
    def in_memory(cls) -> "Objects":
        return cls(MemoryStore())

    async def put(self, key: str, content: bytes | BinaryIO) -> None:
        """Write an object once. Something already at `key` is the same content (keys name it) and stays."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                await obstore.put_async(self._store, key, content, mode="create")
        except AlreadyExistsError:
            return
        except (BaseError, OSError, TimeoutError) as error:
            raise ObjectStoreUnavailable(f"writing failed ({type(error).__name__})") from error

    async def get(self, key: str) -> bytes:
        """A whole object; for small ones. Raises `ObjectMissing`."""
        return b"".join([chunk async for chunk in (await self.open(key)).chunks])

    async def open(self, key: str) -> OpenObject:
        """Begin to read an object. Raises `ObjectMissing`."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                found = await obstore.get_async(self._store, key)
        except FileNotFoundError:
            raise ObjectMissing(key) from None
        except (BaseError, OSError, TimeoutError) as error:
            raise ObjectStoreUnavailable(f"reading failed ({type(error).__name__})") from error

        async def chunks() -> AsyncIterator[bytes]:
            try:
                async for chunk in found.stream(min_chunk_size=CHUNK_BYTES):
                    yield bytes(chunk)
            except (BaseError, OSError) as error:
                raise ObjectStoreUnavailable(f"reading failed ({type(error).__name__})") from error

        return OpenObject(size_bytes=found.meta["size"], chunks=chunks())

    async def delete(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                await obstore.delete_async(self._store, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError, TimeoutError) as error:
            raise ObjectStoreUnavailable(f"deleting failed ({type(error).__name__})") from error

    async def check(self) -> None:
        """Ask the store for something that is not there: it answers, or `ObjectStoreUnavailable`."""
        try:
            await self.open("readiness/probe")
        except ObjectMissing:
            return


def asset_key(project_id: int, sha256: str) -> str:
    """Where an asset's bytes are: by project, so that deleting one project can never touch another's."""
    return f"assets/{project_id}/{sha256}"


def picture_key(project_id: int, sha256: str) -> str:
    """Where a page's picture is (S2)."""
    return f"pages/{project_id}/{sha256}.png"


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
