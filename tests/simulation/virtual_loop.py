"""A loop whose time jumps, over the real SQLite: hours of leases and retries in a moment, the same again for a seed.

Owns time and chance of one simulation. When nothing is ready, the clock jumps to the next timer. Every database call
runs in the loop's own thread, after a few milliseconds of virtual time that the seed decides: so calls of different
tasks interleave as they do between real threads, but in an order that a seed repeats. Executor calls run in place.

There is nothing outside to wait for. When no timer is left and the simulation has not ended, nothing can ever happen
again, and `Stuck` says so instead of hanging; so it does when only clocks go on ticking.

A process of the simulation is a `Life`: whatever runs in a context whose `LIFE` it is. Between any two steps it can be
frozen, and goes on later without having noticed, or be killed: then no line of it runs any more, no `finally` either.
"""

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from math import ceil
from typing import Any, TypeVar
from unittest import mock

import aiosqlite.core

T = TypeVar("T")

# 2026-01-01; any moment would do, as long as it is the same one in every run.
EPOCH_MS = 1_767_225_600_000

# Times are multiples of a tick, and so are lags: sums of them are exact, and no timer comes a hair before its time, to
# be set again for the same moment for ever.
_TICKS = 2**26

# More virtual time than any simulation needs; one that passes it only ticks.
TOO_LONG_S = 100_000.0


class Stuck(Exception):
    """Every task waits, and nothing is left that could wake one."""


