"""Pages that people look at, compiled in the check lane's background class and kept for a while (P4, V1).

Owns the compiled pages by artifact id, bounded in bytes and in time, and the compiles under way: who asks for the same
page meanwhile waits for the same compile. An artifact never changes, so what was made of it does not either. Few
compile at once and the line has an end, so that however many people look, the lane's room is left to checks. Survives
a caller that goes away (the compile goes on for the others); nothing of it survives the process.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import uuid4

from pagegate.actors.compiling.tasks import Compiled
from pagegate.runtime.refusals import ViteQueueFull
from pagegate.runtime.sources import ModuleSource

KEPT_S = 900.0
KEPT_BYTES_MAX = 64 * 1024 * 1024
DEADLINE_S = 60.0  # of one compile, waiting included: a person waits for it
AT_ONCE_MAX = 2
UNDER_WAY_MAX = 32

Compile = Callable[[str, ModuleSource], Awaitable[Compiled]]


@dataclass(frozen=True)
class _Kept:
    page: Compiled
    size_bytes: int
    expires_at_s: float


class PreviewPages:
    """`compile` does one compile of a task id and a source; `now_s` is monotonic."""

    def __init__(
        self,
        compile_page: Compile,
        now_s: Callable[[], float],
        *,
        kept_s: float = KEPT_S,
        bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self._compile, self._now_s, self._kept_s, self._bytes_max = compile_page, now_s, kept_s, bytes_max
        self._kept: dict[str, _Kept] = {}  # oldest first
        self._under_way: dict[str, asyncio.Task[Compiled]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)

    @property
    def size_bytes(self) -> int:
        """Bytes kept."""
        return sum(kept.size_bytes for kept in self._kept.values())

    async def get(self, artifact_id: str, source: ModuleSource) -> Compiled:
        """The compiled page, or its errors. Raises `CompileUnavailable`."""
        kept = self._kept.get(artifact_id)
        if kept is not None and kept.expires_at_s > self._now_s():
            return kept.page
        task = self._under_way.get(artifact_id)
        if task is None:
            if len(self._under_way) >= UNDER_WAY_MAX:
                raise ViteQueueFull(f"{UNDER_WAY_MAX} pages of previews are being compiled already")
            task = self._under_way[artifact_id] = asyncio.create_task(self._make(artifact_id, source))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # heard, if nobody waits any more
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Nobody is let in any more: end what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make(self, artifact_id: str, source: ModuleSource) -> Compiled:
        try:
            async with self._turns:
                page = await self._compile(uuid4().hex, source)
            self._keep(artifact_id, page)
            return page
        finally:
            self._under_way.pop(artifact_id, None)

    def _keep(self, artifact_id: str, page: Compiled) -> None:
        self._kept.pop(artifact_id, None)
        size_bytes = sum(len(content) for content in page.files.values())
        self._kept[artifact_id] = _Kept(page, size_bytes, self._now_s() + self._kept_s)
        now_s = self._now_s()
        for known, kept in list(self._kept.items()):
            if kept.expires_at_s > now_s and (self.size_bytes <= self._bytes_max or known == artifact_id):
                break
            del self._kept[known]
