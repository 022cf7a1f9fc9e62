"""The files of a project: which there are, of what kind, how large they are shown, and where their bytes are (D1, V9).

Owns the tables `assets` and `asset_versions`; the bytes are in the object store at keys that name their content
(`objects.py`), put there before the row is written. A replaced file is a new version; the old bytes stay for the pages
and releases that were made with them.

A picture or video that was not measured when it was saved says so in its row (`measure_at_ms`), whoever saved it: from
there on it is `asset_ratios.py`'s. Only the version that is current is ever waited for.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Row, Select, and_, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.objects import StoredAsset
from pagegate.storage.schema import asset_versions, assets
from pagegate.storage.upsert import insert_unless_there

_RATIO_DIGITS = 6


@dataclass(frozen=True)
class AssetSize:
    """How wide and high a picture or video is shown, in CSS pixels, and the ratio of the two (V9).

    The ratio may be finer than the whole pixels tell; None here: what they tell.
    """

    width_px: int
    height_px: int
    ratio: float | None = None

    def __post_init__(self) -> None:
        if self.ratio is None:
            object.__setattr__(self, "ratio", round(self.width_px / self.height_px, _RATIO_DIGITS))


@dataclass(frozen=True)
class AssetVersion:
    """The current version of a file.

    `size` None: it has none, or was not measured yet. `unmeasured` says what is wrong with the file, as an error body,
    when it was looked at and has none.
    """

    stored: StoredAsset
    number: int
    created_by: int
    created_at_ms: int
    size: AssetSize | None = None
    unmeasured: Mapping[str, Any] | None = None


def is_measurable(media_type: str) -> bool:
    """Whether files of this kind have a width and a height (V9)."""
    return media_type.startswith(("image/", "video/"))


async def put_asset(
    tx: Tx,
    project_id: int,
    stored: StoredAsset,
    user_id: int,
    size: AssetSize | None = None,
    *,
    unmeasured: Mapping[str, Any] | None = None,
) -> tuple[AssetVersion, bool]:
    """Save a file's next version; the same bytes again add none. Answers (current, added). The object exists.

    What was not known when the same bytes were saved is kept now: `size`, or what is wrong with the file
    (`unmeasured`, an error body). With neither of them, a picture or video is to be measured later.
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
        if current.size is None and (size or unmeasured or not current.unmeasured):
            measured = measured_values(stored.media_type, size, unmeasured, now_ms)
            same = and_(asset_versions.c.asset_id == row.id, asset_versions.c.number == current.number)
            await tx.execute(update(asset_versions).where(same).values(**measured, measure_jobs=0))
            current = replace(current, size=size, unmeasured=unmeasured)
        return current, False
    await _wait_no_more(tx, row.id)
    number = row.current_version_number + 1
    await tx.insert(
        asset_versions,
        asset_id=row.id,
        number=number,
        object_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        media_type=stored.media_type,
        **measured_values(stored.media_type, size, unmeasured, now_ms),
        created_by=user_id,
        created_at_ms=now_ms,
    )
    await tx.execute(update(assets).where(assets.c.id == row.id).values(current_version_number=number))
    return AssetVersion(stored, number, user_id, now_ms, size, unmeasured), True


async def list_assets(tx: Tx, project_id: int) -> list[AssetVersion]:
    """The files of a project, by name."""
    rows = await tx.execute(current_versions().where(assets.c.project_id == project_id).order_by(assets.c.name))
    return [version_of(row) for row in rows]


async def find_asset(tx: Tx, project_id: int, name: str) -> AssetVersion | None:
    rows = await tx.execute(current_versions().where(and_(assets.c.project_id == project_id, assets.c.name == name)))
    row = rows.first()
    return version_of(row) if row else None


async def delete_asset(tx: Tx, project_id: int, name: str) -> bool:
    """Take a file out of what new pages may use. False when there is none. Its bytes stay."""
    changed = await tx.execute(
        update(assets)
        .where(and_(assets.c.project_id == project_id, assets.c.name == name, assets.c.deleted_at_ms.is_(None)))
        .values(deleted_at_ms=tx.now)
        .returning(assets.c.id)
    )
    asset_id: int | None = changed.scalar()
    if asset_id is not None:
        await _wait_no_more(tx, asset_id)
    return asset_id is not None


async def load_assets(tx: Tx, project_id: int) -> dict[str, StoredAsset]:
    """What a check may use as `@assets/<name>` (V6)."""
    return {asset.stored.name: asset.stored for asset in await list_assets(tx, project_id)}


def measured_values(
    media_type: str, size: AssetSize | None, unmeasured: Mapping[str, Any] | None, now_ms: int
) -> dict[str, Any]:
    """What the row of a version says of its measuring. `now_ms`: from when on somebody is to try, if nobody has."""
    if size is not None:
        return {**asdict(size), "unmeasured": None, "measure_at_ms": None}
    waits = unmeasured is None and is_measurable(media_type)
    return {"unmeasured": unmeasured, "measure_at_ms": now_ms if waits else None}


def current_versions() -> Select[Any]:
    """The current version of every file that is not deleted, as `version_of` reads it."""
    return (
        select(asset_versions, assets.c.name)
        .join(assets, asset_versions.c.asset_id == assets.c.id)
        .where(and_(asset_versions.c.number == assets.c.current_version_number, assets.c.deleted_at_ms.is_(None)))
    )


def version_of(row: Row[Any]) -> AssetVersion:
    stored = StoredAsset(row.name, row.media_type, row.sha256, row.size_bytes, row.object_key)
    size = AssetSize(row.width_px, row.height_px, row.ratio) if row.width_px and row.height_px else None
    return AssetVersion(stored, row.number, row.created_by, row.created_at_ms, size, row.unmeasured)


async def _wait_no_more(tx: Tx, asset_id: int) -> None:
    """Nobody needs the size of a version that is not current any more."""
    waits = and_(asset_versions.c.asset_id == asset_id, asset_versions.c.measure_at_ms.is_not(None))
    await tx.execute(update(asset_versions).where(waits).values(measure_at_ms=None))
