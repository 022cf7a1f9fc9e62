"""Which pages have a component in their closure, read from what their current versions pin (D4). Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import and_, select

from pagegate.storage.engine import Tx
from pagegate.storage.schema import component_versions, page_versions, pages


@dataclass(frozen=True)
class PinningPage:
    """A page by its current version. `component_version` is the number of the version that it pins."""

    code: str
    version: int
    component_version: int


async def list_pinning_pages(tx: Tx, project_id: int, name: str) -> list[PinningPage]:
    """The live pages of a project whose current versions pin the component, by code."""
    found = (
        select(pages.c.code, page_versions.c.number, page_versions.c.component_pins)
        .join(
            page_versions,
            and_(page_versions.c.page_id == pages.c.id, page_versions.c.number == pages.c.current_version_number),
        )
        .where(pages.c.project_id == project_id, pages.c.deleted_at_ms.is_(None))
        .order_by(pages.c.code)
    )
    pinning = [row for row in (await tx.execute(found)).all() if name in row.component_pins]
    numbers = await _numbers(tx, {row.component_pins[name] for row in pinning})
    return [
        PinningPage(row.code, row.number, numbers[row.component_pins[name]])
        for row in pinning
        if row.component_pins[name] in numbers
    ]


async def _numbers(tx: Tx, version_ids: set[int]) -> Mapping[int, int]:
    if not version_ids:
        return {}
    found = select(component_versions.c.id, component_versions.c.number).where(component_versions.c.id.in_(version_ids))
    return {row.id: row.number for row in (await tx.execute(found)).all()}
