"""Real slots with real Node workers: what a task may do to them, and what the next task sees of it (V3-V5, R9, Q10)."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from pagegate.actors.compiling.tasks import BuildTask, Compiled, CompileTask, LightTask
from pagegate.actors.systems.runtime import LaneSize, RuntimeOptions, RuntimeSystem
from pagegate.runtime.contract import ArtifactManifest, Canvas, EntryPage
from pagegate.runtime.node_worker import _environment, find_node, runtime_home
from pagegate.runtime.refusals import (
    CompileCancelled,
    CompileTimedOut,
    LightFileTooLarge,
    LightTimedOut,
    SourceUnavailable,
    ViteQueueFull,
    ViteQueueTimeout,
    WorkerLost,
)
from pagegate.runtime.sandbox import find_bubblewrap
from pagegate.runtime.sources import MemoryModuleSource

from .conftest import vue

CLASSES = ("interactive", "background")


def page(source: str | None = None) -> MemoryModuleSource:
    return MemoryModuleSource(manifest_of("pages/page.vue"), {"pages/page.vue": vue() if source is None else source})


def manifest_of(*modules: str) -> ArtifactManifest:
    return ArtifactManifest(
        artifact_id="a",
        entry=modules[0],
        framework="vue",
        modules=list(modules),
        entry_page=EntryPage(code="page", title="A page"),
        canvas=Canvas(width_px=1280, height_px=720),
    )


async def is_gone(process: psutil.Process) -> None:
    """A process that was killed ends when the kernel gets round to it."""
    _, alive = await asyncio.to_thread(psutil.wait_procs, [process], 10)
    assert alive == []


class HeldSource:
    """A source that is not given before `release` is set; `asked` tells that a slot waits for it."""

    def __init__(self) -> None:
        self.asked, self.release = asyncio.Event(), asyncio.Event()
        self._page = page()

    async def manifest(self) -> ArtifactManifest:
        self.asked.set()
        await self.release.wait()
        return await self._page.manifest()

    async def read_modules(self, paths: Sequence[str]) -> Mapping[str, str]:
        return await self._page.read_modules(paths)


class Built(CompileTask, BuildTask[Compiled]):
    """Stands for a build: what a build lane does with its worker is the same whatever it is asked."""


@asynccontextmanager
async def runtime(tmp_path: Path, **options: object) -> AsyncIterator[RuntimeSystem]:
    async with RuntimeSystem(RuntimeOptions(work_dir=tmp_path, **options)) as system:  # type: ignore[arg-type]
        await system.ready.wait()
        yield system
    assert folders(tmp_path) == [], "the folders of the process are gone with it"
    assert workers() == []


def workers() -> list[int]:
    """The Node processes of this test's slots, oldest first."""
    mine = [p for p in psutil.Process().children(recursive=True) if is_worker(p)]
    return [p.pid for p in sorted(mine, key=lambda p: p.create_time())]


def is_worker(process: psutil.Process) -> bool:
    try:
        return process.name() == "node" and "--expose-gc" in process.cmdline()
    except psutil.Error:
        return False


def workers_in(logs: list[EventDict]) -> list[int]:
    """Which process compiled, task by task."""
    return [entry["worker"] for entry in logs if entry["event"] == "diagnostics.vite.finished"]


def folders_seen_by(process: psutil.Process) -> set[str]:
    return {entry.name for entry in Path(f"/proc/{process.pid}/root").iterdir()}


def machine_folders(*also: Path) -> set[str]:
    """The first parts of the places that the worker is given."""
    return {path.resolve().parts[1] for path in (*also, runtime_home(), find_node())}


def sees(process: psutil.Process, path: str) -> bool:
    return Path(f"/proc/{process.pid}/root{path}").exists()


def interfaces_of(process: psutil.Process) -> list[str]:
    lines = Path(f"/proc/{process.pid}/net/dev").read_text().splitlines()[2:]
    return [line.split(":")[0].strip() for line in lines]


def folders(path: Path) -> list[Path]:
    return list(path.iterdir())


def task_folders(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("*/slot-*/.runtime-task/*"))


