"""One attempt: a page is opened in a fresh browser, brought to rest, photographed and asked (R4, R9-R11, X3).

Owns one stage from the first request to the last answer; closing the browser is its owner's business. Ends in one of
two ways, which cannot be confused (R9): an `Observation` of the page, or an `AttemptError` because nothing can be said
about it. Beside the attempt itself three watches run, and whoever ends first decides: the page's thread (stuck for
`stuck_after_s` while the browser answers: content), its memory (content), the browser and the origin (infrastructure).
Survives nothing.
"""

import asyncio
import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Error as PlaywrightError

from pagegate.renderer.asking import NoAnswer, PageQuestions
from pagegate.renderer.contract import AttemptError, Viewport
from pagegate.renderer.egress import ORIGIN, Origin
from pagegate.renderer.gate import Gate
from pagegate.renderer.guards import Ending, Guards
from pagegate.renderer.hearing import Hearing
from pagegate.renderer.interrupt import Interrupt
from pagegate.renderer.observation import Observation, ProbeStep, StuckPhase
from pagegate.renderer.options import AUTO_VIEWPORT_HEIGHT_PX, BrowserOptions
from pagegate.renderer.settle import Settling
from pagegate.renderer.stage import Stage

_STACK_WITHIN_S = 1.0
_AFTER_PICTURE_S = 0.5  # of the deadline, for the questions that are still to be asked
_SOURCE_MAP = "/page.js.map"


@dataclass(slots=True)
class Seen:
    """What an attempt found out: exactly one of `observation` and `error`. Times in ms."""

    observation: Observation | None = None
    error: AttemptError | None = None
    picture_error: str | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)


