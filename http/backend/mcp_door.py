"""The door for agents that speak MCP: one address for each project (A9).

Owns nothing. The library behind it is large and loaded at first use, beside the loop.
"""

import asyncio
import importlib

from aiohttp import web

from pagegate.http.backend.auth import project_of
from pagegate.http.backend.models import ProjectParams
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun

mcp_door = Noun("mcp")


@mcp_door.route(
    "POST",
    "/projects/{project_id}/mcp",
    answer=Bytes("application/json", "A JSON-RPC answer of MCP."),
    answer_too=[Bytes("text/event-stream", "the same, with progress before it.")],
    upload=Bytes("application/json", "One JSON-RPC message of MCP (streamable HTTP, without sessions)."),
    refusals=["PROJECT_NOT_FOUND"],
)
async def speak_mcp(call: Call[ProjectParams, Nothing]) -> web.StreamResponse:
    """The agent's tools over MCP, for any client that speaks it."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
    module = await asyncio.to_thread(importlib.import_module, "pagegate.http.backend.mcp_server")
    answer: web.StreamResponse = await module.answer(call)
    return answer
