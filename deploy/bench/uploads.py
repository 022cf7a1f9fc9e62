"""The memory that an upload costs a Backend: a real process, and a Runtime that is played with the real client (B2).

Owns a Backend process of its own with builds that wait, and hears the offers that it sends. The archives are made of
random bytes, as a site of films and pictures is: nothing of them packs away. What is told is the process's own peak
(`VmHWM`, set back before each upload), so whatever it held for a moment counts.
"""

import asyncio
import os
import signal
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from pagegate.deploy.lite import free_port
from pagegate.runtime.build_client import BuildAttempt, claim_build
from pagegate.runtime.build_contract import BuildClaim, BuildOffer
from pagegate.storage import builds, projects, schema
from pagegate.storage.builds import FixedPage, FixedProject
from pagegate.storage.engine import Database
from pagegate.storage.migrations import migrate

MB = 1_000_000
_MIB = 1024 * 1024
_WAIT_S = 120.0
_END_WAIT_S = 20.0


class UploadsFailed(Exception):
    """The Backend did not take an artifact, so there is nothing to measure."""


class OwnBackend:
    """A Backend process, its builds and the last offer that it sent."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._offers: asyncio.Queue[BuildOffer] = asyncio.Queue(maxsize=1)
        self._process: asyncio.subprocess.Process

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path, uploads: int) -> AsyncIterator["OwnBackend"]:
        """With as many builds as uploads are to be measured. Raises `UploadsFailed`."""
        database_url = f"sqlite+aiosqlite:///{folder / 'bench.db'}"
        await _seed(database_url, uploads)
        async with aiohttp.ClientSession() as session:
            backend = cls(session)
            app = web.Application()
            app.add_routes([web.post("/builds/offers", backend._hear)])
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            try:
                runtime_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
                backend._process = await _serve(folder, database_url, runtime_url)
                await backend._offer()  # it is up
                yield backend
            finally:
                await backend._end()
                await runner.cleanup()

    async def upload(self, archive: Path) -> float:
        """Claim a build and upload its archive; the peak of the process meanwhile, in MiB. Raises `UploadsFailed`."""
        offer = await self._offer()
        claimed = await claim_build(self._session, offer, BuildClaim(worker_id="bench", runtime_build="bench"))
        if claimed is None:
            raise UploadsFailed("there is no build to claim")
        pid = self._process.pid
        await asyncio.to_thread(Path(f"/proc/{pid}/clear_refs").write_text, "5")
        await BuildAttempt(self._session, offer.backend_url, claimed).upload(archive)
        return await asyncio.to_thread(_peak_mib, pid)

    async def _hear(self, request: web.Request) -> web.Response:
        while not self._offers.empty():
            self._offers.get_nowait()
        self._offers.put_nowait(BuildOffer.model_validate_json(await request.read()))
        return web.Response(status=202)

    async def _offer(self) -> BuildOffer:
        offer = asyncio.ensure_future(self._offers.get())
        end = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait({offer, end}, timeout=_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
            if not offer.done():
                why = f"ended with {self._process.returncode}" if end.done() else "offered no build"
                raise UploadsFailed(f"the Backend {why}")
            return offer.result()
        finally:
            for task in (offer, end):
                task.cancel()

    async def _end(self) -> None:
        if not hasattr(self, "_process") or self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_END_WAIT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def _seed(database_url: str, count: int) -> None:
    """A project with builds that wait; nobody reads what they are to build."""
    await migrate(database_url)
    db = await Database.open(database_url)
    page = FixedPage("one", "", "", "vue", "pages/one.vue", 1280, 720, {}, [])
    try:
        async with db.write() as tx:
            user_id = await tx.insert(schema.users, name="bench", created_at_ms=tx.now)
            workspace_id = await tx.insert(schema.workspaces, name="bench", created_at_ms=tx.now)
            project_id = await projects.create_project(
                tx, workspace_id, "bench", canvas_width_px=1280, canvas_height_px=720
            )
            for _ in range(count):
                await builds.submit_build(
                    tx,
                    workspace_id=workspace_id,
                    project_id=project_id,
                    user_id=user_id,
                    fixed=FixedProject("bench", None, [page], {}),
                    routes="hash",
                    deadline_ms=3_600_000,
                    active_jobs_max=count,
                )
    finally:
        await db.close()


async def _serve(folder: Path, database_url: str, runtime_url: str) -> asyncio.subprocess.Process:
    port = free_port("127.0.0.1")
    settings = {
        "PAGEGATE_PROFILE": "lite",
        "BACKEND_PORT": str(port),
        "DATABASE_URL": database_url,
        "ASSET_STORAGE_LOCAL_DIR": str(folder / "objects"),
        "RUNTIME_RSA_PRIVATE_KEY_FILE": str(folder / "key.pem"),
        "AI_SECRET_ENCRYPTION_KEY_FILE": str(folder / "secrets.key"),
        "OPERATOR_TOKEN_FILE": str(folder / "operator"),
        "RUNTIME_BASE_URLS": runtime_url,
        "RENDER_WORKERS_CONFIG": f'[{{"id": "bench", "base_url": "{runtime_url}"}}]',
        "RENDER_SERVICE_CREDENTIAL": "a-credential-of-the-benchmark-only",
    }
    return await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "pagegate.deploy.process", "serve"],
        env={**os.environ, **settings},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


def make_archive(file: Path, size_bytes: int) -> None:
    """A site of about this size that does not pack. Blocks."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as made:
        made.writestr("index.html", "<h1>bench</h1>")
        with made.open("assets/film.mp4", "w", force_zip64=True) as film:
            for _ in range(max(1, size_bytes // _MIB)):
                film.write(os.urandom(_MIB))


def _peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise UploadsFailed("this system does not tell a process's peak of memory")
