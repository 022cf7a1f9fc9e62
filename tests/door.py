"""Another address of a server, which a test can shut and open again: the network between two processes goes away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def door_to(url: str) -> AsyncIterator["Door"]:
    """Another address of a server, which can be shut and opened again."""
    door = Door(*url.removeprefix("http://").split(":"))
    await door.open()
    yield door
    await door.shut()


class Door:
    def __init__(self, host: str, port: str) -> None:
        self._host, self._behind = host, int(port)
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass, self._host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Break every connection and take no other."""
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(self._host, self._behind)
        self._open += [writer, behind_writer]
        await asyncio.gather(_pour(reader, behind_writer), _pour(behind_reader, writer))


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
