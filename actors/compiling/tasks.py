"""What a slot does for one task: fetch, order, result (V1). One class for each lane; its lane and slots know no more.

Owns the words between the slot and its worker (the order), and how each task is told in the log (O3). Keeps nothing
beyond the task. `fetch` runs before a worker is needed; `order` may put files into the task's folder; `result` is pure.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from pydantic import BaseModel, JsonValue

from pagegate.runtime.contract import (
    LIGHT_DEADLINES_S,
    LIGHT_FILE_BYTES_MAX,
    ArtifactManifest,
    CompileTimings,
    ComponentContract,
    ComponentUse,
    LightResult,
    LightTool,
    LocatedError,
)
from pagegate.runtime.node_worker import WorkerAnswer
from pagegate.runtime.refusals import (
    BuildTimedOut,
    CompileTimedOut,
    CompileUnavailable,
    LightFileTooLarge,
    LightTimedOut,
)
from pagegate.runtime.sources import ModuleSource
from pagegate.runtime.workspace import check_artifact

T = TypeVar("T")
log = structlog.get_logger()

CHECK_DEADLINE_S = 120.0  # V5
BUILD_DEADLINE_S = 600.0  # V5

_WRITE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Events:
    """The names under which a kind of task is told in the log (O3)."""

    placed: str
    worked: str
    finished: str


@dataclass
class SlotTask(ABC, Generic[T]):
    """One task. Its methods are called once each, in the order they stand here."""

    task_id: str

    events: ClassVar[Events]
    timed_out: ClassVar[type[CompileUnavailable]]

    @abstractmethod
    async def fetch(self) -> None:
        """Get what the task needs from elsewhere. Raises `CompileUnavailable`."""

    @abstractmethod
    async def order(self, folder: Path) -> Mapping[str, Any]:
        """What the worker is asked, apart from the id; `folder` is the task's own. Raises `CompileUnavailable`."""

    async def collect(self, folder: Path, answer: WorkerAnswer) -> None:
        """Take what the worker left in the task's folder, before that is removed."""

    @abstractmethod
    def result(self, answer: WorkerAnswer, timings: CompileTimings) -> T:
        """The task's result out of the worker's answer. `timings` has no `wait_ms` yet; see `waited`."""

    def waited(self, result: T, wait_ms: float) -> T:  # noqa: ARG002 - for those that show it
        """The result with the time that the task waited for its slot."""
        return result

    @abstractmethod
    def outcome(self, result: T) -> str:
        """One word for the numbers and the log: `refused` when the result is a verdict against the input."""


# -- compiles ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """What a compile gave: errors in the source, or files by name; and what else was asked about the modules."""

    errors: list[LocatedError]
    files: dict[str, bytes]
    timings: CompileTimings
    contract: ComponentContract | None = None
    uses: list[ComponentUse] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.files.values()))


class _Told(BaseModel):
    """What the worker says beside files and errors."""

    contract: ComponentContract | None = None
    uses: list[ComponentUse] = []


@dataclass
class CompileTask(SlotTask[Compiled]):
    """A page, or a component, compiled for a check, a screenshot or a preview.

    `contract` and `uses_of`: see `CompileRequest`.
    """

    source: ModuleSource
    op: str = "compile"
    contract: bool = False
    uses_of: str | None = None
    _manifest: ArtifactManifest | None = field(default=None, init=False)
    _modules: dict[str, str] = field(default_factory=dict, init=False)

    events = Events(
        "diagnostics.workspace.validated", "diagnostics.vite.finished", "runtime.diagnostics.compile.finished"
    )
    timed_out = CompileTimedOut

    async def fetch(self) -> None:
        started_s = asyncio.get_running_loop().time()
        manifest = await self.source.manifest()
        check_artifact(manifest)
        self._manifest, self._modules = manifest, dict(await self.source.read_modules(manifest.modules))
        ms = round((asyncio.get_running_loop().time() - started_s) * 1000, 1)
        log.info("diagnostics.modules.ready", task_id=self.task_id, ms=ms, modules=len(self._modules))

    async def order(self, folder: Path) -> Mapping[str, Any]:
        manifest = self._manifest
        assert manifest is not None
        return {
            "op": self.op,
            "dir": str(folder),
            "entry": manifest.entry,
            "modules": self._modules,
            "assets": sorted(manifest.assets),
            "known": {"modules": manifest.known_modules, "assets": manifest.known_assets},
            "page": manifest.entry_page.model_dump(),
            "canvas": manifest.canvas.model_dump(),
            "base": manifest.base,
            "contract": self.contract,
            "usesOf": self.uses_of,
        }

    def result(self, answer: WorkerAnswer, timings: CompileTimings) -> Compiled:
        # A lone surrogate can stand in a JavaScript string and has no UTF-8: it is shown as unknown, as in a browser.
        files = {name: text.encode("utf-8", errors="replace") for name, text in answer.files.items()}
        told = _Told.model_validate(answer.result)
        return Compiled(answer.errors, files, timings, told.contract, told.uses)

    def waited(self, result: Compiled, wait_ms: float) -> Compiled:
        return replace(result, timings=result.timings.model_copy(update={"wait_ms": wait_ms}))

    def outcome(self, result: Compiled) -> str:
        return "refused" if result.errors else "compiled"


class BuildTask(SlotTask[T]):
    """A production build (B1): what it orders and gives is for its subclass; lane, deadline and worker are here."""

    events = Events("build.workspace.validated", "build.vite.finished", "runtime.build.finished")
    timed_out = BuildTimedOut


# -- light tools ------------------------------------------------------------------------------------------------------


@dataclass
class LightTask(SlotTask[LightResult]):
    """A light tool (V9). `file` is written into the task's folder; the tool gets its path beside its `input`.

    Only what the tool needs leaves the caller: the file is taken when the slot is there for it, not before.
    """

    tool: LightTool
    input: Mapping[str, JsonValue]
    file: AsyncIterator[bytes] | None = None
    file_bytes_max: int = LIGHT_FILE_BYTES_MAX

    events = Events("light.workspace.validated", "light.tool.finished", "runtime.light.finished")
    timed_out = LightTimedOut

    @property
    def deadline_s(self) -> float:
        return LIGHT_DEADLINES_S[self.tool]

    async def fetch(self) -> None:
        return

    async def order(self, folder: Path) -> Mapping[str, Any]:
        order = {"op": "light", "dir": str(folder), "tool": self.tool, "input": dict(self.input), "file": None}
        if self.file is not None:
            path = folder / "file"
            await _write(path, self.file, self.file_bytes_max)
            order["file"] = str(path)
        return order

    def result(self, answer: WorkerAnswer, timings: CompileTimings) -> LightResult:
        return LightResult(ok=not answer.errors, errors=answer.errors, result=answer.result, timings=timings)

    def waited(self, result: LightResult, wait_ms: float) -> LightResult:
        return result.model_copy(update={"timings": result.timings.model_copy(update={"wait_ms": wait_ms})})

    def outcome(self, result: LightResult) -> str:
        return "done" if result.ok else "refused"


async def _write(path: Path, chunks: AsyncIterator[bytes], bytes_max: int) -> None:
    size = 0
    waiting = b""
    with path.open("xb") as file:
        async for chunk in chunks:
            size += len(chunk)
            if size > bytes_max:
                raise LightFileTooLarge(f"the file has more than {bytes_max} bytes")
            waiting += chunk
            if len(waiting) >= _WRITE_BYTES:
                await asyncio.to_thread(file.write, waiting)
                waiting = b""
        await asyncio.to_thread(file.write, waiting)
