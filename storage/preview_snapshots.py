"""Durable snapshots of previews: which saved versions a preview shows (P2, D4).

Owns the table `preview_snapshots`, and the reading of a project as a person looks at it. A snapshot holds no content,
only the ids of versions, which never change; so what is made again from it is what was made first, and a digest says
so. A snapshot ends with its preview's time; one whose versions are gone makes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, delete, or_, select

from pagegate.storage.engine import Tx
from pagegate.storage.objects import StoredAsset
from pagegate.storage.pages import SUFFIX_OF_FRAMEWORK
from pagegate.storage.preview_artifacts import Again, Content
from pagegate.storage.schema import component_versions, components, page_versions, pages, preview_snapshots

Origin = Literal["page", "component"]
_FORGOTTEN_AT_ONCE = 500


@dataclass(frozen=True)
class SavedSource:
    """One immutable source, and the version it is."""

    origin: Origin
    version_id: int
    source: str


@dataclass(frozen=True)
class DeckPage:
    """A page in one of its versions. `canvas_width_px` None: the project's canvas."""

    page_id: int
    code: str
    framework: str
    title: str
    speaker_notes: str
    canvas_width_px: int | None
    canvas_height_px: int | None
    number: int
    pins: Mapping[str, int]
    saved: SavedSource

    @property
    def path(self) -> str:
        """Its logical path: `pages/<code>.vue|tsx`."""
        return f"pages/{self.code}{SUFFIX_OF_FRAMEWORK[self.framework]}"


@dataclass(frozen=True)
class Snapshot:
    """One artifact and what it is made of: `modules` is logical path → the version that it shows."""

    artifact_id: str
    content: Content
    modules: Mapping[str, SavedSource]


async def load_deck(tx: Tx, project_id: int, shown: tuple[int, int]) -> list[DeckPage]:
    """The pages of a project that are not deleted, each in its current version, in the order they were made.

    `shown` is a page and the number of the version that is wanted of it; a deck without it is empty.
    """
    page_id, number = shown
    wanted = or_(
        and_(pages.c.id == page_id, page_versions.c.number == number),
        and_(pages.c.id != page_id, page_versions.c.number == pages.c.current_version_number),
    )
    deck = await _load_deck(tx, project_id, wanted)
    return deck if any(page.page_id == page_id for page in deck) else []


async def load_current_deck(tx: Tx, project_id: int) -> list[DeckPage]:
    """The pages of a project that are not deleted, each in its current version, in the order they were made."""
    return await _load_deck(tx, project_id, page_versions.c.number == pages.c.current_version_number)


async def _load_deck(tx: Tx, project_id: int, wanted: ColumnElement[bool]) -> list[DeckPage]:
    rows = await tx.execute(
        select(
            pages.c.id,
            pages.c.code,
            pages.c.framework,
            pages.c.canvas_width_px,
            pages.c.canvas_height_px,
            page_versions.c.id.label("version_id"),
            page_versions.c.number,
            page_versions.c.title,
            page_versions.c.speaker_notes,
            page_versions.c.source,
            page_versions.c.component_pins,
        )
        .join(page_versions, page_versions.c.page_id == pages.c.id)
        .where(
            and_(
                pages.c.project_id == project_id,
                pages.c.deleted_at_ms.is_(None),
                wanted,
            )
        )
        .order_by(pages.c.id)
    )
    return [
        DeckPage(
            page_id=row.id,
            code=row.code,
            framework=row.framework,
            title=row.title,
            speaker_notes=row.speaker_notes,
            canvas_width_px=row.canvas_width_px,
            canvas_height_px=row.canvas_height_px,
            number=row.number,
            pins=row.component_pins,
            saved=SavedSource("page", row.version_id, row.source),
        )
        for row in rows
    ]


async def load_pinned(tx: Tx, version_ids: Iterable[int]) -> dict[int, SavedSource]:
    """Component versions by id, deleted components' too: pages keep what they were checked with (D4)."""
    return await _load_versions(tx, "component", version_ids)


async def load_components(tx: Tx, project_id: int) -> dict[str, SavedSource]:
    """The current components of a project by file name, for pages that pin none of that name."""
    rows = await tx.execute(
        select(components.c.name, component_versions.c.id, component_versions.c.source)
        .join(components, component_versions.c.component_id == components.c.id)
        .where(
            and_(
                components.c.project_id == project_id,
                components.c.deleted_at_ms.is_(None),
                component_versions.c.number == components.c.current_version_number,
            )
        )
    )
    return {row.name: SavedSource("component", row.id, row.source) for row in rows}


async def keep_snapshots(tx: Tx, project_id: int, snapshots: Sequence[Snapshot], ttl_s: float) -> None:
    """Remember what these artifacts are made of, for as long as they may be opened."""
    now_ms = await tx.now_ms()
    for snapshot in snapshots:
        await tx.execute(
            preview_snapshots.insert().values(
                artifact_id=snapshot.artifact_id,
                project_id=project_id,
                manifest=dict(snapshot.content.manifest),
                modules={path: [saved.origin, saved.version_id] for path, saved in snapshot.modules.items()},
                assets={name: asdict(asset) for name, asset in snapshot.content.assets.items()},
                sha256=snapshot.content.digest(),
                expires_at_ms=now_ms + round(ttl_s * 1000),
                created_at_ms=now_ms,
            )
        )


async def find_again(tx: Tx, artifact_id: str) -> Again | None:
    """The artifact as it was, for the rest of its time; None when its time is over or it cannot be the same (P2)."""
    row = (await tx.execute(select(preview_snapshots).where(preview_snapshots.c.artifact_id == artifact_id))).first()
    if row is None:
        return None
    left_ms = row.expires_at_ms - await tx.now_ms()
    if left_ms <= 0:
        return None
    sources: dict[str, str] = {}
    for origin in ("page", "component"):
        wanted = {path: version_id for path, (kind, version_id) in row.modules.items() if kind == origin}
        found = await _load_versions(tx, origin, wanted.values())
        sources |= {path: found[version_id].source for path, version_id in wanted.items() if version_id in found}
    content = Content(row.manifest, sources, {name: StoredAsset(**asset) for name, asset in row.assets.items()})
    return Again(content, left_ms / 1000) if content.digest() == row.sha256 else None


async def any_expired(tx: Tx) -> bool:
    """Whether there is one whose time is over."""
    over = select(preview_snapshots.c.artifact_id).where(preview_snapshots.c.expires_at_ms <= tx.now).limit(1)
    return (await tx.execute(over)).first() is not None


async def forget_expired(tx: Tx) -> int:
    """Delete snapshots whose time is over, some at a time; answers how many."""
    expired = (
        select(preview_snapshots.c.artifact_id)
        .where(preview_snapshots.c.expires_at_ms <= tx.now)
        .limit(_FORGOTTEN_AT_ONCE)
    )
    gone = await tx.execute(
        delete(preview_snapshots)
        .where(preview_snapshots.c.artifact_id.in_(expired))
        .returning(preview_snapshots.c.artifact_id)
    )
    return len(gone.all())


async def _load_versions(tx: Tx, origin: Origin, version_ids: Iterable[int]) -> dict[int, SavedSource]:
    table: Any = page_versions if origin == "page" else component_versions
    wanted = sorted(set(version_ids))
    found: dict[int, SavedSource] = {}
    for start in range(0, len(wanted), 500):
        rows = await tx.execute(select(table.c.id, table.c.source).where(table.c.id.in_(wanted[start : start + 500])))
        found |= {row.id: SavedSource(origin, row.id, row.source) for row in rows}
    return found
