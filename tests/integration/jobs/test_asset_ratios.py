"""The lane of asset ratios, whole: scan, queue, worker, kind, the light tool; Runtimes that fail are played (V9).

Real are the database, the object store, the actors and the worker that measures; between admission and tool there is no
wire here (`tests/integration/lite` has it).
"""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pykka
import pytest
from PIL import Image
from sqlalchemy import select, update

from pagegate.actors.compiling.admission import RuntimeAdmission
from pagegate.actors.jobs.asset_ratio import AssetRatio
from pagegate.actors.jobs.asset_ratio_scan import AssetRatioScan, AssetsChanged, RatioJobEnded, ScanLimits
from pagegate.actors.kernel import ask, stop
from pagegate.actors.queues.control import CancelOneJob, JobControl, PauseLane, ResumeLane, RetryLimits
from pagegate.actors.queues.queue import JobQueue, JobsSubmitted
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import LightRequest, LightResult, LightTool
from pagegate.storage import assets, jobs, schema
from pagegate.storage.asset_ratios import ASSET_RATIO_BACKFILL
from pagegate.storage.assets import AssetSize, AssetVersion
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects, ObjectStoreUnavailable, OpenObject, StoredAsset, asset_key, sha256_of
from tests.integration.runtime.lighting import LightTools
from tests.world import World

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 3 2"/>'
_jobs = schema.asset_ratio_backfill_jobs


def png(width_px: int, height_px: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width_px, height_px)).save(file, "png")
    return file.getvalue()


@dataclass
class Runtimes:
    """One Runtime that measures with the real tool. `meanwhile` runs once the file has come, before the answer."""

    tools: LightTools
    folder: Path
    reachable: bool = True
    meanwhile: Callable[[], Awaitable[None]] | None = None
    answer: LightResult | None = None
    asked: list[LightRequest] = field(default_factory=list)
    at_work: int = 0
    at_work_max: int = 0

    async def light(
        self, url: str, tool: LightTool, request: LightRequest, file: AsyncIterator[bytes] | None, *, timeout_s: float
    ) -> LightResult:
        self.asked.append(request)
        self.at_work += 1
        self.at_work_max = max(self.at_work, self.at_work_max)
        try:
            return await self._light(tool, request, file)
        finally:
            self.at_work -= 1

    async def _light(self, tool: LightTool, request: LightRequest, file: AsyncIterator[bytes] | None) -> LightResult:
        assert file is not None
        path = self.folder / request.task_id
        try:
            path.write_bytes(b"".join([chunk async for chunk in file]))
        except Exception as error:
            raise RuntimeUnavailable("RUNTIME_UNREACHABLE", "no more of the file came") from error
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        if not self.reachable:
            raise RuntimeUnavailable("RUNTIME_UNREACHABLE", "nobody listens")
        if self.answer is not None:
            return self.answer
        told = await asyncio.to_thread(self.tools.run, tool, request.input, path)
        return LightResult(ok=not told["errors"], errors=told["errors"], result=told["result"])

    async def compile(self, url: str, request: Any, *, timeout_s: float) -> Any:
        raise AssertionError("nothing is compiled here")

    async def delete_output(self, url: str, output_id: str) -> None:
        raise AssertionError("nothing is compiled here")


@dataclass
class Lane:
    world: World
    objects: Objects
    runtimes: Runtimes
    queue: pykka.ActorRef[Any]
    control: pykka.ActorRef[Any]
    scan: pykka.ActorRef[Any]
    ended: "asyncio.Queue[None]"

    async def save(self, name: str, content: bytes, **known: Any) -> AssetVersion:
        media_type = "image/svg+xml" if name.endswith(".svg") else "image/png"
        digest = sha256_of(content)
        stored = StoredAsset(name, media_type, digest, len(content), asset_key(self.world.projects[0], digest))
        await self.objects.put(stored.key, content)
        version, _ = await self.world.write(
            assets.put_asset, self.world.projects[0], stored, self.world.user_id, **known
        )
        return version

    async def asset(self, name: str) -> AssetVersion:
        found = await self.world.read(assets.find_asset, self.world.projects[0], name)
        assert found is not None
        return found

    async def job(self) -> Any:
        """The newest one."""
        newest = select(_jobs).order_by(_jobs.c.id.desc()).limit(1)
        return (await self.world.read(lambda tx: tx.execute(newest))).one()

    async def look(self) -> None:
        """Look, and wait until one job has ended."""
        self.scan.tell(AssetsChanged())
        async with asyncio.timeout(30):
            await self.ended.get()

    async def until(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(30):
            while not await is_true():
                await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LightTools]:
    tools = LightTools(tmp_path_factory.mktemp("light"))
    yield tools
    tools.close()


