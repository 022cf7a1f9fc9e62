"""A Backend is killed while one artifact is on its way and another waits to be promoted: nothing of either stays (B2).

A real process, a real S3 server; the Runtime is played.
"""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from pagegate.runtime.build_client import claim_build
from pagegate.runtime.build_contract import BuildClaim, BuildClaimed, BuildOffer
from pagegate.storage import builds
from pagegate.storage.builds import FixedPage, FixedProject
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects
from tests.integration.builds.played import zipped
from tests.integration.processes.serving import Serve
from tests.s3_server import S3Server
from tests.world import World

PAGE = FixedPage("one", "", "", "vue", "pages/one.vue", 1280, 720, {}, [])


async def seed(url: str) -> None:
    db = await Database.open(url)
    world = World(db)
    await world.settle_in()
    for _ in range(3):
        await world.write(
            builds.submit_build,
            workspace_id=world.workspaces[0],
            project_id=world.projects[0],
            user_id=world.user_id,
            fixed=FixedProject("a project", None, [PAGE], {}),
            routes="hash",
            deadline_ms=600_000,
            active_jobs_max=3,
        )
    await db.close()


class Runtime:
    """Hears offers, claims, and uploads what a test wants."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http, self.offers = http, asyncio.Queue[BuildOffer]()
        app = web.Application()
        app.add_routes([web.post("/builds/offers", self._hear)])
        self.server = TestServer(app)

    async def _hear(self, request: web.Request) -> web.Response:
        self.offers.put_nowait(BuildOffer.model_validate_json(await request.read()))
        return web.Response(status=202)

    async def claim(self, offer: BuildOffer) -> BuildClaimed:
        claimed = await claim_build(self._http, offer, BuildClaim(worker_id="played", runtime_build="played"))
        assert claimed is not None
        return claimed

    async def upload(self, offer: BuildOffer, claimed: BuildClaimed, content: bytes | AsyncIterator[bytes]) -> int:
        url = f"{offer.backend_url}/internal/runtime/build-jobs/{claimed.job_id}/{claimed.attempt}/artifact"
        headers = {"Authorization": f"Bearer {claimed.token}"}
        async with self._http.put(url, data=content, headers=headers) as answer:
            return answer.status


async def held_back() -> AsyncIterator[bytes]:
    for _ in range(8):
        yield os.urandom(1024 * 1024)
    await asyncio.Event().wait()


async def test_what_a_killed_backend_left_is_swept_and_a_release_stays(
    sqlite_url: str, tmp_path: Path, s3: S3Server
) -> None:
    await seed(sqlite_url)
    bucket = s3.bucket()
    objects = Objects.s3(bucket)
    environment = {
        "ASSET_STORAGE_DRIVER": "s3",
        "S3_ENDPOINT_URL": bucket.endpoint_url,
        "S3_BUCKET": bucket.bucket,
        "S3_ACCESS_KEY_ID": bucket.access_key_id,
        "S3_SECRET_ACCESS_KEY": bucket.secret_access_key,
        "S3_PREFIX": bucket.prefix,
    }
    async with aiohttp.ClientSession() as http:
        runtime = Runtime(http)
        await runtime.server.start_server()
        serve = Serve(tmp_path, sqlite_url, str(runtime.server.make_url("")).rstrip("/"), **environment)
        try:
            await serve.start()
            offer = await runtime.offers.get()
            released, staged, on_its_way = [await runtime.claim(offer) for _ in range(3)]
            assert await runtime.upload(offer, released, zipped({"a.html": b"released"})) == 200
            database = sqlite3.connect(tmp_path / "pagegate.db", isolation_level=None)
            database.execute("BEGIN IMMEDIATE")  # now nothing is promoted
            uploads = [
                asyncio.create_task(runtime.upload(offer, staged, zipped({"b.html": b"staged"}))),
                asyncio.create_task(runtime.upload(offer, on_its_way, held_back())),
            ]
            async with asyncio.timeout(30):
                while s3.open_uploads(bucket) == 0 or await count(objects, staged.job_id) < 3:
                    await asyncio.sleep(0.05)
            serve.send(signal.SIGKILL)
            await serve.ended()
            await asyncio.gather(*uploads, return_exceptions=True)
            database.execute("COMMIT")
            database.execute("UPDATE project_build_jobs SET lease_expires_at = 1 WHERE status = 'running'")
            database.close()
            assert (s3.open_uploads(bucket), await count(objects, staged.job_id)) == (1, 3)

            await serve.start()
            for _ in range(2):
                await serve.logged("project.build.objects_deleted")
            assert (s3.open_uploads(bucket), await count(objects, staged.job_id)) == (0, 0)
            assert await count(objects, released.job_id) == 3
        finally:
            await serve.stop()
            await runtime.server.close()


async def count(objects: Objects, job_id: int) -> int:
    """How many objects a build has."""
    found = objects._store.list(prefix=f"builds/1/{job_id}/")
    return sum(len(page) for page in await asyncio.to_thread(list, found))
