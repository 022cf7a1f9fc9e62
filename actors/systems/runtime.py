"""The Runtime's composition (V1): outputs, slots with their Node workers, and the three lanes above them.

Owns all of them; `start` builds from the ground up, `stop` in reverse. The same system serves a process
(`http/runtime.py`) and a program that compiles by itself, which uses it as a context manager. Survives nothing: outputs
are compiled again.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import pykka
import structlog
from prometheus_client import CollectorRegistry

from pagegate.actors.compiling.gauges import RuntimeGauges
from pagegate.actors.compiling.lane import CancelTask, Enqueue, ViteLane
from pagegate.actors.compiling.previews import DEADLINE_S as PREVIEW_DEADLINE_S
from pagegate.actors.compiling.slot import ViteSlot, Wear
from pagegate.actors.compiling.tasks import (
    BUILD_DEADLINE_S,
    CHECK_DEADLINE_S,
    BuildTask,
    Compiled,
    CompileTask,
    LightTask,
    SlotTask,
)
from pagegate.actors.kernel import ask, stop
from pagegate.runtime.contract import LIGHT_FILE_BYTES_MAX, CompileOutput, CompileResult, Lane, LightResult
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

T = TypeVar("T")
log = structlog.get_logger()

_ON_DEMAND_IDLE_S = 60.0  # a light tool's worker is kept this long; the next one may be a second away


@dataclass(frozen=True)
class LaneSize:
    """One lane's `RUNTIME_VITE_TASK_CONCURRENCY`, `_QUEUE_SIZE` and `_QUEUE_WAIT_TIMEOUT_MS` (V1)."""

    slots: int = 1
    queue_size_max: int = 16
    wait_timeout_s: float = 45.0


@dataclass(frozen=True)
class RuntimeOptions:
    """`public_base_url`: how the Renderer reaches this Runtime. `backend_base_urls`: the only Backends it fetches from.

    `check`, `build` and `light` size the lanes; the workers of the last two start on demand. `worker_idle_s`: an idle
    worker of the check lane is let go after this long, and the next compile pays for a start; None keeps it.
    """

    public_base_url: str = "http://127.0.0.1:8081"
    backend_base_urls: tuple[str, ...] = ()
    jwks_urls: tuple[str, ...] = ()  # where the keys of preview tokens are read (K2); none: nobody is shown a preview
    check: LaneSize = LaneSize()
    build: LaneSize = LaneSize()
    light: LaneSize = LaneSize()
    worker_tasks_max: int = 25
    worker_age_s_max: float = 30 * 60.0
    worker_heap_share_max: float = 0.75
    worker_reuse: bool = True
    worker_idle_s: float | None = None
    worker_heap_mb: int = 512
    build_heap_mb: int = 1024
    light_file_bytes_max: int = LIGHT_FILE_BYTES_MAX
    worker_sandbox: bool = True  # where the host allows it
    node: Path | None = None
    work_dir: Path | None = None  # where task folders are made; the system's temporary folder when None


