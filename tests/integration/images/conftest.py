"""A project with an editor, a played provider, and the real job kind between them; nobody claims but the test."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import select

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.models import Models
from pagegate.actors.agents.secrets import Secrets
from pagegate.actors.agents.submissions import prepare_calls
from pagegate.actors.agents.tools import parse_tool_call
from pagegate.actors.images.credentials import ImageCredentials
from pagegate.actors.images.provider import HttpImageProvider
from pagegate.actors.jobs.image_generation import ImageGeneration
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.storage import assets, credentials, images, jobs, lease, runs
from pagegate.storage.credentials import NewCredential
from pagegate.storage.engine import Database
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.objects import Objects
from pagegate.storage.runs import StepSubmission, Submitted
from pagegate.storage.workspaces import put_member
from tests.integration.images.played_provider import KEY, ImagesApi
from tests.world import TTL_MS, World

PROMPT = "a lighthouse in a storm"


def generate(name: str = "hero.png", call_id: str = "call", **arguments: Any) -> Any:
    """A call of the tool."""
    return parse_tool_call(call_id, "generate_image", {"name": name, "prompt": PROMPT, **arguments})


@dataclass
class Studio:
    world: World
    objects: Objects
    api: ImagesApi
    kind: ImageGeneration
    models: Models
    ended: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    @property
    def db(self) -> Database:
        return self.world.db

    @property
    def project_id(self) -> int:
        return self.world.projects[0]

    async def add_credential(self, name: str = "mine", *, key: str = KEY, **more: Any) -> int:
        secrets = self.models.secrets
        assert secrets is not None
        about = {"image_model": "gpt-image-1", "image_keys_honoured": self.api.honours_keys, **more}
        new = NewCredential(self.world.user_id, name, "openai", self.api.base_url, "gpt", secrets.encrypt(key), **about)
        async with self.db.write() as tx:
            return int((await credentials.add_credential(tx, new)).id)

    async def submit(self, *calls: Any) -> Submitted:
        async with self.db.write() as tx:
            step = StepSubmission(
                workspace_id=self.world.workspaces[0],
                project_id=self.project_id,
                user_id=self.world.user_id,
                calls=await prepare_calls(tx, self.project_id, calls or [generate()]),
            )
            return await runs.submit_step(tx, step)

    async def claim(self) -> ClaimedJob:
        job = await self.world.write(jobs.claim_job, images.IMAGE_GENERATION, "worker", TTL_MS)
        assert job is not None
        return job

    async def settle(self, job: ClaimedJob, settle: Settle) -> End:
        """The commit, as a worker makes it."""
        async with self.db.write() as tx:
            await lease.renew(tx, job.lease, TTL_MS)
            end = await settle(tx)
            await jobs.finish_job(tx, job.lease, end.event, result=end.result, error=end.error)
            await self.kind.tell(tx, job, end)
        await self.kind.ended(job)
        return end

    async def work(self, job: ClaimedJob | None = None) -> End | TryLater:
        """Claim a job, unless one is given, and do it; one that is to be tried again is put back."""
        job = job or await self.claim()
        try:
            settle = await self.kind.execute(job)
        except TryLater as later:
            await self.world.write(jobs.retry_job, job.lease, 0, "infra")
            return later
        return await self.settle(job, settle)

    async def fail(self) -> End:
        """Do a job that fails for good."""
        end = await self.work()
        assert isinstance(end, End), end
        assert end.event == "fail"
        assert end.error is not None
        return end

    async def postpone(self) -> TryLater:
        """Do a job that is to be tried again."""
        later = await self.work()
        assert isinstance(later, TryLater), later
        return later

    async def lose(self, job: ClaimedJob) -> None:
        """Its worker is killed, and the job is rescued."""
        await self.world.expire(job.lease)
        assert await self.world.write(jobs.rescue_job, images.IMAGE_GENERATION, job.id, job.lease.fence, 3) == "pending"

    async def files(self) -> dict[str, assets.AssetVersion]:
        async with self.db.read() as tx:
            return {one.stored.name: one for one in await assets.list_assets(tx, self.project_id)}

    async def job(self, job_id: int) -> Any:
        return await self.world.read(jobs.get_job, images.IMAGE_GENERATION, job_id)

    async def put_file(self, name: str) -> None:
        stored = assets.StoredAsset(name, "image/png", "0" * 64, 1, "assets/x")
        await self.world.write(assets.put_asset, self.project_id, stored, self.world.user_id, assets.AssetSize(1, 1))

    async def events(self, run_id: int) -> Sequence[runs.RunEvent]:
        return await self.world.read(runs.list_events, run_id)

    async def rows(self, table: Any) -> list[Any]:
        async with self.db.read() as tx:
            return list((await tx.execute(select(table).order_by(*table.primary_key))).all())


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Studio]:
    db = await Database.open(url)
    world = World(db)
    await world.settle_in()
    await world.write(put_member, world.workspaces[0], world.user_id, "editor")
    objects = Objects.local(folder / "objects")
    models = Models(db, Secrets([Fernet.generate_key().decode()]), base_urls=["*"])
    async with ImagesApi().serving() as api:
        ended, outcomes = list[int](), list[str]()
        kind = ImageGeneration(
            db,
            objects,
            HttpImageProvider(5.0),
            ImageCredentials(models),
            RunFeed(),
            lambda: ended.append(1),
            outcomes.append,
        )
        studio = Studio(world, objects, api, kind, models, ended, outcomes)
        yield studio
    await db.close()


@pytest.fixture
async def studio(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Studio]:
    async with opened(sqlite_url, tmp_path) as one:
        await one.add_credential()
        yield one


@pytest.fixture
async def studios(database_url: str, tmp_path: Path) -> AsyncIterator[Studio]:
    """The same on both databases."""
    async with opened(database_url, tmp_path) as one:
        await one.add_credential()
        yield one
