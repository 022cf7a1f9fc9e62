"""Pages on this machine's disk, as `pagegate check` takes them.

Owns what a FILE argument means: its project, its place in it, its snapshot. Logical paths (`pages/x.vue`) are what
Runtime and Renderer speak of; `LocalPage.shown` turns them back into paths a person can click on. Reads files only.

A wrong argument (no such file, a folder, an unknown suffix) is a `BadArguments` with every problem in it; a file that
is there but cannot be a page (empty, not text, too large) is a refused page.
"""

import hashlib
import mimetypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic_core import PydanticCustomError

from pagegate.actors.agents.arguments import source_text
from pagegate.actors.jobs.snapshot import Snapshot, take_snapshot
from pagegate.deploy.settings import PAGE_SOURCE_BYTES_MAX
from pagegate.runtime.contract import (
    FRAMEWORK_OF_SUFFIX,
    ArtifactManifest,
    AssetRef,
    Canvas,
    EntryPage,
    LocatedError,
)

_CANVAS = re.compile(r"(\d{1,5})x(\d{1,5}|auto)", re.IGNORECASE)
_MODULE_FOLDERS = ("components", "pages")


class BadArguments(Exception):
    """The command cannot mean anything. `problems` has one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def parse_canvas(text: str) -> Canvas:
    """`1280x720`, or `1280xauto` for a page that decides its own height. Raises `BadArguments`."""
    match = _CANVAS.fullmatch(text.strip())
    if match is not None:
        width, height = match.groups()
        try:
            return Canvas(width_px=int(width), height_px=None if height.lower() == "auto" else int(height))
        except ValueError:
            pass
    raise BadArguments([f"--canvas {text}: write it as 1280x720 or 1280xauto, with 16 to 8192 pixels a side"])


@dataclass(frozen=True)
class LocalPage:
    """One FILE. `file` is what the person wrote; `project` is where `@components`, `@assets` and `@pages` are."""

    file: Path
    project: Path

    @property
    def code(self) -> str:
        return self.file.stem

    @property
    def entry(self) -> str:
        return f"pages/{self.file.name}"

    @cached_property
    def source(self) -> str | LocatedError:
        """The text, or what keeps it from being a page: a content error like one of the compiler's."""
        if (size_bytes := self.file.stat().st_size) > PAGE_SOURCE_BYTES_MAX:
            problem = f"has {size_bytes} bytes, {PAGE_SOURCE_BYTES_MAX} are allowed"
            return self._refused("PAGE_SOURCE_TOO_LARGE", problem, "Move data into assets and markup into components.")
        try:
            return source_text(self.file.read_bytes().decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            return self._refused("PAGE_SOURCE_NOT_TEXT", f"is not UTF-8 text (byte {error.start})", "Save it as UTF-8.")
        except PydanticCustomError as error:
            return self._refused(error.type, error.message(), "Write the whole source of the page into it.")

    def _refused(self, code: str, message: str, hint: str) -> LocatedError:
        return LocatedError(code=code, message=f"The source {message}.", hint=hint, file=self.entry)

    def snapshot(self, source: str) -> Snapshot:
        """What the page needs of its project, and nothing else (V6)."""
        return take_snapshot(
            self.entry, source, read=self._read, every_module=self._every_module, assets=self._assets.keys()
        )

    def manifest(self, snapshot: Snapshot, artifact_id: str, canvas: Canvas) -> ArtifactManifest:
        return ArtifactManifest(
            artifact_id=artifact_id,
            entry=self.entry,
            framework=FRAMEWORK_OF_SUFFIX[self.file.suffix],
            modules=sorted(snapshot.modules),
            assets={name: _asset_ref(self._assets[name]) for name in sorted(snapshot.assets)},
            known_modules=sorted(self._every_module()),
            known_assets=sorted(self._assets),
            entry_page=EntryPage(code=self.code),
            canvas=canvas,
        )

    def asset_file(self, name: str) -> Path:
        """Where an asset of the manifest is on disk. Raises KeyError for any other name."""
        return self._assets[name]

    def shown(self, logical: str | None) -> str | None:
        """The path to show a person for a logical path: as near to what they typed as it can be."""
        if logical is None:
            return None
        if logical == self.entry:
            return str(self.file)
        if logical.startswith(("components/", "pages/", "assets/")):
            path = self.project / logical
            return str(path) if self.file.is_absolute() else os.path.relpath(path)
        return logical

    @cached_property
    def _assets(self) -> dict[str, Path]:
        """Names are relative to `assets/`, with slashes. Only what is listed here is ever read."""
        root = self.project / "assets"
        return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}

    @cached_property
    def _modules(self) -> dict[str, Path]:
        return {
            path.relative_to(self.project).as_posix(): path
            for folder in _MODULE_FOLDERS
            for path in sorted((self.project / folder).rglob("*"))
            if path.suffix in FRAMEWORK_OF_SUFFIX and path.is_file()
        }

    def _every_module(self) -> list[str]:
        return sorted(self._modules)

    def _read(self, logical: str) -> str | None:
        path = self._modules.get(logical)
        if path is None:
            return None
        try:
            return path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return None  # the compile then says, located, that it cannot be found


def local_pages(files: Sequence[Path], project: Path | None) -> list[LocalPage]:
    """The pages of a command line. Raises `BadArguments` with every problem, before anything is started."""
    problems = [] if project is None or project.is_dir() else [f"--project {project}: is no folder"]
    problems += [f"{file}: {problem}" for file in files if (problem := _problem(file)) is not None]
    if problems:
        raise BadArguments(problems)
    return [LocalPage(file, project or _project_of(file)) for file in files]


def _problem(file: Path) -> str | None:
    try:
        str(file).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    try:
        if file.is_dir():
            return "is a folder; name the pages in it, like pages/*.vue"
        if not file.exists():
            return "there is no such file"
        if not file.is_file():
            return "is no regular file"
        if file.suffix not in FRAMEWORK_OF_SUFFIX:
            return f"is neither .vue nor .tsx ({file.suffix or 'no suffix'})"
        with file.open("rb"):
            return None
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _project_of(file: Path) -> Path:
    """The page's folder, or its parent when that folder is called `pages`."""
    folder = file.absolute().parent
    return folder.parent if folder.name == "pages" else folder


def _asset_ref(file: Path) -> AssetRef:
    content = file.read_bytes()
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return AssetRef(media_type=media_type, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