class Life:
    """One process, as the loop sees it: its steps run unless it is stopped."""

    def __init__(self, loop: "VirtualLoop", name: str) -> None:
        self.name = name
        self.stopped = False
        self.steps = 0
        self.lag_s = 0.0  # what its monotonic clock is behind
        self.rested = False  # it was stopped once, and went on
        self._loop = loop
        self._kept: list[asyncio.Handle] = []
        self._fuse: tuple[int, Callable[[], None]] | None = None
        self.context = copy_context()
        self.context.run(LIFE.set, self)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as a part of this process."""
        return self._loop.create_task(work, context=self.context)

    def stop(self) -> None:
        """From now on none of its steps runs."""
        self.stopped = True

    def light_fuse(self, steps: int, then: Callable[[], None]) -> None:
        """Stop it after so many of its steps, wherever it is then; `then` is called outside of it."""
        self._fuse = (self.steps + steps, then)

    def put_out_fuse(self) -> None:
        self._fuse = None

    def go_on(self, asleep_s: float = 0.0) -> None:
        """Run what it could not run while it was stopped.

        `asleep_s`: how long its own clock stood still meanwhile, as that of a suspended machine does; then its timers
        come so much later, and it cannot know that time has passed for everybody else.
        """
        self.stopped, self.rested = False, True
        asleep_s = ceil(asleep_s * _TICKS) / _TICKS
        self.lag_s += asleep_s
        steps, self._kept = self._kept, []
        self._loop.take_up([step for step in steps if not (asleep_s and isinstance(step, _TimedStep))])
        if asleep_s:
            self._loop.put_off(self, [step for step in steps if isinstance(step, _TimedStep)], asleep_s)

    def may_run(self, step: asyncio.Handle) -> bool:
        if self._fuse is not None and self.steps >= self._fuse[0]:
            then = self._fuse[1]
            self._fuse = None
            self.stop()
            then()
        if self.stopped:
            self._kept.append(step)
            return False
        self.steps += 1
        return True


LIFE: ContextVar[Life | None] = ContextVar("LIFE", default=None)


class _Step(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        life = self._context.get(LIFE)  # type: ignore[attr-defined]  # asyncio's own handle has it
        if life is None or life.may_run(self):
            super()._run()


class _TimedStep(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        life = self._context.get(LIFE)  # type: ignore[attr-defined]  # as above
        if life is None or life.may_run(self):
            super()._run()


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `chance` is the simulation's only source of randomness; `outside` is no process's context."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.outside: Context = copy_context()
        self._now_s = 0.0

        def select(timeout: float | None = None) -> Any:
            if timeout == 0:
                return []
            if timeout is None:
                raise Stuck("every task waits, and no timer is left")  # nothing outside could wake one
            self._now_s += timeout
            if self._now_s > TOO_LONG_S:
                raise Stuck("the simulation goes on and on")
            return []

        self._selector.select = select  # type: ignore[attr-defined]  # as above

    def time(self) -> float:
        life = LIFE.get()
        return self._now_s if life is None else self._now_s - life.lag_s

    @property
    def true_time(self) -> float:
        """The time outside, whatever the clock of the process that asks says."""
        return self._now_s

    def call_outside(self, delay_s: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call later, as a part of no process: what is on its way goes on when its sender is dead."""
        return self.call_at(self._now_s + delay_s, callback, *args, context=self.outside)

    def take_up(self, steps: list[asyncio.Handle]) -> None:
        self._ready.extend(steps)  # type: ignore[attr-defined]  # of asyncio's base loop

    def put_off(self, life: Life, due: list["_TimedStep"], by_s: float) -> None:
        """The timers of a process, and those of it that came `due` meanwhile, are so much later."""
        timers: list[Any] = self._scheduled  # type: ignore[attr-defined]  # as above
        for step in due:
            step._scheduled = True  # type: ignore[attr-defined]  # as above
            timers.append(step)
        for timer in timers:
            if timer._context.get(LIFE) is life:
                timer._when += by_s
        heapq.heapify(timers)

    # The two places where the base loop makes its handles.

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        step = _Step(callback, args, self, context)
        self._ready.append(step)  # type: ignore[attr-defined]  # as above
        return step

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        life = LIFE.get() if context is None else context.get(LIFE)
        when = ceil((when if life is None else when + life.lag_s) * _TICKS) / _TICKS
        step = _TimedStep(when, callback, args, self, context)
        heapq.heappush(self._scheduled, step)  # type: ignore[attr-defined]  # as above
        step._scheduled = True  # type: ignore[attr-defined]  # as above
        return step

    def run_in_executor(  # type: ignore[override]  # answers a future that is done
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class LoopClock:
    """A wall clock, `skew_ms` off. It goes on while the machine sleeps; only what is monotonic stands still then."""

    def __init__(self, loop: VirtualLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._loop.true_time * 1000) + self.skew_ms


class _Calls:
    """In the place of the queue between a connection and its thread: runs the calls in order, in virtual time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._last = 0.0

    def put_nowait(self, call: tuple[asyncio.Future[Any] | None, Callable[[], Any]]) -> None:
        takes_s = self._loop.chance.uniform(0.0001, 0.005)
        self._last = max(self._last, self._loop.time()) + takes_s
        self._loop.call_at(self._last, self._run, *call)

    @staticmethod
    def _run(future: asyncio.Future[Any] | None, function: Callable[[], Any]) -> None:
        try:
            result = function()
        except BaseException as error:
            if future is not None:
                aiosqlite.core.set_exception(future, error)
        else:
            if future is not None:
                aiosqlite.core.set_result(future, result)


class _NoThread:
    daemon = True

    def start(self) -> None:
        """There is no thread: the loop itself runs the calls."""


@contextmanager
def _chance_in(loop: VirtualLoop) -> Iterator[None]:
    """Generators that code makes for itself, as for jitter, draw from the simulation's seed too."""

    class Seeded(random.Random):
        def __init__(self, seed: Any = None) -> None:
            super().__init__(seed if isinstance(seed, int) else loop.chance.getrandbits(64))

    with mock.patch.object(random, "Random", Seeded):
        yield


@contextmanager
def _databases_in(loop: VirtualLoop) -> Iterator[None]:
    really_init = aiosqlite.core.Connection.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        really_init(self, *args, **kwargs)
        self._tx = _Calls(loop)
        self._thread = _NoThread()

    with mock.patch.object(aiosqlite.core.Connection, "__init__", init):
        yield


def simulate(seed: int, world: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `world` to its end in virtual time; an error of it names the command that replays it."""
    loop = VirtualLoop(seed)
    try:
        asyncio.set_event_loop(loop)
        with _databases_in(loop), _chance_in(loop):
            return loop.run_until_complete(_whole(world(loop)))
    except BaseException as error:
        error.add_note(f"replay it with: python -m pytest tests/simulation --seed {seed}")
        raise
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


async def _whole(world: Awaitable[T]) -> T:
    """The world, and then the end of every task it left behind."""
    try:
        return await world
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
