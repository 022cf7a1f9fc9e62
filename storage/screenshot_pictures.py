"""Pictures of pages: temporary, held, published, collected (S2, S3, S5).

Owns the tables `page_screenshot_holds`, `page_screenshot_artifacts` and `page_screenshots`, and the places of pictures
in the object store. Each picture has a place of its own that is written once; a place is known to exactly one row,
first a hold, then an artifact. Publishing takes the hold away in the transaction that adds the artifact; the collector
marks a hold first and deletes the object then. So no published picture is ever collected, and none is forgotten,
whoever is killed between two steps.

An input artifact of a check lives in the runtime state under other keys: cleaning it touches no picture.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, delete, or_, select, update

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, require_held
from pagegate.storage.screenshot_context import CaptureContext, capture_key
from pagegate.storage.upsert import insert_unless_there

_holds = schema.page_screenshot_holds
_artifacts = schema.page_screenshot_artifacts
_current = schema.page_screenshots

TEMPORARY = "renders/"  # the prefix of what a Renderer delivered and nobody has kept yet


@dataclass(frozen=True)
class TemporaryPicture:
    """The reference to a PNG that an attempt left in the object store. Good until `expires_at_ms`; sizes in px."""

    key: str
    workspace_id: int
    request_id: int
    attempt: int
    sha256: str
    size_bytes: int
    expires_at_ms: int
    width_px: int
    height_px: int
    cut: bool


@dataclass(frozen=True)
class HeldPicture:
    """A PNG at its final place, which nothing points at yet."""

    hold_id: int
    object_key: str
    picture: TemporaryPicture


@dataclass(frozen=True)
class Publication:
    """What a picture is to be published as."""

    workspace_id: int
    project_id: int
    page_id: int
    page_version: int
    viewport: str
    context: CaptureContext


class HoldLost(Exception):
    """The hold has expired, or its picture is being collected: it cannot be published any more."""


class PictureExpired(Exception):
    """The temporary picture's time is over."""


async def hold_picture(tx: Tx, job: Lease, project_id: int, picture: TemporaryPicture, hold_ms: int) -> HeldPicture:
    """Reserve a final place for a picture, before its bytes are written there. Raises `LeaseLost`, `PictureExpired`."""
    await require_held(tx, job)
    if await tx.now_ms() >= picture.expires_at_ms:
        raise PictureExpired(picture.key)
    key = f"pages/{project_id}/{secrets.token_urlsafe(12)}/{picture.sha256}.png"
    hold_id = await tx.insert(
        _holds,
        object_key=key,
        job_kind=job.table,
        job_id=job.id,
        expires_at=tx.now + hold_ms,
        created_at_ms=tx.now,
    )
    return HeldPicture(hold_id, key, picture)


async def keep_with_job(tx: Tx, held: HeldPicture) -> bool:
    """Keep a refused page's picture as long as its job; it is part of nobody's history. False when it is too late."""
    return await _still_held(tx, held, expires_at=None)


async def publish_picture(tx: Tx, job: Lease, held: HeldPicture, wanted: Publication) -> str:
    """Make the picture part of the page's history; answer its place. Raises `HoldLost`.

    Content that has a picture already keeps it, and this one is collected. The page's pointer moves to it: whoever
    calls this has made sure, under the page's lock, that it shows the page as it is now (S2).
    """
    taken = delete(_holds).where(*_unexpired(tx, held)).returning(_holds.c.id)
    if (await tx.execute(taken)).first() is None:
        raise HoldLost(held.object_key)
    fingerprint = wanted.context.fingerprint
    key = capture_key(wanted.page_id, wanted.page_version, fingerprint, wanted.viewport)
    added = await insert_unless_there(
        tx,
        _artifacts,
        unique=("capture_key",),
        workspace_id=wanted.workspace_id,
        project_id=wanted.project_id,
        page_id=wanted.page_id,
        page_version=wanted.page_version,
        config_fingerprint=fingerprint,
        viewport=wanted.viewport,
        capture_key=key,
        content=wanted.context.content(),
        object_key=held.object_key,
        sha256=held.picture.sha256,
        size_bytes=held.picture.size_bytes,
        width_px=held.picture.width_px,
        height_px=held.picture.height_px,
        cut=held.picture.cut,
        job_kind=job.table,
        job_id=job.id,
        created_at_ms=tx.now,
    )
    if not added:
        await tx.insert(
            _holds,
            object_key=held.object_key,
            job_kind=job.table,
            job_id=job.id,
            expires_at=tx.now,
            created_at_ms=tx.now,
        )
    artifact = await get_by_capture(tx, key)
    await _point_at(tx, artifact)
    return str(artifact.object_key)


