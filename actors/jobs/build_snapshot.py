"""What a build reads, fixed when it is asked for (B1, D4).

Each page in its current version with the component versions that it was checked with; the pages in their order; the
assets that they use. Later edits change nothing in it, since it names only versions and objects that never change.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import cast

from pagegate.actors.jobs.snapshot import take_snapshot
from pagegate.runtime.build_contract import BuildPage, BuildSnapshot, Routes
from pagegate.runtime.contract import AssetRef, Canvas, Framework
from pagegate.storage import builds, preview_snapshots
from pagegate.storage.assets import load_assets
from pagegate.storage.builds import FixedPage, FixedProject
from pagegate.storage.engine import Tx
from pagegate.storage.objects import StoredAsset
from pagegate.storage.preview_snapshots import DeckPage, SavedSource
from pagegate.storage.projects import Project


class VersionGone(Exception):
    """A version that a snapshot names is not there any more."""


async def fix_project(tx: Tx, project: Project, theme: object) -> FixedProject | None:
    """The project as it is now; None when it has no page."""
    deck = await preview_snapshots.load_current_deck(tx, project.id)
    if not deck:
        return None
    current = await preview_snapshots.load_components(tx, project.id)
    pinned = await preview_snapshots.load_pinned(tx, {pin for page in deck for pin in page.pins.values()})
    assets = await load_assets(tx, project.id)
    pages = {page.path: page.saved for page in deck}
    fixed = [_fixed(project, page, _readable(page, pages, current, pinned), assets) for page in deck]
    used = {name for page in fixed for name in page.assets}
    return FixedProject(project.name, theme, fixed, {name: assets[name] for name in sorted(used)})


def _readable(
    page: DeckPage,
    pages: Mapping[str, SavedSource],
    current: Mapping[str, SavedSource],
    pinned: Mapping[int, SavedSource],
) -> dict[str, SavedSource]:
    """What a page may import: components as it pinned them, then those that are there now, and the other pages."""
    found = {f"components/{name}": saved for name, saved in current.items()}
    found |= {f"components/{name}": pinned[pin] for name, pin in page.pins.items() if pin in pinned}
    return {**found, **pages}


def _fixed(
    project: Project, page: DeckPage, sources: Mapping[str, SavedSource], assets: Mapping[str, StoredAsset]
) -> FixedPage:
    taken = take_snapshot(
        page.path,
        page.saved.source,
        read=lambda path: sources[path].source if path in sources else None,
        every_module=sources.keys,
        assets=assets.keys(),
    )
    own = page.canvas_width_px is not None
    return FixedPage(
        code=page.code,
        title=page.title,
        speaker_notes=page.speaker_notes,
        framework=page.framework,
        entry=page.path,
        canvas_width_px=page.canvas_width_px or project.canvas_width_px,
        canvas_height_px=page.canvas_height_px if own else project.canvas_height_px,
        modules={path: (sources[path].origin, sources[path].version_id) for path in taken.modules},
        assets=sorted(taken.assets),
    )


async def read_again(tx: Tx, fixed: FixedProject, routes: str) -> BuildSnapshot:
    """The snapshot with its sources, as a Runtime reads it. Raises `VersionGone`."""
    sources = await builds.load_sources(tx, fixed)
    digests = {version: sha256(text.encode()).hexdigest() for version, text in sources.items()}
    for page in fixed.pages:
        for path, version in page.modules.items():
            if version not in sources:
                raise VersionGone(path)
    return BuildSnapshot(
        project_name=fixed.project_name,
        routes=cast("Routes", routes),
        pages=[
            BuildPage(
                code=page.code,
                title=page.title,
                speaker_notes=page.speaker_notes,
                framework=cast("Framework", page.framework),
                entry=page.entry,
                modules={path: digests[version] for path, version in page.modules.items()},
                assets=list(page.assets),
                canvas=Canvas(width_px=page.canvas_width_px, height_px=page.canvas_height_px),
            )
            for page in fixed.pages
        ],
        sources={digests[version]: text for version, text in sources.items()},
        assets={
            name: AssetRef(media_type=asset.media_type, sha256=asset.sha256, size_bytes=asset.size_bytes)
            for name, asset in fixed.assets.items()
        },
    )
