"""A Runtime's patience with a Backend that is just restarting (B1)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pagegate.runtime.build_client import BuildAttempt
from pagegate.runtime.build_contract import BuildClaimed
from pagegate.runtime.refusals import BuildAssetMissing, SourceUnavailable

CONTENT = bytes(range(256)) * 4096


@asynccontextmanager
async def backend(answers: list[int], *, torn: bool = False) -> AsyncIterator[BuildAttempt]:
    """A Backend that answers with one status after the other, and 200 from then on; `torn`: and never to the end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        status = answers.pop(0) if answers else 200
        if status != 200:
            return web.Response(status=status)
        said = web.StreamResponse(headers={"Content-Length": str(len(CONTENT))})
        await said.prepare(request)
        await said.write(CONTENT[: 1000 if torn else None])
        if torn:
            assert request.transport is not None
            request.transport.close()
        return said

    app = web.Application()
    app.router.add_get("/{tail:.*}", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        claimed = BuildClaimed(
            job_id=1, attempt=1, token="t", deadline_s=60.0, heartbeat_s=15.0, artifact_bytes_max=1_000_000
        )
        yield BuildAttempt(session, str(server.make_url("/")), claimed, pauses_s=(0.0, 0.0))


async def read(attempt: BuildAttempt) -> bytes:
    return b"".join([chunk async for chunk in attempt.asset("a.png")])


async def test_an_asset_is_asked_for_again_while_the_backend_is_away() -> None:
    async with backend([503, 502]) as attempt:
        assert await read(attempt) == CONTENT


async def test_patience_ends() -> None:
    async with backend([503] * 4) as attempt:
        with pytest.raises(SourceUnavailable, match="503"):
            await read(attempt)
        with pytest.raises(SourceUnavailable):  # what is answered then is no snapshot
            await attempt.snapshot()


async def test_what_is_not_there_is_asked_for_once() -> None:
    async with backend([404]) as attempt:
        with pytest.raises(BuildAssetMissing):
            await read(attempt)
        assert await read(attempt) == CONTENT


async def test_an_asset_that_was_begun_is_not_begun_again() -> None:
    async with backend([], torn=True) as attempt:
        with pytest.raises(SourceUnavailable):
            await read(attempt)
