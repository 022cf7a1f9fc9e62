"""An actor: one mailbox, one message at a time, on asyncio.

Owns its child tasks, its timers and the replies it still owes; none of them outlives it. Hears what its subclass
handles. A handler that raises at a *told* message crashes the actor; at an *asked* one the asker gets the exception
(Pykka's rule). Survives a crash at the same address: children and timers are ended, owed replies fail, and after a
backoff a new instance made from the same arguments takes over the mailbox. What the old one knew is gone, so whatever
must survive a crash is in the database.
"""

import asyncio
import inspect
import random
import sys
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import pykka
import structlog
from pykka import messages
from pykka._envelope import Envelope  # the type of what Pykka puts into an inbox; it is not exported

from pagegate.actors.kernel.backoff import Backoff
from pagegate.actors.kernel.future import LoopFuture
from pagegate.actors.kernel.inbox import Inbox

T = TypeVar("T")
log = structlog.get_logger()

_LIVED_WELL_S = 60.0  # an actor that ran this long before it crashed starts its backoff anew


@dataclass(frozen=True)
class ChildEnded(Generic[T]):
    """How a child task ended: with a value, or with an error (`CancelledError` when it was cancelled)."""

    value: T | None = None
    error: BaseException | None = None

    def result(self) -> T:
        """The value; raises the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # None is a T here when no error is set


@dataclass(frozen=True)
class _FromOwnLife:
    """A message an actor sends itself. After a crash, what the earlier life sent is not for the new one."""

    life: object
    message: Any


class Timer:
    """A message to oneself in the future. Once cancelled it is not heard, even if it already fired.

    `unread`: it fired and was not heard yet. A periodic one then skips its turn: an actor that is held up by a slow
    database must not find a mailbox full of ticks in front of its stop.
    """

    def __init__(
        self, fire: Callable[[], None], delay_s: float, period_s: float | None, pending: "dict[Timer, None]"
    ) -> None:
        self._fire, self._period_s, self._pending = fire, period_s, pending
        self.cancelled = self.unread = False
        self._handle = asyncio.get_running_loop().call_later(delay_s, self._due)
        pending[self] = None

    def _due(self) -> None:
        if self._period_s is not None:
            self._handle = asyncio.get_running_loop().call_later(self._period_s, self._due)
        else:
            self._pending.pop(self, None)
        if not self.unread:
            self.unread = True
            self._fire()

    def cancel(self) -> None:
        self.cancelled = True
        self._handle.cancel()
        self._pending.pop(self, None)


class Reply(Generic[T]):
    """An answer that is owed: made by `Actor.defer_reply()`, given once, later, from another handler."""

    def __init__(self, target: LoopFuture[T] | None, owed: dict["Reply[Any]", None]) -> None:
        self._target, self._owed = target, owed
        owed[self] = None

    def give(self, value: T) -> None:
        self._owed.pop(self, None)
        if self._target is not None:
            self._target.set(value)

    def fail(self, error: BaseException) -> None:
        self._owed.pop(self, None)
        if self._target is not None:
            self._target.set_exception((type(error), error, None))

    @property
    def abandoned(self) -> bool:
        """True when the asker no longer waits (or never did)."""
        return self._target is None or self._target.done()


class Actor(pykka.Actor):
    """Subclass it: handle messages in `async on_receive`, prepare in `setup`, tidy in `teardown`."""

    restart: ClassVar[Backoff | None] = Backoff()  # None: a crash is the end

    __recipe: tuple[tuple[Any, ...], dict[str, Any]]
    actor_inbox: Inbox

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        actor = super().__new__(cls)
        actor.__recipe = (args, kwargs)
        return actor

    def __init__(self) -> None:
        super().__init__()
        # Mangled names: a subclass's own `_children` or `_timers` must not collide with these.
        self.__life = object()
        self.__children: dict[asyncio.Task[Any], None] = {}  # in the order of their start, which is that of their end
        self.__timers: dict[Timer, None] = {}  # that are still to fire
        self.__owed: dict[Reply[Any], None] = {}
        self.__asker: LoopFuture[Any] | None = None
        self.__deferred = False

    # -- for subclasses -------------------------------------------------------------------------------------------

    async def setup(self) -> None:
        """Runs before the first message. An exception is a crash."""

    async def teardown(self) -> None:
        """Runs after the last message of an orderly stop; children and timers are ended after it."""

    async def on_receive(self, message: Any) -> Any:
        """Handle one message; what it returns answers an `ask`."""
        raise NotImplementedError(f"{type(self).__name__} does not understand {message!r}")

    def spawn(
        self, work: Coroutine[Any, Any, T], then: Callable[[ChildEnded[T]], Any] | None = None
    ) -> asyncio.Task[Any]:
        """Run `work` beside the mailbox; when it ended, `then(how it ended)` is the message that arrives here.

        Cancel the returned task to cancel the work. Without `then` a failure of the work is logged and nothing else.
        """
        task = asyncio.get_running_loop().create_task(work)
        life = self.__life

        # Not in a coroutine around the work: cancelled before its first step, that would never run and never tell.
        def done(task: asyncio.Task[T]) -> None:
            self.__children.pop(task, None)
            ended = _end_of(task)
            if then is not None:
                self.actor_inbox.put(Envelope(_FromOwnLife(life, then(ended))))
            elif ended.error is not None and not isinstance(ended.error, asyncio.CancelledError):
                log.error("actor.child_failed", actor=type(self).__name__, exc_info=ended.error)

        self.__children[task] = None
        task.add_done_callback(done)
        return task

    def after(self, delay_s: float, message: Any) -> Timer:
        """Send oneself `message` once, `delay_s` from now."""
        return self._timer(delay_s, None, message)

    def every(self, period_s: float, message: Any) -> Timer:
        """Send oneself `message` every `period_s`, for the first time one period from now.

        At most one of them waits in the mailbox.
        """
        return self._timer(period_s, period_s, message)

    def now_s(self) -> float:
        """The loop's clock: monotonic seconds, which a test may own."""
        return asyncio.get_running_loop().time()

    def defer_reply(self) -> Reply[Any]:
        """Answer the message in hand later. If the actor ends before, the asker gets `ActorDeadError`."""
        self.__deferred = True
        return Reply(self.__asker, self.__owed)

    # -- Pykka's hooks --------------------------------------------------------------------------------------------

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        return Inbox()

    @staticmethod
    def _create_future() -> LoopFuture[Any]:
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        # The ref keeps the task alive, and with it the actor: Pykka's registry and refs hold actors weakly.
        task = asyncio.get_running_loop().create_task(_lives(self), name=type(self).__name__)
        _running.add(task)
        task.add_done_callback(_running.discard)

    # -- one life -------------------------------------------------------------------------------------------------

    async def _live(self) -> BaseException | None:
        """Handle messages until the stop (None) or a crash (its exception)."""
        try:
            await self.setup()
            while not self.actor_stopped.is_set():
                if self.actor_inbox.empty():
                    await self.actor_inbox.arrival()
                await self._handle(self.actor_inbox.get())
        except Exception as error:
            return error
        finally:
            await self._end_children()
        return None

    async def _handle(self, envelope: Envelope[Any]) -> None:
        message = envelope.message
        if isinstance(message, _FromOwnLife):
            if message.life is not self.__life:
                return
            message = message.message
            if isinstance(message, _TimerFired):
                if message.timer.cancelled:
                    return
                message.timer.unread = False
                message = message.message
        if isinstance(message, messages._ActorStop):
            await self._stop_now(envelope)
            return
        asker = envelope.reply_to
        assert asker is None or isinstance(asker, LoopFuture)
        self.__asker, self.__deferred = asker, False
        try:
            answer = self._handle_receive(message)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception:
            if asker is None:
                raise
            asker.set_exception(sys.exc_info())
            return
        if asker is not None and not self.__deferred:
            asker.set(answer)

    async def _stop_now(self, envelope: Envelope[Any]) -> None:
        try:
            await self.teardown()
        finally:
            await self._end_children()
            pykka.ActorRegistry.unregister(self.actor_ref)
            self.actor_stopped.set()
            if envelope.reply_to is not None:
                envelope.reply_to.set(None)

    async def _end_children(self) -> None:
        for timer in list(self.__timers):
            timer.cancel()
        self.__life = object()  # whatever the children and timers still put into the mailbox is not heard
        children = list(self.__children)
        for child in children:
            child.cancel()
        await asyncio.gather(*children, return_exceptions=True)
        for reply in list(self.__owed):
            reply.fail(pykka.ActorDeadError(f"{self} ended before it answered"))

    def _timer(self, delay_s: float, period_s: float | None, message: Any) -> Timer:
        life = self.__life

        def fire() -> None:
            self.actor_inbox.put(Envelope(_FromOwnLife(life, _TimerFired(timer, message))))

        timer = Timer(fire, delay_s, period_s, self.__timers)
        return timer

    def _reborn(self) -> "Actor":
        args, kwargs = self.__recipe
        fresh = type(self)(*args, **kwargs)
        # The same address: everyone who holds the ref goes on talking to it.
        fresh.actor_urn, fresh.actor_inbox = self.actor_urn, self.actor_inbox
        fresh.actor_stopped, fresh._actor_ref = self.actor_stopped, self._actor_ref
        fresh._actor_ref._actor_weakref = weakref.ref(fresh)
        return fresh


