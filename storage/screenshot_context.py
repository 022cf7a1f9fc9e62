"""What a picture of a page depends on, and whether it is still so (S1, S2, S5).

Owns `CaptureContext`, the digest of everything that can change what a picture shows, and the statements that read it
anew inside a transaction. A context is compared piece by piece, so that a refusal can say what changed. Component
versions are pinned by the page version (D4) and never change; pages and assets are read as they are now.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import and_, select

from pagegate.storage import schema
from pagegate.storage.engine import Tx

_pages, _versions = schema.pages, schema.page_versions
_assets, _asset_versions = schema.assets, schema.asset_versions

AUTO = "auto"
_SUFFIX = {"vue": ".vue", "react": ".tsx"}


def viewport_text(width_px: int, height_px: int | None) -> str:
    """`1280x720`, or `1280xauto` when the page decides its own height."""
    return f"{width_px}x{height_px if height_px is not None else AUTO}"


def viewport_of(text: str) -> tuple[int, int | None]:
    """(width, height) in CSS pixels of what `viewport_text` wrote."""
    width, _, height = text.partition("x")
    return int(width), None if height == AUTO else int(height)


def digest_of(value: Any) -> str:
    """The digest of text, or of anything JSON can say."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class CaptureContext:
    """One page with all that its picture depends on. Digests by logical path and by asset name.

    `source` is the page's own; `components` and `pages` are the rest of its closure. `route` is code, title and notes.
    `runtime_build` and `policy` say who compiled and how the picture is taken; they are no part of the configuration.
    """

    source: str
    components: Mapping[str, str]
    pages: Mapping[str, str]
    assets: Mapping[str, str]
    theme: str
    route: Mapping[str, str]
    canvas: str
    runtime_build: str = ""
    policy: str = ""

    @property
    def fingerprint(self) -> str:
        """The configuration's: all but the page's own source, and but who takes the picture (S1)."""
        return digest_of([self.components, self.pages, self.assets, self.theme, self.route, self.canvas])

    def content(self) -> dict[str, Any]:
        """For the content map of the page's history."""
        return asdict(self)


def difference(taken: CaptureContext, saved: CaptureContext) -> str | None:
    """What of the picture's context does not fit what is saved, by name; None when everything does (S5). Pure."""
    for name in CaptureContext.__dataclass_fields__:
        if getattr(taken, name) != getattr(saved, name):
            return name
    return None


def capture_key(page_id: int, page_version: int, fingerprint: str, viewport: str) -> str:
    """What makes two screenshots the same one (S1)."""
    return digest_of([page_id, page_version, fingerprint, viewport])


async def reread(tx: Tx, project_id: int, taken: CaptureContext) -> CaptureContext:
    """The context as it is in this transaction: the live pages and assets of its closure, and the theme.

    What is gone is absent. A closure follows from the texts in it, so nothing else needs to be read. The page itself,
    its canvas and its route are the caller's to compare: it writes them.
    """
    return replace(
        taken,
        pages=await _page_digests(tx, project_id, taken.pages),
        assets=await _asset_digests(tx, project_id, taken.assets),
        theme=await theme_digest(tx, project_id),
    )


async def theme_digest(tx: Tx, project_id: int) -> str:
    """The digest of the project's theme, its fonts included; empty for none."""
    theme = (await tx.execute(select(schema.projects.c.theme).where(schema.projects.c.id == project_id))).scalar()
    return digest_of(theme) if theme else ""


async def project_canvas(tx: Tx, project_id: int) -> str | None:
    """The project's canvas as a viewport; None when the project is gone."""
    table = schema.projects
    row = (
        await tx.execute(select(table.c.canvas_width_px, table.c.canvas_height_px).where(table.c.id == project_id))
    ).first()
    return viewport_text(row.canvas_width_px, row.canvas_height_px) if row else None


async def load_pinned_sources(tx: Tx, version_ids: Collection[int]) -> dict[int, str]:
    """The sources of these component versions, by their id (D4)."""
    if not version_ids:
        return {}
    table = schema.component_versions
    rows = await tx.execute(select(table.c.id, table.c.source).where(table.c.id.in_(version_ids)))
    return {row.id: row.source for row in rows}


async def _page_digests(tx: Tx, project_id: int, paths: Collection[str]) -> dict[str, str]:
    if not paths:
        return {}
    codes = {path.removeprefix("pages/").rsplit(".", 1)[0] for path in paths}
    current = (
        select(_pages.c.code, _pages.c.framework, _versions.c.source)
        .join(
            _versions,
            and_(_versions.c.page_id == _pages.c.id, _versions.c.number == _pages.c.current_version_number),
        )
        .where(_pages.c.project_id == project_id, _pages.c.code.in_(codes), _pages.c.deleted_at_ms.is_(None))
    )
    found = {f"pages/{row.code}{_SUFFIX[row.framework]}": digest_of(row.source) for row in await tx.execute(current)}
    return {path: digest for path, digest in found.items() if path in paths}


async def _asset_digests(tx: Tx, project_id: int, names: Collection[str]) -> dict[str, str]:
    if not names:
        return {}
    current = (
        select(_assets.c.name, _asset_versions.c.sha256)
        .join(
            _asset_versions,
            and_(
                _asset_versions.c.asset_id == _assets.c.id,
                _asset_versions.c.number == _assets.c.current_version_number,
            ),
        )
        .where(_assets.c.project_id == project_id, _assets.c.name.in_(names), _assets.c.deleted_at_ms.is_(None))
    )
    return {row.name: row.sha256 for row in await tx.execute(current)}
