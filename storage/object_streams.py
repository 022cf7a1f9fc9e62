"""One object as a stream, without ever holding the whole of it: written in parts, or read in ranges (B2).

Everything here blocks, and is for the threads of `Objects`. `PartWriter` is one write: parts go out as they fill, on S3
as a multipart upload, on a disk into a file beside the object's place; the object appears when all of it is there.
`ObjectFile` is an object as a file that can be sought in: what is read is fetched, and no more.
"""

import io
import threading
from types import TracebackType
from typing import Protocol

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

PART_BYTES = 5 * 1024 * 1024  # the least that S3 takes
_PARTS_MAX = 10_000  # the most that S3 takes
_PARTS_AT_ONCE = 2
_READ_AHEAD_BYTES = 1024 * 1024


class _File(Protocol):
    def write(self, buffer: bytes, /) -> int: ...
    def close(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None, /
    ) -> None: ...


class GivenUp(Exception):
    """The write was aborted while this call of it was on its way."""


class PartWriter:
    """A write of at most `size_bytes_max`. One call at a time reaches the store; an abort waits for that, then wins."""

    def __init__(self, store: ObjectStore, key: str, size_bytes_max: int) -> None:
        part_bytes = max(PART_BYTES, -(-size_bytes_max // (_PARTS_MAX - 1)))
        self._file: _File = obstore.open_writer(store, key, buffer_size=part_bytes, max_concurrency=_PARTS_AT_ONCE)
        self._turn = threading.Lock()
        self._over = False

    def write(self, block: bytes) -> None:
        with self._turn:
            if self._over:
                raise GivenUp
            self._file.write(block)

    def finish(self) -> None:
        with self._turn:
            if self._over:
                raise GivenUp
            self._file.close()

    def abort(self) -> None:
        """Leave nothing of it. When it was finished meanwhile and nobody heard, the caller deletes the key."""
        with self._turn:
            self._over = True
            error = GivenUp()
            self._file.__exit__(GivenUp, error, None)  # its library aborts a write that ends with an error


class RangeFailed(Exception):
    """A range could not be read. No `OSError`: who reads an archive takes those for faults of the archive."""


class _Ranges(io.RawIOBase):
    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        self._store, self._key, self._size_bytes, self._at = store, key, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: "memoryview[int]", /) -> int:  # type: ignore[override]  # all that `BufferedReader` passes
        length = min(len(buffer), self._size_bytes - self._at)
        if length <= 0:
            return 0
        try:
            found = obstore.get_range(self._store, self._key, start=self._at, length=length)
        except (BaseError, OSError) as error:
            raise RangeFailed(type(error).__name__) from error
        buffer[: len(found)] = memoryview(found)
        self._at += len(found)
        return len(found)


def object_file(store: ObjectStore, key: str, size_bytes: int) -> io.BufferedReader:
    """An object of this size as a file to read and seek in. Its reads raise `RangeFailed`."""
    return io.BufferedReader(_Ranges(store, key, size_bytes), _READ_AHEAD_BYTES)
