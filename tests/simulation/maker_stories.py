"""Schedules of pictures, files and components that a seed would seldom meet, played on purpose (A1, V9, Q3).

The real kinds of jobs on the real SQL, in one process at a time; `killed` is a process that says nothing more.
`stories.py` tells them.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, cast

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.compiling.admission import RuntimeAdmission
from pagegate.actors.jobs.asset_ratio import AssetRatio
from pagegate.actors.jobs.image_generation import ImageGeneration
from pagegate.actors.kernel import stop
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.storage import asset_ratios, assets, images, jobs, projects, runs, users, workspaces
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.lease import LeaseLost
from pagegate.storage.objects import Objects, StoredAsset, asset_key, sha256_of
from pagegate.storage.steps import CallSubmission, StepSubmission
from tests.simulation.database import Server, Wire
from tests.simulation.edges import Surroundings
from tests.simulation.maker_edges import file_of
from tests.simulation.moves import Violation
from tests.simulation.virtual_loop import VirtualLoop

_TTL_MS = 10_000


class MakerScene:
    """One project; a step that calls for one picture; nobody has claimed anything."""

    def __init__(self, loop: VirtualLoop, server: Server, wire: Wire) -> None:
        self.loop, self.server, self.wire = loop, server, wire
        self.said: list[str] = []
        self.around = Surroundings(loop, lambda *_, **__: None)
        self.around.broken = self.said.append
        self.provider = self.around.provider
        self.objects = cast(Objects, self.around.objects)
        self.kind = ImageGeneration(
            wire.database, self.objects, cast(Any, self.provider), self.provider, RunFeed(), lambda: None
        )

    async def set_up(self) -> None:
        async with self.wire.write() as tx:
            self.user = await users.create_user(tx, "ada", is_admin=True)
            self.workspace = await workspaces.create_workspace(tx, "w", self.user)
            self.project = await projects.create_project(
                tx, self.workspace, "p", canvas_width_px=1280, canvas_height_px=720
            )
            arguments = {"name": "hero.png", "prompt": "a hill"}
            call = CallSubmission("c", "generate_image", arguments, "hero.png", kind=images.IMAGE_GENERATION)
            await runs.submit_step(tx, StepSubmission(self.workspace, self.project, self.user, [call]))

    async def claim(self, kind: str = images.IMAGE_GENERATION) -> ClaimedJob:
        async with self.wire.write() as tx:
            job = await jobs.claim_job(tx, kind, "a:0", _TTL_MS)
        assert job is not None
        return job

    async def rescued(self, kind: str = images.IMAGE_GENERATION) -> ClaimedJob:
        """The lease of whoever has the job runs out, and it is claimed again."""
        await asyncio.sleep(_TTL_MS / 1000 + self.loop.chance.uniform(0.01, 2))
        async with self.wire.read() as tx:
            (seen,) = await jobs.list_expired(tx, kind, 10)
        async with self.wire.write() as tx:
            await jobs.rescue_job(tx, kind, seen.id, seen.fence, 9)
        return await self.claim(kind)

    async def put_back(self, job: ClaimedJob, why: TryLater) -> ClaimedJob:
        """Tried again at once, as after a failure of the infrastructure."""
        async with self.wire.write() as tx:
            await jobs.retry_job(tx, job.lease, 0, counts="infra", error={"code": why.code, "message": "", "hint": ""})
        return await self.claim()

    async def killed_while_asking(self, job: ClaimedJob) -> None:
        """The request is on its way and is answered; who sent it is dead."""
        task = asyncio.ensure_future(self.kind.execute(job))
        while not self.provider.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.sleep(6)

    async def settled(self, job: ClaimedJob, settle: Settle) -> End:
        async with self.wire.write() as tx:
            end = await settle(tx)
            await jobs.finish_job(tx, job.lease, end.event, result=end.result, error=end.error)
        return end

    def judge(self) -> None:
        if self.said:
            raise Violation(self.said[0])


async def paid_picture_survives_a_kill(scene: MakerScene) -> None:
    """The answer was heard and kept, and its worker died before the commit: it is found, and nobody is asked again."""
    scene.provider.honours = False
    await scene.kind.execute(await scene.claim())
    job = await scene.rescued()
    end = await scene.settled(job, await scene.kind.execute(job))
    scene.judge()
    if end.event != "finish" or sum(scene.provider.asked.values()) != 1:
        raise Violation(f"a picture that was paid for ends as {end.event}, after {scene.provider.asked} requests")


async def request_nobody_heard_of(scene: MakerScene) -> None:
    """A worker died with its request under way, at a provider that charges each one: it is not sent again."""
    scene.provider.honours = False
    await scene.killed_while_asking(await scene.claim())
    job = await scene.rescued()
    end = await scene.settled(job, await scene.kind.execute(job))
    scene.judge()
    if end.event != "fail" or (end.error or {}).get("code") != "IMAGE_MAY_BE_CHARGED":
        raise Violation(f"a request that may have been charged ends as {end.event}, {end.error}")


async def refusal_after_a_lost_request(scene: MakerScene) -> None:
    """One request was lost; the next says that nothing was made, of itself: what the first made stays remembered."""
    await scene.killed_while_asking(await scene.claim())
    job = await scene.rescued()
    scene.around.weather.provider_refuses = 1.0
    try:
        await scene.kind.execute(job)
    except TryLater as why:
        job = await scene.put_back(job, why)
    scene.around.weather.calm_down()
    scene.provider.honours = False  # the credential was replaced by one of another provider
    await scene.settled(job, await scene.kind.execute(job))
    await asyncio.sleep(6)
    scene.judge()


async def lost_words_of_a_picture(scene: MakerScene) -> None:
    """A worker that had lost its job notes a request, or that nothing was made, and is not believed."""
    old = (await scene.claim()).lease
    await scene.rescued()
    for what, statement in (
        ("notes a request", lambda tx: images.note_sent(tx, old, {})),
        ("notes that nothing was made", lambda tx: images.note_nothing_made(tx, old)),
    ):
        with contextlib.suppress(LeaseLost):
            async with scene.wire.write() as tx:
                await statement(tx)
            raise Violation(f"a worker that had lost its picture {what}, and was believed")


async def size_that_comes_late(scene: MakerScene) -> None:
    """A file is replaced, or measured by another, while it is measured: the late size is refused (V9)."""
    admission = RuntimeAdmission.start(scene.around.runtime, ["sim://runtime"], {"check": 0, "light": 2})
    kind = AssetRatio(scene.wire.database, scene.objects, admission, lambda: None)
    try:
        for meanwhile in ("replaced", "measured"):
            await _put(scene, file_of(1, meanwhile, 30, 20))
            async with scene.wire.write() as tx:
                await asset_ratios.queue_due(tx, limit=9, active_jobs_max=9, deadline_ms=90_000)
            job = await scene.claim(kind.name)
            settle = await kind.execute(job)
            if meanwhile == "replaced":
                await _put(scene, file_of(2, meanwhile, 70, 50))
            else:
                async with scene.wire.write() as tx:
                    size = assets.AssetSize(30, 21)
                    await asset_ratios.record_size(tx, job.row.asset_id, job.row.asset_version, size)
            end = await scene.settled(job, settle)
            if end.event != "skip":
                raise Violation(f"the size of a file that was {meanwhile} came late, and ends as {end.event}")
    finally:
        await stop(admission)


async def _put(scene: MakerScene, content: bytes) -> None:
    sha256 = sha256_of(content)
    stored = StoredAsset("logo.png", "image/png", sha256, len(content), asset_key(scene.project, sha256))
    await scene.objects.put(stored.key, content)
    async with scene.wire.write() as tx:
        await assets.put_asset(tx, scene.project, stored, scene.user)


MAKER_STORIES: dict[str, Callable[[MakerScene], Coroutine[Any, Any, None]]] = {
    "paid picture survives a kill": paid_picture_survives_a_kill,
    "request nobody heard of": request_nobody_heard_of,
    "refusal after a lost request": refusal_after_a_lost_request,
    "lost words of a picture": lost_words_of_a_picture,
    "size that comes late": size_that_comes_late,
}
