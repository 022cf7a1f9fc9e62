"""Projects and their canvas (D1).

Owns the table `projects`. Who may see a project is decided by the membership of its workspace, in the same statement
that reads it: there is no way to read a project by id alone from the outside (X5).
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.schema import members, projects
from pagegate.storage.workspaces import Role


@dataclass(frozen=True)
class Project:
    """`canvas_height_px` None: each page decides its own height. CSS pixels."""

    id: int
    workspace_id: int
    name: str
    canvas_width_px: int
    canvas_height_px: int | None
    created_at_ms: int


@dataclass(frozen=True)
class ProjectAccess:
    """A project as one user sees it."""

    project: Project
    role: Role


async def create_project(
    tx: Tx, workspace_id: int, name: str, *, canvas_width_px: int, canvas_height_px: int | None
) -> int:
    """Add a project to a workspace that exists; answer its id."""
    return await tx.insert(
        projects,
        workspace_id=workspace_id,
        name=name,
        canvas_width_px=canvas_width_px,
        canvas_height_px=canvas_height_px,
        created_at_ms=await tx.now_ms(),
    )


async def list_projects(tx: Tx, workspace_id: int) -> list[Project]:
    """The projects of a workspace, by id."""
    rows = await tx.execute(select(projects).where(projects.c.workspace_id == workspace_id).order_by(projects.c.id))
    return [_project(row) for row in rows]


async def find_project(tx: Tx, project_id: int) -> Project | None:
    """A project for our own use, without asking who wants it."""
    row = (await tx.execute(select(projects).where(projects.c.id == project_id))).first()
    return _project(row) if row else None


async def find_theme(tx: Tx, project_id: int) -> dict[str, Any] | None:
    """The project's theme, where it has one."""
    return (await tx.execute(select(projects.c.theme).where(projects.c.id == project_id))).scalar()


async def find_project_access(tx: Tx, project_id: int, user_id: int) -> ProjectAccess | None:
    """A project and the user's role in it; None when it does not exist for this user (X5)."""
    rows = await tx.execute(
        select(projects, members.c.role)
        .join(members, members.c.workspace_id == projects.c.workspace_id)
        .where(and_(projects.c.id == project_id, members.c.user_id == user_id))
    )
    row = rows.first()
    return ProjectAccess(_project(row), row.role) if row else None


async def update_project(
    tx: Tx, project_id: int, *, name: str, canvas_width_px: int, canvas_height_px: int | None
) -> None:
    """Set the name and the canvas of a project that exists."""
    await tx.execute(
        update(projects)
        .where(projects.c.id == project_id)
        .values(name=name, canvas_width_px=canvas_width_px, canvas_height_px=canvas_height_px)
    )


def _project(row: Row[Any]) -> Project:
    return Project(row.id, row.workspace_id, row.name, row.canvas_width_px, row.canvas_height_px, row.created_at_ms)
