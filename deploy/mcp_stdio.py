"""`pagegate mcp`: MCP over stdin and stdout, for coding agents that start their tools as a process (A9).

Owns a connection to a running server and nothing else: it lists the server's tools and passes each call on, with its
progress, so that both ways in are one. A call that its client cancels is no longer waited for; its check goes on. Ends
when stdin ends. Survives a server that restarts: the next call connects again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server as McpServer
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from pagegate.deploy.client import Api, ApiRefused, ServerUnreachable
from pagegate.deploy.talking import DEFAULT_URL, NoToken, Server, find_url, operator_token, tell_refusal

CONNECT_S = 10.0
SILENCE_S = 60.0  # the server says something every few seconds

_AWAY = (httpx2.HTTPError, MCPError, OSError)
Context = ServerRequestContext[Any, Any]


def serve_mcp(server: Server, project: int) -> int:
    """Serve until stdin ends; the exit code. What is wrong at the start is told on stderr, where an agent's log is."""
    try:
        asyncio.run(_serve(server, project))
    except (ApiRefused, ServerUnreachable, NoToken) as error:
        tell_refusal("mcp", server, error)
        return 1
    return 0


async def _serve(server: Server, project: int) -> None:
    url = (server.url or find_url(server.data) or DEFAULT_URL).rstrip("/")
    token = server.token or operator_token(server.data)
    async with Api(url, token) as api:
        await api.call("GET", f"/projects/{project}")
    passing = Passing(f"{url}/projects/{project}/mcp", token)
    words = await passing.instructions()
    door: McpServer[Any] = McpServer(
        "pagegate",
        version=version("pagegate"),
        instructions=words,
        on_list_tools=passing.list_tools,
        on_call_tool=passing.call_tool,
    )
    async with stdio_server() as (read, write):
        await door.run(read, write, door.create_initialization_options())


class Passing:
    """Passes each request on to the server at `url`, over a connection of its own."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"}

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        limits = httpx2.Timeout(CONNECT_S, read=SILENCE_S)
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=limits) as http,
            Client(streamable_http_client(self._url, http_client=http), cache=None) as client,
        ):
            yield client

    async def instructions(self) -> str | None:
        """What the server tells an agent first. Raises `ServerUnreachable`."""
        try:
            async with self.connected() as client:
                return client.instructions
        except* _AWAY as failed:
            why = type(failed.exceptions[0]).__name__
        raise ServerUnreachable(f"SERVER_UNREACHABLE: {self._url} did not answer ({why}); start this again in a while")

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        async with self.connected() as client:
            return await client.list_tools()

    async def call_tool(self, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            async with self.connected() as client:
                return await client.call_tool(
                    asked.name, asked.arguments, progress_callback=context.session.report_progress
                )
        except* _AWAY as failed:
            said = f"SERVER_UNREACHABLE: {self._url} did not answer ({type(failed.exceptions[0]).__name__})."
        return _failed(f"{said} What was submitted may still be checked: look with list_project_pages, then try again.")


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
