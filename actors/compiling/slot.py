"""ViteSlot: one task at a time on a warm Node worker (V3, V4).

Owns the worker of its slot, the successor that warms up before the worker is worn out, and the slot's folder. Hears
`RunTask` (asked, answered when the task has really ended) and `CancelRunning`. Tells nobody anything.

Decides in `worn_by` and `wants_successor`, which are plain functions. Survives a lost worker: the task ends with an
infrastructure error (R9) and the next one gets a new worker. A task that outlives its deadline, or that was cancelled
and does not end by itself, is ended by killing the process group; the slot is free only after that (Q10).
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import structlog

from pagegate.actors.compiling.gauges import Ending, WorkerGauges
from pagegate.actors.compiling.tasks import SlotTask
from pagegate.actors.kernel import Actor, Asks, Backoff, ChildEnded, Reply, Timer
from pagegate.runtime.contract import CompileTimings
from pagegate.runtime.node_worker import NodeWorker, NodeWorkers, WorkerEnded
from pagegate.runtime.refusals import CompileCancelled, CompileUnavailable, WorkerLost
from pagegate.runtime.workspace import SlotBase

T = TypeVar("T")
log = structlog.get_logger()

_CANCEL_GRACE_S = 2.0  # a compile that is nearly done may end by itself; killing a warm worker costs more
_HEAP_SHARE_LAST = 0.9  # nearer to its limit a worker may die in the middle of a task
_WARM_UP_TASKS_AHEAD = 3  # a successor starts this many tasks before it is needed


@dataclass(frozen=True)
class Wear:
    """When a worker is replaced (V4). `reuse` False: one process per task. `idle_s_max`: an idle one is let go then.

    `on_demand`: none is started before the first task, or again after a loss.
    """

    tasks_max: int = 25
    age_s_max: float = 30 * 60.0
    heap_share_max: float = 0.75
    reuse: bool = True
    idle_s_max: float | None = None
    on_demand: bool = False


@dataclass(frozen=True)
class RunTask(Asks[T], Generic[T]):
    """Raises a `CompileUnavailable`. `deadline_at_s` is on the loop's clock and covers everything (V5)."""

    task: SlotTask[T]
    deadline_at_s: float


@dataclass(frozen=True)
class CancelRunning:
    task_id: str


@dataclass(frozen=True)
class _WorkerStarted:
    ended: ChildEnded[NodeWorker]


@dataclass(frozen=True)
class _TaskEnded:
    ended: ChildEnded[Any]


@dataclass(frozen=True)
class _StartWorker:
    pass


@dataclass(frozen=True)
class _LetIdleGo:
    pass


@dataclass
class _Running:
    asked: RunTask[Any]
    reply: Reply[Any]
    worker: asyncio.Future[NodeWorker] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    began: bool = False  # the worker has the task


def worn_by(wear: Wear, *, tasks_done: int, age_s: float, heap_share: float) -> Ending | None:
    """Why the worker must not get another task, or None when it may. Pure."""
    if not wear.reuse:
        return "one_shot" if tasks_done else None
    if heap_share >= wear.heap_share_max:
        return "heap"
    if tasks_done >= wear.tasks_max:
        return "tasks"
    return "age" if age_s >= wear.age_s_max else None


def may_stay(wear: Wear, *, tasks_done: int, age_s: float, heap_share: float) -> bool:  # noqa: ARG001 - one shape
    """True when a worn out worker may go on until its successor is warm: rotation makes nobody wait (V4). Pure.

    Not for ever: a successor that never comes must not hide that the worker is at its end.
    """
    return wear.reuse and tasks_done < 2 * wear.tasks_max and heap_share < max(_HEAP_SHARE_LAST, wear.heap_share_max)


def wants_successor(wear: Wear, *, tasks_done: int, age_s: float, heap_share: float) -> bool:
    """True when a successor should begin to warm up, which is shortly before the worker is worn out. Pure."""
    nearly = replace(
        wear,
        tasks_max=max(1, wear.tasks_max - _WARM_UP_TASKS_AHEAD),
        age_s_max=wear.age_s_max * 0.95,
        heap_share_max=wear.heap_share_max * 0.9,
    )
    return worn_by(nearly, tasks_done=tasks_done, age_s=age_s, heap_share=heap_share) is not None


