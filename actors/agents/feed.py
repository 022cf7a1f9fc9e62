"""A hint that a run has news, so that a stream need not wait for its next poll (A7, K6).

Owns the wake-up flags of this process's open streams. Hears `publish(run_id)` after the commit that wrote an event;
tells nobody anything that matters: events are rows, and a stream that is never woken finds them by polling. Survives
nothing.
"""

import asyncio
from types import TracebackType
from typing import Self


class Subscription:
    """One stream's flag. `quiet()` before reading, then `news()`: what is published in between is not missed."""

    def __init__(self, feed: "RunFeed", run_id: int) -> None:
        self._feed, self._run_id, self._flag = feed, run_id, asyncio.Event()

    def __enter__(self) -> Self:
        self._feed._open.setdefault(self._run_id, set()).add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        streams = self._feed._open.get(self._run_id, set())
        streams.discard(self)
        if not streams:
            self._feed._open.pop(self._run_id, None)

    def quiet(self) -> None:
        """Forget earlier news."""
        if not self._feed.closed:
            self._flag.clear()

    def wake(self) -> None:
        self._flag.set()

    async def news(self, wait_s: float) -> bool:
        """Wait for news, at most `wait_s` seconds. False when there was none."""
        try:
            async with asyncio.timeout(wait_s):
                await self._flag.wait()
        except TimeoutError:
            return False
        return True


class RunFeed:
    """Who in this process follows which run."""

    def __init__(self) -> None:
        self._open: dict[int, set[Subscription]] = {}
        self.closed = False

    def subscribe(self, run_id: int) -> Subscription:
        """Use it as a context manager: `with feed.subscribe(run_id) as subscription: …`."""
        return Subscription(self, run_id)

    def publish(self, run_id: int) -> None:
        """Say that the run has a new event. Call it after the commit."""
        for subscription in self._open.get(run_id, ()):
            subscription.wake()

    def close(self) -> None:
        """Wake every stream for good: the process shuts down and streams end at once."""
        self.closed = True
        for subscriptions in self._open.values():
            for subscription in subscriptions:
                subscription.wake()

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return sum(map(len, self._open.values()))
