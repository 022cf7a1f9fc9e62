"""A Backend's whole door over a real Runtime with its build lane, and a person with a project."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pykka
import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry

from pagegate.actors import kernel
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.jobs.build_numbers import BuildNumbers
from pagegate.actors.jobs.project_build import ProjectBuilds
from pagegate.actors.previews import Previews
from pagegate.actors.queues.control import JobControl, RetryLimits
from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.actors.tickets import Tickets
from pagegate.http.backend.app import make_app
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.http.runtime import runtime_app
from pagegate.runtime.build_client import offer_builds
from pagegate.storage import assets, builds, pages, users, workspaces
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects, StoredAsset, asset_key, sha256_of
from pagegate.storage.pages import NewVersion
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.runtime_state import MemoryState
from pagegate.storage.schema import JOB_KINDS
from tests.world import World

LOGO = b"<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'><rect width='40' height='40' fill='red'/></svg>"
NAME = "C# 50%? 图表😀"


@dataclass
class Stage:
    """Everything that one test of a build needs."""

    db: Database
    world: World
    objects: Objects
    objects_dir: Path
    parts: BackendParts
    backend: str
    runtime: str
    http: aiohttp.ClientSession
    builds: pykka.ActorRef[Any]
    token: str = field(default="")

    @property
    def project_id(self) -> int:
        return self.world.projects[0]

    async def save(self, code: str, source: str, framework: str = "vue") -> int:
        """A first version of a page; answers the page's id."""
        version = NewVersion(
            source=source,
            title=code.title(),
            speaker_notes="",
            component_pins={},
            status="passed",
            verdict=None,
            picture_key=None,
            job_id=None,
            created_by=self.world.user_id,
        )
        async with self.db.write() as tx:
            return await pages.insert_page_with_first_version(
                tx,
                self.project_id,
                code=code,
                framework=framework,
                canvas_width_px=1280,
                canvas_height_px=720,
                version=version,
            )

    async def put_asset(self, name: str, content: bytes) -> None:
        sha256 = sha256_of(content)
        key = asset_key(self.project_id, sha256)
        await self.objects.put(key, content)
        async with self.db.write() as tx:
            asset = StoredAsset(name, "image/svg+xml", sha256, len(content), key)
            await assets.put_asset(tx, self.project_id, asset, self.world.user_id)

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.http.request(method, self.backend + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def start(self, **body: Any) -> dict[str, Any]:
        status, job = await self.call("POST", f"/projects/{self.project_id}/build-jobs", body)
        assert status == 202, job
        found: dict[str, Any] = job
        return found

    async def ended(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The build once it has ended."""
        async with asyncio.timeout(60):
            while True:
                _, seen = await self.call("GET", f"/build-jobs/{job['id']}")
                if seen["finished_at_ms"] is not None:
                    found: dict[str, Any] = seen
                    return found
                await asyncio.sleep(0.05)

    async def get(self, url: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        async with self.http.get(url, headers=headers, allow_redirects=False) as answer:
            return answer.status, answer.headers, await answer.read()

    def left_objects(self) -> list[Path]:
        """What builds left in the store."""
        return [path for path in (self.objects_dir / "builds").rglob("*") if path.is_file()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RuntimeSystem]:
    async with RuntimeSystem(RuntimeOptions(work_dir=tmp_path_factory.mktemp("runtime"))) as system:
        yield system


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects.local(tmp_path / "objects")


@pytest.fixture
def limits() -> ApiLimits:
    return ApiLimits(build_artifact_bytes_max=1024 * 1024, job_heartbeat_s=0.2, job_lease_s=60.0)


@pytest_asyncio.fixture(loop_scope="module")
async def stage(
    system: RuntimeSystem,
    sqlite_url: str,
    rsa_key: rsa.RSAPrivateKey,
    tmp_path: Path,
    objects: Objects,
    limits: ApiLimits,
) -> AsyncIterator[Stage]:
    db = await Database.open(sqlite_url)
    world, state, registry = World(db), MemoryState(10**7), CollectorRegistry()
    await world.settle_in()
    artifacts, tickets = PreviewArtifacts(state), Tickets(rsa_key, "k1")
    told: list[pykka.ActorRef[Any]] = []
    control = JobControl.start(db, _Later(told), RetryLimits(), on_news=_nothing, on_end=lambda: None)
    session = aiohttp.ClientSession()
    parts = BackendParts(
        db=db,
        objects=objects,
        artifacts=artifacts,
        previews=Previews(db, artifacts, tickets, ""),
        state=state,
        agent_runs=control,
        job_control=control,
        admission=control,
        tickets=tickets,
        feed=RunFeed(),
        limits=limits,
        registry=registry,
        build_numbers=BuildNumbers(registry),
        render_workers=1,
        wake_builds=lambda: told[0].tell(JobsSubmitted()) if told[0].is_alive() else None,
        sites_url="http://sites.test",
    )
    backend = TestServer(make_app(parts))
    await backend.start_server()
    url = str(backend.make_url("")).rstrip("/")
    system.options = replace(system.options, backend_base_urls=(url,))
    numbers, system.registry = system.registry, CollectorRegistry()
    runtime = TestServer(runtime_app(system))
    system.registry = numbers
    await runtime.start_server()
    runtime_url = str(runtime.make_url("")).rstrip("/")
    actor = ProjectBuilds.start(db, objects, tickets, partial(offer_builds, session), [runtime_url], url, 0.2)
    told.append(actor)
    stage = Stage(db, world, objects, tmp_path / "objects", parts, url, runtime_url, session, actor)
    async with db.write() as tx:
        await tx.execute(builds.schema.projects.update().values(name=NAME))
        await workspaces.put_member(tx, world.workspaces[0], world.user_id, "editor")
        stage.token = (await users.issue_token(tx, world.user_id, "test")).secret
    yield stage
    await kernel.stop(actor)
    await runtime.close()
    await backend.close()
    await session.close()
    await kernel.stop(control)
    await db.close()


@pytest_asyncio.fixture(loop_scope="module")
async def alone(stage: Stage) -> AsyncIterator[Stage]:
    """Nobody offers anything to the real Runtime."""
    await kernel.stop(stage.builds)
    await stage.save("one", "<template><p>one</p></template>")
    yield stage


class _Later(dict[str, Any]):
    """Every lane's queue is the builds' actor, once there is one."""

    def __init__(self, told: list[pykka.ActorRef[Any]]) -> None:
        super().__init__(dict.fromkeys(JOB_KINDS))
        self._told = told

    def __getitem__(self, _: str) -> Any:
        return self._told[0]


def _nothing(_: int) -> None:
    return