class RuntimeSystem:
    """`ready` becomes true with the first warm worker; compiles asked before that wait for it."""

    def __init__(self, options: RuntimeOptions) -> None:
        self.options = options
        self.public_base_url = options.public_base_url.rstrip("/")
        self.registry = CollectorRegistry()
        self._gauges = RuntimeGauges(self.registry)
        self.ready = asyncio.Event()
        self.vendor_dir: Path | None = None
        self.runtime_build = ""
        self.isolation: tuple[str, ...] = ("allow-list",)  # the walls around hostile source that are up (X2)
        self.outputs: OutputStore
        self._slots: list[pykka.ActorRef[Any]] = []
        self._lanes: dict[Lane, pykka.ActorRef[Any]] = {}
        self._workspace: Workspace | None = None

    async def start(self) -> None:
        """Raises `NodeMissing` when this machine cannot compile."""
        options = self.options
        home = runtime_home()
        node = await asyncio.to_thread(find_node, options.node)
        bubblewrap = await asyncio.to_thread(find_bubblewrap) if options.worker_sandbox else None
        if bubblewrap is not None:
            self.isolation = ("allow-list", "bubblewrap")
        elif options.worker_sandbox:
            log.warning("runtime.sandbox.unavailable", hint="Install bubblewrap and allow user namespaces.")
        self.vendor_dir = await bundle_frameworks(node, home, default_cache(home))
        self.runtime_build = await asyncio.to_thread(runtime_build, home)
        self.outputs = OutputStore(asyncio.get_running_loop().time)
        self._workspace = await asyncio.to_thread(Workspace, home, options.work_dir)
        gauges = self._gauges
        gauges.watch_outputs(self.outputs.kept_bytes)
        for lane, plan in _plans(options).items():
            config = WorkerConfig(node, home, self.vendor_dir, plan.heap_mb, bubblewrap, lane)
            self._lanes[lane] = self._start_lane(lane, plan, config, gauges)
        log.info(
            "runtime.started",
            slots={lane: plan.size.slots for lane, plan in _plans(options).items()},
            build=self.runtime_build,
            isolation=list(self.isolation),
        )

    def _start_lane(
        self, lane: Lane, plan: "_Plan", config: WorkerConfig, gauges: RuntimeGauges
    ) -> pykka.ActorRef[ViteLane]:
        assert self._workspace is not None
        slots = []
        reports = gauges.workers(lane)
        on_ready = self.ready.set if lane == "check" else _nothing
        for _ in range(plan.size.slots):
            base = self._workspace.slot()
            workers = NodeWorkers(config, base.path, base.temporary)
            slots.append(ViteSlot.start(workers, base, plan.wear, reports, on_ready))
        self._slots += slots
        return ViteLane.start(
            lane,
            tuple(slots),
            gauges.lane(lane, plan.size.slots),
            queue_size_max=plan.size.queue_size_max,
            wait_timeout_s=plan.size.wait_timeout_s,
        )

    async def stop(self) -> None:
        """The lanes first, so that nothing new reaches a slot; then the slots and their processes; then the folders."""
        lanes, self._lanes = list(self._lanes.values()), {}
        slots, self._slots = self._slots, []
        for actor in (*lanes, *slots):
            await stop(actor)
        if self._workspace is not None:
            await self._workspace.remove()
            self._workspace = None

    async def compile(
        self,
        task_id: str,
        source: ModuleSource,
        *,
        deadline_s: float = CHECK_DEADLINE_S,
        background: bool = False,
        contract: bool = False,
        uses_of: str | None = None,
    ) -> CompileResult:
        """One check compile; an output is kept when it succeeded. Raises `CompileUnavailable` (R9).

        `contract` and `uses_of`: see `CompileRequest`. Who is cancelled while it waits cancels the compile.
        """
        task = CompileTask(task_id, source, contract=contract, uses_of=uses_of)
        return self._result(await self._run("check", task, deadline_s, background=background))

    async def compile_preview(self, task_id: str, source: ModuleSource) -> Compiled:
        """One compile for a person who looks: in the background class, kept by who asked (P4).

        Raises `CompileUnavailable`.
        """
        return await self._run("check", CompileTask(task_id, source), PREVIEW_DEADLINE_S, background=True)

    async def light(self, task: LightTask, *, deadline_s: float | None = None) -> LightResult:
        """One task of a light tool (V9), within the tool's deadline or `deadline_s` if that is sooner.

        Raises `CompileUnavailable`. Who is cancelled while it waits cancels the task.
        """
        return await self._run("light", task, min(task.deadline_s, deadline_s or task.deadline_s))

    async def build(self, task: BuildTask[T], *, deadline_s: float = BUILD_DEADLINE_S) -> T:
        """One production build (B1), in a process of its own. Raises `CompileUnavailable`.

        Who is cancelled while it waits cancels the build.
        """
        return await self._run("build", task, deadline_s)

    async def _run(self, lane: Lane, task: SlotTask[T], deadline_s: float, *, background: bool = False) -> T:
        if lane not in self._lanes:
            raise WorkerLost("the Runtime is stopping")
        try:
            return await ask(self._lanes[lane], Enqueue(task, deadline_s, background))
        except pykka.ActorDeadError as error:
            raise WorkerLost("the Runtime stopped before it answered") from error
        except asyncio.CancelledError:
            self.cancel(task.task_id, lane)
            raise

    def cancel(self, task_id: str, lane: Lane = "check") -> None:
        actor = self._lanes.get(lane)
        if actor is not None and actor.is_alive():
            actor.tell(CancelTask(task_id))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _result(self, compiled: Compiled) -> CompileResult:
        timings = compiled.timings
        if compiled.errors:
            return CompileResult(ok=False, errors=compiled.errors, runtime_build=self.runtime_build, timings=timings)
        output = self.outputs.put(compiled.files)
        self._gauges.output_kept(output.size_bytes)
        kept = CompileOutput(
            output_id=output.output_id,
            navigation_url=f"{self.public_base_url}/outputs/{output.output_id}/",
            vendor_url=f"{self.public_base_url}/vendor/",
            size_bytes=output.size_bytes,
        )
        return CompileResult(
            ok=True,
            output=kept,
            runtime_build=self.runtime_build,
            timings=timings,
            contract=compiled.contract,
            uses=compiled.uses,
        )


@dataclass(frozen=True)
class _Plan:
    """How a lane's workers live."""

    size: LaneSize
    wear: Wear
    heap_mb: int


def _plans(options: RuntimeOptions) -> Mapping[Lane, _Plan]:
    """A check finds a warm worker; a light tool, one that was used lately; a build, none that anything used before."""
    wear = Wear(
        tasks_max=options.worker_tasks_max,
        age_s_max=options.worker_age_s_max,
        heap_share_max=options.worker_heap_share_max,
        reuse=options.worker_reuse,
        idle_s_max=options.worker_idle_s,
    )
    on_demand = replace(wear, on_demand=True, idle_s_max=_ON_DEMAND_IDLE_S)
    return {
        "check": _Plan(options.check, wear, options.worker_heap_mb),
        "build": _Plan(options.build, replace(on_demand, reuse=False), options.build_heap_mb),
        "light": _Plan(options.light, on_demand, options.worker_heap_mb),
    }


def _nothing() -> None:
    pass


def runtime_build(home: Path) -> str:
    """The name of this Runtime's base (A11): the same packages and the same compiler have the same name."""
    digest = hashlib.sha256()
    for file in [home / "package-lock.json", *sorted(home.glob("*.mjs")), *sorted(home.glob("kit/*"))]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"vite-{digest.hexdigest()[:16]}"
