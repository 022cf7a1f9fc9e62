"""A release looks as the check saw it: the same pixels from the built site and from the check (B5, case 43)."""

import io
import zipfile
from pathlib import Path

from PIL import Image, ImageChops

from pagegate.actors.compiling.site_build import SiteBuildTask
from pagegate.deploy.build import LocalSource
from pagegate.deploy.gate import Compiled, LocalGate
from pagegate.deploy.pages import LocalPage, local_pages, parse_canvas
from pagegate.renderer.egress import MemoryOrigin, OriginResponse

SAMPLE = Path(__file__).parents[3] / "deploy" / "sample" / "pages"
PAGES = ("q3-title.vue", "q3-channels.tsx", "q3-numbers.vue", "q3-people.tsx")
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
CANVAS = parse_canvas("1280x720")


class SiteGate(LocalGate):
    """Looks at pages of a built site instead of those that were compiled for their check."""

    site: dict[str, bytes] | None = None
    number = 0

    def origin_of(self, compiled: Compiled) -> MemoryOrigin:
        if self.site is None:
            return super().origin_of(compiled)
        own = f"pages/{self.number}/"
        found = {f"/{name.removeprefix(own)}": response(name, content) for name, content in self.site.items()}
        return MemoryOrigin({**found, "/": response("index.html", self.site[f"{own}index.html"])})


def response(name: str, content: bytes) -> OriginResponse:
    return OriginResponse(200, f"{TYPES.get(Path(name).suffix, 'application/octet-stream')}; charset=utf-8", content)


async def test_pages_of_a_site_have_the_pixels_of_their_checks(tmp_path: Path) -> None:
    pages = [*local_pages([SAMPLE / name for name in PAGES], None), *waiting_pages(tmp_path)]
    archive = tmp_path / "site.zip"
    async with SiteGate(CANVAS) as gate:
        checked = [(await gate.look(await gate.compile(page)))[1] for page in pages]
        source = LocalSource(pages, "deck", "hash", CANVAS)
        built = await gate.runtime.build(SiteBuildTask("build", source, archive))
        assert built.errors == []
        with zipfile.ZipFile(archive) as opened:
            gate.site = {name: opened.read(name) for name in opened.namelist()}
        for number, (page, before) in enumerate(zip(pages, checked, strict=True), start=1):
            gate.number = number
            report, after = await gate.look(await gate.compile(page))
            assert before is not None, page.code
            assert len(Image.open(io.BytesIO(before)).convert("RGB").getcolors(2**24) or []) > 1, "nothing is shown"
            assert after is not None, report.error
            assert differing_pixels(before, after) == 0, page.code


def waiting_pages(folder: Path) -> list[LocalPage]:
    """Pages that wait for something before they are there, at the top of their script (case 43)."""
    (folder / "pages").mkdir()
    late = "const late: number = await new Promise((done) => setTimeout(() => done(42), 50))\n"
    vue, tsx = folder / "pages" / "waits.vue", folder / "pages" / "waits-too.tsx"
    vue.write_text(
        f'<script setup lang="ts">\n{late}</script>\n<template><h1 class="p-8">{{{{ late }}}}</h1></template>'
    )
    tsx.write_text(f"{late}export default () => <h1 className='p-8 text-4xl'>{{late}}</h1>\n")
    return local_pages([vue, tsx], None)


def differing_pixels(before: bytes, after: bytes) -> int:
    one, other = (Image.open(io.BytesIO(png)).convert("RGB") for png in (before, after))
    assert one.size == other.size
    difference = ImageChops.difference(one, other).convert("L")
    return sum(difference.histogram()[1:])
