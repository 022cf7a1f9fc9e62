"""The build of a site as a task of the build lane: fetch the snapshot, compile every page, pack (B1).

Owns nothing beyond the task. The zip is written where its caller says, outside the task's folder, which is gone when
the task ends. A refused source is a result; whatever else goes wrong is a `CompileUnavailable`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pagegate.actors.compiling.tasks import BuildTask
from pagegate.runtime import site
from pagegate.runtime.build_contract import BuildSnapshot
from pagegate.runtime.contract import CompileTimings, LocatedError
from pagegate.runtime.node_worker import WorkerAnswer
from pagegate.runtime.refusals import BuildAssetMissing, SourceUnavailable

Step = Literal["fetching", "compiling", "packing", "uploading"]


class BuildSource(Protocol):
    """Where a build reads."""

    async def snapshot(self) -> BuildSnapshot:
        """Raises `SourceUnavailable`."""

    def asset(self, name: str) -> AsyncIterator[bytes]:
        """The bytes of an asset of the snapshot. Raises `BuildAssetMissing` or `SourceUnavailable`."""


@dataclass(frozen=True)
class Built:
    """Errors in the sources, or a zip of this size with this many files."""

    errors: list[LocatedError]
    packed: site.Packed | None
    pages: int
    timings: CompileTimings


@dataclass
class SiteBuildTask(BuildTask[Built]):
    """`archive` is where the zip will be; `tell` hears how far the build is."""

    source: BuildSource
    archive: Path
    runtime_build: str = ""
    tell: Callable[[Step], None] = lambda _: None
    _snapshot: BuildSnapshot | None = field(default=None, init=False)
    _packed: site.Packed | None = field(default=None, init=False)

    async def fetch(self) -> None:
        self.tell("fetching")
        self._snapshot = await self.source.snapshot()
        check_snapshot(self._snapshot)

    async def order(self, folder: Path) -> Mapping[str, Any]:
        snapshot = self._snapshot
        assert snapshot is not None
        await self._place_assets(folder / "site", snapshot)
        self.tell("compiling")
        return {
            "op": "build",
            "dir": str(folder),
            "sources": snapshot.sources,
            "pages": [
                {
                    "entry": page.entry,
                    "framework": page.framework,
                    "modules": page.modules,
                    "assets": page.assets,
                    "known": {"modules": [], "assets": sorted(snapshot.assets)},
                    "page": {"code": page.code, "title": page.title, "speaker_notes": page.speaker_notes},
                    "canvas": page.canvas.model_dump(),
                }
                for page in snapshot.pages
            ],
        }

    async def collect(self, folder: Path, answer: WorkerAnswer) -> None:
        if answer.errors or self._snapshot is None:
            return
        self.tell("packing")
        shell = await asyncio.to_thread(site.shell_files, self._snapshot, self.runtime_build)
        self._packed = await asyncio.to_thread(site.pack, folder / "site", shell, self.archive)

    def result(self, answer: WorkerAnswer, timings: CompileTimings) -> Built:
        assert self._snapshot is not None
        return Built(answer.errors, self._packed, len(self._snapshot.pages), timings)

    def outcome(self, result: Built) -> str:
        return "refused" if result.errors else "built"

    async def _place_assets(self, root: Path, snapshot: BuildSnapshot) -> None:
        used = {name for page in snapshot.pages for name in page.assets}
        await asyncio.to_thread(root.mkdir)
        for name in sorted(used):
            if name not in snapshot.assets:
                raise SourceUnavailable(f"the snapshot uses {name!r} and does not list it")
            target = root / "assets" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            size_bytes = 0
            with target.open("xb") as file:
                async for chunk in self.source.asset(name):
                    size_bytes += len(chunk)
                    await asyncio.to_thread(file.write, chunk)
            if size_bytes != snapshot.assets[name].size_bytes:
                raise BuildAssetMissing(f"the asset {name!r} did not arrive whole")


def check_snapshot(snapshot: BuildSnapshot) -> None:
    """Raises `SourceUnavailable` for a snapshot that no Backend should give: it must lead to no file elsewhere (X4)."""
    if not snapshot.pages:
        raise SourceUnavailable("the snapshot has no page")
    for name in snapshot.assets:
        parts = name.split("/")
        if any(part in {"", ".", ".."} for part in parts) or "\\" in name or "\0" in name:
            raise SourceUnavailable("the snapshot lists an asset whose name is no name of a file")
    for page in snapshot.pages:
        if page.entry not in page.modules or any(digest not in snapshot.sources for digest in page.modules.values()):
            raise SourceUnavailable(f"the snapshot does not hold all of {page.entry!r}")
