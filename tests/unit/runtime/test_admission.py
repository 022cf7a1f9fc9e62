"""Which Runtime is asked, and when none may be (V2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pykka
import pytest

from pagegate.actors.compiling.admission import (
    Compile,
    ForgetCompile,
    Inflight,
    RunLight,
    RuntimeAdmission,
    choose,
    counted,
)
from pagegate.actors.kernel import ask, stop
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import CompileRequest, CompileResult, LightRequest, LightResult, LightTool


@dataclass
class PlayedRuntimes:
    """Compiles never end by themselves; light tools answer at once. `refusal` is what the next call meets."""

    asked: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: RuntimeUnavailable | None = None

    async def compile(self, url: str, request: CompileRequest, *, timeout_s: float) -> CompileResult:
        self._hear(url)
        await asyncio.Event().wait()
        raise AssertionError

    async def light(
        self,
        url: str,
        tool: LightTool,
        request: LightRequest,
        file: AsyncIterator[bytes] | None,
        *,
        timeout_s: float,
    ) -> LightResult:
        self._hear(url)
        return LightResult(ok=True)

    async def delete_output(self, url: str, output_id: str) -> None:
        raise AssertionError

    def _hear(self, url: str) -> None:
        self.asked.append(url)
        self.begun.set()
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal


@asynccontextmanager
async def admission(
    runtimes: PlayedRuntimes, *, check: int = 1, urls: tuple[str, ...] = ("a",)
) -> AsyncIterator[pykka.ActorRef[RuntimeAdmission]]:
    ref = RuntimeAdmission.start(runtimes, urls, {"check": check, "light": 1})
    yield ref
    await stop(ref)


def compile_of(task_id: str) -> Compile:
    request = CompileRequest(task_id=task_id, artifact_id="a", backend_url="http://b", ticket="t")
    return Compile(request, 180.0)


async def test_checks_at_their_limit_take_nothing_from_the_light_tools() -> None:
    runtimes = PlayedRuntimes()
    async with admission(runtimes) as ref:
        check = asyncio.create_task(ask(ref, compile_of("t1")))
        await runtimes.begun.wait()
        with pytest.raises(RuntimeUnavailable) as refused:
            await ask(ref, compile_of("t2"))
        assert (refused.value.code, refused.value.full) == ("RUNTIME_ADMISSION_FULL", True)
        assert (await ask(ref, RunLight("asset-ratio", LightRequest(task_id="l1")))).ok
        ref.tell(ForgetCompile("t1"))
        with pytest.raises(asyncio.CancelledError):
            await check


async def test_room_of_a_forgotten_compile_is_free_again() -> None:
    runtimes = PlayedRuntimes()
    async with admission(runtimes) as ref:
        first = asyncio.create_task(ask(ref, compile_of("t1")))
        await runtimes.begun.wait()
        ref.tell(ForgetCompile("t1"))
        with pytest.raises(asyncio.CancelledError):
            await first
        runtimes.begun.clear()
        second = asyncio.create_task(ask(ref, compile_of("t2")))
        await runtimes.begun.wait()
        ref.tell(ForgetCompile("t2"))
        with pytest.raises(asyncio.CancelledError):
            await second


async def test_runtime_that_did_not_answer_is_asked_last_for_a_while() -> None:
    runtimes = PlayedRuntimes(refusal=RuntimeUnavailable("RUNTIME_UNREACHABLE", "gone"))
    async with admission(runtimes, urls=("a", "b")) as ref:
        with pytest.raises(RuntimeUnavailable):
            await ask(ref, RunLight("asset-ratio", LightRequest(task_id="l1")))
        for number in range(2, 5):
            assert (await ask(ref, RunLight("asset-ratio", LightRequest(task_id=f"l{number}")))).ok
    assert runtimes.asked == ["a", "b", "b", "b"]


async def test_runtime_whose_queue_is_full_is_not_shunned() -> None:
    runtimes = PlayedRuntimes(refusal=RuntimeUnavailable("RUNTIME_VITE_QUEUE_FULL", "full", full=True))
    async with admission(runtimes, urls=("a", "b")) as ref:
        with pytest.raises(RuntimeUnavailable):
            await ask(ref, RunLight("asset-ratio", LightRequest(task_id="l1")))
        assert (await ask(ref, RunLight("asset-ratio", LightRequest(task_id="l2")))).ok
    assert runtimes.asked == ["a", "a"]


def test_the_least_busy_runtime_of_the_lane_is_chosen() -> None:
    state = Inflight({"check": 2, "light": 2}, {}, {})
    for url in ("a", "a", "b"):
        state = counted(state, "check", url, +1)
    assert choose(state, "check", ("a", "b"), 0.0) == "b"
    assert choose(state, "light", ("a", "b"), 0.0) == "a"
    assert choose(counted(state, "check", "b", +1), "check", ("a", "b"), 0.0) is None
