"""How the tests of this folder look at a page: a string of HTML in, what an attempt saw out."""

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from PIL import Image

from pagegate.renderer.attempt import Attempt, Seen
from pagegate.renderer.browser import BrowserHouse
from pagegate.renderer.contract import Viewport
from pagegate.renderer.egress import MemoryOrigin, Origin, OriginResponse
from pagegate.renderer.observation import Observation
from pagegate.renderer.stage import Stage, prepare

Files = Mapping[str, OriginResponse | bytes | str]

STARVED_ATTEMPTS_MAX = 3
MOUNTED = "document.documentElement.dataset.pagegateMounted = '1'"


def page(body: str, *, head: str = "") -> str:
    """A page that says at once that it is mounted, as the host of a compiled one does after its mount."""
    return f"<!doctype html><html><head><style>body{{margin:0}}</style>{head}<script>{MOUNTED}</script></head>{body}"


def files(**named: OriginResponse | bytes | str) -> dict[str, OriginResponse]:
    """An origin's files: `index="<p>…"`, or other paths through a dictionary."""
    return {("/" if name == "index" else f"/{name}"): answer(content) for name, content in named.items()}


def answer(content: OriginResponse | bytes | str, media_type: str = "text/html; charset=utf-8") -> OriginResponse:
    if isinstance(content, OriginResponse):
        return content
    return OriginResponse(200, media_type, content.encode() if isinstance(content, str) else content)


def origin_of(index: str, others: Files | None = None) -> MemoryOrigin:
    return MemoryOrigin({"/": answer(index), **{path: answer(content) for path, content in (others or {}).items()}})


class Looker:
    """A fresh browser for every look, from one house."""

    def __init__(self, house: BrowserHouse) -> None:
        self.house = house

    @asynccontextmanager
    async def stage(self) -> AsyncIterator[Stage]:
        stage = await prepare(await self.house.launch())
        try:
            yield stage
        finally:
            await stage.fresh.close(self.house.options.cleanup_grace_s)

    async def attempt(
        self,
        page: str | Origin,
        others: Files | None = None,
        *,
        width_px: int = 640,
        height_px: int | None = 360,
        deadline_s: float = 60.0,
        **limits: Any,
    ) -> Seen:
        """One attempt. `limits` are `BrowserOptions` that differ from the house's."""
        options = replace(self.house.options, **limits)
        viewport = Viewport(width_px=width_px, height_px=height_px)
        origin = origin_of(page, others) if isinstance(page, str) else page
        async with self.stage() as stage:
            return await Attempt(stage, origin, viewport, options=options).run(deadline_s)

    async def look(self, page: str | Origin, others: Files | None = None, **more: Any) -> Observation:
        """One attempt that must have seen the page. A machine that is busy with other things may starve its browser."""
        for _ in range(STARVED_ATTEMPTS_MAX):
            seen = await self.attempt(page, others, **more)
            if seen.error is None or "too little processor time" not in seen.error.message:
                break
        assert seen.error is None, seen.error
        assert seen.observation is not None
        return seen.observation


def pixels(observation: Observation) -> Image.Image:
    assert observation.png is not None
    return Image.open(io.BytesIO(observation.png)).convert("RGB")


def colour_at(observation: Observation, x: int, y: int) -> tuple[int, int, int]:
    found = pixels(observation).getpixel((x, y))
    assert isinstance(found, tuple)
    return found[0], found[1], found[2]


def outcomes(observation: Observation) -> dict[str, str]:
    """What became of each request: `ok`, or the outcome with its reason or status."""
    return {
        record.path: f"{record.outcome} {record.reason or record.status or ''}".strip()
        if record.outcome != "ok"
        else "ok"
        for record in observation.requests
    }
