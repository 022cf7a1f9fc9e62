"""The cost of a message: the asyncio kernel beside Pykka's own `ThreadingActor`, in one run.

Owns two actors that only count. `ask` is a question and its answer, one after the other; `tell` is how fast messages
are taken in, until the last one has been handled.
"""

import asyncio
import statistics
import time
from dataclasses import dataclass
from typing import Any

import pykka

from pagegate.actors.kernel import Actor, Asks, ask, stop

ROUNDS = 7
ASKS = 4_000
TELLS = 20_000


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
    """Messages a second, the medians of a few rounds in turns, by `kernel_ask`, `kernel_tell`, `threads_…`."""
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, rate in zip(("kernel_ask", "kernel_tell"), await _kernel(), strict=True):
            rates.setdefault(name, []).append(rate)
        for name, rate in zip(("threads_ask", "threads_tell"), await asyncio.to_thread(_threads), strict=True):
            rates.setdefault(name, []).append(rate)
    return {name: statistics.median(found) for name, found in rates.items()}


async def _kernel() -> tuple[float, float]:
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
    return asked, told


def _threads() -> tuple[float, float]:
    ref = _CountingThread.start()
    try:
        started_s = time.perf_counter()
        for _ in range(ASKS):
            ref.ask(_HowMany())
        asked = ASKS / (time.perf_counter() - started_s)
        started_s = time.perf_counter()
        for _ in range(TELLS):
            ref.tell(_HowMany())
        ref.ask(_HowMany())
        return asked, TELLS / (time.perf_counter() - started_s)
    finally:
        ref.stop()
