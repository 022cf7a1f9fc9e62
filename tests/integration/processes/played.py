"""A Runtime and a Renderer that are played: they speak the real contracts over HTTP and do nothing.

So a test decides how long a compile takes, on a signal and not by a clock, and needs neither Vite nor a browser. Every
compile passes the gate, which a test may shut; every render passes at once.
"""

import asyncio
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

from pagegate.renderer.contract import Diagnosis, RenderResult, RenderTask, SlotView
from pagegate.runtime.contract import CompileOutput, CompileRequest, CompileResult

WORKER_ID = "renderer-1"
PROFILE = "played"


class Played:
    """`begun` has a compile for each that was asked for; while `gate` is clear none is answered."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[CompileRequest] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()
        self.renders = 0
        app = web.Application()
        app.add_routes(
            [
                web.post("/compiles", self._compile),
                web.delete("/outputs/{output_id}", self._nothing),
                web.get("/slot", self._slot),
                web.post("/attempts", self._start),
                web.get("/attempts/{attempt_id}", self._result),
                web.delete("/attempts/{attempt_id}", self._nothing),
            ]
        )
        self._server = TestServer(app)

    async def __aenter__(self) -> Self:
        await self._server.start_server()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.gate.set()
        await self._server.close()

    @property
    def url(self) -> str:
        return str(self._server.make_url("")).rstrip("/")

    async def has_begun(self) -> CompileRequest:
        """Wait until a Backend asks for a compile."""
        async with asyncio.timeout(60):
            return await self.begun.get()

    async def _compile(self, request: web.Request) -> web.Response:
        asked = CompileRequest.model_validate_json(await request.read())
        self.begun.put_nowait(asked)
        await self.gate.wait()
        output = CompileOutput(
            output_id=asked.task_id, navigation_url=self.url + "/", vendor_url=self.url + "/", size_bytes=1
        )
        return _answer(CompileResult(ok=True, output=output, runtime_build="played"))

    async def _slot(self, _: web.Request) -> web.Response:
        return _answer(SlotView(worker_id=WORKER_ID, slot_state="idle", profile_digest=PROFILE))

    async def _start(self, request: web.Request) -> web.Response:
        RenderTask.model_validate_json(await request.read())
        self.renders += 1
        return web.json_response({}, status=202)

    async def _result(self, request: web.Request) -> web.Response:
        return _answer(
            RenderResult(
                attempt_id=request.match_info["attempt_id"],
                worker_id=WORKER_ID,
                profile_digest=PROFILE,
                diagnosis=Diagnosis(status="passed"),
            )
        )

    async def _nothing(self, _: web.Request) -> web.Response:
        return web.json_response({})


def _answer(model: Any) -> web.Response:
    return web.Response(text=model.model_dump_json(), content_type="application/json")
