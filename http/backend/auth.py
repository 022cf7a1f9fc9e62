"""Who asks: from the `Authorization` header to a user, or to the artifact a service ticket opens (O8, P1, X5).

Owns no state: tokens and users are rows, tickets are signed. A disabled user is refused from the next request on. Being
a user grants nothing by itself: a handler asks for what it needs with `project_of` and `workspace_of`, and what belongs
to a workspace that the user is not a member of does not exist (404).
"""

import structlog
from aiohttp import web

from pagegate.actors.tickets import InvalidTicketError
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.parts import BackendParts
from pagegate.http.backend.routes import Route
from pagegate.storage.engine import DatabaseUnavailable, Tx
from pagegate.storage.projects import Project, find_project_access
from pagegate.storage.users import Caller, find_caller, note_token_used
from pagegate.storage.workspaces import ROLE_RANK, Role, Workspace, find_workspace

log = structlog.get_logger()

_TOKEN_USE_NOTED_EVERY_MS = 10 * 60 * 1000  # a row changed at each request would make every reader a writer


async def find_out_who_asks(route: Route, parts: BackendParts, request: web.Request) -> Caller | None:
    """The caller of a user's route, None for others. Raises `ApiError` (401, 403) for who may not come in here."""
    if route.access == "public":
        return None
    token = bearer(request)
    if route.access == "ticket":
        try:
            parts.tickets.verify(token, request.match_info["artifact_id"])
        except InvalidTicketError as error:
            raise ApiError("TICKET_INVALID", f"Not allowed: {error}.") from None
        return None
    async with parts.db.read() as tx:
        caller = await find_caller(tx, token)
    if caller is None:
        raise ApiError("TOKEN_INVALID")
    if caller.disabled:
        raise ApiError("USER_DISABLED")
    if route.access == "admin" and not caller.is_admin:
        raise ApiError("ADMIN_REQUIRED")
    await _note_use(parts, caller)
    return caller


def bearer(request: web.Request) -> str:
    """The token of the Authorization header. Raises `TOKEN_MISSING`."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ApiError("TOKEN_MISSING")
    return token.strip()


async def _note_use(parts: BackendParts, caller: Caller) -> None:
    now_ms = parts.db.clock.now_ms()
    if now_ms - (caller.token_last_used_at_ms or 0) < _TOKEN_USE_NOTED_EVERY_MS:
        return
    try:
        async with parts.db.write() as tx:
            await note_token_used(tx, caller.token_id)
    except DatabaseUnavailable:  # a nicety; the request itself will find out whether the database is gone
        log.warning("api.token_use_not_noted", token_id=caller.token_id)


async def workspace_of(tx: Tx, caller: Caller, workspace_id: int, need: Role = "viewer") -> Workspace:
    """A workspace the caller is in, with at least the role `need`. Raises 404 for strangers, 403 below the role."""
    workspace = await find_workspace(tx, workspace_id, caller.user_id)
    if workspace is None:
        raise ApiError("WORKSPACE_NOT_FOUND")
    _require(need, workspace.role)
    return workspace


async def project_of(
    tx: Tx, caller: Caller, project_id: int, need: Role = "viewer", *, not_found: str = "PROJECT_NOT_FOUND"
) -> Project:
    """A project of a workspace the caller is in. Raises `not_found` (404) for strangers, 403 below the role `need`.

    `not_found` names what was asked for, so that a page of a stranger's project looks like a page that never was.
    """
    access = await find_project_access(tx, project_id, caller.user_id)
    if access is None:
        raise ApiError(not_found)
    _require(need, access.role)
    return access.project


def _require(need: Role, has: Role) -> None:
    if ROLE_RANK[has] < ROLE_RANK[need]:
        raise ApiError("ROLE_REQUIRED", f"This needs the role {need}; yours in this workspace is {has}.")
