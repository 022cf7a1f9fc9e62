"""The order in which a Backend stops taking work (Q10, S6)."""

import asyncio
from typing import Any, cast

import pytest

from pagegate.actors.kernel import Actor, Reply, stop
from pagegate.actors.queues.queue import Drain, GetQueueState, QueueState
from pagegate.actors.systems.backend import BackendOptions, BackendSystem


class Queue(Actor):
    """In the place of a job queue: it is drained when the test says so."""

    def __init__(self, name: str, heard: list[tuple[str, str]]) -> None:
        super().__init__()
        self.name, self.heard = name, heard
        self.draining: list[Reply[None]] = []

    async def on_receive(self, message: Any) -> Any:
        match message:
            case Drain():
                self.heard.append((self.name, "drain"))
                self.draining.append(self.defer_reply())
            case GetQueueState():
                self.heard.append((self.name, "state"))
                return QueueState(frozenset(), draining=bool(self.draining))
            case "drained":
                for reply in self.draining:
                    reply.give(None)
                self.heard.append((self.name, "drained"))


def drained_system() -> BackendSystem:
    """Of it only the queues are looked at, which the test gives it."""
    options = BackendOptions(
        database_url="sqlite+aiosqlite:///unused",
        objects_dir=cast(Any, None),
        keys=cast(Any, None),
        preview_url="",
        internal_url="",
        runtime_urls=(),
        render_workers=(),
        render_credential="",
    )
    return BackendSystem(options)


async def test_the_screenshot_queue_stops_claiming_first_and_neither_is_waited_for_before_the_other_stops() -> None:
    heard: list[tuple[str, str]] = []
    system = drained_system()
    system.queue, system.screenshot_queue = Queue.start("pages", heard), Queue.start("screenshots", heard)
    draining = asyncio.create_task(system.drain())
    async with asyncio.timeout(10):
        while ("pages", "drain") not in heard:
            await asyncio.sleep(0)
    assert heard == [("screenshots", "drain"), ("screenshots", "state"), ("pages", "drain")]
    assert not draining.done()
    for queue in (system.queue, system.screenshot_queue):
        queue.tell("drained")
    await draining
    for queue in (system.queue, system.screenshot_queue):
        await stop(queue)


@pytest.mark.parametrize("dead", ["pages", "screenshots", "sizes"])
async def test_a_queue_that_is_dead_keeps_no_other_from_ending_its_jobs(dead: str) -> None:
    heard: list[tuple[str, str]] = []
    queues = {name: Queue.start(name, heard) for name in ("pages", "screenshots", "sizes")}
    system = drained_system()
    system.queue, system.screenshot_queue = queues["pages"], queues["screenshots"]
    system._other_queues = [queues["sizes"]]
    await stop(queues.pop(dead))
    draining = asyncio.create_task(system.drain())
    async with asyncio.timeout(10):
        while not all((name, "drain") in heard for name in queues):
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not draining.done()
        for queue in queues.values():
            queue.tell("drained")
        await draining
    for queue in queues.values():
        await stop(queue)
