"""Runtime state: what may be lost (P2, P3).

Owns previews and progress by key (`runtime:artifact:*`, `runtime:build:*`), each with its time to live. No claim, lease
or end of a job ever depends on it. `MemoryState` (`memory://lite`) keeps it in the process and loses it with the
process; an entry on Redis outlives a replica.

Survives: a writer that wants more than there is room for (`StateFull` before anything changed, so there is no half
artifact), and one that never cleans up (entries expire).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pagegate.storage.engine import Clock, SystemClock


class StateFull(Exception):
    """The write would exceed RUNTIME_STATE_MEMORY_MAX_BYTES; nothing of it was written (P3). Infrastructure."""


class RuntimeState(Protocol):
    """A map from key to bytes with times to live. A value that has expired or was lost is absent, never an error."""

    async def put_many(self, items: Mapping[str, bytes], ttl_s: float) -> None:
        """Write all of `items` or, raising `StateFull`, none."""
        ...

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none (any more)."""
        ...

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values there are, by key (V7)."""
        ...

    async def delete_prefix(self, prefix: str) -> int:
        """Delete every key that starts with `prefix`; answers how many there were."""
        ...

    async def sweep(self) -> int:
        """Delete what has expired, every RUNTIME_ARTIFACT_SWEEP_INTERVAL_SECONDS; answers how much."""
        ...

    def bytes_used(self) -> int | None:
        """Bytes held, keys included; None where only the server knows (Redis)."""
        ...


class MemoryState:
    """`memory://lite`: one process, bounded, gone with it."""

    def __init__(self, max_bytes: int, clock: Clock | None = None) -> None:
        self._max_bytes = max_bytes
        self._clock = clock or SystemClock()
        self._entries: dict[str, tuple[bytes, int]] = {}  # value, expires at (ms)
        self._bytes_used = 0

    async def put_many(self, items: Mapping[str, bytes], ttl_s: float) -> None:
        """See `RuntimeState.put_many`. Expired entries make room first; a replaced value counts once."""
        if self._after(items) > self._max_bytes:
            await self.sweep()
        after = self._after(items)
        if after > self._max_bytes:
            raise StateFull(
                f"the runtime state would hold {after} bytes; RUNTIME_STATE_MEMORY_MAX_BYTES is {self._max_bytes}"
            )
        expires_at = self._clock.now_ms() + round(ttl_s * 1000)
        for key, value in items.items():
            self._drop(key)
            self._entries[key] = (bytes(value), expires_at)
            self._bytes_used += _size(key, value)

    async def get(self, key: str) -> bytes | None:
        """See `RuntimeState.get`."""
        return (await self.get_many([key])).get(key)

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See `RuntimeState.get_many`."""
        now = self._clock.now_ms()
        found = {key: self._entries[key] for key in keys if key in self._entries}
        return {key: value for key, (value, expires_at) in found.items() if expires_at > now}

    async def delete_prefix(self, prefix: str) -> int:
        """See `RuntimeState.delete_prefix`."""
        return self._drop_all([key for key in self._entries if key.startswith(prefix)])

    async def sweep(self) -> int:
        """See `RuntimeState.sweep`."""
        now = self._clock.now_ms()
        return self._drop_all([key for key, (_, expires_at) in self._entries.items() if expires_at <= now])

    def bytes_used(self) -> int:
        """See `RuntimeState.bytes_used`."""
        return self._bytes_used

    def _after(self, items: Mapping[str, bytes]) -> int:
        replaced = sum(_size(key, self._entries[key][0]) for key in items if key in self._entries)
        return self._bytes_used - replaced + sum(_size(key, value) for key, value in items.items())

    def _drop(self, key: str) -> None:
        if entry := self._entries.pop(key, None):
            self._bytes_used -= _size(key, entry[0])

    def _drop_all(self, keys: list[str]) -> int:
        for key in keys:
            self._drop(key)
        return len(keys)


def _size(key: str, value: bytes) -> int:
    return len(key.encode()) + len(value)