@pytest.fixture
async def lane(sqlite_url: str, tmp_path: Path, tools: LightTools) -> AsyncIterator[Lane]:
    db = await Database.open(sqlite_url)
    world = World(db)
    await world.settle_in()
    objects, runtimes = Objects.local(tmp_path / "objects"), Runtimes(tools, tmp_path)
    admission = RuntimeAdmission.start(runtimes, ["http://runtime.test"], {"check": 1, "light": 1})
    ended: asyncio.Queue[None] = asyncio.Queue()
    refs: dict[str, Any] = {}

    def tell_end() -> None:
        ended.put_nowait(None)
        refs["scan"].tell(RatioJobEnded())

    kind, times = AssetRatio(db, objects, admission, tell_end), LeaseTimes(lease_s=60.0, heartbeat_s=0.05)
    workers = [JobWorker.start(db, kind, times, 10) for _ in range(2)]
    queue = JobQueue.start(db, kind.name, "host:1:x", workers, times)
    wake = lambda: queue.tell(JobsSubmitted())  # noqa: E731 - the shortest way to say it
    refs["scan"] = scan = AssetRatioScan.start(db, wake, ScanLimits(active_jobs_max=4, period_s=3600.0))
    control = JobControl.start(
        db, {kind.name: queue}, RetryLimits(), on_news=lambda _: None, on_end=lambda: scan.tell(RatioJobEnded())
    )
    yield Lane(world, objects, runtimes, queue, control, scan, ended)
    for ref in (control, queue, *workers, scan, admission):
        await stop(ref)
    await db.close()


async def test_a_file_without_a_ratio_is_measured_by_the_light_tool(lane: Lane) -> None:
    await lane.save("a.svg", SVG)
    await lane.look()
    job, found = await lane.job(), await lane.asset("a.svg")
    assert found.size is not None
    assert (found.size.ratio, found.unmeasured) == (1.5, None)
    assert (job.status, job.attempt, job.result["ratio"], job.result["asset"]) == ("succeeded", 1, 1.5, "a.svg")


async def test_every_file_that_was_left_behind_is_measured_and_within_the_admission(lane: Lane) -> None:
    for number in range(11):
        await lane.save(f"{number}.png", png(number + 1, 1))
    lane.scan.tell(AssetsChanged())

    async def all_measured() -> bool:
        listed = await lane.world.read(assets.list_assets, lane.world.projects[0])
        return all(asset.size is not None for asset in listed)

    await lane.until(all_measured)
    assert (await lane.asset("10.png")).size == AssetSize(11, 1)
    assert lane.runtimes.at_work_max == 1  # RUNTIME_LIGHT_MAX_INFLIGHT
    rows = (await lane.world.read(lambda tx: tx.execute(select(_jobs)))).all()
    assert {row.infra_failures for row in rows} == {0}  # a full admission is in no budget (Q2)


async def test_a_broken_file_ends_with_its_own_code_and_is_not_tried_again(lane: Lane) -> None:
    await lane.save("a.png", b"no picture")
    await lane.look()
    job, found = await lane.job(), await lane.asset("a.png")
    assert (job.status, job.error_code, job.infra_failures) == ("failed", "ASSET_UNREADABLE", 0)
    assert found.unmeasured is not None
    assert found.unmeasured == job.error
    assert found.unmeasured["hint"]
    await lane.save("b.png", png(1, 1))
    await lane.look()
    assert [request.input for request in lane.runtimes.asked] == [{"media_type": "image/png"}] * 2


async def test_bytes_that_are_gone_are_a_fault_of_the_file(lane: Lane) -> None:
    saved = await lane.save("a.png", png(1, 1))
    await lane.objects.delete(saved.stored.key)
    await lane.look()
    assert ((await lane.job()).error_code, lane.runtimes.asked) == ("ASSET_FILE_MISSING", [])
    assert (await lane.asset("a.png")).unmeasured is not None


async def test_a_runtime_that_is_away_is_tried_again_and_blames_no_file(lane: Lane) -> None:
    lane.runtimes.reachable = False
    await lane.save("a.png", png(3, 2))
    await lane.look()
    job = await lane.job()
    assert (job.status, job.error_code, job.infra_failures) == ("pending", "RUNTIME_UNREACHABLE", 1)
    assert (await lane.asset("a.png")).unmeasured is None
    lane.runtimes.reachable = True
    await lane.world.write(lambda tx: tx.execute(update(_jobs).values(available_at=1)))
    lane.queue.tell(JobsSubmitted())
    await lane.ended.get()
    assert (await lane.asset("a.png")).size == AssetSize(3, 2)


