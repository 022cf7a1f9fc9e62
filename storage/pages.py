"""Pages and their versions (D1, D2).

Owns the tables `pages` and `page_versions`. A version is never changed; a save is a compare-and-swap on the page's
current number, so whoever saves from a stale base changes nothing (Q7). Statements that write take the job's open
transaction and raise to have it rolled back as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.schema import page_versions, pages
from pagegate.storage.upsert import insert_unless_there

SUFFIX_OF_FRAMEWORK = {"vue": ".vue", "react": ".tsx"}


class PageMissing(Exception):
    """There is no such page, or it was deleted."""


class PageChanged(Exception):
    """Someone saved the page since the version this save is based on, or it was deleted. Nothing was written."""


class PageCodeTaken(Exception):
    """The project has a page of this code, perhaps a deleted one: a code is never given to another page."""


@dataclass(frozen=True)
class Page:
    """A page as it is now; `number` is its current version.

    `canvas_width_px` None: the project's canvas. With a width, `canvas_height_px` None: the page decides its height.
    """

    id: int
    project_id: int
    code: str
    title: str
    speaker_notes: str
    framework: str
    canvas_width_px: int | None
    canvas_height_px: int | None
    number: int
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True)
class PageEntry:
    """A page in a list, with what its current version was judged to be."""

    page: Page
    status: str
    has_picture: bool


@dataclass(frozen=True)
class NewVersion:
    """What a save writes. `component_pins`: component name → version id it was checked with (D4)."""

    source: str
    title: str
    speaker_notes: str
    component_pins: Mapping[str, int]
    status: str
    verdict: Mapping[str, Any] | None
    picture_key: str | None
    job_id: int | None
    created_by: int


@dataclass(frozen=True)
class PageVersion:
    """A saved version. `number` counts from 1 within its page."""

    id: int
    page_id: int
    number: int
    source: str
    title: str
    speaker_notes: str
    component_pins: dict[str, int]
    status: str
    verdict: dict[str, Any] | None
    picture_key: str | None
    job_id: int | None
    created_by: int
    created_at_ms: int


async def find_page(tx: Tx, page_id: int) -> Page | None:
    """A page that is not deleted. Whoever shows it checks the membership of its project (X5)."""
    return _page((await tx.execute(_live().where(pages.c.id == page_id))).first())


async def lock_page(tx: Tx, page_id: int) -> Page | None:
    """A page that is not deleted, which nobody changes until this transaction has ended."""
    locked = _live().where(pages.c.id == page_id).with_for_update(key_share=True)
    return _page((await tx.execute(locked)).first())


async def find_page_by_code(tx: Tx, project_id: int, code: str) -> Page | None:
    return _page((await tx.execute(_live().where(_has_code(project_id, code)))).first())


async def get_page_by_code(tx: Tx, project_id: int, code: str) -> Page:
    """A page that is not deleted. Raises `PageMissing`."""
    page = await find_page_by_code(tx, project_id, code)
    if page is None:
        raise PageMissing(code)
    return page


async def code_taken(tx: Tx, project_id: int, code: str) -> bool:
    """Whether any page has this code, a deleted one too: it can be brought back."""
    return (await tx.execute(select(pages.c.id).where(_has_code(project_id, code)))).first() is not None


async def list_codes(tx: Tx, project_id: int) -> set[str]:
    """Every code that a page of the project has, deleted ones too."""
    return set((await tx.execute(select(pages.c.code).where(pages.c.project_id == project_id))).scalars())


async def list_pages(tx: Tx, project_id: int) -> list[PageEntry]:
    """The pages of a project that are not deleted, in the order they were made."""
    rows = await tx.execute(
        select(pages, page_versions.c.status, page_versions.c.picture_key)
        .join(page_versions, _is_current())
        .where(and_(pages.c.project_id == project_id, pages.c.deleted_at_ms.is_(None)))
        .order_by(pages.c.id)
    )
    entries: list[PageEntry] = []
    for row in rows:
        page = _page(row)
        assert page is not None
        entries.append(PageEntry(page, row.status, row.picture_key is not None))
    return entries


async def load_page_sources(tx: Tx, project_id: int) -> dict[str, str]:
    """What a check may import as `@pages/<file>`: `<code>.vue|tsx` → current source (A2: committed pages only)."""
    rows = await tx.execute(
        select(pages.c.code, pages.c.framework, page_versions.c.source)
        .join(page_versions, _is_current())
        .where(and_(pages.c.project_id == project_id, pages.c.deleted_at_ms.is_(None)))
    )
    return {row.code + SUFFIX_OF_FRAMEWORK[row.framework]: row.source for row in rows}


async def insert_page_with_first_version(
    tx: Tx,
    project_id: int,
    *,
    code: str,
    framework: str,
    version: NewVersion,
    canvas_width_px: int | None = None,
    canvas_height_px: int | None = None,
) -> int:
    """Add a page with its version 1, answer the page's id. Without a canvas it has the project's.

    Raises `PageCodeTaken`.
    """
    now_ms = await tx.now_ms()
    added = await insert_unless_there(
        tx,
        pages,
        unique=("project_id", "code"),
        project_id=project_id,
        code=code,
        title=version.title,
        speaker_notes=version.speaker_notes,
        framework=framework,
        canvas_width_px=canvas_width_px,
        canvas_height_px=canvas_height_px,
        current_version_number=1,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
    )
    if not added:
        raise PageCodeTaken(code)
    page_id = int((await tx.execute(select(pages.c.id).where(_has_code(project_id, code)))).scalar_one())
    await _insert_version(tx, page_id, 1, version, now_ms)
    return page_id


async def add_page_version(tx: Tx, page_id: int, expected_current_number: int, version: NewVersion) -> int:
    """Save the next version if the current one is still `expected_current_number`; answer its number.

    Raises `PageChanged` when it is not, or when the page was deleted.
    """
    now_ms = await tx.now_ms()
    number = expected_current_number + 1
    swapped = await tx.execute(
        update(pages)
        .where(
            and_(
                pages.c.id == page_id,
                pages.c.current_version_number == expected_current_number,
                pages.c.deleted_at_ms.is_(None),
            )
        )
        .values(
            current_version_number=number,
            title=version.title,
            speaker_notes=version.speaker_notes,
            updated_at_ms=now_ms,
        )
        .returning(pages.c.id)
    )
    if swapped.first() is None:
        raise PageChanged(page_id)
    await _insert_version(tx, page_id, number, version, now_ms)
    return number


async def find_version(tx: Tx, page_id: int, number: int) -> PageVersion | None:
    rows = await tx.execute(
        select(page_versions).where(and_(page_versions.c.page_id == page_id, page_versions.c.number == number))
    )
    row = rows.first()
    return _version(row) if row else None


async def list_versions(tx: Tx, page_id: int) -> list[PageVersion]:
    """Every version of a page, newest first."""
    rows = await tx.execute(
        select(page_versions).where(page_versions.c.page_id == page_id).order_by(page_versions.c.number.desc())
    )
    return [_version(row) for row in rows]


async def set_missing_picture(tx: Tx, page_id: int, number: int, key: str) -> None:
    """Give a version the picture that was still pending when it was saved (S3). One that it has stays."""
    pending = and_(
        page_versions.c.page_id == page_id, page_versions.c.number == number, page_versions.c.picture_key.is_(None)
    )
    await tx.execute(update(page_versions).where(pending).values(picture_key=key))


async def delete_page(tx: Tx, page_id: int) -> bool:
    """Take a page out of the project; it keeps its code and versions and can be brought back (D2)."""
    return await _set_deleted(tx, page_id, tx.now, pages.c.deleted_at_ms.is_(None))


async def bring_back_page(tx: Tx, page_id: int) -> bool:
    """Undo `delete_page`. False when there is no such deleted page."""
    return await _set_deleted(tx, page_id, None, pages.c.deleted_at_ms.is_not(None))


async def find_page_project(tx: Tx, page_id: int) -> int | None:
    """The project of a page, deleted or not."""
    found: int | None = (await tx.execute(select(pages.c.project_id).where(pages.c.id == page_id))).scalar_one_or_none()
    return found


async def _insert_version(tx: Tx, page_id: int, number: int, version: NewVersion, now_ms: int) -> None:
    await tx.insert(
        page_versions,
        page_id=page_id,
        number=number,
        source=version.source,
        title=version.title,
        speaker_notes=version.speaker_notes,
        component_pins=dict(version.component_pins),
        verdict=None if version.verdict is None else dict(version.verdict),
        status=version.status,
        picture_key=version.picture_key,
        job_id=version.job_id,
        created_by=version.created_by,
        created_at_ms=now_ms,
    )


async def _set_deleted(tx: Tx, page_id: int, when: ColumnElement[int] | None, where: ColumnElement[bool]) -> bool:
    changed = await tx.execute(
        update(pages)
        .where(and_(pages.c.id == page_id, where))
        .values(deleted_at_ms=when, updated_at_ms=tx.now)
        .returning(pages.c.id)
    )
    return changed.first() is not None


def _live() -> Select[Any]:
    return select(pages).where(pages.c.deleted_at_ms.is_(None))


def _has_code(project_id: int, code: str) -> ColumnElement[bool]:
    return and_(pages.c.project_id == project_id, pages.c.code == code)


def _is_current() -> ColumnElement[bool]:
    return and_(page_versions.c.page_id == pages.c.id, page_versions.c.number == pages.c.current_version_number)


def _page(row: Row[Any] | None) -> Page | None:
    if row is None:
        return None
    return Page(
        row.id,
        row.project_id,
        row.code,
        row.title,
        row.speaker_notes,
        row.framework,
        row.canvas_width_px,
        row.canvas_height_px,
        row.current_version_number,
        row.created_at_ms,
        row.updated_at_ms,
    )


def _version(row: Row[Any]) -> PageVersion:
    return PageVersion(
        row.id,
        row.page_id,
        row.number,
        row.source,
        row.title,
        row.speaker_notes,
        row.component_pins,
        row.status,
        row.verdict,
        row.picture_key,
        row.job_id,
        row.created_by,
        row.created_at_ms,
    )
