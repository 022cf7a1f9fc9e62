"""Workspaces and their members over HTTP (D1, X5). Who makes one is its owner; owners manage the members."""

from pagegate.actors.agents.arguments import OneLine
from pagegate.http.backend.auth import workspace_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Id, Params, Said, Shown, TimeMs, WorkspaceParams
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.storage import workspaces as storage
from pagegate.storage.engine import Tx
from pagegate.storage.users import find_user
from pagegate.storage.workspaces import Role

workspaces = Noun("workspaces")


class NewWorkspace(Said):
    name: OneLine


class WorkspaceView(Shown):
    """A workspace, and your role in it."""

    id: int
    name: str
    role: Role
    created_at_ms: TimeMs


class WorkspaceList(Shown):
    workspaces: list[WorkspaceView]


class MemberParams(Params):
    workspace_id: Id
    user_id: Id


class NewRole(Said):
    role: Role


class MemberView(Shown):
    user_id: int
    name: str
    role: Role
    disabled: bool


class MemberList(Shown):
    members: list[MemberView]


@workspaces.route("POST", "/workspaces", status=201)
async def create_workspace(call: Call[Nothing, NewWorkspace]) -> WorkspaceView:
    """Create a workspace; you become its owner."""
    async with call.parts.db.write() as tx:
        workspace_id = await storage.create_workspace(tx, call.body.name, call.user.user_id)
        workspace = await workspace_of(tx, call.user, workspace_id)
    return WorkspaceView.model_validate(workspace)


@workspaces.route("GET", "/workspaces")
async def list_workspaces(call: Call[Nothing, Nothing]) -> WorkspaceList:
    """List the workspaces you are a member of."""
    async with call.parts.db.read() as tx:
        found = await storage.list_workspaces(tx, call.user.user_id)
    return WorkspaceList(workspaces=[WorkspaceView.model_validate(workspace) for workspace in found])


@workspaces.route("GET", "/workspaces/{workspace_id}", refusals=["WORKSPACE_NOT_FOUND"])
async def get_workspace(call: Call[WorkspaceParams, Nothing]) -> WorkspaceView:
    """One workspace."""
    async with call.parts.db.read() as tx:
        workspace = await workspace_of(tx, call.user, call.params.workspace_id)
    return WorkspaceView.model_validate(workspace)


@workspaces.route("GET", "/workspaces/{workspace_id}/members", refusals=["WORKSPACE_NOT_FOUND"])
async def list_members(call: Call[WorkspaceParams, Nothing]) -> MemberList:
    """List the members of a workspace."""
    async with call.parts.db.read() as tx:
        await workspace_of(tx, call.user, call.params.workspace_id)
        return await _members(tx, call.params.workspace_id)


@workspaces.route(
    "PUT",
    "/workspaces/{workspace_id}/members/{user_id}",
    refusals=["WORKSPACE_NOT_FOUND", "ROLE_REQUIRED", "USER_NOT_FOUND", "LAST_OWNER"],
)
async def put_member(call: Call[MemberParams, NewRole]) -> MemberList:
    """Add a user to a workspace, or change their role; answers the members."""
    async with call.parts.db.write() as tx:
        await workspace_of(tx, call.user, call.params.workspace_id, need="owner")
        if await find_user(tx, call.params.user_id) is None:
            raise ApiError("USER_NOT_FOUND")
        await storage.put_member(tx, call.params.workspace_id, call.params.user_id, call.body.role)
        return await _members(tx, call.params.workspace_id)


@workspaces.route(
    "DELETE",
    "/workspaces/{workspace_id}/members/{user_id}",
    status=204,
    refusals=["WORKSPACE_NOT_FOUND", "ROLE_REQUIRED", "MEMBER_NOT_FOUND", "LAST_OWNER"],
)
async def remove_member(call: Call[MemberParams, Nothing]) -> Nothing:
    """Take a user out of a workspace; anyone may leave."""
    async with call.parts.db.write() as tx:
        leaves = call.params.user_id == call.user.user_id
        await workspace_of(tx, call.user, call.params.workspace_id, need="viewer" if leaves else "owner")
        if not await storage.remove_member(tx, call.params.workspace_id, call.params.user_id):
            raise ApiError("MEMBER_NOT_FOUND")
    return Nothing()


async def _members(tx: Tx, workspace_id: int) -> MemberList:
    found = await storage.list_members(tx, workspace_id)
    return MemberList(members=[MemberView.model_validate(member) for member in found])
