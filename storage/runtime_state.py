"""Runtime state: what may be lost (P2, P3).

Owns previews and progress by key (`runtime:artifact:*`, `runtime:build:*`), each an entry of named fields with one time
to live. No claim, lease or end of a job ever depends on it. `MemoryState` (`memory://lite`) keeps it in the process and
loses it with the process; an entry on Redis (`redis_state.py`) outlives a replica and is seen by all of them.

Survives: a writer that wants more than there is room for (`StateFull` before anything changed, so there is no half
artifact), and one that never cleans up (entries expire). An entry is written whole, read in one moment and gone whole:
nobody ever sees half of one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pagegate.storage.engine import Clock, SystemClock

Fields = Mapping[str, bytes]
StateKind = Literal["memory", "redis"]


class StateFull(Exception):
    """There is no room for the write (RUNTIME_STATE_MEMORY_MAX_BYTES, or Redis' own limit); nothing of it was written.

    Infrastructure (P3).
    """


class StateUnavailable(Exception):
    """The store did not answer in time, or refused. A write may or may not have happened. Infrastructure (R9)."""


@dataclass(frozen=True)
class StateUsage:
    """Bytes held and the limit (None: the store has none). On Redis they are the server's, whoever uses it."""

    bytes_used: int
    bytes_max: int | None


class RuntimeState(Protocol):
    """A map from key to fields with times to live. What has expired or was lost is absent, never an error.

    Every call may raise `StateUnavailable`.
    """

    @property
    def kind(self) -> StateKind:
        """`memory` is lost with the process; an entry that `redis` lost may be made again from what is durable (P2)."""
        ...

    async def put(self, entries: Mapping[str, Fields], ttl_s: float) -> None:
        """Write all of `entries`, each replacing what was at its key, or, raising `StateFull`, none."""
        ...

    async def read(self, key: str, names: Sequence[str]) -> dict[str, bytes] | None:
        """Those of the named fields that the entry has, read in one moment; None when there is no entry (any more)."""
        ...

    async def delete(self, keys: Sequence[str]) -> int:
        """Delete entries; answers how many there were."""
        ...

    async def sweep(self) -> int:
        """Delete what has expired, every RUNTIME_ARTIFACT_SWEEP_INTERVAL_SECONDS; answers how many entries."""
        ...

    async def usage(self) -> StateUsage:
        """How full it is. Also what readiness asks: it answers, or raises `StateUnavailable`."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True)
class _Entry:
    fields: dict[str, bytes]
    expires_at_ms: int
    size_bytes: int


class MemoryState:
    """`memory://lite`: one process, bounded, gone with it."""

    kind: StateKind = "memory"

    def __init__(self, max_bytes: int, clock: Clock | None = None) -> None:
        self._max_bytes = max_bytes
        self._clock = clock or SystemClock()
        self._entries: dict[str, _Entry] = {}
        self._bytes_used = 0

    async def put(self, entries: Mapping[str, Fields], ttl_s: float) -> None:
        """See `RuntimeState.put`. Expired entries make room first; a replaced one does not count twice."""
        expires_at_ms = self._clock.now_ms() + round(ttl_s * 1000)
        made = {key: _Entry(dict(fields), expires_at_ms, _size(key, fields)) for key, fields in entries.items()}
        if self._after(made) > self._max_bytes:
            await self.sweep()
        after = self._after(made)
        if after > self._max_bytes:
            raise StateFull(
                f"the runtime state would hold {after} bytes; RUNTIME_STATE_MEMORY_MAX_BYTES is {self._max_bytes}"
            )
        self._entries |= made
        self._bytes_used = after

    async def read(self, key: str, names: Sequence[str]) -> dict[str, bytes] | None:
        """See `RuntimeState.read`."""
        entry = self._entries.get(key)
        if entry is None or entry.expires_at_ms <= self._clock.now_ms():
            return None
        return {name: entry.fields[name] for name in names if name in entry.fields}

    async def delete(self, keys: Sequence[str]) -> int:
        """See `RuntimeState.delete`."""
        return self._drop(keys)

    async def sweep(self) -> int:
        """See `RuntimeState.sweep`."""
        now_ms = self._clock.now_ms()
        return self._drop([key for key, entry in self._entries.items() if entry.expires_at_ms <= now_ms])

    async def usage(self) -> StateUsage:
        """See `RuntimeState.usage`."""
        return StateUsage(self._bytes_used, self._max_bytes)

    async def close(self) -> None:
        """Nothing to let go of."""

    def bytes_used(self) -> int:
        """Bytes held, names included."""
        return self._bytes_used

    def _after(self, made: Mapping[str, _Entry]) -> int:
        replaced = sum(self._entries[key].size_bytes for key in made if key in self._entries)
        return self._bytes_used - replaced + sum(entry.size_bytes for entry in made.values())

    def _drop(self, keys: Iterable[str]) -> int:
        dropped = [entry for key in keys if (entry := self._entries.pop(key, None)) is not None]
        self._bytes_used -= sum(entry.size_bytes for entry in dropped)
        return len(dropped)


def _size(key: str, fields: Fields) -> int:
    return len(key.encode()) + sum(len(name.encode()) + len(value) for name, value in fields.items())
