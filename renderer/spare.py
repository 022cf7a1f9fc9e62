"""One stage ahead: a browser that is launched, made ready and never used, for whoever comes next (R4).

Owns the spare and the task that prepares it. `take` gives the spare away, or makes one; a spare whose browser died
while it waited is thrown away and replaced, so that its death is nobody's failed attempt.
"""

import asyncio
import contextlib

import structlog
from playwright.async_api import Error as PlaywrightError

from pagegate.renderer.browser import BrowserHouse, BrowserLost
from pagegate.renderer.stage import Stage, prepare

log = structlog.get_logger()


class Spare:
    """At most one stage is waiting or being prepared."""

    def __init__(self, house: BrowserHouse) -> None:
        self._house = house
        self._coming: asyncio.Task[Stage] | None = None

    @property
    def waiting(self) -> bool:
        """A stage is ready and its browser alive."""
        coming = self._coming
        return coming is not None and _is_good(coming)

    def keep(self) -> None:
        """Begin to prepare one, if none is waiting or on its way."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._make(), name="spare browser")

    async def kept(self) -> None:
        """Return when the spare that is on its way is there. Raises `BrowserLost` when it could not be made."""
        self.keep()
        assert self._coming is not None
        try:
            await asyncio.shield(self._coming)
        except BrowserLost:
            self._coming = None
            raise

    async def take(self) -> Stage:
        """A stage of one's own. Raises `BrowserLost`. Who is cancelled leaves the spare to the next one."""
        while True:
            self.keep()
            coming = self._coming
            assert coming is not None
            try:
                stage = await asyncio.shield(coming)
            except BrowserLost:
                if self._coming is coming:
                    self._coming = None
                raise
            if self._coming is coming:
                self._coming = None
            if stage.fresh.alive:
                return stage
            log.warning("renderer.spare_lost")
            await stage.fresh.close(0.0)

    async def let_go(self) -> None:
        """Close the spare, and end one that is on its way."""
        coming, self._coming = self._coming, None
        if coming is None:
            return
        if not coming.done():
            coming.cancel()
        with contextlib.suppress(asyncio.CancelledError, BrowserLost):
            stage = await coming
            await stage.fresh.close(self._house.options.cleanup_grace_s)

    async def _make(self) -> Stage:
        fresh = await self._house.launch()
        try:
            async with asyncio.timeout(self._house.options.launch_timeout_s):
                return await prepare(fresh)
        except (PlaywrightError, TimeoutError) as error:
            await fresh.close(0.0)
            raise BrowserLost("the browser went away before it was used") from error
        except BaseException:
            await asyncio.shield(fresh.close(0.0))
            raise


def _is_good(coming: "asyncio.Task[Stage]") -> bool:
    done_well = coming.done() and not coming.cancelled() and coming.exception() is None
    return done_well and coming.result().fresh.alive
