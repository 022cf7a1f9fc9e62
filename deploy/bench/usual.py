"""What people do without pagegate: `vite build` as a process, then Playwright with a full Chromium, launched on demand.

Owns a temporary Vite project, of the fixture page or of a whole site, and a small file server for its output. It is a
fair opponent: the same Vite and plugins from the same folder, the same pages and probes; no installation is measured.
"""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web
from playwright.async_api import Playwright, async_playwright

from pagegate.renderer.probes import page_script

BUILD_TIMEOUT_S = 120.0
LOAD_TIMEOUT_MS = 30_000.0
SETTLE_MS = 300.0
FULL_CHROMIUM = Path("/usr/bin/chromium")

_CONFIG = """
import vue from '@vitejs/plugin-vue'
import tailwindcss from '@tailwindcss/vite'
import { fileURLToPath } from 'node:url'
const at = (path) => fileURLToPath(new URL(path, import.meta.url))
export default {
  plugins: [vue(), tailwindcss()],
  resolve: { alias: { '@components': at('./components'), '@assets': at('./assets') } },
}
"""
_INDEX = '<!doctype html><div id="app"></div><script type="module" src="/main.js"></script>'
_MAIN = """
import { createApp } from 'vue'
import './main.css'
import Page from './pages/%s'
createApp(Page).mount('#app')
"""

# A site as its author would set it up: each page a document of its own, the framework and what pages share in chunks.
_SITE_CONFIG = """
import react from '@vitejs/plugin-react'
import vue from '@vitejs/plugin-vue'
import tailwindcss from '@tailwindcss/vite'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
const at = (path) => fileURLToPath(new URL(path, import.meta.url))
const entries = readdirSync(at('.')).filter((name) => name.endsWith('.html'))
export default {
  base: './',
  plugins: [vue(), react(), tailwindcss()],
  resolve: { alias: { '@components': at('./components'), '@assets': at('./assets') } },
  build: { rolldownOptions: { input: entries.map((name) => at(`./${name}`)) } },
}
"""
_SITE_INDEX = '<!doctype html><div id="app"></div><script type="module" src="/%s.js"></script>'
_MOUNTS = {
    "vue": _MAIN,
    "react": """
import { createElement } from 'react'
import { createRoot } from 'react-dom/client'
import './main.css'
import Page from './pages/%s'
createRoot(document.getElementById('app')).render(createElement(Page))
""",
}


class BuildFailed(Exception):
    """The opponent's build did not work, so there is nothing to compare with."""


@dataclass(frozen=True)
class ViteProject:
    """One page, or a site of several, as an ordinary Vite project."""

    root: Path
    node: Path
    node_modules: Path

    @classmethod
    def create(cls, root: Path, sample: Path, page: str, node: Path, node_modules: Path) -> Self:
        project = cls._around(root, sample, _CONFIG, node, node_modules)
        shutil.copy(sample / "pages" / page, root / "pages")
        (root / "index.html").write_text(_INDEX)
        (root / "main.js").write_text(_MAIN % page)
        return project

    @classmethod
    def create_site(cls, root: Path, sample: Path, pages: Sequence[Path], node: Path, node_modules: Path) -> Self:
        """Several pages, of both frameworks, as the entries of one build."""
        project = cls._around(root, sample, _SITE_CONFIG, node, node_modules)
        for page in pages:
            shutil.copy(page, root / "pages")
            (root / f"{page.stem}.html").write_text(_SITE_INDEX % page.stem)
            (root / f"{page.stem}.js").write_text(_MOUNTS["vue" if page.suffix == ".vue" else "react"] % page.name)
        return project

    @classmethod
    def _around(cls, root: Path, sample: Path, config: str, node: Path, node_modules: Path) -> Self:
        for folder in ("components", "assets"):
            shutil.copytree(sample / folder, root / folder)
        (root / "pages").mkdir()
        (root / "vite.config.mjs").write_text(config)
        (root / "main.css").write_text('@import "tailwindcss";\n')
        (root / "package.json").write_text('{"type": "module", "private": true}')
        (root / "node_modules").symlink_to(node_modules)
        return cls(root, node, node_modules)

    async def build(self) -> Path:
        """`vite build` as a process; the folder of its output."""
        vite = self.node_modules / "vite" / "bin" / "vite.js"
        process = await asyncio.create_subprocess_exec(
            str(self.node),
            str(vite),
            "build",
            "--logLevel",
            "error",
            cwd=self.root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(BUILD_TIMEOUT_S):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise BuildFailed(said.decode(errors="replace")[-2000:])
        return self.root / "dist"


class UsualBrowser:
    """Serves a folder and looks at it with Playwright, the way its documentation shows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._playwright: Playwright | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/", self._index)
        app.router.add_static("/", self._folder)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"
        self._manager = async_playwright()
        self._playwright = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._manager.__aexit__(kind, error, at)
        await self._runner.cleanup()

    async def _index(self, _: web.Request) -> web.FileResponse:
        return web.FileResponse(self._folder / "index.html")

    async def attempt(self, width_px: int, height_px: int) -> bytes:
        """Launch, load, wait 300 ms, probe, photograph, close; the PNG."""
        assert self._playwright is not None, "use it as a context manager"
        sizes = {"width": width_px, "height": height_px}
        wanted = {"viewport": {**sizes, "auto": False}, "page": sizes}
        browser = await self._playwright.chromium.launch(executable_path=FULL_CHROMIUM, args=["--no-sandbox"])
        try:
            page = await browser.new_page(viewport={"width": width_px, "height": height_px})
            await page.goto(self._url, wait_until="load", timeout=LOAD_TIMEOUT_MS)
            await page.wait_for_timeout(SETTLE_MS)
            await page.evaluate(page_script(), wanted)
            return await page.screenshot()
        finally:
            await browser.close()
