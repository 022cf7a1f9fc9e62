"""Bytes of assets that are gone or cannot be asked for say nothing about a page (R9)."""

import asyncio

import pytest

from pagegate.actors.jobs.asset_bytes import Lost, find_lost, looking, something_missing
from pagegate.actors.jobs.page_mutation import decide
from pagegate.actors.jobs.verdict import judge
from pagegate.actors.queues.kinds import TryLater
from pagegate.renderer.contract import Finding
from pagegate.runtime.contract import CompileResult
from pagegate.storage.objects import Objects, ObjectStoreUnavailable, StoredAsset


def asset(name: str) -> StoredAsset:
    return StoredAsset(name, "image/png", "0" * 64, 5, f"assets/1/{name}")


async def holding(*names: str) -> Objects:
    objects = Objects.in_memory()
    for name in names:
        await objects.put(asset(name).key, b"bytes")
    return objects


class Away(Objects):
    """A store that answers nobody, or not before the test is over."""

    def __init__(self, hangs: asyncio.Event | None = None) -> None:
        self.hangs, self.ended = hangs, asyncio.Event()

    async def size_bytes(self, key: str) -> int:
        if self.hangs is not None:
            try:
                self.hangs.set()
                await asyncio.Event().wait()
            finally:
                self.ended.set()
        raise ObjectStoreUnavailable("looking failed")


async def test_assets_that_are_there_hold_nothing_up() -> None:
    objects = await holding("a.png", "b.png")
    assert await find_lost(objects, [asset("a.png"), asset("b.png")]) is None
    assert await find_lost(objects, []) is None


async def test_lost_bytes_are_told_by_the_names_of_their_assets() -> None:
    objects = await holding("a.png")
    lost = await find_lost(objects, [asset("b.png"), asset("a.png")])
    assert lost is not None
    assert lost.code == "OBJECT_STORE_ASSET_MISSING"
    assert "b.png" in lost.message
    assert "a.png" not in lost.message
    assert "Do not change the source" in lost.hint


async def test_a_store_that_does_not_answer_is_not_a_lost_asset() -> None:
    lost = await find_lost(Away(), [asset("a.png")])
    assert lost is not None
    assert lost.code == "OBJECT_STORE_UNAVAILABLE"


async def test_a_look_that_nobody_waits_for_ends_with_its_check() -> None:
    hangs = asyncio.Event()
    objects = Away(hangs)
    async with asyncio.timeout(10):
        async with looking(objects, [asset("a.png")]):
            await hangs.wait()
        await objects.ended.wait()


@pytest.mark.parametrize("skip", [False, True])
def test_a_check_without_the_bytes_is_tried_again_under_its_own_code_and_the_source_is_not_blamed(skip: bool) -> None:
    lost = Lost("OBJECT_STORE_ASSET_MISSING", "the bytes of hero.png are missing", "Do not change the source.")
    verdict = judge(CompileResult(ok=True), None, lost.code, lost.message)
    assert "hero.png" in verdict.summary()
    assert "not at fault" in verdict.summary()
    decided = decide(verdict, skip, lost)
    if skip:
        assert decided is None
        return
    assert isinstance(decided, TryLater)
    assert (decided.code, decided.hint) == (lost.code, lost.hint)
    assert (decided.result["code"], decided.result["next"]) == (lost.code, lost.hint)


def test_a_render_that_was_not_done_is_never_told_as_a_saved_page() -> None:
    decided = decide(judge(CompileResult(ok=True), None, "RENDER_QUEUE_FULL"), False)
    assert isinstance(decided, TryLater)
    assert decided.result["code"] == "RENDER_SERVICE_UNAVAILABLE"
    assert "Nothing was saved" in decided.result["next"]


@pytest.mark.parametrize(
    ("code", "missing"), [("IMAGE_BROKEN", True), ("REQUEST_FAILED", True), ("TEXT_OVERLAP", False)]
)
def test_only_what_did_not_arrive_is_a_reason_to_look_again(code: str, missing: bool) -> None:
    assert something_missing([Finding(code=code, severity="warning", message="", hint="")]) is missing
