"""Unfinished uploads of a bucket: whose are aborted, and what a server that answers otherwise costs (B2)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pagegate.storage.s3_uploads import Keys, OpenUploads, canonical_query, sign

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEYS = Keys("AKIDEXAMPLE", "secret")
PAGE = """<ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<IsTruncated>{more}</IsTruncated><NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>
<Upload><Key>{key}</Key><UploadId>id/{key}</UploadId><Initiated>{begun}</Initiated></Upload>
</ListMultipartUploadsResult>"""


class Bucket:
    """Answers a list of uploads, a page for each, and hears what is aborted."""

    def __init__(self) -> None:
        self.uploads = {"builds/1/2/a": "2026-01-02T03:00:00Z", "builds/1/2/b c": "2026-01-02T03:04:59.000Z"}
        self.answer: web.Response | None = None
        self.aborted: list[str] = []
        self.gone = False
        app = web.Application()
        app.add_routes([web.get("/bucket", self._list), web.delete("/bucket/{key:.*}", self._abort)])
        self.server = TestServer(app)

    async def _list(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
        if self.answer is not None:
            return self.answer
        keys = sorted(self.uploads)
        at = keys.index(request.query["key-marker"]) + 1 if "key-marker" in request.query else 0
        more = "true" if at + 1 < len(keys) else "false"
        return web.Response(text=PAGE.format(key=keys[at], more=more, begun=self.uploads[keys[at]]))

    async def _abort(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        assert request.query["uploadId"] == f"id/{key}"
        self.aborted.append(key)
        return web.Response(status=404 if self.gone else 204)


@pytest.fixture
async def bucket() -> AsyncIterator[Bucket]:
    bucket = Bucket()
    await bucket.server.start_server()
    yield bucket
    await bucket.server.close()


async def abort(bucket: Bucket, keys: Keys | None = KEYS, before: datetime = NOW) -> int:
    uploads = OpenUploads(str(bucket.server.make_url("/bucket")), "us-east-1", keys, 5.0)
    return await asyncio.to_thread(uploads.abort_older, "builds/1/2/", before)


async def test_old_ones_of_every_page_are_aborted_and_younger_ones_stay(bucket: Bucket) -> None:
    assert await abort(bucket) == 1
    assert bucket.aborted == ["builds/1/2/a"]
    assert await abort(bucket, before=NOW + timedelta(hours=1)) == 2
    assert bucket.aborted[1:] == ["builds/1/2/a", "builds/1/2/b c"]


async def test_one_that_another_replica_aborted_first_is_no_error(bucket: Bucket) -> None:
    bucket.gone = True
    assert await abort(bucket) == 1


@pytest.mark.parametrize(
    "answer", [{"status": 403}, {"status": 501}, {"text": "not XML"}, {"text": "<a><Upload/></a>"}]
)
async def test_a_server_that_does_not_tell_its_uploads_harms_nothing(bucket: Bucket, answer: dict[str, object]) -> None:
    bucket.answer = web.Response(**answer)  # type: ignore[arg-type]  # names of its parameters
    bucket.uploads = {}
    assert await abort(bucket) == 0
    assert bucket.aborted == []


async def test_without_keys_nothing_is_asked(bucket: Bucket) -> None:
    bucket.answer = web.Response(status=500)
    assert await abort(bucket, None) == 0


def test_a_signature_is_the_same_for_the_same_request_and_no_other() -> None:
    def signed(**other: object) -> str:
        of = {"keys": KEYS, "region": "r", "method": "GET", "url": "http://h/b", "query": "", "now": NOW, **other}
        return sign(**of)["Authorization"]  # type: ignore[arg-type]  # names of its parameters

    assert signed() == signed()
    others = [{"method": "DELETE"}, {"url": "http://h/c"}, {"query": canonical_query({"a": "b"})}, {"region": "s"}]
    assert len({signed(), *(signed(**other) for other in others)}) == 5
    assert "secret" not in signed()
    assert "secret" not in repr(KEYS)
