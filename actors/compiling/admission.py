"""RuntimeAdmission: which Runtime compiles, and how many at once, by lane (V2).

Owns the count of what is in flight to each Runtime in each lane, and which Runtimes did not answer lately. Hears
`Compile`; answers when the Runtime did. Over a lane's limit it refuses at once with `RUNTIME_ADMISSION_FULL`; a check
of three minutes therefore takes nothing from the light tools. Survives nothing: its job asks again for what was in
flight.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from pagegate.actors.kernel import Actor, Asks, ChildEnded, Reply
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import CompileRequest, CompileResult

Lane = Literal["check", "light"]

_SHUN_S = 5.0  # a Runtime that did not answer is asked last for this long


class Runtimes(Protocol):
    """The wire to the Runtimes, each by its address."""

    async def compile(self, url: str, request: CompileRequest, *, timeout_s: float) -> CompileResult:
        """One compile (V5). Raises `RuntimeUnavailable`; cancelling it cancels the compile there."""
        ...

    async def delete_output(self, url: str, output_id: str) -> None:
        """Nobody needs the output any more (V8). Best effort, and quick."""
        ...


@dataclass(frozen=True)
class Compiled:
    """The result, and the Runtime that keeps the output."""

    result: CompileResult
    runtime_url: str


@dataclass(frozen=True)
class Compile(Asks[Compiled]):
    """Compile on some Runtime. Raises `RuntimeUnavailable`. Who stops waiting sends `ForgetCompile`."""

    request: CompileRequest
    timeout_s: float


@dataclass(frozen=True)
class ForgetCompile:
    """Nobody waits for this task any more: the request to the Runtime is dropped, which cancels it there (V5)."""

    task_id: str


@dataclass(frozen=True)
class DropOutput:
    """A check is over: the Runtime need not keep its output (P3, V8). Best effort; the output has a TTL."""

    runtime_url: str
    output_id: str


@dataclass(frozen=True)
class _Answered:
    task_id: str
    runtime_url: str
    ended: ChildEnded[CompileResult]


@dataclass(frozen=True)
class Inflight:
    """Per lane the limit and the count for each Runtime; `shunned_until_s` for those that did not answer."""

    limits: Mapping[Lane, int]
    counts: Mapping[tuple[Lane, str], int]
    shunned_until_s: Mapping[str, float]


def choose(state: Inflight, lane: Lane, runtimes: Sequence[str], now_s: float) -> str | None:
    """The Runtime with the least in flight, those that answer first; None when all are at the lane's limit. Pure."""
    free = [url for url in runtimes if state.counts.get((lane, url), 0) < state.limits[lane]]
    return min(
        free,
        key=lambda url: (state.shunned_until_s.get(url, 0.0) > now_s, state.counts.get((lane, url), 0)),
        default=None,
    )


def counted(state: Inflight, lane: Lane, url: str, change: int) -> Inflight:
    return replace(state, counts={**state.counts, (lane, url): state.counts.get((lane, url), 0) + change})


class RuntimeAdmission(Actor):
    """`limits` are per Runtime (`RUNTIME_CHECK_MAX_INFLIGHT`, `RUNTIME_LIGHT_MAX_INFLIGHT`)."""

    def __init__(self, runtimes: Runtimes, urls: Sequence[str], limits: Mapping[Lane, int]) -> None:
        super().__init__()
        self._runtimes, self._urls = runtimes, tuple(urls)
        self._state = Inflight(limits=limits, counts={}, shunned_until_s={})
        self._replies: dict[str, Reply[Compiled]] = {}
        self._tasks: dict[str, Any] = {}

    async def on_receive(self, message: Any) -> Any:
        match message:
            case Compile(request, timeout_s):
                self._admit(request, timeout_s)
            case ForgetCompile(task_id) if task_id in self._tasks:
                self._tasks[task_id].cancel()
            case ForgetCompile():
                pass
            case DropOutput(runtime_url, output_id):
                self.spawn(self._runtimes.delete_output(runtime_url, output_id))
            case _Answered(task_id, runtime_url, ended):
                self._answer(task_id, runtime_url, ended)
            case _:
                return await super().on_receive(message)

    def _admit(self, request: CompileRequest, timeout_s: float) -> None:
        url = choose(self._state, "check", self._urls, self.now_s())
        if url is None:
            raise RuntimeUnavailable("RUNTIME_ADMISSION_FULL", "every Runtime has its limit in flight", full=True)
        assert request.task_id not in self._replies, "a task is compiled once at a time"
        self._state = counted(self._state, "check", url, +1)
        self._replies[request.task_id] = self.defer_reply()
        self._tasks[request.task_id] = self.spawn(
            self._runtimes.compile(url, request, timeout_s=timeout_s),
            then=lambda ended: _Answered(request.task_id, url, ended),
        )

    def _answer(self, task_id: str, url: str, ended: ChildEnded[CompileResult]) -> None:
        self._state = counted(self._state, "check", url, -1)
        del self._tasks[task_id]
        reply = self._replies.pop(task_id)
        if ended.error is None:
            reply.give(Compiled(ended.result(), url))
            return
        if isinstance(ended.error, RuntimeUnavailable) and not ended.error.full:
            shunned = {**self._state.shunned_until_s, url: self.now_s() + _SHUN_S}
            self._state = replace(self._state, shunned_until_s=shunned)
        reply.fail(ended.error)