async def find_by_capture(tx: Tx, key: str) -> Row[Any] | None:
    """The picture of this very content, if there is one."""
    return (await tx.execute(select(_artifacts).where(_artifacts.c.capture_key == key))).first()


async def get_by_capture(tx: Tx, key: str) -> Row[Any]:
    return (await tx.execute(select(_artifacts).where(_artifacts.c.capture_key == key))).one()


async def find_artifact(tx: Tx, artifact_id: int) -> Row[Any] | None:
    """A picture of a page's history. Whether the caller may see it is the caller's to check (X5)."""
    return (await tx.execute(select(_artifacts).where(_artifacts.c.id == artifact_id))).first()


async def list_history(tx: Tx, page_id: int, limit: int) -> Sequence[Row[Any]]:
    """The newest pictures of a page; `is_current` marks the one that shows it now in its viewport."""
    pointed = and_(_current.c.page_id == _artifacts.c.page_id, _current.c.artifact_id == _artifacts.c.id)
    history = (
        select(_artifacts, _current.c.artifact_id.is_not(None).label("is_current"))
        .outerjoin(_current, pointed)
        .where(_artifacts.c.page_id == page_id)
        .order_by(_artifacts.c.id.desc())
        .limit(limit)
    )
    return (await tx.execute(history)).all()


async def list_collectable(tx: Tx, limit: int) -> Sequence[Row[Any]]:
    """Holds (id, object_key) whose time is over, or whose object somebody had begun to delete. Oldest first."""
    over = or_(_holds.c.expires_at <= tx.now, _holds.c.collecting)
    return (
        await tx.execute(select(_holds.c.id, _holds.c.object_key).where(over).order_by(_holds.c.id).limit(limit))
    ).all()


async def begin_collecting(tx: Tx, hold_id: int) -> bool:
    """Take an expired hold away from whoever might still publish it. False when it was published or prolonged."""
    mine = (
        update(_holds)
        .where(_holds.c.id == hold_id, or_(_holds.c.expires_at <= tx.now, _holds.c.collecting))
        .values(collecting=True)
        .returning(_holds.c.id)
    )
    return (await tx.execute(mine)).first() is not None


async def end_collecting(tx: Tx, hold_id: int) -> None:
    """The object is gone, so is its hold."""
    await tx.execute(delete(_holds).where(_holds.c.id == hold_id, _holds.c.collecting))


async def release_holds_of_jobs(tx: Tx, kind: str, job_ids: Sequence[int]) -> None:
    """The jobs are being pruned: what was kept with them may be collected."""
    of_jobs = update(_holds).where(_holds.c.job_kind == kind, _holds.c.job_id.in_(job_ids))
    await tx.execute(of_jobs.values(expires_at=tx.now))


async def _point_at(tx: Tx, artifact: Row[Any]) -> None:
    place: Mapping[str, Any] = {"page_id": artifact.page_id, "viewport": artifact.viewport}
    values = {"artifact_id": artifact.id, "updated_at_ms": await tx.now_ms()}
    if await insert_unless_there(tx, _current, unique=("page_id", "viewport"), **place, **values):
        return
    here = and_(_current.c.page_id == artifact.page_id, _current.c.viewport == artifact.viewport)
    # A pointer never goes back to an older version, whatever its caller has made sure of.
    version_now = select(_artifacts.c.page_version).where(_artifacts.c.id == _current.c.artifact_id).scalar_subquery()
    await tx.execute(update(_current).where(here, version_now <= artifact.page_version).values(**values))


async def _still_held(tx: Tx, held: HeldPicture, **values: Any) -> bool:
    changed = update(_holds).where(*_unexpired(tx, held)).values(**values).returning(_holds.c.id)
    return (await tx.execute(changed)).first() is not None


def _unexpired(tx: Tx, held: HeldPicture) -> tuple[Any, ...]:
    live = or_(_holds.c.expires_at.is_(None), _holds.c.expires_at > tx.now)
    return _holds.c.id == held.hold_id, ~_holds.c.collecting, live
