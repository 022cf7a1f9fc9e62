"""`pagegate build`: the pages of a local folder as a site in a zip, without a server (B1, B5).

Owns the command's life: starts a Runtime in this process, builds in its build lane, writes the zip beside its name and
moves it there when it is whole. Nothing is left of a build that did not end well.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

from pagegate.actors.compiling.site_build import Built, SiteBuildTask
from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.pages import BadArguments, LocalPage, local_pages, parse_canvas
from pagegate.runtime.build_contract import BuildPage, BuildSnapshot, Routes
from pagegate.runtime.contract import FRAMEWORK_OF_SUFFIX, AssetRef, Canvas, LocatedError
from pagegate.runtime.node_worker import NodeMissing
from pagegate.runtime.refusals import BuildAssetMissing, CompileUnavailable
from pagegate.storage.objects import sha256_of

EXIT_GOOD, EXIT_REFUSED_PAGE, EXIT_MACHINE = 0, 1, 2
_CHUNK_BYTES = 256 * 1024


class NoPages(Exception):
    """Files that hold no page: empty, no text, or too large. What is wrong with the others is not looked for."""

    def __init__(self, errors: list[LocatedError]) -> None:
        super().__init__()
        self.errors = errors


class LocalSource:
    """Pages on disk, read once: what is saved meanwhile is not in this build."""

    def __init__(self, pages: list[LocalPage], name: str, routes: Routes, canvas: Canvas) -> None:
        """Raises `NoPages`, with each file that is no page."""
        self._files: dict[str, Path] = {}
        sources: dict[str, str] = {}
        assets: dict[str, AssetRef] = {}
        built: list[BuildPage] = []
        refused: list[LocatedError] = []
        for page in pages:
            if isinstance(page.source, LocatedError):
                refused.append(page.source)
                continue
            taken = page.snapshot(page.source)
            manifest = page.manifest(taken, page.code, canvas)
            digests = {path: sha256_of(text.encode()) for path, text in taken.modules.items()}
            sources |= {digests[path]: text for path, text in taken.modules.items()}
            assets |= manifest.assets
            self._files |= {name: page.asset_file(name) for name in manifest.assets}
            built.append(
                BuildPage(
                    code=page.code,
                    title=page.code,
                    framework=FRAMEWORK_OF_SUFFIX[page.file.suffix],
                    entry=page.entry,
                    modules=digests,
                    assets=sorted(manifest.assets),
                    canvas=canvas,
                )
            )
        if refused:
            raise NoPages(refused)
        self._snapshot = BuildSnapshot(project_name=name, routes=routes, pages=built, sources=sources, assets=assets)

    async def snapshot(self) -> BuildSnapshot:
        """See `BuildSource`."""
        return self._snapshot

    async def asset(self, name: str) -> AsyncIterator[bytes]:
        """See `BuildSource`."""
        try:
            with self._files[name].open("rb") as file:
                while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise BuildAssetMissing(f"the asset {name!r} cannot be read") from error


def pages_of(folder: Path, project: Path | None) -> list[LocalPage]:
    """The pages of a folder, or of the `pages/` in it, by name. Raises `BadArguments`."""
    if not folder.is_dir():
        raise BadArguments([f"{folder}: is no folder"])
    inside = folder / "pages" if (folder / "pages").is_dir() else folder
    files = [file for file in sorted(inside.iterdir()) if file.suffix in FRAMEWORK_OF_SUFFIX and file.is_file()]
    if not files:
        raise BadArguments([f"{folder}: holds no page (.vue or .tsx)"])
    return local_pages(files, project)


def run_build(folder: Path, *, out: Path, canvas: str, project: Path | None, routes: Routes) -> int:
    """The whole command; its exit code. Raises `BadArguments` before anything is started."""
    size = parse_canvas(canvas)
    pages = pages_of(folder, project)
    if not out.absolute().parent.is_dir():
        raise BadArguments([f"--out {out}: there is no folder {out.parent}"])
    located = {page.entry: page for page in pages}
    try:
        source = LocalSource(pages, folder.resolve().name, routes, size)
    except NoPages as none:
        _tell(none.errors, located)
        return EXIT_REFUSED_PAGE
    configure_logs("build", level="error", stream=sys.stderr)
    try:
        built = asyncio.run(_build(source, out.absolute()))
    except (NodeMissing, CompileUnavailable) as failed:
        sys.stderr.write(f"pagegate build: {failed}\n")
        return EXIT_MACHINE
    except OSError as error:
        sys.stderr.write(f"pagegate build: {out} cannot be written ({error.strerror})\n")
        return EXIT_MACHINE
    if built.packed is None:
        _tell(built.errors, located)
        return EXIT_REFUSED_PAGE
    sys.stdout.write(f"{out}: {built.pages} pages, {built.packed.files} files, {built.packed.size_bytes} bytes\n")
    return EXIT_GOOD


async def _build(source: LocalSource, target: Path) -> Built:
    """`target` is absolute."""
    node = os.environ.get("RUNTIME_NODE")
    with tempfile.TemporaryDirectory(prefix=".pagegate-build-", dir=target.parent) as aside:
        archive = Path(aside) / "site.zip"
        async with RuntimeSystem(RuntimeOptions(node=Path(node) if node else None)) as system:
            built = await system.build(SiteBuildTask(uuid4().hex, source, archive, system.runtime_build))
        if built.packed is not None:
            archive.replace(target)
        return built


def _tell(errors: list[LocatedError], pages: dict[str, LocalPage]) -> None:
    for error in errors:
        page = pages.get(error.file or "") or next(iter(pages.values()))
        where = ":".join(str(part) for part in (page.shown(error.file), error.line, error.column) if part is not None)
        sys.stderr.write(f"{where}: {error.code}: {error.message}\n")
        if error.frame:
            sys.stderr.write(f"{error.frame}\n")
        if error.hint:
            sys.stderr.write(f"  {error.hint}\n")
