"""Answers that no job will look for any more are swept, and a store that is away only delays it (A1)."""

import asyncio
from pathlib import Path

import pytest

from pagegate.actors.images.sweeper import StagedSweeper
from pagegate.actors.kernel import stop
from pagegate.storage.images import staged_key
from pagegate.storage.objects import ObjectMissing, Objects, ObjectStoreUnavailable


class AwayAtFirst(Objects):
    """A store whose first tidying fails. `tidied` is set by each one that does not."""

    failures = 1
    tidied: asyncio.Event

    async def delete_older(self, prefix: str, age_s: float, *, keep: str = "") -> int:
        if self.failures:
            self.failures -= 1
            raise ObjectStoreUnavailable("tidying failed")
        deleted = await super().delete_older(prefix, age_s, keep=keep)
        self.tidied.set()
        return deleted


async def test_old_answers_are_swept_and_nothing_else(tmp_path: Path) -> None:
    objects = AwayAtFirst.local(tmp_path)
    assert isinstance(objects, AwayAtFirst)
    objects.tidied = asyncio.Event()
    await objects.put(staged_key("a"), b"picture")
    await objects.put("assets/1/a", b"picture")
    sweeper = StagedSweeper.start(objects, kept_s=-1.0, period_s=0.01)
    await asyncio.wait_for(objects.tidied.wait(), 10)
    await stop(sweeper)
    with pytest.raises(ObjectMissing):
        await objects.get(staged_key("a"))
    assert await objects.get("assets/1/a") == b"picture"
