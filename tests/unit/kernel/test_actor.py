"""The kernel, behaviour by behaviour, and with it every hook of Pykka that it stands on."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pykka
import pytest

from pagegate.actors.kernel import Actor, Asks, Backoff, ChildEnded, Reply, ask, stop


@dataclass(frozen=True)
class Add(Asks[int]):
    amount: int


@dataclass(frozen=True)
class Fail(Asks[None]):
    pass


@dataclass(frozen=True)
class Work(Asks[str]):
    gate: asyncio.Event


@dataclass(frozen=True)
class _WorkEnded:
    ended: ChildEnded[str]


@dataclass(frozen=True)
class Remind:
    after_s: float


class Counter(Actor):
    restart = Backoff(first_s=0.001, max_s=0.002)

    def __init__(self, trace: list[str], first: int = 0) -> None:
        super().__init__()
        self.trace, self.total = trace, first
        self.waiting: Reply[str] | None = None

    async def setup(self) -> None:
        self.trace.append("setup")

    async def teardown(self) -> None:
        self.trace.append("teardown")

    async def on_receive(self, message: Any) -> Any:
        match message:
            case Add(amount):
                before = self.total
                await asyncio.sleep(0)  # another message must not get in between
                self.total = before + amount
                return self.total
            case Work(gate):
                self.waiting = self.defer_reply()
                self.spawn(self.work(gate), then=_WorkEnded)
            case _WorkEnded(ended):
                assert self.waiting is not None
                if ended.error is not None:
                    self.waiting.fail(ended.error)
                else:
                    self.waiting.give(ended.result())
            case Remind(after_s):
                self.after(after_s, "reminded")
            case "reminded":
                self.trace.append("reminded")
            case Fail():
                raise ValueError("as asked")
            case _:
                return await super().on_receive(message)

    async def work(self, gate: asyncio.Event) -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.trace.append("work cancelled")
            raise
        return "done"


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


async def test_messages_are_handled_one_at_a_time_and_in_order() -> None:
    ref = Counter.start([])
    answers = await asyncio.gather(*(ask(ref, Add(1)) for _ in range(50)))
    assert answers == list(range(1, 51))
    await stop(ref)


async def test_an_exception_in_an_asked_message_goes_to_the_asker_and_the_actor_lives() -> None:
    ref = Counter.start([])
    with pytest.raises(ValueError, match="as asked"):
        await ask(ref, Fail())
    assert await ask(ref, Add(2)) == 2
    await stop(ref)


async def test_a_crashed_actor_lives_again_at_the_same_address_with_fresh_state_and_its_mailbox() -> None:
    trace: list[str] = []
    ref = Counter.start(trace, first=10)
    assert await ask(ref, Add(5)) == 15
    ref.tell(Fail())
    assert await ask(ref, Add(1)) == 11  # asked before the restart, answered after it
    assert trace == ["setup", "setup"]
    await stop(ref)
    assert trace[-1] == "teardown"


async def test_an_actor_that_must_not_restart_is_dead_after_a_crash() -> None:
    class Once(Counter):
        restart = None

    ref = Once.start([])
    ref.tell(Fail())
    with pytest.raises(pykka.ActorDeadError):
        await ask(ref, Add(1))
    assert not ref.is_alive()


async def test_a_crash_ends_children_and_fails_owed_replies() -> None:
    trace: list[str] = []
    ref = Counter.start(trace)
    owed = asyncio.ensure_future(ask(ref, Work(asyncio.Event())))
    await ask(ref, Add(0))
    ref.tell(Fail())
    with pytest.raises(pykka.ActorDeadError):
        await owed
    assert "work cancelled" in trace
    await stop(ref)


async def test_a_deferred_reply_is_given_by_a_later_message_while_others_are_handled() -> None:
    ref, gate = Counter.start([]), asyncio.Event()
    late = asyncio.ensure_future(ask(ref, Work(gate)))
    assert await ask(ref, Add(3)) == 3
    assert not late.done()
    gate.set()
    assert await late == "done"
    await stop(ref)


async def test_a_child_that_is_cancelled_before_its_first_step_is_heard_of() -> None:
    heard: list[ChildEnded[None]] = []

    class Parent(Actor):
        async def on_receive(self, message: Any) -> Any:
            match message:
                case "start and cancel":
                    self.spawn(asyncio.sleep(3600), then=lambda ended: ended).cancel()
                case ChildEnded():
                    heard.append(message)

    ref = Parent.start()
    ref.tell("start and cancel")
    await until(lambda: len(heard) == 1)
    assert isinstance(heard[0].error, asyncio.CancelledError)
    await stop(ref)


async def test_what_an_earlier_life_sent_itself_is_not_heard_by_the_new_one() -> None:
    trace: list[str] = []
    ref = Counter.start(trace)
    ref.tell(Remind(0.0))
    ref.tell(Fail())
    await until(lambda: trace.count("setup") == 2)
    await ask(ref, Add(0))
    assert "reminded" not in trace
    ref.tell(Remind(0.0))
    await until(lambda: "reminded" in trace)
    await stop(ref)


async def test_a_cancelled_timer_is_not_heard_even_when_it_already_fired() -> None:
    heard: list[str] = []

    class Sleeper(Actor):
        async def on_receive(self, message: Any) -> Any:
            match message:
                case "arm":
                    timer = self.after(0, "ring")
                    await asyncio.sleep(0.01)  # it fires while this handler runs
                    timer.cancel()
                case "ring":
                    heard.append("ring")
                case Add():
                    return 0

    ref = Sleeper.start()
    ref.tell("arm")
    await ask(ref, Add(0))
    assert heard == []
    await stop(ref)


async def test_a_periodic_message_does_not_pile_up_behind_a_slow_handler() -> None:
    ticks: list[str] = []
    asleep, go_on = asyncio.Event(), asyncio.Event()

    class Ticking(Actor):
        async def setup(self) -> None:
            self.every(0.001, "tick")

        async def on_receive(self, message: Any) -> Any:
            match message:
                case "tick":
                    ticks.append("tick")
                case "sleep":
                    asleep.set()
                    await go_on.wait()

    ref = Ticking.start()
    ref.tell("sleep")
    await asleep.wait()
    heard = len(ticks)
    await asyncio.sleep(0.05)  # many periods
    go_on.set()
    await stop(ref)
    assert len(ticks) <= heard + 1
    assert ref.actor_inbox.empty()


async def test_a_periodic_message_comes_again_and_again() -> None:
    ticks: list[str] = []

    class Ticking(Actor):
        async def setup(self) -> None:
            self.every(0.001, "tick")

        async def on_receive(self, message: Any) -> Any:
            ticks.append(message)

    ref = Ticking.start()
    await until(lambda: len(ticks) >= 3)
    await stop(ref)


async def test_stop_ends_the_children_and_answers_who_came_too_late() -> None:
    trace: list[str] = []
    ref = Counter.start(trace)
    owed = asyncio.ensure_future(ask(ref, Work(asyncio.Event())))
    await ask(ref, Add(0))
    ending = asyncio.ensure_future(stop(ref))
    await asyncio.sleep(0)
    late = asyncio.ensure_future(ask(ref, Add(1)))
    await ending
    for unanswered in (owed, late):
        with pytest.raises(pykka.ActorDeadError):
            await unanswered
    assert trace == ["setup", "teardown", "work cancelled"]
    assert pykka.ActorRegistry.get_by_urn(ref.actor_urn) is None
    await stop(ref)  # a second stop is fine


async def test_a_stop_does_not_wait_for_the_backoff_of_a_crashed_actor() -> None:
    class Slow(Counter):
        restart = Backoff(first_s=3600)

    trace: list[str] = []
    ref = Slow.start(trace)
    ref.tell(Fail())
    await asyncio.wait_for(stop(ref), 5)
    assert trace == ["setup"]
    assert not ref.is_alive()


async def test_asking_with_a_limit_stops_waiting_but_not_the_handler() -> None:
    ref, gate = Counter.start([]), asyncio.Event()
    with pytest.raises(TimeoutError):
        await ask(ref, Work(gate), timeout_s=0.01)
    assert await ask(ref, Add(4)) == 4
    gate.set()
    await stop(ref)


async def test_a_future_of_this_kernel_refuses_to_block_the_loop() -> None:
    ref = Counter.start([])
    future = ref.ask(Add(1), block=False)
    with pytest.raises(RuntimeError, match="await"):
        future.get()
    assert await future == 1
    await stop(ref)


async def test_telling_a_dead_actor_is_an_error() -> None:
    ref = Counter.start([])
    await stop(ref)
    with pytest.raises(pykka.ActorDeadError):
        ref.tell(Add(1))
