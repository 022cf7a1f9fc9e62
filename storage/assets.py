"""The files of a project: which there are, of what kind, and where their bytes are (D1).

Owns the tables `assets` and `asset_versions`; the bytes are in the object store at keys that name their content
(`objects.py`), put there before the row is written. A replaced file is a new version; the old bytes stay for the pages
and releases that were made with them.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Row, Select, and_, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.objects import StoredAsset
from pagegate.storage.schema import asset_versions, assets
from pagegate.storage.upsert import insert_unless_there


@dataclass(frozen=True)
class AssetSize:
    """How wide and high a picture or video is shown, in CSS pixels (V9)."""

    width_px: int
    height_px: int


@dataclass(frozen=True)
class AssetVersion:
    """The current version of a file. `size` None: it has none, or was not measured yet."""

    stored: StoredAsset
    number: int
    created_by: int
    created_at_ms: int
    size: AssetSize | None = None


async def put_asset(
    tx: Tx, project_id: int, stored: StoredAsset, user_id: int, size: AssetSize | None = None
) -> tuple[AssetVersion, bool]:
    """Save a file's next version; the same bytes again add none. Answers (current, added). The object exists.

    A size that was not known when the same bytes were saved is kept now.
    """
    now_ms = await tx.now_ms()
    await insert_unless_there(
        tx, assets, unique=("project_id", "name"), project_id=project_id, name=stored.name, created_at_ms=now_ms
    )
    # The update comes before anything is read: on PostgreSQL it holds the row, so two saves of one file queue up.
    row = (
        await tx.execute(
            update(assets)
            .where(and_(assets.c.project_id == project_id, assets.c.name == stored.name))
            .values(deleted_at_ms=None)
            .returning(assets.c.id, assets.c.current_version_number)
        )
    ).one()
    current = await find_asset(tx, project_id, stored.name)
    if current is not None and current.stored.sha256 == stored.sha256:
        if size is not None and current.size is None:
            same = and_(asset_versions.c.asset_id == row.id, asset_versions.c.number == current.number)
            await tx.execute(update(asset_versions).where(same).values(**asdict(size)))
            current = replace(current, size=size)
        return current, False
    number = row.current_version_number + 1
    await tx.insert(
        asset_versions,
        asset_id=row.id,
        number=number,
        object_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        media_type=stored.media_type,
        **(asdict(size) if size else {}),
        created_by=user_id,
        created_at_ms=now_ms,
    )
    await tx.execute(update(assets).where(assets.c.id == row.id).values(current_version_number=number))
    return AssetVersion(stored, number, user_id, now_ms, size), True


async def list_assets(tx: Tx, project_id: int) -> list[AssetVersion]:
    """The files of a project, by name."""
    rows = await tx.execute(_current().where(assets.c.project_id == project_id).order_by(assets.c.name))
    return [_version(row) for row in rows]


async def find_asset(tx: Tx, project_id: int, name: str) -> AssetVersion | None:
    rows = await tx.execute(_current().where(and_(assets.c.project_id == project_id, assets.c.name == name)))
    row = rows.first()
    return _version(row) if row else None


async def delete_asset(tx: Tx, project_id: int, name: str) -> bool:
    """Take a file out of what new pages may use. False when there is none. Its bytes stay."""
    changed = await tx.execute(
        update(assets)
        .where(and_(assets.c.project_id == project_id, assets.c.name == name, assets.c.deleted_at_ms.is_(None)))
        .values(deleted_at_ms=tx.now)
        .returning(assets.c.id)
    )
    return changed.first() is not None


async def load_assets(tx: Tx, project_id: int) -> dict[str, StoredAsset]:
    """What a check may use as `@assets/<name>` (V6)."""
    return {asset.stored.name: asset.stored for asset in await list_assets(tx, project_id)}


def _current() -> Select[Any]:
    return (
        select(asset_versions, assets.c.name)
        .join(assets, asset_versions.c.asset_id == assets.c.id)
        .where(and_(asset_versions.c.number == assets.c.current_version_number, assets.c.deleted_at_ms.is_(None)))
    )


def _version(row: Row[Any]) -> AssetVersion:
    stored = StoredAsset(row.name, row.media_type, row.sha256, row.size_bytes, row.object_key)
    size = AssetSize(row.width_px, row.height_px) if row.width_px and row.height_px else None
    return AssetVersion(stored, row.number, row.created_by, row.created_at_ms, size)
