"""What stands around a Backend, played: Runtime, Renderers, object store. They fail as the weather says.

A page's source says by itself what must be found in it (`sources.py`). Whatever these players do after a call has
arrived happens outside of any process: it goes on when the caller is dead, and its answer then reaches nobody.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pagegate.renderer.client import AttemptUnknown, WorkerBusy, WorkerUnavailable, WorkerUnreachable
from pagegate.renderer.contract import AttemptError, Diagnosis, Finding, Picture, RenderResult, RenderTask
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import (
    CompileOutput,
    CompileRequest,
    CompileResult,
    ComponentContract,
    LightRequest,
    LightResult,
    LocatedError,
)
from pagegate.storage.preview_artifacts import ArtifactUnavailable, PreviewArtifacts
from tests.simulation.maker_edges import PlayedProvider, played_light
from tests.simulation.network import Network
from tests.simulation.played_objects import PlayedObjects
from tests.simulation.sources import mark_of, nature_of, picture_of, sha256
from tests.simulation.virtual_loop import LIFE, VirtualLoop

T = TypeVar("T")
OUTPUT_TTL_S = 60.0
RESULT_TTL_S = 60.0
_CALL_TIMEOUT_S = 10.0


@dataclass
class Weather:
    """How likely each fault is at each call, from 0 to 1; and how slow things may be. Calm when all are 0."""

    runtime_refuses: float = 0.0
    runtime_hangs: float = 0.0
    runtime_forgets: float = 0.0
    renderer_refuses: float = 0.0
    renderer_loses_answer: float = 0.0
    renderer_hangs: float = 0.0
    renderer_errs: float = 0.0
    renderer_repeats: float = 0.0
    objects_fail: float = 0.0
    wire_refuses: float = 0.0
    wire_loses: float = 0.0
    wire_repeats: float = 0.0
    wire_strays: float = 0.0
    wire_stalls: float = 0.0
    wire_cuts: float = 0.0
    builder_botches: float = 0.0
    provider_refuses: float = 0.0
    provider_declines: float = 0.0
    provider_hangs: float = 0.0
    provider_loses: float = 0.0
    provider_garbles: float = 0.0
    slow_s: float = 0.0

    def calm_down(self) -> None:
        for name in vars(self):
            setattr(self, name, 0.0)


@dataclass
class Surroundings:
    """Everything around the Backends. `states` are the artifacts of each Backend address that is alive.

    `compiles_max`: how many compiles a Backend may have in flight; who sees more says so to `broken`. `drowsy`: how
    likely who calls falls asleep while the call is on its way.
    """

    loop: VirtualLoop
    note: Callable[..., None]
    compiles_max: int = 2
    broken: Callable[[str], None] = lambda _: None
    drowsy: float = 0.0
    fall_asleep: Callable[[], bool] = lambda: False
    weather: Weather = field(default_factory=Weather)
    states: dict[str, PreviewArtifacts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runtime = PlayedRuntime(self)
        self.objects = PlayedObjects(self)
        self.network = Network(self)
        self.provider = PlayedProvider(self)
        self.renderers: dict[str, PlayedRenderer] = {}

    def strikes(self, likelihood: float) -> bool:
        return likelihood > 0 and self.loop.chance.random() < likelihood

    async def travel(self) -> None:
        """The time that a call is on its way."""
        takes_s = self.loop.chance.uniform(0.0005, 0.01)
        if self.strikes(0.2 if self.weather.slow_s else 0.0):
            takes_s += self.loop.chance.uniform(0, self.weather.slow_s)
        await asyncio.sleep(takes_s)
        if self.strikes(self.drowsy) and self.fall_asleep():
            await asyncio.sleep(0)

    def who(self) -> str:
        life = LIFE.get()
        return life.name if life is not None else "people"


class PlayedRuntime:
    """`compile` reads the artifact as the real one does, takes its time, and keeps an output for a while."""

    def __init__(self, around: Surroundings) -> None:
        self._around, self._loop = around, around.loop
        self._outputs: dict[str, tuple[str, float]] = {}  # id -> mark, until when
        self._made = 0
        self._inflight: Counter[str] = Counter()  # by Backend; one that is killed keeps its own for ever

    async def compile(self, url: str, request: CompileRequest, *, timeout_s: float) -> CompileResult:
        self._inflight[request.backend_url] += 1
        if (count := self._inflight[request.backend_url]) > self._around.compiles_max:
            self._around.broken(f"{request.backend_url} has {count} compiles in flight")
        try:
            return await self._compile(request, timeout_s)
        finally:
            self._inflight[request.backend_url] -= 1

    async def _compile(self, request: CompileRequest, timeout_s: float) -> CompileResult:
        around, chance = self._around, self._loop.chance
        await around.travel()
        if around.strikes(around.weather.runtime_refuses):
            raise chance.choice(
                [
                    RuntimeUnavailable("RUNTIME_VITE_QUEUE_FULL", "full", full=True),
                    RuntimeUnavailable("RUNTIME_UNREACHABLE", "does not answer"),
                ]
            )
        mark = mark_of(await self._source(request))
        hangs = around.strikes(around.weather.runtime_hangs)
        takes_s = chance.choice([timeout_s + 1, timeout_s - 0.01, 7.0]) if hangs else chance.uniform(0.02, 0.8)
        answer: asyncio.Future[CompileResult] = self._loop.create_future()
        self._loop.call_outside(takes_s, self._finish, mark, answer, request.contract)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            around.note(around.who(), "compile timed out", page=mark)
            raise RuntimeUnavailable("RUNTIME_REQUEST_TIMEOUT", "no answer in time") from None

    async def light(
        self,
        url: str,
        tool: str,
        request: LightRequest,
        file: AsyncIterator[bytes] | None,
        *,
        timeout_s: float,
    ) -> LightResult:
        try:
            async with asyncio.timeout(min(timeout_s, _CALL_TIMEOUT_S)):
                return await played_light(self._around, request, file)
        except TimeoutError:
            raise RuntimeUnavailable("RUNTIME_REQUEST_TIMEOUT", "no answer in time") from None

    async def delete_output(self, url: str, output_id: str) -> None:
        await self._around.travel()
        if not self._around.strikes(self._around.weather.runtime_refuses):
            self._outputs.pop(output_id, None)

    def keep(self, mark: str, ttl_s: float) -> str:
        """An output of a page, by its name."""
        self._made += 1
        name = f"out{self._made}"
        self._outputs[name] = (mark, self._loop.time() + ttl_s)
        return name

    def forget(self) -> None:
        """The process starts anew, without its outputs."""
        self._outputs.clear()

    def find_output(self, output_id: str) -> str | None:
        self.sweep()
        found = self._outputs.get(output_id)
        return found[0] if found else None

    def sweep(self) -> int:
        """Drop what is over its time; answers how many outputs are left."""
        self._outputs = {name: kept for name, kept in self._outputs.items() if kept[1] > self._loop.time()}
        return len(self._outputs)

    async def _source(self, request: CompileRequest) -> str:
        artifacts = self._around.states.get(request.backend_url)
        if artifacts is None:
            raise RuntimeUnavailable("RUNTIME_BACKEND_UNREACHABLE", "the Backend does not answer")
        try:
            manifest = await artifacts.get_manifest(request.artifact_id)
            modules = await artifacts.read_modules(request.artifact_id, manifest["modules"])
        except ArtifactUnavailable:
            raise RuntimeUnavailable("RUNTIME_ARTIFACT_GONE", "the artifact is gone") from None
        return modules[manifest["entry"]]

    def _finish(self, mark: str, answer: "asyncio.Future[CompileResult]", contract: bool) -> None:
        if answer.done():
            return  # cancelled: one signal for everything (V5)
        if nature_of(mark) == "broken":
            error = LocatedError(code="VUE_TEMPLATE_INVALID", message=mark, file="pages/x.vue", line=1)
            answer.set_result(CompileResult(ok=False, errors=[error]))
            return
        name = self.keep(mark, OUTPUT_TTL_S)
        if self._around.strikes(self._around.weather.runtime_forgets):
            self._loop.call_outside(self._loop.chance.uniform(0, 1), self._outputs.pop, name, None)
        output = CompileOutput(
            output_id=name, navigation_url=f"sim://runtime/{name}/", vendor_url="sim://runtime/vendor/", size_bytes=1
        )
        told = ComponentContract() if contract else None
        answer.set_result(CompileResult(ok=True, output=output, contract=told))


class PlayedRenderer:
    """One Renderer: one slot, results for a while, and a process that may be started anew."""

    def __init__(self, around: Surroundings, worker_id: str) -> None:
        self.worker_id = worker_id
        self._around, self._loop = around, around.loop
        self._running: str | None = None
        self._until_free_s = 0.0
        self._known: dict[str, asyncio.Future[RenderResult]] = {}
        self._pictures: dict[str, bytes] = {}
        self._dropped: set[str] = set()
        self._lives = 0

    @property
    def idle(self) -> bool:
        return self._running is None

    def restart(self) -> None:
        """It forgets everything; who waits hears nothing any more, as when a connection is reset."""
        self._lives += 1
        for answer in self._known.values():
            if not answer.done():
                answer.set_exception(AttemptUnknown())
                answer.exception()
        self._known, self._pictures, self._running = {}, {}, None
        self._dropped.clear()

    def start(self, task: RenderTask) -> None:
        if task.attempt_id in self._known:
            return
        if task.attempt_id in self._dropped:
            raise WorkerUnavailable("RENDER_ATTEMPT_DROPPED", "this start comes late")
        if self._running is not None or self._loop.time() < self._until_free_s:
            raise WorkerBusy(self.worker_id)
        around, chance = self._around, self._loop.chance
        self._running = task.attempt_id
        self._known[task.attempt_id] = self._loop.create_future()
        takes_s = chance.uniform(0.05, 1.5)
        if around.strikes(around.weather.renderer_hangs):
            takes_s = chance.choice([12.0, task.deadline_s + 2])  # its own deadline ends it, with a grace
        self._loop.call_outside(takes_s, self._finish, self._lives, task, takes_s > task.deadline_s)

    def end(self, attempt_id: str) -> None:
        """Kill it if it runs, and forget it; a start that comes later starts nothing."""
        self._dropped.add(attempt_id)
        if self._running == attempt_id:
            self._running = None
            self._until_free_s = self._loop.time() + self._loop.chance.choice([0.0, 0.2, 2.0])
        answer = self._known.pop(attempt_id, None)
        self._pictures.pop(attempt_id, None)
        if answer is not None and not answer.done():
            answer.set_exception(AttemptUnknown())
            answer.exception()

    def result(self, attempt_id: str) -> "asyncio.Future[RenderResult]":
        if attempt_id not in self._known:
            raise AttemptUnknown
        return self._known[attempt_id]

    def picture(self, attempt_id: str) -> bytes:
        if attempt_id not in self._pictures:
            raise AttemptUnknown
        return self._pictures[attempt_id]

    def _finish(self, life: int, task: RenderTask, too_late: bool) -> None:
        answer = self._known.get(task.attempt_id)
        if life != self._lives or answer is None or self._running != task.attempt_id:
            return
        self._running = None
        mark = self._around.runtime.find_output(task.bases.navigation_url.rstrip("/").rsplit("/", 1)[-1])
        told: dict[str, Any] = {"attempt_id": task.attempt_id, "worker_id": self.worker_id, "profile_digest": "played"}
        if too_late:
            told["error"] = AttemptError(code="RENDER_DEADLINE_EXCEEDED", message="took too long")
        elif mark is None:
            told["error"] = AttemptError(code="RENDER_PAGE_UNREACHABLE", message="the output is gone")
        elif self._around.strikes(self._around.weather.renderer_errs):
            told["error"] = AttemptError(code="RENDER_BROWSER_LOST", message="the browser is gone")
        else:
            told |= self._look(task.attempt_id, mark, task.operation)
        answer.set_result(RenderResult(**told))
        self._loop.call_outside(RESULT_TTL_S, self.end, task.attempt_id)

    def _look(self, attempt_id: str, mark: str, operation: str) -> dict[str, Any]:
        nature = nature_of(mark)
        status: Literal["passed", "warning", "failed"]
        status = {"good": "passed", "warned": "warning", "ugly": "failed"}[nature]  # type: ignore[assignment]
        severity: Literal["error", "warning"] = "error" if nature == "ugly" else "warning"
        findings = [] if nature == "good" else [Finding(code="FOUND", severity=severity, message=mark, hint="")]
        png = self._pictures[attempt_id] = picture_of(mark)
        picture = Picture(sha256=sha256(png), size_bytes=len(png), width_px=1, height_px=1)
        if operation == "page.screenshot":
            return {"picture": picture}
        return {"diagnosis": Diagnosis(status=status, findings=findings), "picture": picture}


@dataclass(frozen=True)
class RendererWire:
    """One process's way to one Renderer; what `Drive` takes for a worker."""

    around: Surroundings
    renderer: PlayedRenderer

    @property
    def worker_id(self) -> str:
        return self.renderer.worker_id

    async def start(self, task: RenderTask) -> None:
        await self._call(lambda: self.renderer.start(task))

    async def wait(self, attempt_id: str, wait_s: float) -> RenderResult | None:
        answer = await self._call(lambda: self.renderer.result(attempt_id))
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(answer)
        except TimeoutError:
            return None

    async def picture(self, attempt_id: str) -> bytes:
        return await self._call(lambda: self.renderer.picture(attempt_id))

    async def delete(self, attempt_id: str) -> None:
        try:
            await self._call(lambda: self.renderer.end(attempt_id))
        except WorkerUnavailable:
            return

    async def is_well(self) -> bool:
        try:
            return await self._call(lambda: True)
        except WorkerUnavailable:
            return False

    async def _call(self, work: Callable[[], T]) -> T:
        around = self.around
        await around.travel()
        if around.strikes(around.weather.renderer_refuses):
            await asyncio.sleep(around.loop.chance.choice([0.0, _CALL_TIMEOUT_S]))
            raise WorkerUnreachable("RENDER_SERVICE_UNAVAILABLE", "does not answer")
        answer = work()
        if around.strikes(around.weather.renderer_repeats):
            around.loop.call_outside(around.loop.chance.choice([0.01, 0.5, 6.0]), self._again, work)
        if around.strikes(around.weather.renderer_loses_answer):
            raise WorkerUnreachable("RENDER_SERVICE_UNAVAILABLE", "answered, and nobody heard it")
        return answer

    @staticmethod
    def _again(work: Callable[[], object]) -> None:
        """The same call arrives a second time, and its answer reaches nobody."""
        with suppress(WorkerUnavailable, WorkerBusy, AttemptUnknown):
            work()
