"""A small bridge: answer one request of this door with an ASGI application, streamed.

Owns one request. It exists because the MCP library speaks ASGI and this door is aiohttp's. The whole body is read
before the application begins; of ASGI it plays what such an application needs: one `http.request`, then
`http.disconnect` once the client has hung up. What the application says after that goes nowhere. Survives nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aiohttp import web

from pagegate.http.backend.routes import read_body

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

LOOK_S = 0.5  # how often it is looked whether the client is still there
WRITE_WAIT_S = 10.0  # a client that reads nothing for so long is gone
_OURS = {"connection", "transfer-encoding", "content-length"}  # headers that aiohttp writes itself


async def answer_with(application: Application, request: web.Request, *, body_bytes_max: int) -> web.StreamResponse:
    """Run the application for this request.

    The application is cancelled when its client hangs up: nobody is left to be answered.
    """
    exchange = _Exchange(request, await read_body(request, body_bytes_max))
    working = asyncio.ensure_future(application(_scope(request), exchange.receive, exchange.send))
    leaving = asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})
    if not working.cancelled() and (error := working.exception()) is not None:
        raise error
    return await exchange.end()


def _scope(request: web.Request) -> MutableMapping[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.path.encode(),
        "root_path": "",
        "query_string": request.query_string.encode(),
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": None,
        "server": None,
    }


class _Exchange:
    """The application's two ends of one request."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request = request
        self._body: bytes | None = body
        self._answer: web.StreamResponse | None = None
        self._whole: bytes | None = b""  # None: it was sent as a stream

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone()
        return {"type": "http.disconnect"}

    async def gone(self) -> None:
        """Returns when the client has hung up."""
        # aiohttp tells nobody of it, so it is looked for.
        while (transport := self._request.transport) is not None and not transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            self._answer = web.StreamResponse(status=message["status"])
            for name, value in headers:
                if name.lower() not in _OURS:
                    self._answer.headers[name] = value
            return
        assert self._answer is not None, "a body before its start"
        if message.get("more_body", False) or self._answer.prepared:
            await self._stream(message.get("body", b""))
        else:
            self._whole = message.get("body", b"")

    async def _stream(self, chunk: bytes) -> None:
        assert self._answer is not None
        async with asyncio.timeout(WRITE_WAIT_S):
            if not self._answer.prepared:
                self._whole = None
                await self._answer.prepare(self._request)
            if chunk:
                await self._answer.write(chunk)

    async def end(self) -> web.StreamResponse:
        """The answer, sent to its end. A client that hung up before anything was said gets an empty one."""
        answer = self._answer
        if answer is None:
            return web.Response(status=204)
        if self._whole is not None:
            whole = web.Response(status=answer.status, body=self._whole)
            whole.headers.update(answer.headers)
            return whole
        if self._request.transport is not None:
            await answer.write_eof()
        return answer
