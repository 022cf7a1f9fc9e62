"""The object store that all processes of a world share, played: slow and failing as the weather says."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pagegate.storage.objects import ObjectMissing, ObjectStoreUnavailable

if TYPE_CHECKING:
    from tests.simulation.edges import Surroundings

T = TypeVar("T")


class PlayedObjects:
    """Writes are whole or absent, and written once."""

    def __init__(self, around: "Surroundings") -> None:
        self._around = around
        self.kept: dict[str, tuple[bytes, float]] = {}  # key -> content, since when

    async def put(self, key: str, content: bytes) -> None:
        await self._call(lambda: self.kept.setdefault(key, (content, self._around.loop.time())))

    async def get(self, key: str) -> bytes:
        found = await self._call(lambda: self.kept.get(key))
        if found is None:
            raise ObjectMissing(key)
        return found[0]

    async def delete(self, key: str) -> None:
        await self._call(lambda: self.kept.pop(key, None))

    async def delete_older(self, prefix: str, age_s: float) -> int:
        before_s = self._around.loop.time() - age_s
        old = [key for key, (_, since_s) in self.kept.items() if key.startswith(prefix) and since_s < before_s]
        await self._call(lambda: [self.kept.pop(key, None) for key in old])
        return len(old)

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
