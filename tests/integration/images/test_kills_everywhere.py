"""A worker that makes a picture is killed before and after everything it does: nothing is charged or saved twice (A1).

Not at random: a first life counts its beats (each transaction, each object, the request), then one life after another
ends at each of them, and a second one finishes what it left.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pagegate.actors.images.answers import Outcome
from pagegate.actors.queues.kinds import End
from pagegate.storage import jobs, lease
from pagegate.storage.objects import sha256_of
from tests.integration.images.conftest import Studio, opened
from tests.integration.images.played_provider import picture
from tests.world import TTL_MS

FOR_EVER = 10_000


class Life:
    """Of one worker: `beat` ends it for good at the beat of this number."""

    def __init__(self, ends_at: int) -> None:
        self.ends_at, self.beats = ends_at, 0

    def beat(self) -> None:
        self.beats += 1
        if self.beats >= self.ends_at:
            raise asyncio.CancelledError


class Mortal:
    """Database, object store and provider, as a process sees them that may be dead before and after each use."""

    def __init__(self, studio: Studio, life: Life) -> None:
        self._studio, self._life = studio, life
        self._provider = studio.kind._provider

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Any]:
        self._life.beat()
        async with self._studio.db.write() as tx:
            yield tx
        self._life.beat()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Any]:
        async with self._studio.db.read() as tx:
            yield tx
        self._life.beat()

    async def put(self, key: str, content: bytes) -> None:
        self._life.beat()
        await self._studio.objects.put(key, content)
        self._life.beat()

    async def get(self, key: str) -> bytes:
        self._life.beat()
        return await self._studio.objects.get(key)

    async def make(self, *asked: Any) -> Outcome:
        self._life.beat()
        outcome = await self._provider.make(*asked)
        self._life.beat()
        return outcome


async def live(studio: Studio, ends_at: int) -> int:
    """One life: claim the job and do it; answers its beats. A life that is cut off leaves the job to be rescued."""
    life = Life(ends_at)
    job = await studio.claim()
    kind, mortal = studio.kind, Mortal(studio, life)
    kept: dict[str, Any] = {"_db": kind._db, "_objects": kind._objects, "_provider": kind._provider}
    vars(kind).update(dict.fromkeys(kept, mortal))
    teller, kind._teller._db = kind._teller._db, mortal  # type: ignore[assignment]  # it is used as one
    try:
        settle = await kind.execute(job)
        async with mortal.write() as tx:
            await lease.renew(tx, job.lease, TTL_MS)
            end = await settle(tx)
            await jobs.finish_job(tx, job.lease, end.event, result=end.result, error=end.error)
    except asyncio.CancelledError:
        if (await studio.job(job.id)).status == "running":
            await studio.lose(job)
    finally:
        vars(kind).update(kept)
        kind._teller._db = teller
    return life.beats


@pytest.mark.parametrize("honoured", [True, False], ids=["keys honoured", "keys not honoured"])
async def test_a_life_that_ends_anywhere_costs_one_picture_and_no_more(
    sqlite_template: Path, tmp_path: Path, honoured: bool
) -> None:
    lived, ends = 0, dict[str, int]()
    for ends_at in (FOR_EVER, *range(1, 40)):
        if lived and ends_at > lived:
            break
        folder = tmp_path / str(ends_at)
        folder.mkdir()
        shutil.copy(sqlite_template, folder / "p.db")
        async with opened(f"sqlite+aiosqlite:///{folder}/p.db", folder) as studio:
            studio.api.honours_keys = honoured
            await studio.add_credential()
            (job_id,) = (await studio.submit()).job_ids
            beats = await live(studio, ends_at)
            lived = lived or beats
            studio.api.content = picture("blue")  # what another charge would bring
            if (await studio.job(job_id)).status == "pending":
                assert isinstance(await studio.work(), End)
            job, files = await studio.job(job_id), await studio.files()
            end = job.error_code or job.status
            ends[end] = ends.get(end, 0) + 1
            assert studio.api.charges <= 1, ends_at
            assert len(set(studio.api.keys)) <= 1, ends_at
            if honoured:
                assert end == "succeeded", ends_at
            if end == "succeeded":
                assert studio.api.charges == 1, ends_at
                made = {one.stored.sha256 for one in files.values()}
                assert len(made) == 1, ends_at
                assert made <= {sha256_of(picture("red")), sha256_of(picture("blue"))}
            else:
                assert (end, files) == ("IMAGE_MAY_BE_CHARGED", {}), ends_at
    assert lived >= 12, "each transaction, object and request is a beat or two"
    assert ends["succeeded"] >= 8
    # From the note until the answer is stored nobody can know, and only there is it given up.
    assert ends.get("IMAGE_MAY_BE_CHARGED", 0) == (0 if honoured else 4)