class ViteSlot(Actor):
    """`on_ready` is called whenever a worker is ready."""

    def __init__(
        self, workers: NodeWorkers, base: SlotBase, wear: Wear, gauges: WorkerGauges, on_ready: Callable[[], None]
    ) -> None:
        super().__init__()
        self._workers, self._base, self._wear, self._on_ready = workers, base, wear, on_ready
        self._gauges = gauges
        self._worker: NodeWorker | None = None
        self._successor: NodeWorker | None = None
        self._starting = False
        self._start_failures = 0
        self._task: _Running | None = None
        self._idle: Timer | None = None
        self._aging: Timer | None = None
        self._rnd = random.Random()  # noqa: S311  jitter, not a secret

    async def setup(self) -> None:
        await self._workers.end_all()  # what an earlier life left running
        if not self._wear.on_demand:
            self._start_worker()

    async def teardown(self) -> None:
        await self._workers.end_all()

    async def on_receive(self, message: Any) -> Any:
        match message:
            case RunTask():
                await self._accept(message)
            case CancelRunning(task_id):
                if self._task is not None and self._task.asked.task.task_id == task_id:
                    self._task.cancelled.set()
            case _WorkerStarted(ended):
                await self._worker_started(ended)
            case _TaskEnded(ended):
                await self._task_ended(ended)
            case _StartWorker():
                self._start_worker()
            case _LetIdleGo():
                await self._let_idle_go()
            case _:
                return await super().on_receive(message)
        self._show()
        return None

    def _show(self) -> None:
        self._gauges.show(self._base.path, len(self._workers.pids))

    async def _end(self, worker: NodeWorker, reason: Ending) -> None:
        self._tell_end(worker, reason)
        await self._workers.end(worker)

    def _tell_end(self, worker: NodeWorker, reason: Ending) -> None:
        log.info(
            "runtime.worker.replaced",
            reason=reason,
            worker=worker.pid,
            tasks=worker.tasks_done,
            age_s=round(self.now_s() - worker.ready_at_s, 1),
            heap_share=round(worker.heap_share, 2),
        )
        self._gauges.ended(reason)

    def _wear_now(self, worker: NodeWorker) -> dict[str, Any]:
        age_s = self.now_s() - worker.ready_at_s
        return {"tasks_done": worker.tasks_done, "age_s": age_s, "heap_share": worker.heap_share}

    def _reason(self, worker: NodeWorker) -> Ending:
        return (worn_by(self._wear, **self._wear_now(worker)) if worker.alive else None) or "lost"

    # -- workers --------------------------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        if not self._starting and self._successor is None:
            self._starting = True
            # One that will do a single task, or that somebody waits for, need not be as warm as it can get.
            in_haste = not self._wear.reuse or not self._has_living_worker()
            self.spawn(self._workers.start(in_haste=in_haste), then=_WorkerStarted)

    def _has_living_worker(self) -> bool:
        return self._worker is not None and self._worker.alive

    async def _worker_started(self, ended: ChildEnded[NodeWorker]) -> None:
        self._starting = False
        if ended.error is not None:
            self._worker_failed_to_start(ended.error)
            return
        self._start_failures = 0
        self._successor = ended.result()
        self._on_ready()
        await self._hand_over()
        if self._task is None:
            await self._promote()
            self._watch_idle()

    def _worker_failed_to_start(self, error: BaseException) -> None:
        self._start_failures += 1
        log.error("runtime.worker.start_failed", failures=self._start_failures, reason=str(error))
        if self._task is not None and not self._task.worker.done() and not self._has_living_worker():
            self._task.worker.set_exception(WorkerLost("no compiler could be started"))
            self._task.worker.exception()  # the task may have ended already and never look at it
        self.after(Backoff().delay_s(self._start_failures, self._rnd), _StartWorker())

    async def _hand_over(self) -> None:
        """Give the task in hand a worker, if there is one that may take it; otherwise see that there will be."""
        if self._task is None or self._task.worker.done():
            return
        await self._promote()
        if self._worker is not None and self._may_take_a_task(self._worker):
            self._task.worker.set_result(self._worker)
            return
        self._start_worker()
        if self._worker is not None and self._worker.alive and may_stay(self._wear, **self._wear_now(self._worker)):
            self._task.worker.set_result(self._worker)

    async def _promote(self) -> None:
        """The warm successor takes the place of a worker that is worn out or gone."""
        if self._successor is None:
            return
        if self._worker is not None:
            if self._may_take_a_task(self._worker):
                return
            self._tell_end(self._worker, self._reason(self._worker))
            self.spawn(self._workers.end(self._worker))  # the next task need not wait for its funeral
        self._worker, self._successor = self._successor, None
        self._watch_age()

    def _may_take_a_task(self, worker: NodeWorker) -> bool:
        return worker.alive and worn_by(self._wear, **self._wear_now(worker)) is None

    async def _let_idle_go(self) -> None:
        if self._task is not None:
            return
        for worker in filter(None, (self._worker, self._successor)):
            await self._end(worker, "idle" if worker.alive else "lost")
        self._worker = self._successor = None
        if self._aging is not None:
            self._aging.cancel()

    def _watch_age(self) -> None:
        """An idle worker grows old too; its successor must be warm before somebody asks."""
        if self._aging is not None:
            self._aging.cancel()
        if not self._wear.on_demand:
            self._aging = self.after(self._wear.age_s_max, _StartWorker())

    def _watch_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._wear.idle_s_max is not None and self._task is None:
            self._idle = self.after(self._wear.idle_s_max, _LetIdleGo())

    # -- the task -------------------------------------------------------------------------------------------------

    async def _accept(self, asked: RunTask[Any]) -> None:
        if self._task is not None:
            # A lane gives one task at a time; one that crashed and came back does not know what it gave before.
            raise WorkerLost("the slot is busy with an earlier task")
        self._task = _Running(asked, self.defer_reply())
        self._watch_idle()
        self.spawn(self._run(self._task), then=_TaskEnded)
        await self._hand_over()

    async def _task_ended(self, ended: ChildEnded[Any]) -> None:
        task, self._task = self._task, None
        assert task is not None
        if ended.error is not None and task.began:
            # Whatever ended the task, the worker may still be at it: only its death frees the slot (Q10).
            await self._end(task.worker.result(), _ending_of(ended.error))
            self._worker = None
        if ended.error is None:
            task.reply.give(ended.result())
        else:
            task.reply.fail(_as_refusal(ended.error, task.asked.task.task_id))
        await self._promote()
        await self._look_ahead()
        self._watch_idle()

    async def _look_ahead(self) -> None:
        """After a task: warm up what the next one will need."""
        if self._worker is None:
            if not self._wear.on_demand:
                self._start_worker()
        elif self._wear.on_demand and not self._may_take_a_task(self._worker):
            await self._end(self._worker, self._reason(self._worker))  # nobody needs it, and it holds its whole heap
            self._worker = None
        elif wants_successor(self._wear, **self._wear_now(self._worker)):
            self._start_worker()

    async def _run(self, running: _Running) -> Any:
        """Fetch, write, work; a cancel or the deadline ends it at any point."""
        work = asyncio.create_task(self._work(running))
        cancelled = asyncio.create_task(running.cancelled.wait())
        try:
            async with asyncio.timeout_at(running.asked.deadline_at_s):
                await asyncio.wait({work, cancelled}, return_when=asyncio.FIRST_COMPLETED)
                if running.began:
                    await asyncio.wait({work}, timeout=_CANCEL_GRACE_S)
            if not work.done():
                raise CompileCancelled("the task was cancelled")
            return work.result()
        except TimeoutError as error:
            raise running.asked.task.timed_out("the task did not end within its deadline") from error
        finally:
            for child in (work, cancelled):
                child.cancel()
            await asyncio.gather(work, cancelled, return_exceptions=True)

    async def _work(self, running: _Running) -> Any:
        task = running.asked.task
        say = log.bind(task_id=task.task_id)
        clock = _Laps()
        await task.fetch()
        fetch_ms = clock.lap_ms()
        worker = await running.worker
        clock.lap_ms()  # a wait for a warm worker is no work
        async with self._base.task() as folder:
            order = await task.order(folder)
            say.info(task.events.placed, ms=clock.lap_ms())
            running.began = True
            answer = await worker.run({"id": task.task_id, **order})
            await task.collect(folder, answer)
        compile_ms = clock.lap_ms()
        say.info(task.events.worked, ms=compile_ms, errors=len(answer.errors), worker=worker.pid, **answer.timings)
        return task.result(answer, CompileTimings(fetch_ms=fetch_ms, compile_ms=compile_ms))


class _Laps:
    """Milliseconds from one call to the next."""

    def __init__(self) -> None:
        self._since_s = time.perf_counter()

    def lap_ms(self) -> float:
        before_s, self._since_s = self._since_s, time.perf_counter()
        return round((self._since_s - before_s) * 1000, 1)


def _ending_of(error: BaseException) -> Ending:
    if isinstance(error, WorkerEnded):
        return "lost"
    if isinstance(error, CompileCancelled):
        return "cancelled"
    return "timeout" if isinstance(error, CompileUnavailable) else "failed"


def _as_refusal(error: BaseException, task_id: str) -> BaseException:
    """A lost worker says nothing about the page (R9), even when it is lost again with it: a machine without memory left
    kills workers too, and what of a source is known to end them is refused before they see it.
    """
    if isinstance(error, WorkerEnded):
        log.warning("runtime.worker.lost", task_id=task_id, reason=str(error))
        return WorkerLost("the compiler process ended before it answered")
    return error
