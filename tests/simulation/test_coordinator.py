"""The real coordinator in virtual time: turns of classes and workspaces, attempts that are lost (R2, R3; CASES 18, 19).

Jobs are played: whoever wants a render enqueues it. Coordinator, drive and SQL are the real ones, the Renderers take
seeded times.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from sqlalchemy import select

from pagegate.actors.kernel import ask, stop
from pagegate.actors.rendering.coordinator import AwaitRender, RenderCoordinator, RenderLimits, RenderWanted
from pagegate.actors.rendering.drive import Drive
from pagegate.renderer.client import WorkerUnavailable
from pagegate.renderer.contract import RenderResult
from pagegate.storage import jobs, renders, runs, schema
from pagegate.storage.lease import Lease
from pagegate.storage.objects import Objects
from pagegate.storage.renders import Klass
from pagegate.storage.runs import CallSubmission, StepSubmission
from tests.simulation.database import Server, Wire
from tests.simulation.edges import PlayedRenderer, RendererWire, Surroundings
from tests.simulation.people import People
from tests.simulation.sources import mark_of, source_of
from tests.simulation.virtual_loop import VirtualLoop, simulate
from tests.simulation.world import workshop

_LEASE_MS = 3_600_000
_SERVED_WITHIN_S = 120.0
_BASES = {"vendor_url": "sim://runtime/vendor/", "assets_url": "sim://backend/assets/"}


@dataclass
class Stage:
    """A coordinator, its Renderers, two workspaces, and one job that asks for everything."""

    loop: VirtualLoop
    wire: Wire
    around: Surroundings
    coordinator: Any = None
    workspaces: list[int] = field(default_factory=list)
    job: Lease | None = None
    wanted: dict[int, str] = field(default_factory=dict)

    async def want(self, klass: Klass, workspace: int, name: str = "") -> int:
        assert self.job is not None
        output = self.around.runtime.keep(mark_of(source_of("good", 1)), _LEASE_MS / 1000)
        bases = {**_BASES, "navigation_url": f"sim://runtime/{output}/"}
        async with self.wire.write() as tx:
            request_id = await renders.enqueue_request(
                tx,
                self.job,
                workspace_id=self.workspaces[workspace],
                klass=klass,
                operation="page.diagnose",
                payload={"bases": bases, "viewport": {"width_px": 1280}},
                queue_size_max=1_000,
                workspace_queue_size_max=1_000,
            )
        self.wanted[request_id] = name or f"{klass} of {workspace}"
        self.coordinator.tell(RenderWanted())
        return request_id

    async def served(self) -> list[str]:
        """What was given a slot, in order; one that was tried again counts once for each time."""
        attempts = schema.render_attempts
        async with self.wire.read() as tx:
            rows = await tx.execute(select(attempts.c.request_id).order_by(attempts.c.id))
            return [self.wanted[request_id] for request_id in rows.scalars()]

    async def until_served(self, name: str) -> list[str]:
        deadline_s = self.loop.time() + _SERVED_WITHIN_S
        while name not in (served := await self.served()):
            assert self.loop.time() < deadline_s, f"{name} is not served"
            await asyncio.sleep(0.2)
        return served


def play_on_stage(
    seed: int,
    story: Callable[[Stage], Coroutine[Any, Any, list[str]]],
    *,
    renderers: int = 1,
    workspace_max: int = 1,
    wire: type[RendererWire] = RendererWire,
) -> list[str]:
    async def world(loop: VirtualLoop) -> list[str]:
        server = Server(loop, path, lambda *_, **__: None)
        around = Surroundings(loop, lambda *_, **__: None)
        stage = Stage(loop, Wire(server), around)
        people = People(cast(Any, stage))
        await people.settle_in(2)
        stage.workspaces = [place.workspace_id for place in people.places]
        place = people.places[0]
        async with stage.wire.write() as tx:
            call = CallSubmission("c", "create_project_page", {}, "page", "page")
            await runs.submit_step(tx, StepSubmission(place.workspace_id, place.project_id, place.user_id, [call]))
            claimed = await jobs.claim_job(tx, jobs.PAGE_MUTATION, "worker", _LEASE_MS)
            assert claimed is not None
            stage.job = claimed.lease
        workers = [wire(around, PlayedRenderer(around, f"renderer{number}")) for number in range(renderers)]
        limits = RenderLimits(renderers, workspace_max, attempts_max=3, budget_s=600.0, lease_s=10.0)
        db = stage.wire.database
        drive = Drive(db, cast(Objects, around.objects), limits.lease_s)
        stage.coordinator = RenderCoordinator.start(db, "a:1:a", workers, drive, limits)
        try:
            return await story(stage)
        finally:
            await stop(stage.coordinator)
            server.close()

    with workshop() as (folder, template):
        path = Path(folder) / "stage.db"
        path.write_bytes(template.read_bytes())
        return simulate(seed, world)


def test_a_small_workspace_gets_the_next_slot_behind_a_large_one(seed: int) -> None:
    """CASE 18."""

    async def story(stage: Stage) -> list[str]:
        for _ in range(60):
            await stage.want("interactive", 0, "large")
        before = len(await stage.served())
        await stage.want("interactive", 1, "small")
        return (await stage.until_served("small"))[before:]

    served = play_on_stage(seed, story)
    assert served.index("small") <= 1, "one may have been picked just before"


def test_a_workspace_at_its_limit_leaves_the_other_slot_to_the_small_one(seed: int) -> None:
    """CASE 18, with a slot to spare: the large workspace may not have it."""

    async def story(stage: Stage) -> list[str]:
        stage.around.weather.renderer_hangs = 1.0  # nothing ends soon
        for _ in range(60):
            await stage.want("interactive", 0, "large")
        assert await stage.served() == ["large"]
        await stage.want("interactive", 1, "small")
        return await stage.until_served("small")

    assert play_on_stage(seed, story, renderers=2) == ["large", "small"]


def test_a_background_render_runs_by_the_fourth_pick_of_endless_interactive_work(seed: int) -> None:
    """CASE 19, twice: the second one begins to wait when the first is served, which is when the count begins anew."""

    async def story(stage: Stage) -> list[str]:
        async def endless() -> None:
            while True:
                await stage.want("interactive", stage.loop.chance.randrange(2), "interactive")
                await asyncio.sleep(stage.loop.chance.uniform(0, 0.5))

        asking = asyncio.create_task(endless())
        await asyncio.sleep(5)
        before = len(await stage.served())
        await stage.want("background", stage.loop.chance.randrange(2), "first")
        await stage.want("background", stage.loop.chance.randrange(2), "second")
        served = (await stage.until_served("second"))[before:]
        asking.cancel()
        return served

    served = play_on_stage(seed, story)
    assert served.index("first") <= 4, "the fourth pick, and one that was made just before it was asked for"
    assert served.index("second") - served.index("first") == 4


def test_both_classes_take_turns_three_to_one_while_both_wait(seed: int) -> None:
    async def story(stage: Stage) -> list[str]:
        for _ in range(12):
            await stage.want("interactive", 0, "i")
            await stage.want("background", 1, "b")
        while len(served := await stage.served()) < 14:
            await asyncio.sleep(0.2)
        return served

    served = play_on_stage(seed, story)[1:]  # the first was picked when nothing else waited
    places = [place for place, name in enumerate(served) if name == "b"]
    assert len(places) >= 3
    assert all(later - earlier == 4 for earlier, later in pairwise(places))


class FirstCallHangs(RendererWire):
    """A Renderer whose first answer never comes: its caller waits longer than the attempt's lease."""

    async def wait(self, attempt_id: str, wait_s: float) -> RenderResult | None:
        if self.worker_id == "renderer0":
            await asyncio.sleep(wait_s + 10)
            raise WorkerUnavailable("RENDER_SERVICE_UNAVAILABLE", "does not answer")
        return await super().wait(attempt_id, wait_s)


def test_a_request_is_tried_again_while_its_lost_attempt_is_still_driven(seed: int) -> None:
    """The lost one ends later, when nobody waits for it; it takes nothing of the other with it."""

    async def story(stage: Stage) -> list[str]:
        request_id = await stage.want("interactive", 0, "page")
        life = stage.coordinator._actor_weakref()
        ended = await ask(stage.coordinator, AwaitRender(request_id), 60)
        assert (ended.status, ended.attempt) == ("succeeded", 2)
        await asyncio.sleep(10)  # the hanging call ends
        await stage.want("interactive", 1, "another")
        served = await stage.until_served("another")
        assert stage.coordinator._actor_weakref() is life, "the coordinator crashed and was started anew"
        return served

    assert play_on_stage(seed, story, renderers=2, wire=FirstCallHangs)[:2] == ["page", "page"]