async def test_output_is_kept_and_the_task_folder_is_not(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        result = await system.compile("t1", page())
        assert result.ok
        assert result.output is not None
        kept = system.outputs.find(result.output.output_id)
        assert kept is not None
        assert sorted(kept.files) == ["index.html", "page.css", "page.js", "page.js.map"]
        assert result.output.size_bytes == sum(map(len, kept.files.values()))
        assert result.runtime_build == system.runtime_build
        assert result.timings.compile_ms > 0
        assert task_folders(tmp_path) == []


async def test_refused_source_is_a_result_and_leaves_no_output_and_no_folder(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        result = await system.compile("t1", page("<template><p></template>"))
        assert (result.ok, result.output) == (False, None)
        assert [e.code for e in result.errors] == ["PAGE_TEMPLATE_SYNTAX"]
        assert system.outputs.size_bytes == 0
        assert task_folders(tmp_path) == []


async def test_worker_is_replaced_after_its_tasks_and_nobody_waits_for_the_new_one(tmp_path: Path) -> None:
    """V4. A worker stays a little longer than its tasks when its successor is not warm yet."""
    async with runtime(tmp_path, worker_tasks_max=4) as system:
        with capture_logs() as logs:
            while len(set(workers_in(logs))) < 3:
                assert (await system.compile(f"t{len(logs)}", page())).ok
                assert len(workers()) <= 2, "the one in use and its successor"
        turns = [len(list(tasks)) for _, tasks in groupby(workers_in(logs))]
        assert len(turns) == 3
        assert all(4 <= tasks <= 8 for tasks in turns[:-1])
        assert endings(system) == {"tasks": 2}


async def test_without_reuse_every_task_has_a_process_of_its_own(tmp_path: Path) -> None:
    async with runtime(tmp_path, worker_reuse=False) as system:
        with capture_logs() as logs:
            for number in range(3):
                assert (await system.compile(f"t{number}", page())).ok
        assert len(set(workers_in(logs))) == 3
        assert set(endings(system)) == {"one_shot"}


async def test_stuck_worker_is_killed_at_the_deadline_and_the_next_task_gets_another(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        (stuck,) = workers()
        process = psutil.Process(stuck)
        os.kill(stuck, signal.SIGSTOP)
        with pytest.raises(CompileTimedOut):
            await system.compile("t1", page(), deadline_s=0.3)
        await is_gone(process)
        assert endings(system) == {"timeout": 1}
        assert task_folders(tmp_path) == []
        assert (await system.compile("t2", page())).ok


async def test_killed_worker_is_infrastructure_and_the_next_task_gets_another(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        (worker,) = workers()
        os.kill(worker, signal.SIGSTOP)
        compiling = asyncio.create_task(system.compile("t1", page()))
        while not task_folders(tmp_path):
            await asyncio.sleep(0)
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(WorkerLost):
            await compiling
        assert task_folders(tmp_path) == []
        assert endings(system) == {"lost": 1}
        assert (await system.compile("t2", page())).ok


async def test_worker_whose_heap_is_full_is_replaced(tmp_path: Path) -> None:
    """V4. The limit is so low that every worker is worn out by its first task."""
    async with runtime(tmp_path, worker_heap_share_max=0.01) as system:
        with capture_logs() as logs:
            while len(set(workers_in(logs))) < 2:
                assert (await system.compile(f"t{len(logs)}", page())).ok
        assert set(endings(system)) == {"heap"}


async def test_worker_that_grew_old_is_replaced_while_nobody_asks(tmp_path: Path) -> None:
    """V4: who comes after a quiet time finds a warm worker, not an old one and a start to wait for."""
    async with runtime(tmp_path, worker_age_s_max=0.2) as system:
        (old,) = workers()
        while endings(system) == {}:
            await asyncio.sleep(0.01)
        assert old not in workers()
        assert set(endings(system)) == {"age"}
        assert (await system.compile("t1", page())).ok


async def test_successor_that_is_killed_while_it_warms_up_delays_nothing_but_itself(tmp_path: Path) -> None:
    async with runtime(tmp_path, worker_tasks_max=2) as system:
        (first,) = workers()
        assert (await system.compile("t1", page())).ok
        while len(workers()) < 2:
            await asyncio.sleep(0.01)
        (successor,) = set(workers()) - {first}
        os.kill(successor, signal.SIGKILL)
        for number in range(2, 5):
            assert (await system.compile(f"t{number}", page())).ok
        assert successor not in workers()


@pytest.mark.parametrize("phase", ["queue", "fetch", "worker", "vite"])
async def test_deadline_ends_a_task_in_every_phase_and_the_next_one_works(tmp_path: Path, phase: str) -> None:
    """V5: one deadline from the arrival on, over all of it."""
    async with runtime(tmp_path) as system:
        before = asyncio.create_task(asyncio.sleep(0))
        source = page()
        held = HeldSource()
        if phase == "queue":
            before = asyncio.create_task(system.compile("t0", held))  # type: ignore[arg-type]
            await held.asked.wait()
        elif phase == "fetch":
            source = held  # type: ignore[assignment]
        elif phase == "worker":
            (worker,) = workers()
            os.kill(worker, signal.SIGKILL)
            while psutil.pid_exists(worker):
                await asyncio.sleep(0.01)
        else:
            os.kill(workers()[0], signal.SIGSTOP)
        with pytest.raises(ViteQueueTimeout if phase == "queue" else CompileTimedOut):
            await system.compile("t1", source, deadline_s=0.1)
        held.release.set()
        await before
        assert (await system.compile("t2", page())).ok
        assert task_folders(tmp_path) == []
        assert sample(system, "pagegate_vite_running") == 0


async def test_slot_that_crashes_leaves_no_process_and_works_again(tmp_path: Path) -> None:
    """Also in the middle of a rotation: its worker, the successor and the task's folder are gone with it."""
    async with runtime(tmp_path, worker_tasks_max=2) as system:
        assert (await system.compile("t1", page())).ok
        while len(workers()) < 2:
            await asyncio.sleep(0.01)
        old = [psutil.Process(pid) for pid in workers()]
        slot = system._slots[0]
        slot.tell(None)  # nobody understands it, and a told message that fails is a crash
        assert (await system.compile("t2", page())).ok
        for process in old:
            await is_gone(process)
        assert task_folders(tmp_path) == []


async def test_numbers_tell_what_waits_how_long_and_in_which_class(tmp_path: Path) -> None:
    """O2."""
    async with runtime(tmp_path) as system:
        held = HeldSource()
        first = asyncio.create_task(system.compile("t1", held))
        await held.asked.wait()
        second = asyncio.create_task(system.compile("t2", page(), background=True))
        of = system.registry.get_sample_value
        while of("pagegate_vite_queue_depth", {"lane": "check", "class": "background"}) != 1:
            await asyncio.sleep(0)
        while not of("pagegate_vite_queue_oldest_seconds", {"lane": "check"}):
            await asyncio.sleep(0)
        assert of("pagegate_vite_running", {"lane": "check", "class": "interactive"}) == 1
        held.release.set()
        await asyncio.gather(first, second)
        assert of("pagegate_vite_queue_oldest_seconds", {"lane": "check"}) == 0
        assert of("pagegate_vite_wait_seconds_count", {"lane": "check", "class": "background"}) == 1
        assert of("pagegate_runtime_output_bytes") == system.outputs.size_bytes
        assert of("pagegate_vite_workers", {"lane": "check"}) == 1
        assert of("pagegate_vite_slots", {"lane": "build"}) == 1


async def test_worker_killed_while_idle_costs_no_task(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        (worker,) = workers()
        os.kill(worker, signal.SIGKILL)
        while psutil.pid_exists(worker):  # reaped, so it was noticed
            await asyncio.sleep(0.01)
        assert (await system.compile("t1", page())).ok


async def test_idle_worker_is_let_go_and_the_next_compile_starts_one(tmp_path: Path) -> None:
    async with runtime(tmp_path, worker_idle_s=0.05) as system:
        (worker,) = workers()
        process = psutil.Process(worker)
        while psutil.pid_exists(worker) and process.status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.01)
        assert (await system.compile("t1", page())).ok


async def test_cancelled_compile_ends_and_frees_its_slot(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        (worker,) = workers()
        process = psutil.Process(worker)
        os.kill(worker, signal.SIGSTOP)  # it cannot end by itself
        compiling = asyncio.create_task(system.compile("t1", page()))
        while not task_folders(tmp_path):
            await asyncio.sleep(0)
        waiting = asyncio.create_task(system.compile("t2", page()))
        system.cancel("t1")
        with pytest.raises(CompileCancelled):
            await compiling
        await is_gone(process)
        assert (await waiting).ok


async def test_cancel_while_it_waits_takes_it_out_of_the_queue(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        held = HeldSource()
        first = asyncio.create_task(system.compile("t1", held))
        await held.asked.wait()
        second = asyncio.create_task(system.compile("t2", page()))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        held.release.set()
        assert (await first).ok
        assert sample(system, "pagegate_vite_queue_depth") == 0


async def test_full_queue_and_long_wait_are_refused_as_infrastructure(tmp_path: Path) -> None:
    async with runtime(tmp_path, check=LaneSize(queue_size_max=1, wait_timeout_s=0.2)) as system:
        held = HeldSource()
        first = asyncio.create_task(system.compile("t1", held))
        await held.asked.wait()
        second = asyncio.create_task(system.compile("t2", page()))
        while sample(system, "pagegate_vite_queue_depth") == 0:
            await asyncio.sleep(0)
        with pytest.raises(ViteQueueFull):
            await system.compile("t3", page())
        with pytest.raises(ViteQueueTimeout):
            await second
        held.release.set()
        assert (await first).ok


async def test_caller_that_goes_away_frees_no_slot_before_the_task_has_ended(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        held = HeldSource()
        first = asyncio.create_task(system.compile("t1", held))
        await held.asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert sample(system, "pagegate_vite_running") == 1
        held.release.set()
        assert (await system.compile("t2", page())).ok
        assert sample(system, "pagegate_vite_running") == 0


async def test_module_that_the_artifact_lists_and_does_not_hold_is_infrastructure(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        source = MemoryModuleSource(manifest_of("pages/page.vue", "components/A.vue"), {"pages/page.vue": vue()})
        with pytest.raises(SourceUnavailable):
            await system.compile("t1", source)
        assert (await system.compile("t2", page())).ok


async def test_checks_come_three_to_one_before_background_work(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        held, order = HeldSource(), []
        first = asyncio.create_task(system.compile("first", held))
        await held.asked.wait()

        async def compile_one(name: str, *, background: bool) -> None:
            await system.compile(name, page(), background=background)
            order.append(name)

        waiting = [asyncio.create_task(compile_one(f"b{n}", background=True)) for n in range(2)]
        await asyncio.sleep(0)
        waiting += [asyncio.create_task(compile_one(f"c{n}", background=False)) for n in range(5)]
        while sample(system, "pagegate_vite_queue_depth") < 7:
            await asyncio.sleep(0)
        held.release.set()
        await asyncio.gather(first, *waiting)
        assert order == ["c0", "c1", "b0", "c2", "c3", "c4", "b1"]


async def test_long_check_does_not_delay_a_light_tool(tmp_path: Path) -> None:
    """V2: the check is stalled on a read of its modules, in the only slot of its lane, and another waits behind it."""
    async with runtime(tmp_path) as system:
        held = HeldSource()
        check = asyncio.create_task(system.compile("t1", held))
        await held.asked.wait()
        waiting = asyncio.create_task(system.compile("t2", page()))
        answer = await system.light(LightTask("l1", "asset-ratio", {}))
        assert answer.timings.wait_ms < answer.timings.compile_ms
        assert not check.done()
        assert not waiting.done()
        held.release.set()
        assert (await check).ok
        assert (await waiting).ok


async def test_workers_of_light_tools_and_builds_start_on_demand_and_leave_when_nobody_needs_them(
    tmp_path: Path,
) -> None:
    async with runtime(tmp_path) as system:
        (checker,) = workers()
        await system.light(LightTask("l1", "asset-ratio", {}))
        first, light = workers()
        assert first == checker
        await system.light(LightTask("l2", "asset-ratio", {}))
        assert workers() == [checker, light], "it is kept for the next one"
        assert (await system.build(Built("b1", page()))).files
        assert workers() == [checker, light], "a build's process ends with it"


async def test_build_has_a_heap_of_its_own_and_delays_no_check(tmp_path: Path) -> None:
    async with runtime(tmp_path, build_heap_mb=1024, worker_heap_mb=256) as system:
        held = HeldSource()
        building = asyncio.create_task(system.build(Built("b1", held)))
        await held.asked.wait()
        while len(workers()) < 2:
            await asyncio.sleep(0.01)
        heaps = [next(a for a in psutil.Process(pid).cmdline() if "old-space" in a) for pid in workers()]
        assert heaps == ["--max-old-space-size=256", "--max-old-space-size=1024"]
        assert (await system.compile("t1", page())).ok
        assert not building.done()
        held.release.set()
        assert (await building).files


async def test_file_of_a_light_tool_lies_in_its_task_folder_and_is_bounded(tmp_path: Path) -> None:
    seen = []

    async def chunks(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            seen.extend(folder.name for folder in task_folders(tmp_path))
            yield bytes(1000)

    async with runtime(tmp_path) as system:
        await system.light(LightTask("l1", "asset-ratio", {}, chunks(3), file_bytes_max=3000))
        assert len(set(seen)) == 1
        with pytest.raises(LightFileTooLarge):
            await system.light(LightTask("l2", "asset-ratio", {}, chunks(4), file_bytes_max=3000))
        assert task_folders(tmp_path) == []


async def test_full_light_lane_refuses_and_says_so_while_checks_go_on(tmp_path: Path) -> None:
    never: asyncio.Event = asyncio.Event()
    begun: asyncio.Event = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        begun.set()
        await never.wait()
        yield b""

    async with runtime(tmp_path, light=LaneSize(queue_size_max=1, wait_timeout_s=0.2)) as system:
        first = asyncio.create_task(system.light(LightTask("l1", "asset-ratio", {}, stalled()), deadline_s=3))
        await begun.wait()
        second = asyncio.create_task(system.light(LightTask("l2", "asset-ratio", {})))
        while sample(system, "pagegate_vite_queue_depth", "light") == 0:
            await asyncio.sleep(0)
        with pytest.raises(ViteQueueFull):
            await system.light(LightTask("l3", "asset-ratio", {}))
        with pytest.raises(ViteQueueTimeout):
            await second
        assert (await system.compile("t1", page())).ok
        with pytest.raises(LightTimedOut):
            await first


async def test_stopping_ends_a_running_compile_and_every_process(tmp_path: Path) -> None:
    async with runtime(tmp_path) as system:
        os.kill(workers()[0], signal.SIGSTOP)
        compiling = asyncio.create_task(system.compile("t1", page()))
        while not task_folders(tmp_path):
            await asyncio.sleep(0)
        await system.stop()
        with pytest.raises(WorkerLost):
            await compiling


async def test_worker_sees_no_environment_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 45."""
    monkeypatch.setenv("PAGEGATE_CANARY", "secret-of-the-operator")
    async with runtime(tmp_path):
        environment = psutil.Process(workers()[0]).environ()
        assert environment["NODE_ENV"] == "development"
        assert set(environment) <= {*_environment(tmp_path), "PWD"}


@pytest.mark.skipif(find_bubblewrap() is None, reason="this host allows no namespaces: the allow-list stands alone")
async def test_worker_sees_only_programs_packages_and_its_own_folder(tmp_path: Path) -> None:
    """X2, the second wall."""
    async with runtime(tmp_path):
        process = psutil.Process(workers()[0])
        assert folders_seen_by(process) <= {
            "usr",
            "bin",
            "lib",
            "lib32",
            "lib64",
            "proc",
            "dev",
            *machine_folders(tmp_path),
        }
        assert not sees(process, "/etc/passwd")
        assert not sees(process, str(Path(__file__)))
        assert sees(process, str(runtime_home() / "worker.mjs"))
        assert interfaces_of(process) == ["lo"]


async def test_without_bubblewrap_the_worker_works_too(tmp_path: Path) -> None:
    async with runtime(tmp_path, worker_sandbox=False) as system:
        assert (await system.compile("t1", page())).ok
        assert sees(psutil.Process(workers()[0]), "/etc/passwd")  # so the test above can fail


async def test_worker_dies_with_a_runtime_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import asyncio; from pathlib import Path\n"
        "from pagegate.actors.systems.runtime import *\n"
        "async def main():\n"
        f"    async with RuntimeSystem(RuntimeOptions(work_dir=Path({str(tmp_path)!r}))) as system:\n"
        "        await system.ready.wait(); print('ready', flush=True); await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    while b"ready" not in (line := await process.stdout.readline()):
        assert line, "the Runtime did not start"
    (child,) = [p for p in psutil.Process(process.pid).children(recursive=True) if is_worker(p)]
    child.suspend()  # it cannot notice by itself
    process.kill()
    await process.wait()
    await asyncio.to_thread(child.wait, 10)
    # What it left on disk is removed by the next one.
    async with runtime(tmp_path):
        assert len(folders(tmp_path)) == 1


def endings(system: RuntimeSystem, lane: str = "check") -> dict[str, float]:
    """Workers let go, by reason."""
    return {
        sample.labels["reason"]: sample.value
        for metric in system.registry.collect()
        for sample in metric.samples
        if sample.name == "pagegate_vite_worker_endings_total" and sample.labels["lane"] == lane
    }


def sample(system: RuntimeSystem, name: str, lane: str = "check") -> float:
    """Of both classes together."""
    values = [system.registry.get_sample_value(name, {"lane": lane, "class": klass}) for klass in CLASSES]
    assert None not in values
    return sum(filter(None, values))
