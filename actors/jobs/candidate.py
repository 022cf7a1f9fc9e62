"""A page as it would be saved, or as it was saved, with everything that it may import (V6, D4).

Owns the `Candidate` that a check or a screenshot looks at, how one is read for a saved version, and its capture
context: what its picture will depend on (S5). A saved version is read with the components it was checked with, and with
pages and assets as they are now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from pagegate.actors.jobs.snapshot import Snapshot, take_snapshot
from pagegate.runtime.contract import Canvas, EntryPage, Framework
from pagegate.storage import pages
from pagegate.storage.assets import load_assets
from pagegate.storage.components import load_component_sources
from pagegate.storage.engine import Tx
from pagegate.storage.objects import StoredAsset
from pagegate.storage.pages import Page, PageVersion
from pagegate.storage.projects import Project
from pagegate.storage.screenshot_context import (
    CaptureContext,
    digest_of,
    load_pinned_sources,
    theme_digest,
    viewport_text,
)


@dataclass(frozen=True)
class Candidate:
    """A page as it would be saved, and everything that it may import. Sources by logical path."""

    workspace_id: int
    entry: str
    framework: Framework
    source: str
    entry_page: EntryPage
    canvas: Canvas
    modules: Mapping[str, str]
    assets: Mapping[str, StoredAsset]
    theme: str = ""  # a digest


@dataclass(frozen=True)
class Material:
    """What the pages of a project share, as it is now. Components: name → (version id, source)."""

    project: Project
    components: Mapping[str, tuple[int, str]]
    pages: Mapping[str, str]
    assets: Mapping[str, StoredAsset]
    theme: str


async def load_material(tx: Tx, project: Project) -> Material:
    return Material(
        project=project,
        components=await load_component_sources(tx, project.id),
        pages=await pages.load_page_sources(tx, project.id),
        assets=await load_assets(tx, project.id),
        theme=await theme_digest(tx, project.id),
    )


async def saved_page(tx: Tx, material: Material, page: Page, version: PageVersion) -> Candidate:
    """A saved version, to be looked at again."""
    pinned = await load_pinned_sources(tx, version.component_pins.values())
    components = {name: source for name, (_, source) in material.components.items()}
    components |= {name: pinned[key] for name, key in version.component_pins.items() if key in pinned}
    return Candidate(
        workspace_id=material.project.workspace_id,
        entry=f"pages/{page.code}{pages.SUFFIX_OF_FRAMEWORK[page.framework]}",
        framework=cast("Framework", page.framework),
        source=version.source,
        entry_page=EntryPage(code=page.code, title=version.title, speaker_notes=version.speaker_notes),
        canvas=canvas_of(page, material.project),
        modules={
            **{f"components/{name}": source for name, source in components.items()},
            **{f"pages/{name}": source for name, source in material.pages.items()},
        },
        assets=material.assets,
        theme=material.theme,
    )


def canvas_of(page: Page, project: Project) -> Canvas:
    """The page's own canvas, else the project's."""
    if page.canvas_width_px is not None:
        return Canvas(width_px=page.canvas_width_px, height_px=page.canvas_height_px)
    return Canvas(width_px=project.canvas_width_px, height_px=project.canvas_height_px)


def snapshot_of(candidate: Candidate) -> Snapshot:
    """The minimal snapshot of a candidate (V6)."""
    return take_snapshot(
        candidate.entry,
        candidate.source,
        read=candidate.modules.get,
        every_module=candidate.modules.keys,
        assets=candidate.assets.keys(),
    )


def context_of(
    candidate: Candidate, snapshot: Snapshot, *, runtime_build: str = "", policy: str = ""
) -> CaptureContext:
    """What a picture of this snapshot depends on. Pure."""
    others = {path: digest_of(text) for path, text in snapshot.modules.items() if path != candidate.entry}
    route = candidate.entry_page
    return CaptureContext(
        source=digest_of(candidate.source),
        components={path: digest for path, digest in sorted(others.items()) if path.startswith("components/")},
        pages={path: digest for path, digest in sorted(others.items()) if path.startswith("pages/")},
        assets={name: candidate.assets[name].sha256 for name in sorted(snapshot.assets)},
        theme=candidate.theme,
        route={"code": route.code, "title": route.title, "speaker_notes": route.speaker_notes},
        canvas=canvas_text(candidate.canvas),
        runtime_build=runtime_build,
        policy=policy,
    )


def canvas_text(canvas: Canvas) -> str:
    """The canvas as a viewport: `1280x720`, `1280xauto`."""
    return viewport_text(canvas.width_px, canvas.height_px)
