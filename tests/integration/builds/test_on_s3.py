"""Builds with a bucket: uploaded in parts, promoted, hosted, and nothing left of what was not (B2, B5, case 50)."""

import asyncio
import io
import os
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from pagegate.actors.jobs.project_build import sweep_builds
from pagegate.http.backend.parts import ApiLimits
from pagegate.storage import schema
from pagegate.storage.objects import ObjectMissing, Objects, S3Options
from tests.door import Door, door_to
from tests.integration.builds.conftest import Stage
from tests.integration.builds.played import claim, releases, zipped
from tests.s3_server import S3Server

pytestmark = pytest.mark.asyncio(loop_scope="module")
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> S3Options:
    return s3.bucket()


@pytest_asyncio.fixture(loop_scope="module")
async def door(bucket: S3Options) -> AsyncIterator[Door]:
    """The bucket's address, as the Backend knows it."""
    async with door_to(bucket.endpoint_url) as door:
        yield door


@pytest_asyncio.fixture(loop_scope="module")
async def objects(bucket: S3Options, door: Door, request: pytest.FixtureRequest) -> Objects:
    return Objects.s3(replace(bucket, endpoint_url=f"http://127.0.0.1:{door.port}", prefix=request.node.name))


@pytest.fixture
def limits(limits: ApiLimits) -> ApiLimits:
    return replace(limits, build_artifact_bytes_max=256 * MIB)


async def left(stage: Stage) -> int:
    """Objects of builds in the bucket; they are gone afterwards."""
    return await stage.objects.delete_older("builds/", -3600)


async def test_a_large_site_is_uploaded_in_parts_promoted_and_read_in_ranges(
    alone: Stage, s3: S3Server, bucket: S3Options
) -> None:
    played = await claim(alone)
    film = os.urandom(12 * MIB)
    content = zipped({"assets/film.mp4": film, "pages/1/page.js": b"let n = 1"})
    status, told = await played.upload(content)
    assert (status, told) == (200, {"release": 1})
    assert s3.open_uploads(bucket) == 0
    _, found = await alone.call("GET", f"/projects/{alone.project_id}/releases")
    site = found["url"].replace("http://sites.test", alone.runtime)
    status, headers, part = await alone.get(f"{site}r/1/assets/film.mp4", Range=f"bytes={7 * MIB}-{9 * MIB}")
    assert (status, headers["Content-Type"], part) == (206, "video/mp4", film[7 * MIB : 9 * MIB + 1])
    assert (await alone.get(f"{site}r/1/pages/1/page.js"))[2] == b"let n = 1"
    archive = f"{alone.backend}/projects/{alone.project_id}/releases/1/archive"
    mine = {"Authorization": f"Bearer {alone.token}"}
    _, _, head = await alone.get(archive, **mine, Range=f"bytes=0-{5 * MIB - 1}")
    _, _, tail = await alone.get(archive, **mine, Range=f"bytes={5 * MIB}-")
    with zipfile.ZipFile(io.BytesIO(head + tail)) as whole:
        assert whole.testzip() is None


async def test_a_cancelled_upload_of_200_mb_leaves_no_part_and_no_task(
    alone: Stage, s3: S3Server, bucket: S3Options
) -> None:
    played = await claim(alone)
    before = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
    sent = asyncio.Event()

    async def archive() -> AsyncIterator[bytes]:
        block = os.urandom(MIB)
        for number in range(200):
            yield block
            if number == 16:
                sent.set()
                await asyncio.sleep(0)
                await cancelled.wait()

    cancelled = asyncio.Event()
    uploading = asyncio.create_task(played.upload(archive()))
    await sent.wait()
    async with asyncio.timeout(30):
        while not s3.open_uploads(bucket):
            await asyncio.sleep(0.02)
    await alone.call("DELETE", f"/build-jobs/{played.job_id}")
    status, refusal = await uploading  # answered although the body never comes to its end
    assert (status, refusal["code"]) == (409, "BUILD_ATTEMPT_OVER")
    assert s3.open_uploads(bucket) == 0
    assert (await left(alone), await releases(alone)) == (0, 0)
    cancelled.set()
    ours = {task.get_coro().__qualname__ for task in asyncio.all_tasks()} - before  # type: ignore[union-attr]
    assert not {name for name in ours if "upload" in name or "_keep" in name or "take" in name}
    with pytest.raises(ObjectMissing):
        await alone.objects.size_bytes("builds/")


async def test_a_store_that_goes_away_under_an_upload_is_told_as_that_and_nothing_of_it_stays(
    alone: Stage, s3: S3Server, bucket: S3Options, door: Door
) -> None:
    played = await claim(alone)

    async def archive() -> AsyncIterator[bytes]:
        for number in range(30):
            if number == 12:
                while s3.open_uploads(bucket) == 0:
                    await asyncio.sleep(0.02)
                await door.shut()
            yield os.urandom(MIB)

    status, refusal = await played.upload(archive())
    assert (status, refusal["code"]) == (503, "OBJECT_STORE_UNAVAILABLE")
    await door.open()
    assert s3.open_uploads(bucket) == 1  # it could not be aborted
    assert (await played.upload(zipped()))[0] == 200  # the attempt is still its own
    async with alone.db.write() as tx:
        ended = schema.project_build_jobs.update().where(schema.project_build_jobs.c.id == played.job_id)
        await tx.execute(ended.values(finished_at_ms=1))  # long ago
    assert await sweep_builds(alone.db, alone.objects) == 1
    assert s3.open_uploads(bucket) == 0
    assert await left(alone) == 2  # the zip of the release, and its file
