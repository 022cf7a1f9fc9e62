"""A mailbox: unbounded, in order, for one reader on one loop.

It is unbounded because admission happens before the mailbox (`queues`): what reaches an actor has been let in.
"""

import asyncio
from collections import deque
from typing import Any

from pykka import messages
from pykka._envelope import Envelope  # the type of what Pykka puts here; it is not exported


class Inbox:
    __slots__ = ("_envelopes", "_waiter", "stop_requested")

    def __init__(self) -> None:
        self._envelopes: deque[Envelope[Any]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        # Set as soon as a stop is put, before it is read: an actor that waits to be restarted is not waited for.
        self.stop_requested = asyncio.Event()

    def put(self, envelope: Envelope[Any], /) -> None:
        self._envelopes.append(envelope)
        if isinstance(envelope.message, messages._ActorStop):
            self.stop_requested.set()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def empty(self) -> bool:
        return not self._envelopes

    def get(self) -> Envelope[Any]:
        """Pykka's protocol: the next envelope, which must be there."""
        return self._envelopes.popleft()

    async def arrival(self) -> None:
        """Wait until there is an envelope."""
        while not self._envelopes:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
