"""A model provider on this machine that speaks real wire formats: OpenAI's completions and Anthropic's messages.

It answers by script: a word, tool calls, or trouble: slow, broken, rate-limited, cut off in the middle. It accepts one
key and remembers what it was asked.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from aiohttp.test_utils import TestServer

KEY = "sk-the-right-one"
Trouble = Literal["", "silent", "broken", "limited", "cut", "refusing", "garbage", "spent", "unknown", "long", "odd"]

_SAYS: dict[str, tuple[int, dict[str, Any]]] = {  # (status, error) as OpenAI words them
    "spent": (429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no money left"}),
    "unknown": (404, {"type": "invalid_request_error", "code": "model_not_found", "message": "no such model"}),
    "long": (400, {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}),
    "odd": (400, {"type": "invalid_request_error", "code": None, "message": "odd"}),
}


@dataclass
class Provider:
    """`answers`: for each request in turn a text, or a list of (call id, tool, arguments); the last one for ever."""

    answers: list[Any] = field(default_factory=lambda: ["done"])
    trouble: Trouble = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""
    silent_from_turn: int | None = None  # falls silent when it is asked with so many answers in the history
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Provider"]:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/messages", self._anthropic)
        server = TestServer(app)
        await server.start_server()
        self.base_url = str(server.make_url("")).rstrip("/")
        try:
            yield self
        finally:
            self._closing.set()  # who is silent would be waited for
            await server.close()

    def _answer(self, asked: dict[str, Any]) -> Any:
        self.asked.append(asked)
        turns = sum(one["role"] == "assistant" for one in asked["messages"])
        if self.silent_from_turn is not None and turns >= self.silent_from_turn:
            self.trouble = "silent"
        return self.answers[min(turns, len(self.answers) - 1)]

    async def _before(self, key: str | None) -> web.Response | None:
        if self.trouble == "limited":
            return web.json_response({"error": {"message": "slow down", "type": "rate_limit"}}, status=429)
        if self.trouble == "broken":
            return web.json_response({"error": {"message": "oops"}}, status=500)
        if self.trouble in _SAYS:
            status, error = _SAYS[self.trouble]
            return web.json_response({"error": error}, status=status)
        if key != KEY or self.trouble == "refusing":
            return web.json_response({"error": {"message": f"bad key {key}"}}, status=401)
        return None

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        refused = await self._before(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if refused is not None:
            return refused
        asked = await request.json()
        answer = self._answer(asked)
        message: dict[str, Any] = {"role": "assistant", "content": answer if isinstance(answer, str) else None}
        if not isinstance(answer, str):
            message["tool_calls"] = [
                {"index": n, "id": i, "type": "function", "function": {"name": t, "arguments": json.dumps(a)}}
                for n, (i, t, a) in enumerate(answer)
            ]
        finish = "stop" if isinstance(answer, str) else "tool_calls"
        about = {"id": "c1", "created": 1, "model": asked["model"]}
        if not asked.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            return web.json_response({**about, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**about, "object": "chat.completion.chunk"}
        events = [
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        ]
        return await self._stream(request, [(None, event) for event in events], end="data: [DONE]\n\n")

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        refused = await self._before(request.headers.get("x-api-key") or bearer)
        if refused is not None:
            return refused
        asked = await request.json()
        answer = self._answer(asked)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": answer}] if isinstance(answer, str) else []
        if not isinstance(answer, str):
            blocks = [{"type": "tool_use", "id": i, "name": t, "input": a} for i, t, a in answer]
        stop = "end_turn" if isinstance(answer, str) else "tool_use"
        usage = {"input_tokens": 1, "output_tokens": 1}
        about = {"id": "m1", "type": "message", "role": "assistant", "model": asked["model"], "usage": usage}
        if not asked.get("stream"):
            return web.json_response({**about, "content": blocks, "stop_reason": stop, "stop_sequence": None})
        empty = {**about, "content": [], "stop_reason": None, "stop_sequence": None}
        events: list[tuple[str, Any]] = [("message_start", {"message": empty})]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                start = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events.append(("content_block_start", {"index": index, "content_block": start}))
            events.append(("content_block_delta", {"index": index, "delta": delta}))
            events.append(("content_block_stop", {"index": index}))
        ended = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}}
        events += [("message_delta", ended), ("message_stop", {})]
        return await self._stream(request, [(name, {"type": name, **event}) for name, event in events])

    async def _stream(
        self, request: web.Request, events: list[tuple[str | None, Any]], end: str = ""
    ) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        for number, (name, event) in enumerate(events):
            if self.trouble == "cut" and number == 1:
                assert request.transport is not None
                request.transport.abort()
                return stream
            if self.trouble == "silent" and number == 1:
                await self._closing.wait()
            data = "{not json" if self.trouble == "garbage" else json.dumps(event)
            said = f"event: {name}\n" if name else ""
            await stream.write(f"{said}data: {data}\n\n".encode())
        await stream.write(end.encode())
        await stream.write_eof()
        return stream
