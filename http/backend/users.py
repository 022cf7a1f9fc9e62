"""Users and their tokens over HTTP (O8). An administrator does all of it; users see and revoke their own tokens."""

from pydantic import Field

from pagegate.actors.agents.arguments import OneLine
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Id, Params, Said, Shown, TimeMs
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.storage import users as storage

users = Noun("users")


class NewUser(Said):
    name: OneLine = Field(description="Unique; how people call the user.")
    is_admin: bool = False


class UserView(Shown):
    id: int
    name: str
    is_admin: bool
    disabled: bool
    created_at_ms: TimeMs


class UserList(Shown):
    users: list[UserView]
    next_after_id: int | None = Field(description="Send it as `after_id` for the rest; null at the end.")


class NewToken(Said):
    name: OneLine = Field(default="token", description="What the token is for, so that it can be told from others.")


class IssuedTokenView(Shown):
    id: int
    name: str
    token: str = Field(description="Shown this once; only its digest is kept.")


class CreatedUser(Shown):
    user: UserView
    token: IssuedTokenView


class TokenView(Shown):
    id: int
    user_id: int
    name: str
    created_at_ms: TimeMs
    last_used_at_ms: TimeMs | None = Field(description="To about ten minutes.")
    revoked_at_ms: TimeMs | None


class TokenList(Shown):
    tokens: list[TokenView]


class UserParams(Params):
    user_id: Id


class TokenParams(Params):
    token_id: Id


class ListParams(Params):
    after_id: int = Field(default=0, ge=0, le=2**63 - 1)
    limit: int = Field(default=100, ge=1, le=500)


@users.route("GET", "/me")
async def who_am_i(call: Call[Nothing, Nothing]) -> UserView:
    """The user of this token."""
    async with call.parts.db.read() as tx:
        user = await storage.find_user(tx, call.user.user_id)
    assert user is not None, "tokens belong to users"
    return UserView.model_validate(user)


@users.route("POST", "/users", status=201, access="admin", refusals=["LOGIN_TAKEN"])
async def create_user(call: Call[Nothing, NewUser]) -> CreatedUser:
    """Create a user with a first token."""
    async with call.parts.db.write() as tx:
        user_id = await storage.create_user(tx, call.body.name, is_admin=call.body.is_admin)
        token = await storage.issue_token(tx, user_id, "first token")
        user = await storage.find_user(tx, user_id)
    return CreatedUser(
        user=UserView.model_validate(user), token=IssuedTokenView(id=token.id, name=token.name, token=token.secret)
    )


@users.route("GET", "/users", access="admin")
async def list_users(call: Call[ListParams, Nothing]) -> UserList:
    """List users."""
    async with call.parts.db.read() as tx:
        found = await storage.list_users(tx, after_id=call.params.after_id, limit=call.params.limit + 1)
    page = found[: call.params.limit]
    more = len(found) > len(page)
    return UserList(users=[UserView.model_validate(user) for user in page], next_after_id=page[-1].id if more else None)


@users.route("POST", "/users/{user_id}/disable", access="admin", refusals=["USER_NOT_FOUND", "LAST_ADMIN"])
async def disable_user(call: Call[UserParams, Nothing]) -> UserView:
    """Disable a user: every token stops working, nothing is deleted."""
    return await _set_disabled(call, True)


@users.route("POST", "/users/{user_id}/enable", access="admin", refusals=["USER_NOT_FOUND"])
async def enable_user(call: Call[UserParams, Nothing]) -> UserView:
    """Enable a user again."""
    return await _set_disabled(call, False)


async def _set_disabled(call: Call[UserParams, Nothing], disabled: bool) -> UserView:
    async with call.parts.db.write() as tx:
        if not await storage.set_disabled(tx, call.params.user_id, disabled):
            raise ApiError("USER_NOT_FOUND")
        user = await storage.find_user(tx, call.params.user_id)
    return UserView.model_validate(user)


@users.route("POST", "/users/{user_id}/tokens", status=201, access="admin", refusals=["USER_NOT_FOUND"])
async def issue_token(call: Call[UserParams, NewToken]) -> IssuedTokenView:
    """Issue another token for a user."""
    async with call.parts.db.write() as tx:
        if await storage.find_user(tx, call.params.user_id) is None:
            raise ApiError("USER_NOT_FOUND")
        token = await storage.issue_token(tx, call.params.user_id, call.body.name)
    return IssuedTokenView(id=token.id, name=token.name, token=token.secret)


@users.route("GET", "/users/{user_id}/tokens", refusals=["USER_NOT_FOUND"])
async def list_tokens(call: Call[UserParams, Nothing]) -> TokenList:
    """List a user's tokens, revoked ones too."""
    _admin_or(call.user, call.params.user_id, "USER_NOT_FOUND")
    async with call.parts.db.read() as tx:
        if await storage.find_user(tx, call.params.user_id) is None:
            raise ApiError("USER_NOT_FOUND")
        found = await storage.list_tokens(tx, call.params.user_id)
    return TokenList(tokens=[TokenView.model_validate(token) for token in found])


@users.route("DELETE", "/tokens/{token_id}", status=204, refusals=["TOKEN_NOT_FOUND"])
async def revoke_token(call: Call[TokenParams, Nothing]) -> Nothing:
    """Revoke a token."""
    async with call.parts.db.write() as tx:
        owner_id = await storage.find_token_owner(tx, call.params.token_id)
        if owner_id is None:
            raise ApiError("TOKEN_NOT_FOUND")
        _admin_or(call.user, owner_id, "TOKEN_NOT_FOUND")
        await storage.revoke_token(tx, call.params.token_id)
    return Nothing()


def _admin_or(caller: storage.Caller, user_id: int, otherwise: str) -> None:
    if not caller.is_admin and caller.user_id != user_id:
        raise ApiError(otherwise)
