"""The object store that all processes of a world share, played: slow and failing as the weather says.

What is written and read is as `storage/objects.py` promises it: whole or absent, written once, streams aborted when
they end badly. A killed writer leaves a stream half written, which only `delete_older` finds.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pagegate.storage.object_streams import RangeFailed
from pagegate.storage.objects import ObjectMissing, ObjectStoreUnavailable, OpenObject

if TYPE_CHECKING:
    from tests.simulation.edges import Surroundings

T = TypeVar("T")


@dataclass
class _Stream:
    """An object that is being written."""

    key: str
    since_s: float
    blocks: list[bytes] = field(default_factory=list)


class _Ranges(io.RawIOBase):
    """An object's content, to be read and sought in."""

    def __init__(self, content: bytes | None) -> None:
        self._file = io.BytesIO(content) if content is not None else None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._there().seek(offset, whence)

    def tell(self) -> int:
        return self._there().tell()

    def readinto(self, buffer: "memoryview[int]", /) -> int:  # type: ignore[override]  # all that is passed here
        return self._there().readinto(buffer)

    def _there(self) -> io.BytesIO:
        if self._file is None:
            raise RangeFailed("NotFoundError")
        return self._file


class PlayedObjects:
    """`kept` is what is there; `half_written` what was begun and has not ended. `on_delete` hears of every object that
    goes."""

    def __init__(self, around: "Surroundings") -> None:
        self._around = around
        self.kept: dict[str, tuple[bytes, float]] = {}  # key -> content, since when
        self.half_written: list[_Stream] = []
        self.on_delete: Callable[[str], None] = lambda _: None

    async def put(self, key: str, content: bytes | Path) -> None:
        await self._call(lambda: self._keep(key, content if isinstance(content, bytes) else content.read_bytes()))

    async def get(self, key: str) -> bytes:
        found = await self._call(lambda: self.kept.get(key))
        if found is None:
            raise ObjectMissing(key)
        return found[0]

    async def open(self, key: str, part: range | None = None) -> OpenObject:
        content = await self.get(key)

        async def chunks() -> AsyncIterator[bytes]:
            yield content if part is None else content[part.start : part.stop]

        return OpenObject(len(content), chunks())

    async def size_bytes(self, key: str) -> int:
        return len(await self.get(key))

    @asynccontextmanager
    async def writing(
        self,
        key: str,
        *,
        size_bytes_max: int,
    ) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        stream = _Stream(key, self._around.loop.time())
        await self._call(lambda: self.half_written.append(stream))

        async def write(block: bytes) -> None:
            await self._call(lambda: stream.blocks.append(block))

        try:
            yield write
            await self._call(lambda: self._finish(stream))
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._abort(stream)))
            raise

    def file(self, key: str, size_bytes: int) -> io.BufferedReader:
        """As it is now; reading takes no time here. One that is gone meanwhile cannot be read."""
        return io.BufferedReader(_Ranges(self.kept.get(key, (None, 0.0))[0]), max(size_bytes, 1))

    async def delete(self, key: str) -> None:
        await self._call(lambda: self._drop(key))

    async def delete_older(self, prefix: str, age_s: float, *, keep: str = "") -> int:
        before_s = self._around.loop.time() - age_s
        old = [
            key
            for key, (_, since_s) in self.kept.items()
            if key.startswith(prefix) and since_s < before_s and not (keep and key.startswith(keep))
        ]

        def drop() -> int:
            for stream in list(self.half_written):
                if stream.key.startswith(prefix) and stream.since_s < before_s:
                    self.half_written.remove(stream)
            for key in old:
                self._drop(key)
            return len(old)

        return await self._call(drop)

    def _keep(self, key: str, content: bytes) -> None:
        self.kept.setdefault(key, (content, self._around.loop.time()))

    def _finish(self, stream: _Stream) -> None:
        if stream in self.half_written:
            self.half_written.remove(stream)
            self._keep(stream.key, b"".join(stream.blocks))

    async def _abort(self, stream: _Stream) -> None:
        def drop() -> None:
            if stream in self.half_written:
                self.half_written.remove(stream)
            self._drop(stream.key)

        try:
            await self._call(drop)
        except ObjectStoreUnavailable:
            self._around.note(self._around.who(), "a write is left", key=stream.key)

    def _drop(self, key: str) -> None:
        if self.kept.pop(key, None) is not None:
            self.on_delete(key)

    async def _call(self, work: Callable[[], T]) -> T:
        around = self._around
        await around.travel()
        fails = around.strikes(around.weather.objects_fail)
        if fails and around.loop.chance.random() < 0.5:
            raise ObjectStoreUnavailable("the store does not answer")
        answer = work()
        if fails:
            raise ObjectStoreUnavailable("the store answered, and nobody heard it")
        return answer
