"""What is put away for a while is found and deleted by its age, and nothing else is."""

import asyncio
from pathlib import Path

import pytest

from pagegate.storage.objects import ObjectMissing, Objects

_OLDER_THAN_NOTHING_S = -60.0  # by the store's clock: everything is


async def test_what_is_old_enough_is_deleted_below_its_prefix_only(tmp_path: Path) -> None:
    for objects in (Objects.in_memory(), Objects.local(tmp_path)):
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
