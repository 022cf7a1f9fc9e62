"""`pagegate mcp` as a coding agent starts it: a process that speaks MCP over its stdin and stdout, and a real gate."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from pagegate.deploy.client import Api
from pagegate.deploy.demo import create_administrator, lite
from pagegate.deploy.mcp_stdio import serve_mcp
from pagegate.deploy.talking import Server
from tests.integration.lite.test_lite import pagegate

GOOD = '<template><main class="p-16"><h1 class="text-5xl">Winter</h1></main></template>\n'
BAD = '<template><h1 class="text-5xl">Winter</h2></template>\n'


@asynccontextmanager
async def coding_agent(project_id: int, url: str, token: str) -> AsyncIterator[Client]:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pagegate.deploy.cli", "mcp", "--project", str(project_id)],
        env={**os.environ, "PAGEGATE_URL": url, "PAGEGATE_TOKEN": token},
    )
    async with Client(stdio_client(command)) as client:
        yield client


def said(result: Any) -> Any:
    return json.loads(result.content[0].text)


async def test_a_coding_agent_writes_repairs_and_looks_at_a_page(tmp_path: Path) -> None:
    async with lite(tmp_path) as server:
        token = await create_administrator(server, "ada")
        async with Api(server.url, token) as api:
            workspace = await api.call("POST", "/workspaces", {"name": "Fernpost"})
            project = await api.call("POST", f"/workspaces/{workspace['id']}/projects", {"name": "Winter"})
        async with coding_agent(project["id"], server.url, token) as client:
            heard: list[str | None] = []

            async def progress(_: float, __: float | None, message: str | None) -> None:
                heard.append(message)

            assert "create_project_page" in [tool.name for tool in (await client.list_tools()).tools]
            page = {"title": "Winter", "code": "winter", "source": BAD}
            refused = said(await client.call_tool("create_project_page", page, progress_callback=progress))
            assert (refused["saved"], refused["status"]) == (False, "failed"), refused
            assert refused["findings"]
            assert heard
            saved = said(await client.call_tool("create_project_page", {**page, "source": GOOD}))
            assert (saved["saved"], saved["page_code"], saved["version"]) == (True, "winter", 1), saved
            seen = await client.call_tool("get_verdict", {"page": "winter"})
            assert said(seen)["status"] in {"passed", "warning"}
            (picture,) = [one for one in seen.content if one.type == "image"]
            assert base64.b64decode(picture.data).startswith(b"\x89PNG")
            wrong = await client.call_tool("get_page_content", {"page": "summer"})
            assert (wrong.is_error, said(wrong)["error"]) == (True, "PAGE_NOT_FOUND")

            begun = asyncio.Event()

            async def begins(_: float, __: float | None, ___: str | None) -> None:
                begun.set()

            second = {"title": "Summer", "code": "summer", "source": GOOD}
            calling = asyncio.create_task(client.call_tool("create_project_page", second, progress_callback=begins))
            async with asyncio.timeout(30):
                await begun.wait()
                calling.cancel()
                while len(said(await client.call_tool("list_project_pages", {}))["pages"]) < 2:
                    await asyncio.sleep(0.1)
            assert calling.cancelled(), "who calls does not wait any more, and the page was saved all the same"

            os.kill(server.pid, signal.SIGTERM)
            async with asyncio.timeout(30):
                while not (gone := await client.call_tool("list_project_pages", {})).is_error:
                    await asyncio.sleep(0.1)
            assert "SERVER_UNREACHABLE" in gone.content[0].text


def test_what_is_wrong_at_the_start_is_told_on_stderr(tmp_path: Path) -> None:
    nobody = pagegate("mcp", "--project", "1", "--url", "http://127.0.0.1:1", "--token", "pg_x")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "nobody answers at http://127.0.0.1:1" in nobody.stderr
    keyless = pagegate("mcp", "--project", "1", "--data", tmp_path)
    assert (keyless.returncode, "no token" in keyless.stderr) == (1, True)


async def test_a_server_that_goes_away_at_the_start_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def there(_: web.Request) -> web.Response:
        return web.json_response({})

    async def gone(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/projects/1", there), web.post("/projects/1/mcp", gone)])
    async with TestServer(app) as server:
        asked = Server(str(server.make_url("")), "pg_token", tmp_path)
        assert await asyncio.to_thread(serve_mcp, asked, 1) == 1
    said = capsys.readouterr()
    assert "SERVER_UNREACHABLE" in said.err
    assert (said.out, len(said.err.splitlines())) == ("", 1)
