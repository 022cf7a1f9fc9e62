"""The cost of a message: the asyncio kernel beside Pykka's own `ThreadingActor`, in one run.

Owns two actors that only count. `ask` is a question and its answer, one after the other; `tell` is how fast messages
are taken in, until the last one has been handled.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pykka

from pagegate.actors.kernel import Actor, Asks, ask, stop

ASKS = 20_000
TELLS = 100_000
THREAD_SHARE = 5  # the threads do a fifth of the work: they take the rest of the time


@dataclass(frozen=True)
class _HowMany(Asks[int]):
    pass


class _Counting(Actor):
    def __init__(self) -> None:
        super().__init__()
        self._heard = 0

    async def on_receive(self, _message: Any) -> Any:
        self._heard += 1
        return self._heard


class _CountingThread(pykka.ThreadingActor):
    def __init__(self) -> None:
        super().__init__()
        self._heard = 0

    def on_receive(self, _message: Any) -> Any:
        self._heard += 1
        return self._heard


async def measure_mailboxes() -> dict[str, float]:
    """Messages a second: `kernel_ask`, `kernel_tell`, `threads_ask`, `threads_tell`."""
    ref = _Counting.start()
    started_s = time.perf_counter()
    for _ in range(ASKS):
        await ask(ref, _HowMany())
    asked = ASKS / (time.perf_counter() - started_s)
    started_s = time.perf_counter()
    for _ in range(TELLS):
        ref.tell(_HowMany())
    await ask(ref, _HowMany())
    told = TELLS / (time.perf_counter() - started_s)
    await stop(ref)
    thread_asked, thread_told = await asyncio.to_thread(_measure_threads)
    return {"kernel_ask": asked, "kernel_tell": told, "threads_ask": thread_asked, "threads_tell": thread_told}


def _measure_threads() -> tuple[float, float]:
    ref = _CountingThread.start()
    try:
        started_s = time.perf_counter()
        for _ in range(ASKS // THREAD_SHARE):
            ref.ask(_HowMany())
        asked = ASKS // THREAD_SHARE / (time.perf_counter() - started_s)
        started_s = time.perf_counter()
        for _ in range(TELLS // THREAD_SHARE):
            ref.tell(_HowMany())
        ref.ask(_HowMany())
        return asked, TELLS // THREAD_SHARE / (time.perf_counter() - started_s)
    finally:
        ref.stop()
