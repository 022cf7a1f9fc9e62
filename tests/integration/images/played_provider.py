"""An images API on this machine that is charged for what it makes: OpenAI's wire format, good days and bad ones.

It answers by script: a picture, or trouble. A key that was seen before is answered with the picture that was made for
it, uncharged, as a provider that honours keys does; one that does not makes and charges another.
"""

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from PIL import Image

KEY = "sk-the-one-for-images"


def picture(colour: str = "red", size: tuple[int, int] = (48, 32), form: str = "PNG") -> bytes:
    """A real picture; every colour is another one."""
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, form)
    return file.getvalue()


def bomb() -> bytes:
    """A small file of very many pixels."""
    file = io.BytesIO()
    Image.new("1", (8_000, 8_000)).save(file, "PNG")
    return file.getvalue()


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'

# trouble: (status, error) as OpenAI words it
_SAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "content": (400, {"code": "moderation_blocked", "type": "image_generation_user_error", "message": KEY}),
    "policy": (400, {"code": "content_policy_violation", "type": "invalid_request_error", "message": KEY}),
    "forbidden": (403, {"code": None, "type": "permission_error", "message": KEY}),
    "unknown model": (404, {"code": "model_not_found", "type": "invalid_request_error", "message": KEY}),
    "bad size": (400, {"code": "invalid_value", "type": "invalid_request_error", "message": KEY}),
    "spent": (429, {"code": "insufficient_quota", "type": "insufficient_quota", "message": KEY}),
    "limited": (429, {"code": "rate_limit_exceeded", "type": "requests", "message": KEY}),
    "broken": (500, {"code": None, "type": "server_error", "message": KEY}),
    "gateway": (502, {}),
}


@dataclass
class ImagesApi:
    """`script`: the trouble of each request in turn, `""` for none; when it is used up, all goes well."""

    script: list[str] = field(default_factory=list)
    honours_keys: bool = True
    content: bytes = field(default_factory=picture)
    by_address: str = ""  # answer with this address; `own` for one of this server
    charges: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)  # a client went away before it was answered
    came: asyncio.Queue[int] = field(default_factory=asyncio.Queue)  # a request is here; with the number of it
    base_url: str = ""
    _made: dict[str, bytes] = field(default_factory=dict)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["ImagesApi"]:
        app = web.Application()
        app.router.add_post("/v1/images/generations", self._generate)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/files/{name}", self._file)
        app.router.add_get("/v1/elsewhere", self._redirect)
        server = TestServer(app, handler_cancellation=True)
        await server.start_server()
        self.base_url = str(server.make_url("/v1"))
        try:
            yield self
        finally:
            self._closing.set()
            await server.close()

    def _make(self, key: str) -> bytes:
        if not self.honours_keys or key not in self._made:
            self.charges += 1
            self._made[key] = self.content
        return self._made[key]

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        self.keys.append(request.headers["Idempotency-Key"])
        trouble = self.script.pop(0) if self.script else ""
        if request.headers["Authorization"] != f"Bearer {KEY}":
            return web.json_response({"error": {"message": request.headers["Authorization"]}}, status=401)
        self.came.put_nowait(len(self.asked))
        if trouble in _SAYS:
            status, error = _SAYS[trouble]
            return web.json_response({"error": error}, status=status, headers={"Retry-After": "7"})
        made = self._make(self.keys[-1])
        match trouble:
            case "hangs":
                try:
                    await self._closing.wait()
                except asyncio.CancelledError:
                    self.left.set()
                    raise
            case "cut":
                assert request.transport is not None
                request.transport.abort()
            case "no json":
                return web.Response(text="<html>all is well</html>")
            case "no data":
                return web.json_response({"data": []})
            case "bad base64":
                return web.json_response({"data": [{"b64_json": "%%%" + base64.b64encode(made).decode()}]})
            case "endless":
                return await self._endless(request)
            case "redirect":
                raise web.HTTPFound("/v1/elsewhere")
        if self.by_address:
            address = f"{self.base_url}/files/picture" if self.by_address == "own" else self.by_address
            return web.json_response({"created": 1, "data": [{"url": address}]})
        return web.json_response({"created": 1, "data": [{"b64_json": base64.b64encode(made).decode()}]})

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while not self._closing.is_set():
            await answer.write(b" " * 1024 * 1024)
        return answer

    async def _models(self, request: web.Request) -> web.Response:
        right = request.headers["Authorization"] == f"Bearer {KEY}"
        return web.json_response({"data": []} if right else {"error": {}}, status=200 if right else 401)

    async def _file(self, _: web.Request) -> web.Response:
        return web.Response(body=self.content, content_type="application/octet-stream")

    async def _redirect(self, _: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")