def _end_of(task: asyncio.Task[T]) -> ChildEnded[T]:
    if task.cancelled():
        return ChildEnded(error=asyncio.CancelledError())
    error = task.exception()
    return ChildEnded(error=error) if error is not None else ChildEnded(value=task.result())


@dataclass(frozen=True)
class _TimerFired:
    timer: Timer
    message: Any


_running: set[asyncio.Task[None]] = set()


async def _lives(actor: Actor) -> None:
    """An actor's lives at one address: live, crash, wait, live again, until it is stopped."""
    loop, rnd, failures = asyncio.get_running_loop(), random.Random(actor.actor_urn), 0  # noqa: S311  jitter, not a secret
    try:
        while True:
            born_s = loop.time()
            crash = await actor._live()
            if crash is None:
                return
            failures = 1 if loop.time() - born_s > _LIVED_WELL_S else failures + 1
            log.error("actor.crashed", actor=type(actor).__name__, failures=failures, exc_info=crash)
            if actor.restart is None or actor.actor_stopped.is_set():
                return
            try:
                async with asyncio.timeout(actor.restart.delay_s(failures, rnd)):
                    await actor.actor_inbox.stop_requested.wait()
                return
            except TimeoutError:
                actor = actor._reborn()
    finally:
        pykka.ActorRegistry.unregister(actor.actor_ref)
        actor.actor_stopped.set()
        actor._actor_loop_teardown()
