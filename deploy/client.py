"""A client of the Backend's HTTP door, for the commands of this folder (O8): they never open the database themselves.

Owns one HTTP session. Every refusal of the server is an `ApiRefused` with its code and next step; a server that cannot
be reached is a `ServerUnreachable`. Survives: a broken event stream is taken up again where it ended (A7).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import aiohttp

CALL_TIMEOUT_S = 60.0
STREAM_QUIET_S = 60.0  # the server sends a sign of life more often than that


class ApiRefused(Exception):
    """The server said no. `hint` is what to do about it."""

    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__(f"{code}: {message}" + (f" {hint}" if hint else ""))
        self.status, self.code, self.message, self.hint = status, code, message, hint


class ServerUnreachable(Exception):
    """Nobody answers at the address, or something that is no pagegate."""


class Api:
    """`async with Api(url, token) as api: await api.call("GET", "/me")`."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """One call with a JSON body, or with `data` as it is; the answer's JSON, None for 204."""
        raw = await self._bytes(method, path, body, data, headers)
        return json.loads(raw) if raw else None

    async def download(self, path: str) -> bytes:
        return await self._bytes("GET", path, None, None, None)

    async def _bytes(
        self, method: str, path: str, body: Any, data: bytes | None, headers: dict[str, str] | None
    ) -> bytes:
        assert self._session is not None, "use it as a context manager"
        limit = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
        try:
            async with self._session.request(
                method, self.url + path, json=body, data=data, headers=headers, timeout=limit, allow_redirects=False
            ) as response:
                raw = await response.read()
        except TimeoutError as error:
            raise ServerUnreachable(f"no answer from {self.url} within {CALL_TIMEOUT_S:.0f} s") from error
        except aiohttp.ClientError as error:
            raise ServerUnreachable(
                f"nobody answers at {self.url}: is `pagegate lite` or `pagegate serve` running?"
            ) from error
        if response.status >= 300:
            raise _refusal(response.status, raw)
        return raw

    async def events(self, run_id: int, patience_s: float = 600.0) -> AsyncIterator[dict[str, Any]]:
        """The run's events from the first on, until the run has ended. A server that restarts meanwhile is waited for.

        Each is a dict with `index`, `kind`, `at_ms` and `data`. Raises `ServerUnreachable` after a
        `patience_s` without one.
        """
        last_index = 0
        loop = asyncio.get_running_loop()
        heard_s = loop.time()
        while loop.time() - heard_s < patience_s:
            try:
                async for event in self._stream(run_id, last_index):
                    last_index, heard_s = event["index"], loop.time()
                    yield event
                if await self._has_ended(run_id):
                    return
            except (aiohttp.ClientError, TimeoutError, ServerUnreachable):
                await asyncio.sleep(0.25)
        raise ServerUnreachable(f"no event of run {run_id} for {patience_s:.0f} s")

    async def _has_ended(self, run_id: int) -> bool:
        run = await self.call("GET", f"/runs/{run_id}")
        return bool(run["finished"])

    async def _stream(self, run_id: int, last_index: int) -> AsyncIterator[dict[str, Any]]:
        assert self._session is not None
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last_index)}
        limit = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=STREAM_QUIET_S)
        async with self._session.get(f"{self.url}/runs/{run_id}/events", headers=headers, timeout=limit) as response:
            if response.status >= 500:
                raise ServerUnreachable(f"the event stream answers {response.status}")
            if response.status >= 300:
                raise _refusal(response.status, await response.read())
            async for event in _events_of(response.content):
                yield event


async def _events_of(lines: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Parse an event stream whose events are JSON; comments (signs of life) are passed over."""
    data: list[str] = []
    async for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield json.loads("\n".join(data))
            data = []


def _refusal(status: int, raw: bytes) -> Exception:
    try:
        said = json.loads(raw)
        return ApiRefused(status, said["code"], said["message"], said.get("hint", ""))
    except (ValueError, KeyError, TypeError):
        return ServerUnreachable(f"what answers there is no pagegate (status {status})")
