"""ViteLane: who is next in one lane, and who must wait or go away (V1).

Owns the waiting room of its lane and which of its slots are busy. Hears `Enqueue` (asked: the task's result) and
`CancelTask`. Tells its slots what to run; what they answer comes back as a message. Refuses when the room is full or
the wait was too long: both are infrastructure (R9) and count in no retry budget (Q2).

Checks come before background work, three to one. Survives nothing: who waited asks again. A caller that goes away frees
no slot; the slot is free when its task has really ended (Q10).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import pykka
import structlog

from pagegate.actors.compiling.gauges import LaneGauges
from pagegate.actors.compiling.slot import CancelRunning, RunTask
from pagegate.actors.compiling.tasks import SlotTask
from pagegate.actors.kernel import Actor, Asks, ChildEnded, Reply, Timer, ask
from pagegate.actors.queues.rotation import Class, Head, Rotation, pick
from pagegate.runtime.contract import Lane
from pagegate.runtime.refusals import CompileCancelled, CompileUnavailable, ViteQueueFull, ViteQueueTimeout

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True)
class Enqueue(Asks[T], Generic[T]):
    """Raises a `CompileUnavailable`. `deadline_s` counts from the arrival and covers waiting too (V5)."""

    task: SlotTask[T]
    deadline_s: float
    background: bool = False


@dataclass(frozen=True)
class CancelTask:
    """Nobody waits for this task any more."""

    task_id: str


@dataclass(frozen=True)
class LaneState:
    """`waiting` in order of arrival, `busy` slot by task."""

    size_max: int
    slots: int
    waiting: tuple[Head, ...] = ()
    rotation: Rotation = field(default_factory=Rotation)
    free: tuple[int, ...] = ()

    @classmethod
    def empty(cls, *, size_max: int, slots: int) -> "LaneState":
        return cls(size_max=size_max, slots=slots, free=tuple(range(slots)))


def arrived(state: LaneState, entry_id: int, *, background: bool) -> LaneState | None:
    """The lane with one more that waits; None when it is full. Who can start at once waits for nobody. Pure."""
    if len(state.waiting) >= state.size_max and not state.free:
        return None
    head = Head("background" if background else "interactive", 0, entry_id)
    return replace(state, waiting=(*state.waiting, head))


def left(state: LaneState, entry_id: int) -> LaneState:
    """The lane without one that waited. Pure."""
    return replace(state, waiting=tuple(head for head in state.waiting if head.entry_id != entry_id))


def next_start(state: LaneState) -> tuple[LaneState, int, int] | None:
    """`(lane, entry, slot)` of the next task to start, or None. Pure."""
    if not state.free:
        return None
    head, rotation = pick(state.rotation, state.waiting)
    if head is None:
        return None
    slot, *free = state.free
    return replace(left(state, head.entry_id), rotation=rotation, free=tuple(free)), head.entry_id, slot


def freed(state: LaneState, slot: int) -> LaneState:
    """Pure."""
    assert slot not in state.free
    return replace(state, free=(*state.free, slot))


@dataclass(frozen=True)
class _WaitedTooLong:
    entry_id: int


@dataclass(frozen=True)
class _SlotAnswered:
    entry_id: int
    ended: ChildEnded[Any]


@dataclass
class _Entry:
    asked: Enqueue[Any]
    reply: Reply[Any]
    arrived_at_s: float
    timer: Timer
    slot: int | None = None
    started_at_s: float = 0.0


class ViteLane(Actor):
    """`queue_size_max` counts those that wait; `wait_timeout_s` is the longest wait for a slot."""

    def __init__(
        self,
        name: Lane,
        slots: Sequence[pykka.ActorRef[Any]],
        gauges: LaneGauges,
        *,
        queue_size_max: int,
        wait_timeout_s: float,
    ) -> None:
        super().__init__()
        self._name, self._slots, self._gauges = name, slots, gauges
        self._wait_timeout_s = wait_timeout_s
        self._state = LaneState.empty(size_max=queue_size_max, slots=len(slots))
        self._entries: dict[int, _Entry] = {}
        self._last_entry_id = 0
        gauges.watch_oldest(self._oldest_s)

    async def on_receive(self, message: Any) -> Any:
        match message:
            case Enqueue():
                self._arrive(message)
            case CancelTask(task_id):
                self._cancel(task_id)
            case _WaitedTooLong(entry_id):
                self._give_up(entry_id, ViteQueueTimeout(f"no slot became free within {self._wait_timeout_s:g} s"))
            case _SlotAnswered(entry_id, ended):
                self._answer(entry_id, ended)
            case _:
                return await super().on_receive(message)
        self._start_what_can_start()
        self._show()

    def _arrive(self, asked: Enqueue[Any]) -> None:
        self._last_entry_id += 1
        entry_id = self._last_entry_id
        state = arrived(self._state, entry_id, background=asked.background)
        if state is None:
            self._gauges.refused(class_of(asked), ViteQueueFull.code)
            raise ViteQueueFull(f"{self._state.size_max} tasks wait already")
        self._state = state
        timer = self.after(min(self._wait_timeout_s, asked.deadline_s), _WaitedTooLong(entry_id))
        self._entries[entry_id] = _Entry(asked, self.defer_reply(), self.now_s(), timer)

    def _start_what_can_start(self) -> None:
        while (start := next_start(self._state)) is not None:
            self._state, entry_id, slot = start
            entry = self._entries[entry_id]
            entry.timer.cancel()
            entry.slot, entry.started_at_s = slot, self.now_s()
            run = RunTask(entry.asked.task, entry.arrived_at_s + entry.asked.deadline_s)
            self.spawn(ask(self._slots[slot], run), then=_answer_of(entry_id))

    def _answer(self, entry_id: int, ended: ChildEnded[Any]) -> None:
        entry = self._entries.pop(entry_id)
        assert entry.slot is not None
        self._state = freed(self._state, entry.slot)
        wait_s, run_s = entry.started_at_s - entry.arrived_at_s, self.now_s() - entry.started_at_s
        task, outcome = entry.asked.task, _outcome(entry.asked.task, ended)
        self._gauges.ended(class_of(entry.asked), outcome, wait_s=wait_s, run_s=run_s)
        log.info(
            task.events.finished,
            lane=self._name,
            klass=class_of(entry.asked),
            task_id=task.task_id,
            outcome=outcome,
            wait_ms=round(wait_s * 1000, 1),
            ms=round(run_s * 1000, 1),
        )
        if ended.error is not None:
            entry.reply.fail(ended.error)
        else:
            entry.reply.give(task.waited(ended.result(), round(wait_s * 1000, 1)))

    def _show(self) -> None:
        waiting = Counter(class_of(entry.asked) for entry in self._entries.values() if entry.slot is None)
        running = Counter(class_of(entry.asked) for entry in self._entries.values() if entry.slot is not None)
        self._gauges.show(waiting, running)

    def _oldest_s(self) -> float:
        """For whoever reads the numbers: how long the oldest has waited by now."""
        waiting = [entry.arrived_at_s for entry in self._entries.values() if entry.slot is None]
        return self.now_s() - min(waiting) if waiting else 0.0

    def _cancel(self, task_id: str) -> None:
        for entry_id, entry in list(self._entries.items()):
            if entry.asked.task.task_id != task_id:
                continue
            if entry.slot is None:
                self._give_up(entry_id, CompileCancelled("the task was cancelled while it waited"))
            else:
                self._slots[entry.slot].tell(CancelRunning(task_id))

    def _give_up(self, entry_id: int, why: CompileUnavailable) -> None:
        entry = self._entries.get(entry_id)
        if entry is None or entry.slot is not None:
            return  # it started, or ended, in the meantime
        del self._entries[entry_id]
        entry.timer.cancel()
        self._state = left(self._state, entry_id)
        self._gauges.refused(class_of(entry.asked), why.code)
        entry.reply.fail(why)


def class_of(asked: Enqueue[Any]) -> Class:
    return "background" if asked.background else "interactive"


def _answer_of(entry_id: int) -> Any:
    return lambda ended: _SlotAnswered(entry_id, ended)


def _outcome(task: SlotTask[Any], ended: ChildEnded[Any]) -> str:
    if ended.error is None:
        return task.outcome(ended.result())
    return ended.error.code if isinstance(ended.error, CompileUnavailable) else "RUNTIME_WORKER_LOST"
