"""What a request for screenshots asks for, fixed as it is now (S1): page versions, configuration, viewports.

Owns the reading of pages into `Wanted` screenshots. Writes nothing.
"""

from collections.abc import Sequence

from pagegate.actors.jobs.candidate import canvas_text, context_of, load_material, saved_page, snapshot_of
from pagegate.storage import pages
from pagegate.storage.engine import Tx
from pagegate.storage.pages import Page
from pagegate.storage.projects import Project
from pagegate.storage.screenshots import Wanted


async def fix_screenshots(tx: Tx, project: Project, wanted: Sequence[Page], viewports: Sequence[str]) -> list[Wanted]:
    """Every page in every viewport, page by page; without viewports, each page in its own canvas."""
    material = await load_material(tx, project)
    fixed: list[Wanted] = []
    for page in wanted:
        version = await pages.find_version(tx, page.id, page.number)
        assert version is not None, "a page's current version exists"
        candidate = await saved_page(tx, material, page, version)
        fingerprint = context_of(candidate, snapshot_of(candidate)).fingerprint
        fixed += [
            Wanted(page.id, page.code, page.number, fingerprint, viewport)
            for viewport in dict.fromkeys(viewports or [canvas_text(candidate.canvas)])
        ]
    return fixed
