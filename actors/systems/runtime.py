"""The Runtime's composition (V1): outputs, slots with their Node workers, and the check lane above them.

Owns all of them; `start` builds from the ground up, `stop` in reverse. The same system serves a process
(`http/runtime.py`) and a program that compiles by itself, which uses it as a context manager. Survives nothing: outputs
are compiled again.
"""

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pykka
import structlog
from prometheus_client import CollectorRegistry

from pagegate.actors.compiling.gauges import RuntimeGauges
from pagegate.actors.compiling.lane import CancelCompile, Compile, ViteLane
from pagegate.actors.compiling.slot import Compiled, ViteSlot, Wear
from pagegate.actors.kernel import ask, stop
from pagegate.runtime.contract import CompileOutput, CompileResult
from pagegate.runtime.node_worker import (
    NodeWorkers,
    WorkerConfig,
    bundle_frameworks,
    default_cache,
    find_node,
    runtime_home,
)
from pagegate.runtime.outputs import OutputStore
from pagegate.runtime.refusals import WorkerLost
from pagegate.runtime.sandbox import find_bubblewrap
from pagegate.runtime.sources import ModuleSource
from pagegate.runtime.workspace import Workspace

log = structlog.get_logger()


@dataclass(frozen=True)
class RuntimeOptions:
    """`public_base_url`: how the Renderer reaches this Runtime. `backend_base_urls`: the only Backends it fetches from.

    `worker_idle_s`: an idle worker is let go after this long, and the next compile pays for a start.
    """

    public_base_url: str = "http://127.0.0.1:8081"
    backend_base_urls: tuple[str, ...] = ()
    check_slots: int = 1
    queue_size_max: int = 16
    queue_wait_timeout_s: float = 45.0
    worker_tasks_max: int = 25
    worker_reuse: bool = True
    worker_idle_s: float | None = None
    worker_heap_mb: int = 512
    worker_sandbox: bool = True  # where the host allows it
    node: Path | None = None
    work_dir: Path | None = None  # where task folders are made; the system's temporary folder when None


class RuntimeSystem:
    """`ready` becomes true with the first warm worker; compiles asked before that wait for it."""

    def __init__(self, options: RuntimeOptions) -> None:
        self.options = options
        self.public_base_url = options.public_base_url.rstrip("/")
        self.registry = CollectorRegistry()
        self.ready = asyncio.Event()
        self.vendor_dir: Path | None = None
        self.build = ""
        self.outputs: OutputStore
        self._slots: list[pykka.ActorRef[Any]] = []
        self._lane: pykka.ActorRef[Any] | None = None
        self._workspace: Workspace | None = None

    async def start(self) -> None:
        """Raises `NodeMissing` when this machine cannot compile."""
        options = self.options
        home = runtime_home()
        node = await asyncio.to_thread(find_node, options.node)
        bubblewrap = await asyncio.to_thread(find_bubblewrap) if options.worker_sandbox else None
        self.vendor_dir = await bundle_frameworks(node, home, default_cache(home))
        config = WorkerConfig(node, home, self.vendor_dir, options.worker_heap_mb, bubblewrap)
        self.build = await asyncio.to_thread(runtime_build, home)
        self.outputs = OutputStore(asyncio.get_running_loop().time)
        self._workspace = await asyncio.to_thread(Workspace, home, options.work_dir)
        wear = Wear(tasks_max=options.worker_tasks_max, reuse=options.worker_reuse, idle_s_max=options.worker_idle_s)
        for _ in range(options.check_slots):
            base = self._workspace.slot()
            workers = NodeWorkers(config, base.path, base.temporary)
            self._slots.append(ViteSlot.start(workers, base, wear, self.ready.set))
        self._lane = ViteLane.start(
            "check",
            tuple(self._slots),
            RuntimeGauges(self.registry).lane("check"),
            queue_size_max=options.queue_size_max,
            wait_timeout_s=options.queue_wait_timeout_s,
        )
        wall = "bubblewrap" if bubblewrap else "none"
        log.info("runtime.started", slots=options.check_slots, build=self.build, sandbox=wall)

    async def stop(self) -> None:
        """The lane first, so that nothing new reaches a slot; then the slots with their processes; then the folders."""
        for actor in (self._lane, *self._slots):
            if actor is not None:
                await stop(actor)
        self._lane, self._slots = None, []
        if self._workspace is not None:
            await self._workspace.remove()
            self._workspace = None

    async def compile(
        self, task_id: str, source: ModuleSource, *, deadline_s: float = 120.0, background: bool = False
    ) -> CompileResult:
        """One check compile; an output is kept when it succeeded. Raises `CompileUnavailable` (R9).

        Who is cancelled while it waits cancels the compile.
        """
        if self._lane is None:
            raise WorkerLost("the Runtime is stopping")
        try:
            compiled = await ask(self._lane, Compile(task_id, source, deadline_s, background))
        except pykka.ActorDeadError as error:
            raise WorkerLost("the Runtime stopped before it answered") from error
        except asyncio.CancelledError:
            self.cancel(task_id)
            raise
        return self._result(compiled)

    def cancel(self, task_id: str) -> None:
        if self._lane is not None and self._lane.is_alive():
            self._lane.tell(CancelCompile(task_id))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _result(self, compiled: Compiled) -> CompileResult:
        timings = compiled.timings
        if compiled.errors:
            return CompileResult(ok=False, errors=compiled.errors, runtime_build=self.build, timings=timings)
        output = self.outputs.put(compiled.files)
        kept = CompileOutput(
            output_id=output.output_id,
            navigation_url=f"{self.public_base_url}/outputs/{output.output_id}/",
            vendor_url=f"{self.public_base_url}/vendor/",
            size_bytes=output.size_bytes,
        )
        return CompileResult(ok=True, output=kept, runtime_build=self.build, timings=timings)


def runtime_build(home: Path) -> str:
    """The name of this Runtime's base (A11): the same packages and the same compiler have the same name."""
    digest = hashlib.sha256()
    for file in [home / "package-lock.json", *sorted(home.glob("*.mjs"))]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"vite-{digest.hexdigest()[:16]}"
