"""Compiled pages of previews: one compile for all who look, few at once, kept within bounds (P4, V1)."""

import asyncio

import pytest

from pagegate.actors.compiling.previews import AT_ONCE_MAX, UNDER_WAY_MAX, PreviewPages
from pagegate.actors.compiling.tasks import Compiled
from pagegate.runtime.contract import ArtifactManifest, Canvas, CompileTimings, EntryPage
from pagegate.runtime.refusals import ViteQueueFull, WorkerLost
from pagegate.runtime.sources import MemoryModuleSource, ModuleSource

SOURCE = MemoryModuleSource(
    ArtifactManifest(
        artifact_id="rt_1",
        entry="pages/a.vue",
        framework="vue",
        modules=[],
        entry_page=EntryPage(code="a"),
        canvas=Canvas(width_px=100),
    ),
    {},
)


class Lane:
    """Compiles when it is let; counts what was begun and how many ran together."""

    def __init__(self) -> None:
        self.begun = self.running = self.together = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False
        self.now_s = 0.0
        self.pages = PreviewPages(self.compile, lambda: self.now_s, kept_s=10, bytes_max=250)

    async def compile(self, task_id: str, source: ModuleSource) -> Compiled:
        self.begun += 1
        self.running += 1
        self.together = max(self.together, self.running)
        try:
            await self.gate.wait()
            if self.fails:
                raise WorkerLost("gone")
            return Compiled(errors=[], files={"page.js": b"x" * 100}, timings=CompileTimings())
        finally:
            self.running -= 1


async def test_who_looks_at_the_same_page_shares_its_compile_and_what_came_of_it() -> None:
    lane = Lane()
    lane.gate.clear()
    asked = [asyncio.create_task(lane.pages.get("rt_1", SOURCE)) for _ in range(5)]
    await asyncio.sleep(0)
    asked[0].cancel()
    lane.gate.set()
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert len({id(page) for page in done[1:]}) == 1
    assert (await lane.pages.get("rt_1", SOURCE)) is done[1]
    assert lane.begun == 1


async def test_what_is_kept_ends_with_its_time_and_never_exceeds_its_bytes() -> None:
    lane = Lane()
    for number in range(5):
        await lane.pages.get(f"rt_{number}", SOURCE)
        assert lane.pages.size_bytes <= 250
    await lane.pages.get("rt_4", SOURCE)
    assert lane.begun == 5
    await lane.pages.get("rt_0", SOURCE)  # it had to make room
    assert lane.begun == 6
    lane.now_s += 10
    await lane.pages.get("rt_4", SOURCE)
    assert lane.begun == 7
    assert lane.pages.size_bytes == 100


async def test_a_compile_that_failed_is_tried_again_by_the_next_who_looks() -> None:
    lane = Lane()
    lane.fails = True
    for _ in range(2):
        with pytest.raises(WorkerLost):
            await lane.pages.get("rt_1", SOURCE)
    lane.fails = False
    await lane.pages.get("rt_1", SOURCE)
    assert lane.begun == 3


async def test_however_many_look_few_compile_at_once_and_the_line_has_an_end() -> None:
    lane = Lane()
    lane.gate.clear()
    asked = [asyncio.create_task(lane.pages.get(f"rt_{number}", SOURCE)) for number in range(UNDER_WAY_MAX)]
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(ViteQueueFull):
        await lane.pages.get("rt_one_more", SOURCE)
    same = asyncio.create_task(lane.pages.get("rt_0", SOURCE))  # waits for what is under way already
    lane.gate.set()
    await asyncio.gather(*asked, same)
    assert lane.together == AT_ONCE_MAX
    assert lane.begun == UNDER_WAY_MAX


async def test_at_the_end_nothing_is_left_under_way() -> None:
    lane = Lane()
    lane.gate.clear()
    asked = asyncio.create_task(lane.pages.get("rt_1", SOURCE))
    for _ in range(3):
        await asyncio.sleep(0)
    await lane.pages.close()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert lane.running == 0
