"""Runtime state on Redis: seen by every replica, outliving each of them (P2).

Owns one Redis hash an entry, written with its time to live in one MULTI, so that no reader, no crash and no eviction
leaves half of one. Redis expires by its own clock; there is nothing to sweep.

Survives: a dropped connection or a restarted server (tried once more on a new connection), a server that hangs
(`StateUnavailable` after `timeout_s`), a full one (`StateFull`, nothing written). What Redis loses is only state: who
needs it makes it again or says that it is gone.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from pagegate.storage.runtime_state import Fields, StateFull, StateKind, StateUnavailable, StateUsage

STATE_TIMEOUT_S = 5.0  # for one call, retry and connecting included
_CONNECTIONS_MAX = 32
_IS_THERE = "."  # a field that every entry has: an entry without the wanted fields is not a lost one

T = TypeVar("T")


class StateAddressInvalid(ValueError):
    """REDIS_URL cannot be used; the text names no secret."""


class RedisState:
    """`redis://` or `rediss://` (TLS; `?ssl_ca_certs=FILE` names the authority of a private certificate)."""

    kind: StateKind = "redis"

    def __init__(self, url: str, *, timeout_s: float = STATE_TIMEOUT_S) -> None:
        """Connects with the first call. Raises `StateAddressInvalid`."""
        self._timeout_s = timeout_s
        if urlsplit(url).scheme not in {"redis", "rediss"}:
            raise StateAddressInvalid("REDIS_URL: must begin with redis:// or rediss://")
        try:
            self._redis: Redis = Redis.from_url(
                url,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                max_connections=_CONNECTIONS_MAX,
                # One more try, at once, on a new connection: the pool may hold some that a restart cut off. All that is
                # sent here may be sent twice.
                retry=Retry(ConstantBackoff(0.05), 1),
                retry_on_error=[exceptions.ConnectionError],
            )
        except ValueError as error:
            raise StateAddressInvalid(
                "REDIS_URL: is no address of a Redis (redis://[:password@]host:port/0)"
            ) from error

    async def put(self, entries: Mapping[str, Fields], ttl_s: float) -> None:
        """See `RuntimeState.put`: one MULTI, which a full Redis refuses as a whole."""
        ttl_ms = max(1, round(ttl_s * 1000))
        pipe = self._redis.pipeline(transaction=True)
        for key, fields in entries.items():
            pipe.delete(key)
            pipe.hset(key, items=[part for field in {_IS_THERE: b"", **fields}.items() for part in field])
            pipe.pexpire(key, ttl_ms)
        await self._call(pipe.execute())

    async def read(self, key: str, names: Sequence[str]) -> dict[str, bytes] | None:
        """See `RuntimeState.read`."""
        asked: Awaitable[list[bytes | None]] = self._redis.hmget(key, [_IS_THERE, *names])  # type: ignore[assignment]
        is_there, *values = await self._call(asked)  # bytes: the client is not told to decode
        if is_there is None:
            return None
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}

    async def delete(self, keys: Sequence[str]) -> int:
        """See `RuntimeState.delete`."""
        return int(await self._call(self._redis.unlink(*keys))) if keys else 0

    async def sweep(self) -> int:
        """Redis does it by itself."""
        return 0

    async def usage(self) -> StateUsage:
        """See `RuntimeState.usage`: the memory of the server, and its `maxmemory`."""
        told: dict[str, Any] = await self._call(self._redis.info("memory"))
        return StateUsage(int(told.get("used_memory", 0)), int(told.get("maxmemory", 0)) or None)

    async def close(self) -> None:
        """See `RuntimeState.close`."""
        await self._redis.aclose()

    async def _call(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except exceptions.OutOfMemoryError as error:
            raise StateFull("Redis has reached its maxmemory") from error
        except (exceptions.RedisError, OSError, TimeoutError) as error:
            if _says_full(error):
                raise StateFull("Redis has reached its maxmemory") from error
            raise StateUnavailable(f"Redis does not answer as it should ({type(error).__name__})") from error


def _says_full(error: BaseException | None) -> bool:
    """A MULTI that was refused tells why only in what it was refused for."""
    while error is not None:
        if "OOM command not allowed" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
