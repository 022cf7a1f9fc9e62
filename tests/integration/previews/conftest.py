"""A Backend's internal door, a real Runtime beside it, and a saved deck that somebody looks at.

The Runtime with its warm worker serves all tests of a module; what it is asked, and the keys, are each test's own.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import aiohttp
import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.previews import OpenedPreview, Previews
from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.actors.tickets import Tickets
from pagegate.http.backend.app import make_app
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.http.runtime import runtime_app
from pagegate.storage import assets, pages, projects
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects, StoredAsset
from pagegate.storage.pages import NewVersion
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.runtime_state import MemoryState
from tests.world import World

LOGO = b"<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'><rect width='40' height='40' fill='red'/></svg>"


@dataclass
class Stage:
    """Everything that one test of a preview needs."""

    system: RuntimeSystem
    backend: TestServer
    runtime: TestServer
    http: aiohttp.ClientSession
    world: World
    artifacts: PreviewArtifacts
    state: MemoryState
    tickets: Tickets
    parts: SimpleNamespace  # the Backend's

    async def open(
        self, sources: Mapping[str, str], *, notes: str = "", height_px: int | None = 720, page: int = 0
    ) -> OpenedPreview:
        """Save pages (file name → source) and open one of them."""
        async with self.world.db.write() as tx:
            ids = [
                await pages.insert_page_with_first_version(
                    tx,
                    self.world.projects[0],
                    code=name.partition(".")[0],
                    framework="vue" if name.endswith(".vue") else "react",
                    canvas_width_px=1280,
                    canvas_height_px=height_px,
                    version=NewVersion(
                        source=source,
                        title=name.partition(".")[0].title(),
                        speaker_notes=notes,
                        component_pins={},
                        status="passed",
                        verdict=None,
                        picture_key=None,
                        job_id=None,
                        created_by=self.world.user_id,
                    ),
                )
                for name, source in sources.items()
            ]
            project = await projects.find_project(tx, self.world.projects[0])
        assert project is not None
        previews = Previews(self.world.db, self.artifacts, self.tickets, str(self.runtime.make_url("")))
        opened = await previews.open(project, ids[page], 1)
        assert opened is not None
        return opened

    async def get(self, url: str) -> tuple[int, Mapping[str, str], str]:
        async with self.http.get(url, allow_redirects=False) as answer:
            return answer.status, answer.headers, await answer.text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RuntimeSystem]:
    async with RuntimeSystem(RuntimeOptions(work_dir=tmp_path_factory.mktemp("runtime"))) as system:
        await system.ready.wait()
        yield system


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest_asyncio.fixture(loop_scope="module")
async def stage(system: RuntimeSystem, sqlite_url: str, rsa_key: rsa.RSAPrivateKey) -> AsyncIterator[Stage]:
    db = await Database.open(sqlite_url)
    world, objects, state = World(db), Objects.in_memory(), MemoryState(10**7)
    await world.settle_in()
    artifacts, tickets = PreviewArtifacts(state), Tickets(rsa_key, "k1")
    await objects.put("assets/logo", LOGO)
    async with db.write() as tx:
        logo = StoredAsset("logo 1.svg", "image/svg+xml", "a" * 64, len(LOGO), "assets/logo")
        await assets.put_asset(tx, world.projects[0], logo, world.user_id)
    parts = SimpleNamespace(
        registry=CollectorRegistry(),
        feed=RunFeed(),
        limits=ApiLimits(),
        db=db,
        objects=objects,
        artifacts=artifacts,
        tickets=tickets,
        screenshot_feed=RunFeed(),
    )
    backend = TestServer(make_app(cast(BackendParts, parts)))  # its internal addresses need no other parts
    await backend.start_server()
    url = str(backend.make_url("")).rstrip("/")
    system.options = replace(system.options, backend_base_urls=(url,), jwks_urls=(f"{url}/.well-known/jwks.json",))
    # A second door of one system would want the names of the first one's numbers once more.
    numbers, system.registry = system.registry, CollectorRegistry()
    runtime = TestServer(runtime_app(system))
    system.registry = numbers
    await runtime.start_server()
    async with aiohttp.ClientSession() as http:
        yield Stage(system, backend, runtime, http, world, artifacts, state, tickets, parts)
    await runtime.close()
    await backend.close()
    await db.close()
