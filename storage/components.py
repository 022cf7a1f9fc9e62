"""The workspace components of a project and their versions (D1, D4).

Owns the tables `components` and `component_versions`. A saved version is never changed: a page version pins the
versions it was checked with, so a component saved later changes no saved page (D4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, or_, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.schema import component_mutation_jobs, component_versions, components
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
    """A component in a list, without its source. `checked`: its current version came through the gate."""

    name: str
    version: int
    size_bytes: int
    checked: bool
    updated_at_ms: int


class ComponentNameTaken(Exception):
    """The project has a component of this name."""


class ComponentChanged(Exception):
    """The component is not in the version that the change is based on."""


@dataclass(frozen=True)
class CheckedComponent:
    """A component's version as its check found it, and the job that did (Q7)."""

    source: str
    contract: Mapping[str, Any]
    job_id: int
    created_by: int


async def create_component(tx: Tx, project_id: int, name: str, checked: CheckedComponent) -> int:
    """Save a new component; the number of its version, above 1 where a deleted one had the name.

    Raises `ComponentNameTaken`, and then nothing was written.
    """
    now_ms = await tx.now_ms()
    await insert_unless_there(
        tx, components, unique=("project_id", "name"), project_id=project_id, name=name, created_at_ms=now_ms
    )
    free = or_(components.c.deleted_at_ms.is_not(None), components.c.current_version_number == 0)
    number = await _add_checked(tx, project_id, name, free, checked)
    if number is None:
        raise ComponentNameTaken(name)
    return number


async def add_component_version(tx: Tx, project_id: int, name: str, base_number: int, checked: CheckedComponent) -> int:
    """Save the next version of a component; a compare-and-swap on `base_number`. Raises `ComponentChanged`."""
    is_base = and_(components.c.deleted_at_ms.is_(None), components.c.current_version_number == base_number)
    number = await _add_checked(tx, project_id, name, is_base, checked)
    if number is None:
        raise ComponentChanged(name)
    return number


async def _add_checked(
    tx: Tx, project_id: int, name: str, condition: ColumnElement[bool], checked: CheckedComponent
) -> int | None:
    advanced = (
        update(components)
        .where(components.c.project_id == project_id, components.c.name == name, condition)
        .values(deleted_at_ms=None, current_version_number=components.c.current_version_number + 1)
        .returning(components.c.id, components.c.current_version_number)
    )
    row = (await tx.execute(advanced)).first()
    if row is None:
        return None
    await tx.insert(
        component_versions,
        component_id=row.id,
        number=row.current_version_number,
        source=checked.source,
        contract=checked.contract,
        job_id=checked.job_id,
        created_by=checked.created_by,
        created_at_ms=tx.now,
    )
    return int(row.current_version_number)


async def find_version_of_step(tx: Tx, batch_id: int, name: str, position: int) -> int | None:
    """The version of the component that the nearest earlier call of the same step wrote, if one did (A2)."""
    jobs = component_mutation_jobs
    earlier = (
        select(component_versions.c.number)
        .join(jobs, jobs.c.id == component_versions.c.job_id)
        .where(jobs.c.batch_id == batch_id, jobs.c.component_name == name, jobs.c.position < position)
        .order_by(jobs.c.position.desc())
        .limit(1)
    )
    return (await tx.execute(earlier)).scalar()


async def list_refused_of_step(tx: Tx, batch_id: int, position: int) -> list[str]:
    """The components whose earlier calls of the same step came to nothing, by name."""
    jobs = component_mutation_jobs
    refused = select(jobs.c.component_name).where(
        jobs.c.batch_id == batch_id, jobs.c.position < position, jobs.c.status.in_(("failed", "cancelled"))
    )
    return sorted(set((await tx.execute(refused)).scalars()))


async def put_component(tx: Tx, project_id: int, name: str, source: str, user_id: int) -> tuple[ComponentVersion, bool]:
    """Save a source, unchecked, as the component's next version; the same source again adds none: (current, added)."""
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
    return [
        ComponentEntry(row.name, row.number, len(row.source.encode()), row.contract is not None, row.created_at_ms)
        for row in rows
    ]


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


async def list_version_numbers(tx: Tx, project_id: int, name: str) -> list[int]:
    """The numbers of every version of a component, oldest first."""
    numbers = (
        select(component_versions.c.number)
        .join(components, component_versions.c.component_id == components.c.id)
        .where(components.c.project_id == project_id, components.c.name == name)
        .order_by(component_versions.c.number)
    )
    return list((await tx.execute(numbers)).scalars())


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
