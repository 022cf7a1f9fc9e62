"""RuntimeAdmission: which Runtime works, and for how many at once, by lane (V2).

Owns the count of what is in flight to each Runtime in each lane, and which Runtimes did not answer lately. Hears
`Compile` and `RunLight`; answers when the Runtime did. Over a lane's limit it refuses at once with
`RUNTIME_ADMISSION_FULL`; a check of three minutes therefore takes nothing from the light tools. Survives nothing: its
job asks again for what was in flight.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from pagegate.actors.kernel import Actor, Asks, ChildEnded, Reply
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import (
    LIGHT_DEADLINES_S,
    CompileRequest,
    CompileResult,
    LightRequest,
    LightResult,
    LightTool,
)

Lane = Literal["check", "light"]

_LIGHT_MARGIN_S = 5.0  # the Runtime's own deadline ends first, with its own code
_SHUN_S = 5.0  # a Runtime that did not answer is asked last for this long


class Runtimes(Protocol):
    """The wire to the Runtimes, each by its address."""

    async def compile(self, url: str, request: CompileRequest, *, timeout_s: float) -> CompileResult:
        """One compile (V5). Raises `RuntimeUnavailable`; cancelling it cancels the compile there."""
        ...

    async def light(
        self,
        url: str,
        tool: LightTool,
        request: LightRequest,
        file: AsyncIterator[bytes] | None,
        *,
        timeout_s: float,
    ) -> LightResult:
        """One task of a light tool (V9). Raises `RuntimeUnavailable`; cancelling it cancels the task there."""
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
class RunLight(Asks[LightResult]):
    """Run a light tool on some Runtime (V9). Raises `RuntimeUnavailable`. Who stops waiting sends `ForgetCompile`.

    `file` is streamed to the Runtime, once.
    """

    tool: LightTool
    request: LightRequest
    file: AsyncIterator[bytes] | None = None


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
    lane: Lane
    task_id: str
    runtime_url: str
    ended: ChildEnded[Any]


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
        self._replies: dict[str, Reply[Any]] = {}
        self._tasks: dict[str, Any] = {}

    async def on_receive(self, message: Any) -> Any:
        match message:
            case Compile(compile_request, timeout_s):
                self._admit(
                    "check",
                    compile_request.task_id,
                    lambda url: self._runtimes.compile(url, compile_request, timeout_s=timeout_s),
                )
            case RunLight(tool, request, file):
                limit_s = LIGHT_DEADLINES_S[tool] + _LIGHT_MARGIN_S
                self._admit(
                    "light",
                    request.task_id,
                    lambda url: self._runtimes.light(url, tool, request, file, timeout_s=limit_s),
                )
            case ForgetCompile(task_id) if task_id in self._tasks:
                self._tasks[task_id].cancel()
            case ForgetCompile():
                pass
            case DropOutput(runtime_url, output_id):
                self.spawn(self._runtimes.delete_output(runtime_url, output_id))
            case _Answered():
                self._answer(message)
            case _:
                return await super().on_receive(message)

    def _admit(self, lane: Lane, task_id: str, call: Callable[[str], Coroutine[Any, Any, Any]]) -> None:
        url = choose(self._state, lane, self._urls, self.now_s())
        if url is None:
            raise RuntimeUnavailable("RUNTIME_ADMISSION_FULL", "every Runtime has its limit in flight", full=True)
        assert task_id not in self._replies, "a task runs once at a time"
        self._state = counted(self._state, lane, url, +1)
        self._replies[task_id] = self.defer_reply()
        self._tasks[task_id] = self.spawn(call(url), then=lambda ended: _Answered(lane, task_id, url, ended))

    def _answer(self, answered: _Answered) -> None:
        url, ended = answered.runtime_url, answered.ended
        self._state = counted(self._state, answered.lane, url, -1)
        del self._tasks[answered.task_id]
        reply = self._replies.pop(answered.task_id)
        if ended.error is None:
            reply.give(Compiled(ended.result(), url) if answered.lane == "check" else ended.result())
            return
        if isinstance(ended.error, RuntimeUnavailable) and not ended.error.full:
            shunned = {**self._state.shunned_until_s, url: self.now_s() + _SHUN_S}
            self._state = replace(self._state, shunned_until_s=shunned)
        reply.fail(ended.error)
