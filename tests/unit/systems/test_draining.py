"""The order in which a Backend stops taking work (Q10, S6)."""

import asyncio
from typing import Any, cast

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


async def test_the_screenshot_queue_stops_claiming_first_and_neither_is_waited_for_before_the_other_stops() -> None:
    heard: list[tuple[str, str]] = []
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
    system = BackendSystem(options)
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