class Attempt:
    """Run it once, on a stage that nobody has used."""

    def __init__(
        self,
        stage: Stage,
        origin: Origin,
        viewport: Viewport,
        *,
        options: BrowserOptions,
        steps: Sequence[ProbeStep] = (),
    ) -> None:
        self._stage, self._origin, self._viewport, self._options, self._steps = stage, origin, viewport, options, steps
        self._fresh = stage.fresh
        self._observed = Observation(
            viewport_width_px=viewport.width_px,
            viewport_height_px=viewport.height_px or AUTO_VIEWPORT_HEIGHT_PX,
            height_auto=viewport.height_px is None,
        )
        self._gate = Gate(origin, self._observed, timeout_s=options.origin_timeout_s, fault=self._end)
        self._hearing = Hearing(
            self._observed,
            self._gate,
            too_many_dialogs=lambda: self._end("stuck"),
            left=lambda: self._end("left"),
            looping=self._end_early,
        )
        self._settling: Settling | None = None
        self._interrupt = Interrupt(self._fresh.cdp)
        self._phase: StuckPhase = ""
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._seen = Seen()
        self._deadline_s = 0.0

    async def run(self, deadline_s: float) -> Seen:
        """Everything, within `deadline_s` from now. Does not close the browser. Cancelling it is safe."""
        started_s = time.perf_counter()
        self._deadline_s = started_s + deadline_s
        guards = Guards(
            self._stage,
            self._options,
            self._observed,
            lambda: self._hearing.heard,
            self._end,
            self._interrupt.where,
        )
        looking = asyncio.create_task(self._look())
        tasks = [looking, asyncio.create_task(guards.memory()), asyncio.create_task(guards.thread())]
        try:
            first: set[asyncio.Future[Any]] = {looking, self._ending}
            await asyncio.wait(first, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
            await self._conclude(looking)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stage.handler = None
        self._seen.timings_ms["attempt"] = _ms_since(started_s)
        return self._seen

    def _end(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    def _end_early(self) -> None:
        if self._settling is not None:
            self._settling.end_early()

    async def _conclude(self, looking: "asyncio.Task[None]") -> None:
        faulty = self._ending.done() and isinstance(self._ending.result(), AttemptError)
        if looking.done() and looking.exception() is None and not faulty:
            self._seen.observation = self._observed
            return
        if looking.done() and not self._ending.done():
            # The look failed; why is often known a moment later.
            await asyncio.wait({self._ending}, timeout=0.3)
        if self._ending.done():
            await self._take(self._ending.result())
        elif not looking.done():
            self._seen.error = AttemptError(code="RENDER_TIMEOUT", message="the attempt's time was used up")
        else:
            self._seen.error = self._why_lost(looking.exception())

    async def _take(self, ending: Ending) -> None:
        if isinstance(ending, AttemptError):
            self._seen.error = ending
            return
        if ending == "memory":
            self._observed.killed_by_memory = True
            await self._fetch_source_map()
        elif ending == "crashed":
            self._observed.crashed = True
        elif ending == "stuck":
            self._observed.stuck, self._observed.stuck_phase = True, self._phase
            # Where it is, and the map that makes an author's line of it.
            self._observed.stuck_stack = await self._interrupt.where(_STACK_WITHIN_S)
            await self._fetch_source_map()
        self._seen.observation = self._observed

    def _why_lost(self, error: BaseException | None) -> AttemptError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, PlaywrightError | NoAnswer):
            assert error is not None
            raise error
        return AttemptError(code="RENDER_BROWSER_LOST", message="the browser went away or no longer answers")

    # -- the look -------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        mark = time.perf_counter()
        questions = PageQuestions(self._fresh.cdp, self._fresh.frame_id)
        scroll_to_px = self._options.picture_height_px_max if self._observed.height_auto else 0
        self._stage.handler = self._gate.handle
        self._hearing.attach(self._fresh)
        settling = Settling(
            self._stage,
            questions,
            self._gate,
            self._options,
            scroll_to_px=scroll_to_px,
            heard=lambda: self._hearing.heard + len(self._observed.errors) + len(self._observed.rejections),
        )
        self._settling = settling
        await self._set_viewport()
        self._phase = "load"
        await self._navigate()
        await settling.wait_for_load()
        mark = self._lap("load", mark)
        if settling.loaded:
            self._phase = "settle"
        settled = await settling.run()
        self._observed.settled, self._observed.mounted = settled.settled, settled.mounted
        self._observed.page_width_px, self._observed.page_height_px = settled.width_px, settled.height_px
        mark = self._lap("settle", mark)
        self._phase = "picture"
        async with asyncio.TaskGroup() as side:
            side.create_task(self._fetch_source_map())
            await self._photograph_and_ask(questions)
        self._lap("look", mark)

    async def _photograph_and_ask(self, questions: PageQuestions) -> None:
        """The main picture comes before the first step. While it is being encoded the page has time for questions,
        unless the picture is taller than the viewport: for that the browser lays the page out anew for a moment."""
        steps = list(self._steps)
        together = [steps.pop(0)] if steps and not steps[0].shot and not self._is_tall else []
        async with asyncio.TaskGroup() as both:
            both.create_task(self._photograph())
            for step in together:
                both.create_task(self._probe(questions, step))
        self._phase = "probe"
        for step in steps:
            await self._probe(questions, step)

    @property
    def _is_tall(self) -> bool:
        return self._observed.height_auto and self._observed.page_height_px > self._observed.viewport_height_px

    async def _set_viewport(self) -> None:
        wanted = {"width": self._observed.viewport_width_px, "height": self._observed.viewport_height_px}
        if self._fresh.page.viewport_size != wanted:
            await self._fresh.page.set_viewport_size(
                {"width": self._observed.viewport_width_px, "height": self._observed.viewport_height_px}
            )

    async def _navigate(self) -> None:
        answer = await self._fresh.cdp.send("Page.navigate", {"url": f"{ORIGIN}/"})
        if answer.get("errorText"):
            # The origin's fault has been told by the gate; this ends the look.
            raise NoAnswer(str(answer["errorText"]))

    async def _photograph(self) -> None:
        height_px = self._observed.page_height_px if self._is_tall else self._observed.viewport_height_px
        limit_px = self._options.picture_height_px_max
        self._observed.cut, height_px = height_px > limit_px, min(height_px, limit_px)
        # What is known of the page by now must not be lost with its picture (S3).
        left_s = self._deadline_s - time.perf_counter() - _AFTER_PICTURE_S
        try:
            async with asyncio.timeout(min(self._options.picture_max_s, max(0.0, left_s))):
                self._observed.png = await self._shoot(height_px)
        except (TimeoutError, PlaywrightError) as error:
            if not self._fresh.alive:
                raise NoAnswer("the browser is gone") from error
            self._seen.picture_error = "RENDER_PICTURE_FAILED"
        else:
            self._observed.png_height_px = height_px

    async def _shoot(self, height_px: int, *, quick: bool = False) -> bytes:
        """A PNG from the page's top left corner, as wide as the viewport; `quick` compresses less."""
        order: dict[str, Any] = {"format": "png", "optimizeForSpeed": quick}
        if height_px > self._observed.viewport_height_px:
            width_px = self._observed.viewport_width_px
            # The clip grows, not the viewport: what is 100vh high stays as high as it was.
            order["clip"] = {"x": 0, "y": 0, "width": width_px, "height": height_px, "scale": 1}
            order["captureBeyondViewport"] = True
        return base64.b64decode((await self._fresh.cdp.send("Page.captureScreenshot", order))["data"])

    async def _probe(self, questions: PageQuestions, step: ProbeStep) -> None:
        try:
            self._observed.probe[step.name] = await questions.ask(
                f"({step.script})({self._probe_input()})", step.timeout_s
            )
            if step.shot and self._observed.png is not None:
                async with asyncio.timeout(self._options.picture_max_s):
                    self._observed.shots[step.name] = await self._shoot(self._observed.png_height_px, quick=True)
        except (NoAnswer, TimeoutError, PlaywrightError) as error:
            if not self._fresh.alive:
                raise NoAnswer("the browser is gone") from error

    def _probe_input(self) -> str:
        seen = self._observed
        auto = "true" if seen.height_auto else "false"
        return (
            f"{{viewport: {{width: {seen.viewport_width_px}, height: {seen.viewport_height_px}, auto: {auto}}}, "
            f"page: {{width: {seen.page_width_px}, height: {seen.page_height_px}}}}}"
        )

    async def _fetch_source_map(self) -> None:
        """A page without one is judged without one."""
        try:
            async with asyncio.timeout(self._options.origin_timeout_s):
                answer = await self._origin.get(_SOURCE_MAP)
        except Exception:  # whatever is wrong with it, the page has been seen
            return
        if answer.status == 200:
            self._observed.source_map = answer.body

    def _lap(self, name: str, since_s: float) -> float:
        self._seen.timings_ms[name] = _ms_since(since_s)
        return time.perf_counter()


def _ms_since(since_s: float) -> float:
    return round((time.perf_counter() - since_s) * 1000, 2)
