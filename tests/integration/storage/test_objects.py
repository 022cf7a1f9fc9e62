"""What every object store promises, on a local disk and on a real S3 server, and what a store that fails looks like."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import obstore
import pytest

from pagegate.storage.object_streams import PART_BYTES, RangeFailed
from pagegate.storage.objects import ObjectMissing, Objects, ObjectStoreUnavailable, S3Options
from tests.door import door_to
from tests.s3_server import S3Server

_OLDER_THAN_NOTHING_S = -3600.0  # by the store's clock: everything is
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> S3Options:
    return s3.bucket()


@pytest.fixture(params=["memory", "local", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An empty store; on S3 each test has a prefix of its own."""
    if request.param == "memory":
        return Objects.in_memory()
    if request.param == "local":
        return Objects.local(tmp_path)
    bucket: S3Options = request.getfixturevalue("bucket")
    return Objects.s3(replace(bucket, prefix=f"tests/{request.node.name}/".replace("[", "-").replace("]", "")))


async def test_what_was_put_is_read_back(objects: Objects) -> None:
    await objects.check()
    await objects.put("pages/1/a.png", b"png")
    assert await objects.get("pages/1/a.png") == b"png"
    assert (await objects.open("pages/1/a.png")).size_bytes == 3


async def test_an_object_never_changes(objects: Objects) -> None:
    await objects.put("pages/1/a.png", b"first")
    await objects.put("pages/1/a.png", b"second")
    assert await objects.get("pages/1/a.png") == b"first"


async def test_writers_of_one_key_at_once_leave_one_whole_object(objects: Objects) -> None:
    contents = [bytes([number]) * 100_000 for number in range(6)]
    await asyncio.gather(*(objects.put("pages/1/a.png", content) for content in contents))
    assert await objects.get("pages/1/a.png") in contents


async def test_a_file_is_written_and_read_as_a_stream(objects: Objects, tmp_path: Path) -> None:
    content = b"".join(hashlib.sha256(bytes([number])).digest() * 32768 for number in range(20))
    file = tmp_path / "upload"
    file.write_bytes(content)
    await objects.put("builds/1", file)
    found = await objects.open("builds/1")
    pieces = [piece async for piece in found.chunks]
    assert found.size_bytes == len(content) == 20 * MIB
    assert b"".join(pieces) == content
    assert await objects.size_bytes("builds/1") == len(content)
    part = await objects.open("builds/1", range(MIB, 3 * MIB + 7))
    assert part.size_bytes == len(content)
    assert b"".join([piece async for piece in part.chunks]) == content[MIB : 3 * MIB + 7]


def _blocks(count: int) -> list[bytes]:
    return [hashlib.sha256(bytes([number])).digest() * 32768 for number in range(count)]


async def test_an_object_is_written_as_a_stream_and_read_like_a_file(objects: Objects) -> None:
    content = b"".join(_blocks(12))
    async with objects.writing("builds/1", size_bytes_max=len(content)) as write:
        for block in _blocks(12):
            await write(block)
        with pytest.raises(ObjectMissing):  # whole or absent
            await objects.size_bytes("builds/1")
    assert await objects.get("builds/1") == content

    def read() -> list[bytes]:
        with objects.file("builds/1", len(content)) as file:
            file.seek(-10, 2)
            last = file.read()
            file.seek(3 * MIB)
            return [last, file.read(2 * MIB), file.read(7)]

    assert await asyncio.to_thread(read) == [content[-10:], content[3 * MIB : 5 * MIB], content[5 * MIB : 5 * MIB + 7]]
    async with objects.writing("builds/small", size_bytes_max=100) as write:
        await write(b"less than a part")
    assert await objects.get("builds/small") == b"less than a part"
    with pytest.raises(RangeFailed):
        await asyncio.to_thread(objects.file("builds/none", 10).read)


@dataclass
class Left:
    """What of unfinished writes is in a store: multipart uploads, or half-written files."""

    request: pytest.FixtureRequest
    folder: Path

    def __call__(self) -> int:
        if "s3" in self.request.node.name:
            bucket: S3Options = self.request.getfixturevalue("bucket")
            server: S3Server = self.request.getfixturevalue("s3")
            return server.open_uploads(bucket)
        return len([path for path in self.folder.rglob("*") if path.is_file()])


@pytest.fixture
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Left:
    return Left(request, tmp_path)


@pytest.mark.parametrize("size_mib", [1, 12])
async def test_a_stream_that_ends_badly_leaves_nothing(objects: Objects, size_mib: int, left: Left) -> None:
    async def write_on(key: str, begun: asyncio.Event | None) -> None:
        async with objects.writing(key, size_bytes_max=100 * MIB) as write:
            for block in _blocks(size_mib):
                await write(block)
            if begun is None:
                raise ZeroDivisionError
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    task = asyncio.create_task(write_on("builds/1", begun))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(ZeroDivisionError):
        await write_on("builds/2", None)
    for key in ("builds/1", "builds/2"):
        with pytest.raises(ObjectMissing):
            await objects.size_bytes(key)
    assert left() == 0


async def test_what_a_killed_writer_left_is_deleted_below_its_prefix(
    objects: Objects, left: Left, tmp_path: Path
) -> None:
    def write_and_die(key: str) -> None:
        writer = obstore.open_writer(objects._store, key, buffer_size=PART_BYTES)
        writer.write(bytes(6 * MIB))
        for file in list(tmp_path.rglob("*#1")):  # the library deletes it with the writer; nobody does in a kill
            shutil.copy(file, file.with_name(file.name[:-1] + "2"))

    for key in ("builds/1/a", "builds/2/b"):
        await asyncio.to_thread(write_and_die, key)
    begun = left()
    assert begun == (0 if "memory" in left.request.node.name else 2)
    await objects.delete_older("builds/1/", 3600)
    assert left() == begun
    await objects.delete_older("builds/1/", _OLDER_THAN_NOTHING_S)
    assert left() == begun // 2
    await objects.delete_older("builds/", _OLDER_THAN_NOTHING_S)
    assert left() == 0


