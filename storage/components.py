"""The workspace components of a project and their versions (D1, D4).

Owns the tables `components` and `component_versions`. A saved version is never changed: a page version pins the
versions it was checked with, so a component saved later changes no saved page (D4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, and_, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.schema import component_versions, components
from pagegate.storage.upsert import insert_unless_there


@dataclass(frozen=True)
class ComponentVersion:
    """One version of a component. `name` has its ending: `StatTile.vue`.

    `contract`: what its check found that it takes and offers; None for a version that was saved without one.
    """

    id: int
    name: str
    number: int
    source: str
    created_by: int
    created_at_ms: int
    contract: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ComponentEntry:
    """A component in a list, without its source."""

    name: str
    version: int
    size_bytes: int
    updated_at_ms: int


async def put_component(tx: Tx, project_id: int, name: str, source: str, user_id: int) -> tuple[ComponentVersion, bool]:
    """Save a source as the component's next version; the same source again adds none. Answers (current, added)."""
    now_ms = await tx.now_ms()
    await insert_unless_there(
        tx, components, unique=("project_id", "name"), project_id=project_id, name=name, created_at_ms=now_ms
    )
    # The update comes before anything is read: on PostgreSQL it holds the row, so two saves of one component queue up.
    row = (
        await tx.execute(
            update(components)
            .where(and_(components.c.project_id == project_id, components.c.name == name))
            .values(deleted_at_ms=None)
            .returning(components.c.id, components.c.current_version_number)
        )
    ).one()
    current = await find_component(tx, project_id, name)
    if current is not None and current.source == source:
        return current, False
    number = row.current_version_number + 1
    version_id = await tx.insert(
        component_versions,
        component_id=row.id,
        number=number,
        source=source,
        created_by=user_id,
        created_at_ms=now_ms,
    )
    await tx.execute(update(components).where(components.c.id == row.id).values(current_version_number=number))
    return ComponentVersion(version_id, name, number, source, user_id, now_ms), True


async def list_components(tx: Tx, project_id: int) -> list[ComponentEntry]:
    """The components of a project, by name."""
    rows = await tx.execute(_current().where(components.c.project_id == project_id).order_by(components.c.name))
    return [ComponentEntry(row.name, row.number, len(row.source.encode()), row.created_at_ms) for row in rows]


async def list_current_components(tx: Tx, project_id: int) -> list[ComponentVersion]:
    """The current version of every component of a project, by name."""
    rows = await tx.execute(_current().where(components.c.project_id == project_id).order_by(components.c.name))
    return [_version(row) for row in rows]


async def find_component(tx: Tx, project_id: int, name: str) -> ComponentVersion | None:
    """The current version of a component."""
    rows = await tx.execute(_current().where(and_(components.c.project_id == project_id, components.c.name == name)))
    row = rows.first()
    return _version(row) if row else None


async def find_component_version(tx: Tx, project_id: int, name: str, number: int) -> ComponentVersion | None:
    """Any version that a component ever had."""
    rows = await tx.execute(
        _versions().where(
            and_(
                components.c.project_id == project_id, components.c.name == name, component_versions.c.number == number
            )
        )
    )
    row = rows.first()
    return _version(row) if row else None


async def list_component_versions(tx: Tx, project_id: int, name: str) -> list[ComponentVersion]:
    """Every version of a component, oldest first."""
    rows = await tx.execute(
        _versions()
        .where(and_(components.c.project_id == project_id, components.c.name == name))
        .order_by(component_versions.c.number)
    )
    return [_version(row) for row in rows]


async def delete_component(tx: Tx, project_id: int, name: str) -> bool:
    """Take a component out of what new pages may import. Its versions stay for the pages that pinned them (D4)."""
    changed = await tx.execute(
        update(components)
        .where(
            and_(components.c.project_id == project_id, components.c.name == name, components.c.deleted_at_ms.is_(None))
        )
        .values(deleted_at_ms=tx.now)
        .returning(components.c.id)
    )
    return changed.first() is not None


async def load_component_sources(tx: Tx, project_id: int) -> dict[str, tuple[int, str]]:
    """What a check may import as `@components/<name>`: name → (version id to pin, source) (D4, V6)."""
    rows = await tx.execute(_current().where(components.c.project_id == project_id))
    return {row.name: (row.id, row.source) for row in rows}


def _versions() -> Select[Any]:
    return select(component_versions, components.c.name).join(
        components, component_versions.c.component_id == components.c.id
    )


def _current() -> Select[Any]:
    return _versions().where(
        and_(component_versions.c.number == components.c.current_version_number, components.c.deleted_at_ms.is_(None))
    )


def _version(row: Row[Any]) -> ComponentVersion:
    return ComponentVersion(row.id, row.name, row.number, row.source, row.created_by, row.created_at_ms, row.contract)
