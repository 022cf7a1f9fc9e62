"""A preview of pages on this machine's disk, for the person who writes them: no Backend, no token (P4).

Owns the addresses of one local deck: its host, its pages (compiled anew at each look, so that a reload shows what was
saved), its assets. Listens where its composition says, which is this machine only. The pages are served as strangers
here too: what works in this preview works in any (X6).
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from aiohttp import web

from pagegate.actors.compiling.tasks import Compiled
from pagegate.actors.systems.runtime import RuntimeSystem
from pagegate.http.runtime import runtime_app
from pagegate.http.runtime_previews import (
    ASSET_HEADERS,
    PAGE_FILES,
    host_answer,
    nothing_here,
    page_answer,
    unavailable,
)
from pagegate.runtime.contract import ArtifactManifest, CompileTimings, LocatedError
from pagegate.runtime.refusals import CompileUnavailable
from pagegate.runtime.sources import ModuleSource


class LocalDeck(Protocol):
    """Pages on disk, read whenever they are asked for. `part` counts from 0, as `host_manifest` lists them."""

    def host_manifest(self) -> ArtifactManifest: ...

    def source(self, part: int) -> ModuleSource | LocatedError | None: ...

    def asset(self, part: int, name: str) -> Path | None: ...


def local_preview_app(system: RuntimeSystem, deck: LocalDeck) -> web.Application:
    """The Runtime's own door, and the deck's addresses at its root."""
    compiled: dict[int, Compiled] = {}

    async def host(_: web.Request) -> web.StreamResponse:
        return host_answer(await asyncio.to_thread(deck.host_manifest))

    async def page(request: web.Request) -> web.StreamResponse:
        part = _part(request)
        source = None if part is None else await asyncio.to_thread(deck.source, part)
        if part is None or source is None:
            return nothing_here()
        if isinstance(source, LocatedError):
            return page_answer(_refused([source]), "index.html")
        try:
            compiled[part] = await system.compile_preview(uuid4().hex, source)
        except CompileUnavailable as error:
            return unavailable(error.code)
        return page_answer(compiled[part], "index.html")

    async def page_file(request: web.Request) -> web.StreamResponse:
        part, name = _part(request), request.match_info["file"]
        if part not in compiled or name not in PAGE_FILES:
            return nothing_here()
        return page_answer(compiled[part], name)

    async def asset(request: web.Request) -> web.StreamResponse:
        part = _part(request)
        found = None if part is None else await asyncio.to_thread(deck.asset, part, request.match_info["name"])
        return nothing_here() if found is None else web.FileResponse(found, headers=ASSET_HEADERS)

    app = runtime_app(system)
    app.add_routes(
        [
            web.get("/", host),
            web.get("/pages/{part}/", page),
            web.get("/pages/{part}/{file}", page_file),
            web.get("/pages/{part}/assets/{name:.+}", asset),
        ]
    )
    return app


def _part(request: web.Request) -> int | None:
    text: str = request.match_info["part"]
    return int(text) if text.isdecimal() and len(text) < 6 else None


def _refused(errors: Sequence[LocatedError]) -> Compiled:
    return Compiled(errors=list(errors), files={}, timings=CompileTimings())
