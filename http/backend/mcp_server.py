"""MCP over streamable HTTP, with the official SDK (A9). Import it late: the SDK is large, and most doors never need it.

Owns nothing between two requests: each is answered by a server of its own, without a session, so that any replica can
answer any of them. Who asks and for which project has been found out by the door; tools and their wait are
`mcp_calls.py`'s. Whatever goes wrong in a tool is told as the tool's answer, with its code and next step.
"""

import base64
import json
from importlib.metadata import version
from typing import Any

import mcp_types as types
import structlog
from aiohttp import web
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from pagegate.actors.agents.instructions import instructions
from pagegate.http.backend.asgi import answer_with
from pagegate.http.backend.errors import ApiError, refusal_of
from pagegate.http.backend.mcp_calls import TOOLS, Ask, Told, carry_out

log = structlog.get_logger()

Context = ServerRequestContext[Any, Any]


async def answer(call: Ask) -> web.StreamResponse:
    """Answer one MCP request. Cancelled with its client's connection; jobs go on."""
    bytes_max = call.parts.limits.source_body_bytes_max()
    manager = StreamableHTTPSessionManager(_server(call), stateless=True, max_request_body_size=bytes_max)

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return await answer_with(serve, call.request, body_bytes_max=bytes_max)


def _server(call: Ask) -> Server[Any]:
    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools())

    async def call_tool(context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        async def tell(waited_s: float, doing: str) -> None:
            total_s = call.parts.limits.mcp_wait_s
            await context.session.report_progress(round(waited_s, 1), total_s, doing)

        try:
            return _result(await carry_out(call, asked.name, asked.arguments or {}, tell))
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                log.exception("mcp.call_failed", tool=asked.name)
                refusal = ApiError("INTERNAL")
            return _result(_refused(refusal))

    return Server(
        "pagegate",
        version=version("pagegate"),
        title="pagegate",
        instructions=instructions(None),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def tools() -> list[types.Tool]:
    """Every tool, as MCP describes it."""
    return [
        types.Tool(
            name=name,
            description=tool.description(name),
            input_schema=tool.arguments.model_json_schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=tool.kind == "looks", destructive_hint=False, open_world_hint=False
            ),
        )
        for name, tool in TOOLS.items()
    ]


def _refused(error: ApiError) -> Told:
    said: dict[str, Any] = {"error": error.code, "message": error.message, "next": error.hint}
    if error.details:
        said["details"] = [problem.model_dump() for problem in error.details]
    return Told(said, is_error=True)


def _result(told: Told) -> types.CallToolResult:
    text = types.TextContent(text=json.dumps(told.said, ensure_ascii=False, indent=1))
    content: list[types.ContentBlock] = [text]
    if told.png is not None:
        content.append(types.ImageContent(data=base64.b64encode(told.png).decode(), mime_type="image/png"))
    return types.CallToolResult(content=content, structured_content=told.said, is_error=told.is_error)