async def test_what_is_to_be_kept_is_kept(objects: Objects) -> None:
    for key in ("builds/1/a/site.zip", "builds/1/b/site.zip"):
        await objects.put(key, b"zip")
    here = [await objects.count("builds/1/"), await objects.count("builds/1/", keep="builds/1/b/")]
    assert await objects.delete_older("builds/1/", _OLDER_THAN_NOTHING_S, keep="builds/1/b/") == here[1] == 1
    assert await objects.count("builds/1/") == here[0] - 1
    assert await objects.get("builds/1/b/site.zip") == b"zip"


async def test_what_is_not_there_is_missing_and_may_be_deleted(objects: Objects) -> None:
    with pytest.raises(ObjectMissing):
        await objects.get("pages/1/none.png")
    await objects.delete("pages/1/none.png")
    await objects.put("pages/1/a.png", b"png")
    await objects.delete("pages/1/a.png")
    with pytest.raises(ObjectMissing):
        await objects.open("pages/1/a.png")


async def test_names_with_any_sign_stay_what_they_are(objects: Objects) -> None:
    await objects.put("assets/1/図 #1 50%?.svg", b"svg")
    assert await objects.get("assets/1/図 #1 50%?.svg") == b"svg"


async def test_what_is_old_enough_is_deleted_below_its_prefix_only(objects: Objects) -> None:
    for key in ("renders/a/1.png", "renders/b/2.png", "pages/1/3.png"):
        await objects.put(key, b"png")
    assert await objects.delete_older("renders/", 3600) == 0
    assert await objects.delete_older("renders/", _OLDER_THAN_NOTHING_S) == 2
    assert await objects.delete_older("renders/", _OLDER_THAN_NOTHING_S) == 0
    assert await objects.get("pages/1/3.png") == b"png"
    with pytest.raises(ObjectMissing):
        await objects.get("renders/a/1.png")


def test_a_local_folder_goes_with_its_last_object(tmp_path: Path) -> None:
    async def put_and_delete() -> None:
        objects = Objects.local(tmp_path)
        await objects.put("renders/a/1.png", b"png")
        await objects.delete("renders/a/1.png")

    asyncio.run(put_and_delete())
    assert list(tmp_path.rglob("*")) == []


async def test_two_deployments_share_a_bucket_without_seeing_each_other(bucket: S3Options) -> None:
    one, other = Objects.s3(replace(bucket, prefix="/one/")), Objects.s3(replace(bucket, prefix="other"))
    await one.put("pages/1/a.png", b"one")
    with pytest.raises(ObjectMissing):
        await other.get("pages/1/a.png")
    assert await other.delete_older("", _OLDER_THAN_NOTHING_S) == 0
    assert await one.get("pages/1/a.png") == b"one"


@pytest.mark.parametrize(
    "wrong", [{"bucket": "nobody-made-it"}, {"secret_access_key": "another"}, {"access_key_id": "stranger"}]
)
async def test_a_store_that_refuses_is_infrastructure_and_tells_no_secret(
    bucket: S3Options, wrong: dict[str, str]
) -> None:
    objects = Objects.s3(replace(bucket, **wrong))  # type: ignore[arg-type]  # the names are fields that hold text
    for call in (objects.check, lambda: objects.put("pages/1/a.png", b"png")):
        with pytest.raises(ObjectStoreUnavailable) as refused:
            await call()
        assert bucket.secret_access_key not in str(refused.value)
        assert bucket.endpoint_url not in str(refused.value)
    assert bucket.secret_access_key not in repr(bucket)


def _calls(objects: Objects) -> list[Callable[[], Awaitable[object]]]:
    return [objects.check, lambda: objects.get("pages/1/a.png"), lambda: objects.put("pages/1/b.png", b"png")]


async def test_a_store_that_goes_away_and_comes_back_loses_nothing(bucket: S3Options) -> None:
    async with door_to(bucket.endpoint_url) as door:
        objects = Objects.s3(replace(bucket, endpoint_url=f"http://127.0.0.1:{door.port}", prefix="away"))
        await objects.put("pages/1/a.png", b"png")
        await door.shut()
        for call in _calls(objects):
            with pytest.raises(ObjectStoreUnavailable):
                await call()
        await door.open()
        await objects.put("pages/1/b.png", b"later")
        assert await objects.get("pages/1/b.png") == b"later"
        assert await objects.get("pages/1/a.png") == b"png"


async def test_a_read_that_breaks_off_is_infrastructure_and_never_a_short_object(bucket: S3Options) -> None:
    async with door_to(bucket.endpoint_url) as door:
        objects = Objects.s3(replace(bucket, endpoint_url=f"http://127.0.0.1:{door.port}", prefix="broken"))
        await objects.put("builds/1", bytes(32 * MIB))
        found = await objects.open("builds/1")
        await anext(found.chunks)
        await door.shut()
        with pytest.raises(ObjectStoreUnavailable):
            assert not [piece async for piece in found.chunks]
        await door.open()


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Takes every connection and says nothing."""
    held: list[asyncio.StreamWriter] = []

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in held:
        writer.close()


async def test_a_store_that_says_nothing_is_not_waited_for_for_ever(bucket: S3Options) -> None:
    async with silent_server() as url:
        objects = Objects.s3(replace(bucket, endpoint_url=url, timeout_s=0.3))
        for call in _calls(objects):
            with pytest.raises(ObjectStoreUnavailable):
                await call()
