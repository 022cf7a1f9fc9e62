"""The whole of one attempt, from a task to its result: browser, look, judgement (R2, R4, R7, R9, S3).

Owns the house of browsers, the spare, and the stage of the attempt in hand; one attempt at a time, which is the slot's
to see to (`actors/rendering/slot.py`). The answer comes before the cleaning: `perform` leaves the used browser behind,
`clean` closes it. Survives nothing: a result that was not fetched is rendered again.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagegate.renderer import isolation
from pagegate.renderer.attempt import Attempt, Seen
from pagegate.renderer.browser import BrowserHouse, BrowserLost
from pagegate.renderer.component import ComponentOrigin, about_the_component
from pagegate.renderer.contract import AttemptError, Diagnosis, Picture, RenderResult, RenderTask
from pagegate.renderer.egress import Origin
from pagegate.renderer.isolation import Mode
from pagegate.renderer.observation import Observation, ProbeStep
from pagegate.renderer.options import BrowserOptions
from pagegate.renderer.profile import digest_of, read_profile
from pagegate.renderer.spare import Spare
from pagegate.renderer.stage import Stage

Judge = Callable[[Observation], Diagnosis]

_JUDGE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Performed:
    """The result, and the PNG when one was wanted and taken."""

    result: RenderResult
    png: bytes | None = field(default=None, repr=False)


class Engine:
    """Make one with `Engine.open`. `judge` and `steps` are what the page is judged by."""

    def __init__(
        self, options: BrowserOptions, worker_id: str, judge: Judge, steps: Sequence[ProbeStep], house: BrowserHouse
    ) -> None:
        self.options, self._worker_id, self._judge, self._steps, self._house = options, worker_id, judge, steps, house
        self._spare = Spare(house)
        self._stage: Stage | None = None
        self._cleaning = asyncio.Lock()
        self.profile: dict[str, Any] = {}
        self.profile_digest = ""

    @classmethod
    async def open(cls, options: BrowserOptions, worker_id: str, judge: Judge, steps: Sequence[ProbeStep]) -> "Engine":
        """Find the browser, try how far it can be locked away, read the profile. Raises `NoBrowser`."""
        chromium, mode = await find_browser(options)
        engine = cls(options, worker_id, judge, steps, BrowserHouse(options, chromium, mode))
        engine.profile = await read_profile(options, chromium, mode)
        engine.profile_digest = digest_of(engine.profile)
        await engine._house.open()
        return engine

    async def close(self) -> None:
        """Close every browser, the driver, and remove the work folder."""
        await self._spare.let_go()
        await self.clean(kill=True)
        await self._house.close()

    async def perform(self, task: RenderTask, origin: Origin) -> Performed:
        """Never raises for what a page, a browser or an origin does. The used browser stays until `clean`."""
        started_s = time.perf_counter()
        try:
            async with asyncio.timeout(task.deadline_s):
                self._stage = await self._spare.take()
        except BrowserLost as lost:
            return self._failed(task, AttemptError(code="RENDER_BROWSER_LOST", message=str(lost)))
        except TimeoutError:
            return self._failed(task, AttemptError(code="RENDER_TIMEOUT", message="no browser came up in time"))
        waited_s = time.perf_counter() - started_s
        steps = () if task.operation == "page.screenshot" else self._steps
        if task.operation == "component.diagnose":
            origin = ComponentOrigin(origin, task.props)
        attempt = Attempt(self._stage, origin, task.viewport, options=self.options, steps=steps)
        seen = await attempt.run(max(0.1, task.deadline_s - waited_s))
        seen.timings_ms["browser"] = round(waited_s * 1000, 2)
        if seen.observation is None:
            assert seen.error is not None
            return self._failed(task, seen.error, seen.timings_ms)
        return await self._judged(task, seen, seen.observation, started_s)

    async def clean(self, *, kill: bool = False) -> None:
        """Close the browser of the last attempt: orderly within the grace, else, or with `kill`, at once."""
        used = self._stage
        if kill and used is not None:
            used.fresh.kill()
        async with self._cleaning:  # who comes second waits until the browser is gone too
            if used is not None and self._stage is used:
                await used.fresh.close(0.0 if kill else self.options.cleanup_grace_s)
                self._stage = None

    async def keep_spare(self) -> None:
        """Have a browser ready for the next attempt. Raises `BrowserLost` when none comes up."""
        if self._house.driver_swollen:
            await self.clean()  # the driver is replaced with the next launch, once no browser hangs on it
        await self._spare.kept()

    async def rest(self) -> None:
        """Let the spare and the driver go while nobody needs them."""
        await self._spare.let_go()
        await self._house.rest()

    @property
    def spare_waiting(self) -> bool:
        return self._spare.waiting

    async def _judged(self, task: RenderTask, seen: Seen, observation: Observation, started_s: float) -> Performed:
        mark_s = time.perf_counter()
        png, picture = observation.png, None
        if task.picture and png is not None:
            picture = Picture(
                sha256=hashlib.sha256(png).hexdigest(),
                size_bytes=len(png),
                width_px=observation.viewport_width_px,
                height_px=observation.png_height_px,
                cut=observation.cut,
            )
        diagnosis: Diagnosis | None = None
        if task.operation != "page.screenshot" or png is None:
            try:
                # Pixels are judged beside the loop, which has a slot to answer for.
                async with asyncio.timeout(_JUDGE_TIMEOUT_S):
                    diagnosis = await asyncio.to_thread(self._judge, observation)
            except TimeoutError:
                return self._failed(task, AttemptError(code="RENDER_TIMEOUT", message="judging the page took too long"))
        if diagnosis is not None and task.operation == "component.diagnose":
            diagnosis = about_the_component(diagnosis)
        seen.timings_ms["judge"] = round((time.perf_counter() - mark_s) * 1000, 2)
        seen.timings_ms["total"] = round((time.perf_counter() - started_s) * 1000, 2)
        result = RenderResult(
            attempt_id=task.attempt_id,
            worker_id=self._worker_id,
            profile_digest=self.profile_digest,
            diagnosis=diagnosis,
            picture=picture,
            picture_error=_picture_error(task, seen, picture),
            timings_ms=seen.timings_ms,
        )
        return Performed(result, png if picture is not None else None)

    def _failed(self, task: RenderTask, error: AttemptError, timings_ms: dict[str, float] | None = None) -> Performed:
        return Performed(
            RenderResult(
                attempt_id=task.attempt_id,
                worker_id=self._worker_id,
                profile_digest=self.profile_digest,
                error=error,
                timings_ms=timings_ms or {},
            )
        )


async def find_browser(options: BrowserOptions) -> tuple[Path, Mode]:
    """The browser of this machine and the best isolation it starts in. Raises `NoBrowser`."""
    chromium = await asyncio.to_thread(isolation.find_chromium, options.chromium_path)
    if options.work_folder is not None:
        await asyncio.to_thread(options.work_folder.mkdir, parents=True, exist_ok=True)
    return chromium, await isolation.probe(chromium, options.isolation, folder=options.work_folder)


def _picture_error(task: RenderTask, seen: Seen, picture: Picture | None) -> str | None:
    if not task.picture or picture is not None:
        return None
    return seen.picture_error or "RENDER_PICTURE_NONE"
