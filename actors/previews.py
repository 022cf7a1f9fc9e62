"""Previews for people: a page, and the pages around it, as somebody looks at them in a browser (P4, P2, D4).

Owns what an opened preview holds: each page of the project is an artifact of its own (`rt_…`, and `rt_…~2` for the
pages around it), with the component versions that it was checked with. They are written together or not at all. Where
the runtime state outlives a process, what they are made of is kept durably first, so that a lost one is made again; in
memory a lost preview is gone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import structlog

from pagegate.actors.jobs.snapshot import take_snapshot
from pagegate.actors.tickets import TICKET_TTL_S, Tickets
from pagegate.runtime.contract import ArtifactManifest, AssetRef, Canvas, DeckEntry, EntryPage, Framework
from pagegate.storage import preview_snapshots
from pagegate.storage.assets import load_assets
from pagegate.storage.engine import Database
from pagegate.storage.objects import StoredAsset
from pagegate.storage.preview_artifacts import Again, Content, PreviewArtifacts, new_artifact_id
from pagegate.storage.preview_snapshots import DeckPage, SavedSource, Snapshot
from pagegate.storage.projects import Project

log = structlog.get_logger()

PAGES_MAX = 200  # of a larger project, those around the page that was opened


@dataclass(frozen=True)
class OpenedPreview:
    """Where a person looks, until when (ms UTC). Who has the address may look; it opens nothing else (X6)."""

    artifact_id: str
    url: str
    expires_at_ms: int


class Previews:
    """`public_url` is where a browser reaches the Runtime: another origin than the API's (X6)."""

    def __init__(self, db: Database, artifacts: PreviewArtifacts, tickets: Tickets, public_url: str) -> None:
        self._db, self._artifacts, self._tickets = db, artifacts, tickets
        self._public_url = public_url.rstrip("/")

    async def open(self, project: Project, page_id: int, number: int) -> OpenedPreview | None:
        """Open this version of a page; None when there is none.

        Raises `StateFull` or `StateUnavailable`, and then there is no preview.
        """
        watch = asyncio.get_running_loop().time
        started_s = watch()
        async with self._db.read() as tx:
            deck = around(await preview_snapshots.load_deck(tx, project.id, (page_id, number)), page_id)
            if not deck:
                return None
            current = await preview_snapshots.load_components(tx, project.id)
            pinned = await preview_snapshots.load_pinned(tx, {pin for page in deck for pin in page.pins.values()})
            assets = await load_assets(tx, project.id)
            now_ms = await tx.now_ms()
        snapshots = await asyncio.to_thread(_snapshots, project, deck, page_id, _Sources(deck, current, pinned), assets)
        taken_s = watch()
        if self._artifacts.can_make_again:
            async with self._db.write() as tx:
                await preview_snapshots.keep_snapshots(tx, project.id, snapshots, TICKET_TTL_S)
        await self._artifacts.put({made.artifact_id: made.content for made in snapshots}, TICKET_TTL_S)
        artifact_id = snapshots[0].artifact_id
        log.info(
            "preview.artifact.created",
            artifact_id=artifact_id,
            project_id=project.id,
            pages=len(snapshots),
            snapshot_ms=round((taken_s - started_s) * 1000, 1),
            storage_ms=round((watch() - taken_s) * 1000, 1),
        )
        token = self._tickets.issue(artifact_id, TICKET_TTL_S, use="preview")
        return OpenedPreview(artifact_id, f"{self._public_url}/previews/{token}/", now_ms + TICKET_TTL_S * 1000)


async def again(db: Database, artifact_id: str) -> Again | None:
    """A lost preview of saved versions as it was, or None (P2)."""
    async with db.read() as tx:
        return await preview_snapshots.find_again(tx, artifact_id)


async def forget_expired_snapshots(db: Database) -> int:
    """Forget what previews whose time is over were made of; answers how many."""
    async with db.read() as tx:
        if not await preview_snapshots.any_expired(tx):
            return 0  # mostly; a sweep every half minute need not be a writer
    async with db.write() as tx:
        return await preview_snapshots.forget_expired(tx)


def around(deck: Sequence[DeckPage], page_id: int) -> list[DeckPage]:
    """At most `PAGES_MAX` neighbouring pages, the one that is looked at among them. Pure."""
    place = next((at for at, page in enumerate(deck) if page.page_id == page_id), 0)
    start = max(0, min(place - PAGES_MAX // 2, len(deck) - PAGES_MAX))
    return list(deck[start : start + PAGES_MAX])


@dataclass(frozen=True)
class _Sources:
    """What a page of the deck may import: pages as the deck shows them, components as the page pinned them (D4)."""

    deck: Sequence[DeckPage]
    current: Mapping[str, SavedSource]
    pinned: Mapping[int, SavedSource]

    def of(self, page: DeckPage) -> dict[str, SavedSource]:
        found = {f"components/{name}": saved for name, saved in self.current.items()}
        found |= {f"components/{name}": self.pinned[pin] for name, pin in page.pins.items() if pin in self.pinned}
        return found | {other.path: other.saved for other in self.deck}


def _snapshots(
    project: Project, deck: Sequence[DeckPage], page_id: int, sources: _Sources, assets: Mapping[str, StoredAsset]
) -> list[Snapshot]:
    """One for each page, that of `page_id` first. Pure but for the new id."""
    root = new_artifact_id()
    ids = [root if page.page_id == page_id else f"{root}~{at}" for at, page in enumerate(deck, start=1)]
    entries = [
        DeckEntry(
            artifact_id=artifact_id,
            code=page.code,
            title=page.title,
            speaker_notes=page.speaker_notes,
            canvas=_canvas(project, page),
        )
        for artifact_id, page in zip(ids, deck, strict=True)
    ]
    made = [
        _snapshot(project, page, artifact_id, entries if artifact_id == root else [], sources.of(page), assets)
        for artifact_id, page in zip(ids, deck, strict=True)
    ]
    return sorted(made, key=lambda snapshot: snapshot.artifact_id != root)


def _snapshot(
    project: Project,
    page: DeckPage,
    artifact_id: str,
    entries: list[DeckEntry],
    sources: Mapping[str, SavedSource],
    assets: Mapping[str, StoredAsset],
) -> Snapshot:
    taken = take_snapshot(
        page.path,
        page.saved.source,
        read=lambda path: sources[path].source if path in sources else None,
        every_module=sources.keys,
        assets=assets.keys(),
    )
    used = {name: assets[name] for name in sorted(taken.assets)}
    manifest = ArtifactManifest(
        artifact_id=artifact_id,
        entry=page.path,
        framework=cast("Framework", page.framework),
        modules=sorted(taken.modules),
        assets={
            name: AssetRef(media_type=asset.media_type, sha256=asset.sha256, size_bytes=asset.size_bytes)
            for name, asset in used.items()
        },
        entry_page=EntryPage(code=page.code, title=page.title, speaker_notes=page.speaker_notes),
        canvas=_canvas(project, page),
        base="./",
        pages=entries,
    )
    content = Content(manifest.model_dump(mode="json"), taken.modules, used)
    return Snapshot(artifact_id, content, {path: sources[path] for path in taken.modules})


def _canvas(project: Project, page: DeckPage) -> Canvas:
    if page.canvas_width_px is not None:
        return Canvas(width_px=page.canvas_width_px, height_px=page.canvas_height_px)
    return Canvas(width_px=project.canvas_width_px, height_px=project.canvas_height_px)
