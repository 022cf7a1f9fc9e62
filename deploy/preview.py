"""`pagegate preview`: pages of a local folder in the browser, without a server (P4).

Owns the list of pages and the command's life: starts a Runtime in this process, says the address, ends with Ctrl-C or
SIGTERM. Files are read when they are looked at: a reload shows what was saved.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

from aiohttp import web

from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.pages import BadArguments, LocalPage, local_pages, parse_canvas
from pagegate.http.local_previews import local_preview_app
from pagegate.runtime.contract import FRAMEWORK_OF_SUFFIX, ArtifactManifest, Canvas, DeckEntry, EntryPage, LocatedError
from pagegate.runtime.node_worker import NodeMissing
from pagegate.runtime.sources import MemoryModuleSource, ModuleSource

EXIT_GOOD, EXIT_MACHINE = 0, 2


class Deck:
    """The pages beside the one that was named, or those of a folder; see `http.local_previews.LocalDeck`."""

    def __init__(self, path: Path, project: Path | None, canvas: Canvas) -> None:
        """Raises `BadArguments` when there is no page."""
        self._path, self._project, self._canvas = path, project, canvas
        self.pages()

    def pages(self) -> list[LocalPage]:
        """As they are on disk now, by name. Raises `BadArguments`."""
        if not self._path.is_dir():
            local_pages([self._path], self._project)  # says what is wrong with it
        folder = self._path if self._path.is_dir() else self._path.parent
        if self._path.is_dir() and (folder / "pages").is_dir():
            folder = folder / "pages"
        files = [file for file in sorted(folder.iterdir()) if file.suffix in FRAMEWORK_OF_SUFFIX and file.is_file()]
        if not files:
            raise BadArguments([f"{self._path}: holds no page (.vue or .tsx)"])
        return local_pages(files, self._project)

    def host_manifest(self) -> ArtifactManifest:
        """The list of pages; the one that was named is shown first."""
        pages = self.pages()
        first = next((at for at, page in enumerate(pages) if page.file.name == self._path.name), 0)
        entries = [
            DeckEntry(artifact_id=f"local~{at}", code=page.file.name, title=page.code, canvas=self._canvas)
            for at, page in enumerate(pages)
        ]
        # The host shows the page whose part is 0 unless its address names another.
        return ArtifactManifest(
            artifact_id="local",
            entry=pages[first].entry,
            framework=FRAMEWORK_OF_SUFFIX[pages[first].file.suffix],
            modules=[],
            entry_page=EntryPage(code=pages[first].file.name),
            canvas=self._canvas,
            pages=entries,
        )

    def source(self, part: int) -> ModuleSource | LocatedError | None:
        """What the compile reads of a page, or why it is none."""
        page = self._page(part)
        if page is None or isinstance(page.source, LocatedError):
            return None if page is None else page.source  # type: ignore[return-value]  # a LocatedError, seen above
        snapshot = page.snapshot(page.source)
        manifest = page.manifest(snapshot, uuid4().hex, self._canvas)
        return MemoryModuleSource(manifest.model_copy(update={"base": "./"}), snapshot.modules)

    def asset(self, part: int, name: str) -> Path | None:
        """Where an asset is on disk; only what the page's folder lists."""
        page = self._page(part)
        if page is None:
            return None
        with contextlib.suppress(KeyError):
            return page.asset_file(name)
        return None

    def first_page(self) -> str:
        """The file name of the page that is shown first."""
        return self.host_manifest().entry_page.code

    def _page(self, part: int) -> LocalPage | None:
        pages = self.pages()
        return pages[part] if part < len(pages) else None


def run_preview(path: Path, *, canvas: str, project: Path | None, host: str, port: int) -> int:
    """The whole command; its exit code. Raises `BadArguments` before anything is started."""
    deck = Deck(path, project, parse_canvas(canvas))
    configure_logs("preview", level="error", stream=sys.stderr)
    try:
        return asyncio.run(_serve(deck, host, port))
    except NodeMissing as missing:
        sys.stderr.write(f"pagegate preview: {missing}\n")
        return EXIT_MACHINE
    except OSError as error:
        sys.stderr.write(f"pagegate preview: cannot listen on {host}:{port} ({error.strerror})\n")
        return EXIT_MACHINE


async def _serve(deck: Deck, host: str, port: int) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    node = os.environ.get("RUNTIME_NODE")
    async with RuntimeSystem(RuntimeOptions(node=Path(node) if node else None)) as system:
        runner = web.AppRunner(local_preview_app(system, deck), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            url = f"http://{host}:{runner.addresses[0][1]}/#{deck.first_page()}"
            sys.stdout.write(f"{url}\nArrow keys turn pages, reload shows what was saved, Ctrl-C ends.\n")
            sys.stdout.flush()
            await stop.wait()
        finally:
            await runner.cleanup()
    return EXIT_GOOD
