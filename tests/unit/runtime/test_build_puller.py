"""How a Runtime ends a build, whatever happens to it: each end its own code, and nothing goes on behind it (B3, V5)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pagegate.actors.compiling.build_puller import BuildPuller
from pagegate.actors.compiling.site_build import Built, SiteBuildTask
from pagegate.runtime.build_client import AttemptOver, UploadFailed
from pagegate.runtime.build_contract import (
    BuildClaim,
    BuildClaimed,
    BuildFailure,
    BuildHeartbeat,
    BuildOffer,
    BuildOrders,
    BuildSnapshot,
)
from pagegate.runtime.contract import CompileTimings, ErrorBody, LocatedError
from pagegate.runtime.refusals import BuildAssetMissing, BuildTimedOut, SourceUnavailable, WorkerLost
from pagegate.runtime.site import Packed

OFFER = BuildOffer(backend_url="http://backend.test", ticket="t")
PACKED = Packed(100, 3)


class Backend:
    """One claimed attempt at a Backend that a test plays."""

    def __init__(self, *, deadline_s: float = 60.0) -> None:
        self.told: list[BuildFailure] = []
        self.beats: list[BuildHeartbeat] = []
        self.orders: Callable[[], BuildOrders] = BuildOrders
        self.upload_errors: list[Exception] = []
        self.uploads = 0
        self.uploading, self.upload_cancelled = asyncio.Event(), False
        self.hold_upload = False
        self.claimed: list[BuildClaimed] = [
            BuildClaimed(
                job_id=1, attempt=1, token="t", deadline_s=deadline_s, heartbeat_s=0.01, artifact_bytes_max=1000
            )
        ]

    async def claim(self, offer: BuildOffer, claim: BuildClaim) -> tuple[BuildClaimed, Any] | None:
        assert (offer, claim.runtime_build) == (OFFER, "vite-1")
        return (self.claimed.pop(), self) if self.claimed else None

    async def snapshot(self) -> BuildSnapshot:
        raise AssertionError("the task is played")

    async def asset(self, name: str) -> AsyncIterator[bytes]:
        yield name.encode()

    async def heartbeat(self, beat: BuildHeartbeat) -> BuildOrders:
        self.beats.append(beat)
        return self.orders()

    async def fail(self, failure: BuildFailure) -> None:
        self.told.append(failure)

    async def upload(self, archive: Path) -> None:
        assert archive.name == "site.zip"
        self.uploading.set()
        self.uploads += 1
        if self.upload_errors:
            raise self.upload_errors.pop()
        try:
            if self.hold_upload:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.upload_cancelled = True
            raise


def built(packed: Packed | None = PACKED, *errors: LocatedError) -> Built:
    return Built(list(errors), packed, 1, CompileTimings())


async def make(backend: Backend, work: Callable[[], Awaitable[Built]]) -> BuildPuller:
    async def build(_task: SiteBuildTask, _deadline_s: float) -> Built:
        return await work()

    puller = BuildPuller(backend.claim, build, slots=1, runtime_build="vite-1")
    assert puller.offered(OFFER)
    assert not puller.offered(OFFER), "one slot, one build"
    return puller


async def ended(puller: BuildPuller) -> None:
    async with asyncio.timeout(10):
        await asyncio.gather(*puller._under_way)


async def for_ever() -> Built:
    await asyncio.Event().wait()
    raise AssertionError


def raising(error: Exception) -> Callable[[], Awaitable[Built]]:
    async def work() -> Built:
        raise error

    return work


def giving(result: Built) -> Callable[[], Awaitable[Built]]:
    async def work() -> Built:
        return result

    return work


def error(code: str) -> LocatedError:
    return LocatedError(code=code, message="m", hint="h", file="pages/one.vue", line=1, column=1)


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (raising(BuildTimedOut("it took too long")), "PROJECT_BUILD_DEADLINE_EXCEEDED"),
        (raising(BuildAssetMissing("logo.svg is gone")), "PROJECT_BUILD_ASSET_MISSING"),
        (raising(WorkerLost("the compiler went away")), "PROJECT_BUILD_RUNTIME_UNAVAILABLE"),
        (raising(SourceUnavailable("the Backend is away")), "PROJECT_BUILD_RUNTIME_UNAVAILABLE"),
        (raising(ZeroDivisionError()), "PROJECT_BUILD_RUNTIME_UNAVAILABLE"),
        (giving(built(None, error("PAGE_SYNTAX_ERROR"))), "PROJECT_BUILD_SOURCE_ERROR"),
        (giving(built(None, error("PAGE_ASSET_NOT_FOUND"))), "PROJECT_BUILD_ASSET_MISSING"),
        (
            giving(built(None, error("PAGE_ASSET_NOT_FOUND"), error("PAGE_SYNTAX_ERROR"))),
            "PROJECT_BUILD_SOURCE_ERROR",
        ),
        (giving(built(Packed(1001, 3))), "PROJECT_BUILD_ARTIFACT_TOO_LARGE"),
    ],
)
async def test_a_build_that_gives_no_artifact_says_why(work: Callable[[], Awaitable[Built]], code: str) -> None:
    backend = Backend()
    await ended(await make(backend, work))
    assert [told.code for told in backend.told] == [code]
    assert not backend.uploading.is_set()
    assert "/tmp" not in backend.told[0].model_dump_json()
    assert backend.told[0].error.hint


async def test_a_compile_that_outlives_the_deadline_ends_with_it() -> None:
    backend = Backend(deadline_s=0.05)
    await ended(await make(backend, for_ever))
    assert [told.code for told in backend.told] == ["PROJECT_BUILD_DEADLINE_EXCEEDED"]


@pytest.mark.parametrize(
    ("refusal", "code", "uploads"),
    [
        (ErrorBody(code="PROJECT_BUILD_ARTIFACT_TOO_LARGE", message="m"), "PROJECT_BUILD_ARTIFACT_TOO_LARGE", 1),
        (ErrorBody(code="PROJECT_BUILD_ARCHIVE_REFUSED", message="m"), "PROJECT_BUILD_UPLOAD_FAILED", 1),
        (ErrorBody(code="OBJECT_STORE_UNAVAILABLE", message="m"), "PROJECT_BUILD_UPLOAD_FAILED", 3),
        (ErrorBody(code="PROJECT_BUILD_UPLOAD_FAILED", message="it was cut off"), "PROJECT_BUILD_UPLOAD_FAILED", 3),
    ],
)
async def test_an_upload_that_was_refused_or_cut_off_is_told_as_that(
    refusal: ErrorBody, code: str, uploads: int
) -> None:
    backend = Backend()
    backend.upload_errors = [UploadFailed(refusal)] * 5
    await ended(await make(backend, giving(built())))
    assert [(told.code, told.error.message) for told in backend.told] == [(code, refusal.message)]
    assert backend.uploads == uploads


async def test_an_upload_that_was_cut_off_once_is_sent_again() -> None:
    backend = Backend()
    backend.upload_errors = [UploadFailed(ErrorBody(code="PROJECT_BUILD_UPLOAD_FAILED", message="cut off"))]
    await ended(await make(backend, giving(built())))
    assert (backend.told, backend.uploads) == ([], 2)


async def test_a_cancel_stops_an_upload_at_the_next_heartbeat() -> None:
    backend = Backend()
    backend.hold_upload = True
    backend.orders = lambda: BuildOrders(cancel=backend.uploading.is_set())
    await ended(await make(backend, giving(built())))
    assert backend.upload_cancelled
    assert [told.code for told in backend.told] == ["PROJECT_BUILD_CANCELLED"]
    assert any("uploading" in line for line in backend.told[0].log)


async def test_a_lost_lease_stops_the_build_and_nothing_more_is_said() -> None:
    backend = Backend()

    def over() -> BuildOrders:
        raise AttemptOver("BUILD_ATTEMPT_OVER")

    backend.orders = over
    await ended(await make(backend, for_ever))
    assert backend.told == []


async def test_heartbeats_that_nobody_answers_stop_the_build_before_its_lease_may_end() -> None:
    backend = Backend()

    def away() -> BuildOrders:
        raise SourceUnavailable("the Backend cannot be reached")

    backend.orders = away
    await ended(await make(backend, for_ever))
    assert backend.told == []
    assert len(backend.beats) >= 3


async def test_a_runtime_that_stops_says_that_it_interrupted_its_build() -> None:
    backend = Backend()
    begun = asyncio.Event()

    async def work() -> Built:
        begun.set()
        return await for_ever()

    puller = await make(backend, work)
    await begun.wait()
    await puller.close()
    assert [told.code for told in backend.told] == ["PROJECT_BUILD_INTERRUPTED"]


async def test_a_build_that_went_well_tells_no_failure_and_pulls_the_next() -> None:
    backend = Backend()
    backend.claimed.append(backend.claimed[0].model_copy(update={"job_id": 2}))
    await ended(await make(backend, giving(built())))
    assert (backend.told, backend.claimed, backend.uploading.is_set()) == ([], [], True)
    assert {beat.step for beat in backend.beats} >= {"uploading"}
