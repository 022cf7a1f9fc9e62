"""Who belongs together: workspaces and their members (D1, X5).

Owns the tables `workspaces` and `members`. A role is owner, editor or viewer; a workspace keeps at least one owner.
Whoever is no member sees nothing of a workspace, which the callers turn into 404.
"""

from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import ColumnElement, and_, delete, func, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.schema import members, users, workspaces
from pagegate.storage.upsert import insert_unless_there

Role = Literal["owner", "editor", "viewer"]
ROLE_RANK: dict[Role, int] = {"viewer": 0, "editor": 1, "owner": 2}


class LastOwner(Exception):
    """The last owner of a workspace can neither leave nor become something else."""


@dataclass(frozen=True)
class Workspace:
    """A workspace as one of its members sees it: `role` is that member's."""

    id: int
    name: str
    role: Role
    created_at_ms: int


@dataclass(frozen=True)
class Member:
    user_id: int
    name: str
    role: Role
    disabled: bool


async def create_workspace(tx: Tx, name: str, owner_id: int) -> int:
    """Add a workspace whose first owner is a user that exists; answer its id."""
    now_ms = await tx.now_ms()
    workspace_id = await tx.insert(workspaces, name=name, created_at_ms=now_ms)
    await insert_unless_there(
        tx,
        members,
        unique=("workspace_id", "user_id"),
        workspace_id=workspace_id,
        user_id=owner_id,
        role="owner",
        created_at_ms=now_ms,
    )
    return workspace_id


async def list_workspaces(tx: Tx, user_id: int) -> list[Workspace]:
    """The workspaces that a user is a member of, by id."""
    rows = await tx.execute(
        select(workspaces, members.c.role)
        .join(members, members.c.workspace_id == workspaces.c.id)
        .where(members.c.user_id == user_id)
        .order_by(workspaces.c.id)
    )
    return [Workspace(row.id, row.name, row.role, row.created_at_ms) for row in rows]


async def find_workspace(tx: Tx, workspace_id: int, user_id: int) -> Workspace | None:
    """A workspace as this user sees it; None when it does not exist for them (X5)."""
    rows = await tx.execute(
        select(workspaces, members.c.role)
        .join(members, members.c.workspace_id == workspaces.c.id)
        .where(and_(workspaces.c.id == workspace_id, members.c.user_id == user_id))
    )
    row = rows.first()
    return Workspace(row.id, row.name, row.role, row.created_at_ms) if row else None


async def list_members(tx: Tx, workspace_id: int) -> list[Member]:
    """The members of a workspace, by user id."""
    rows = await tx.execute(
        select(members.c.user_id, users.c.name, members.c.role, users.c.disabled_at_ms)
        .join(users, members.c.user_id == users.c.id)
        .where(members.c.workspace_id == workspace_id)
        .order_by(members.c.user_id)
    )
    return [Member(row.user_id, row.name, row.role, row.disabled_at_ms is not None) for row in rows]


async def put_member(tx: Tx, workspace_id: int, user_id: int, role: Role) -> None:
    """Give a user that exists a role. Raises `LastOwner` when that would leave no owner."""
    await tx.serialize(f"members:{workspace_id}")
    added = await insert_unless_there(
        tx,
        members,
        unique=("workspace_id", "user_id"),
        workspace_id=workspace_id,
        user_id=user_id,
        role=role,
        created_at_ms=await tx.now_ms(),
    )
    if added:
        return
    await tx.execute(update(members).where(_is_member(workspace_id, user_id)).values(role=role))
    await _keep_an_owner(tx, workspace_id)


async def remove_member(tx: Tx, workspace_id: int, user_id: int) -> bool:
    """Take a user out. False when they were not in. Raises `LastOwner`."""
    await tx.serialize(f"members:{workspace_id}")
    gone = await tx.execute(delete(members).where(_is_member(workspace_id, user_id)).returning(members.c.user_id))
    if gone.first() is None:
        return False
    await _keep_an_owner(tx, workspace_id)
    return True


async def find_role(tx: Tx, workspace_id: int, user_id: int) -> Role | None:
    found = await tx.execute(select(members.c.role).where(_is_member(workspace_id, user_id)))
    return cast("Role | None", found.scalar_one_or_none())


async def is_active_editor(tx: Tx, workspace_id: int, user_id: int) -> bool:
    """Whether a user may still write here: enabled, and editor or owner. Asked again before every commit (Q7, A6)."""
    found = await tx.execute(
        select(members.c.role)
        .join(users, members.c.user_id == users.c.id)
        .where(and_(_is_member(workspace_id, user_id), users.c.disabled_at_ms.is_(None)))
    )
    return found.scalar_one_or_none() in {"editor", "owner"}


def _is_member(workspace_id: int, user_id: int) -> ColumnElement[bool]:
    return and_(members.c.workspace_id == workspace_id, members.c.user_id == user_id)


async def _keep_an_owner(tx: Tx, workspace_id: int) -> None:
    count = select(func.count()).where(and_(members.c.workspace_id == workspace_id, members.c.role == "owner"))
    if not (await tx.execute(count)).scalar_one():
        raise LastOwner(workspace_id)  # raised inside the transaction, so the change is rolled back