async def test_a_runtime_of_another_version_blames_no_file(lane: Lane) -> None:
    told = {"ok": False, "errors": [{"code": "LIGHT_TOOL_UNKNOWN", "message": "no such tool"}]}
    lane.runtimes.answer = LightResult.model_validate(told)
    await lane.save("a.png", png(1, 1))
    await lane.look()
    assert ((await lane.job()).status, (await lane.job()).error_code) == ("pending", "LIGHT_TOOL_UNKNOWN")
    assert (await lane.asset("a.png")).unmeasured is None


async def test_a_store_that_fails_under_the_file_is_told_apart_from_the_runtime(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lane.save("a.png", png(1, 1))

    async def chunks() -> AsyncIterator[bytes]:
        yield b"\x89PNG"
        raise ObjectStoreUnavailable("reading failed")

    async def open_broken(_key: str) -> OpenObject:
        return OpenObject(100, chunks())

    monkeypatch.setattr(lane.objects, "open", open_broken)
    await lane.look()
    assert ((await lane.job()).status, (await lane.job()).error_code) == ("pending", "OBJECT_STORE_UNAVAILABLE")
    assert (await lane.asset("a.png")).unmeasured is None


@pytest.mark.parametrize("change", ["replaced", "deleted"])
@pytest.mark.parametrize("content", [png(3, 2), b"no picture"], ids=["good", "broken"])
async def test_a_file_that_went_meanwhile_ends_the_job_as_skipped(lane: Lane, change: str, content: bytes) -> None:
    async def go() -> None:
        if change == "replaced":
            await lane.save("a.png", png(9, 1), size=AssetSize(9, 1))
        else:
            await lane.world.write(assets.delete_asset, lane.world.projects[0], "a.png")

    lane.runtimes.meanwhile = go
    await lane.save("a.png", content)
    await lane.look()
    job = await lane.job()
    assert (job.status, job.error_code) == ("skipped", "ASSET_RATIO_JOB_STALE")
    if change == "replaced":
        assert (await lane.asset("a.png")).size == AssetSize(9, 1)


async def test_a_file_that_went_before_is_not_even_sent(lane: Lane) -> None:
    await ask(lane.control, PauseLane(ASSET_RATIO_BACKFILL, lane.world.user_id))
    await lane.save("a.png", png(3, 2))
    lane.scan.tell(AssetsChanged())

    async def is_queued() -> bool:
        return await lane.world.read(jobs.count_active, ASSET_RATIO_BACKFILL) == 1

    await lane.until(is_queued)
    await lane.world.write(assets.delete_asset, lane.world.projects[0], "a.png")
    await ask(lane.control, ResumeLane(ASSET_RATIO_BACKFILL, lane.world.user_id))
    await lane.ended.get()
    assert ((await lane.job()).status, lane.runtimes.asked) == ("skipped", [])


@pytest.mark.parametrize("content", [png(3, 2), b"no picture"], ids=["late success", "late failure"])
async def test_what_comes_after_the_lease_was_lost_is_refused(lane: Lane, content: bytes) -> None:
    """A rescuer takes the job while the Runtime measures; the answer of the old attempt changes nothing (Q3)."""

    async def lose() -> None:
        async with lane.world.db.write() as tx:
            await tx.execute(update(_jobs).values(lease_expires_at=tx.now - 1))
            job = (await tx.execute(select(_jobs))).one()
            await jobs.rescue_job(tx, ASSET_RATIO_BACKFILL, job.id, job.attempt, 3)
            await tx.execute(update(_jobs).values(available_at=tx.now + 3_600_000))

    lane.runtimes.meanwhile = lose
    await lane.save("a.png", content)
    await lane.look()
    job, found = await lane.job(), await lane.asset("a.png")
    assert (job.status, job.attempt, job.lease_losses) == ("pending", 1, 1)
    assert (found.size, found.unmeasured) == (None, None)


async def test_a_cancelled_job_writes_nothing_and_stops_at_the_runtime(lane: Lane) -> None:
    at_work = asyncio.Event()

    async def hang() -> None:
        at_work.set()
        await asyncio.Event().wait()

    lane.runtimes.meanwhile = hang
    await lane.save("a.png", png(3, 2))
    lane.scan.tell(AssetsChanged())
    await at_work.wait()
    await ask(lane.control, CancelOneJob(ASSET_RATIO_BACKFILL, (await lane.job()).id, lane.world.user_id))
    await lane.ended.get()
    assert (await lane.job()).status == "cancelled"
    assert (await lane.asset("a.png")).size is None

    async def is_free() -> bool:
        return lane.runtimes.at_work == 0

    await lane.until(is_free)
