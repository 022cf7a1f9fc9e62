"""Who may ask: users and their tokens (D1, O8).

Owns the tables `users` and `tokens`. A token is `pg_` and 32 random bytes; the database keeps its SHA-256 only, so a
copy of the database opens nothing. A disabled user keeps everything and may do nothing.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, select, update

from pagegate.storage.engine import Tx
from pagegate.storage.schema import tokens, users
from pagegate.storage.upsert import insert_unless_there

TOKEN_PREFIX = "pg_"  # noqa: S105  what tokens look like, not one of them
_TOKEN_CHARS_MAX = 200


class LoginTaken(Exception):
    """There is already a user of this name."""


class LastAdmin(Exception):
    """The last enabled administrator stays enabled: nobody could undo it over HTTP."""


@dataclass(frozen=True)
class User:
    id: int
    name: str
    is_admin: bool
    disabled: bool
    created_at_ms: int


@dataclass(frozen=True)
class Token:
    """A token as it is kept: without its secret."""

    id: int
    user_id: int
    name: str
    created_at_ms: int
    last_used_at_ms: int | None
    revoked_at_ms: int | None


@dataclass(frozen=True)
class IssuedToken:
    """A new token; `secret` is shown once and cannot be read again."""

    id: int
    name: str
    secret: str


@dataclass(frozen=True)
class Caller:
    """Who sent a request, and by which token."""

    user_id: int
    name: str
    is_admin: bool
    disabled: bool
    token_id: int
    token_last_used_at_ms: int | None


async def create_user(tx: Tx, name: str, *, is_admin: bool = False) -> int:
    """Add a user, answer the id. Raises `LoginTaken`."""
    if not await insert_unless_there(
        tx, users, unique=("name",), name=name, is_admin=is_admin, created_at_ms=await tx.now_ms()
    ):
        raise LoginTaken(name)
    return int((await tx.execute(select(users.c.id).where(users.c.name == name))).scalar_one())


async def find_user(tx: Tx, user_id: int) -> User | None:
    return next(iter(await _users(tx, users.c.id == user_id)), None)


async def find_user_by_name(tx: Tx, name: str) -> User | None:
    return next(iter(await _users(tx, users.c.name == name)), None)


async def list_users(tx: Tx, *, after_id: int = 0, limit: int = 100) -> list[User]:
    """Users by id, from the one after `after_id`."""
    return await _users(tx, users.c.id > after_id, limit)


async def set_disabled(tx: Tx, user_id: int, disabled: bool) -> bool:
    """Disable or enable a user. False when there is none. Raises `LastAdmin`."""
    await tx.serialize("users.admins")
    when = func.coalesce(users.c.disabled_at_ms, tx.now) if disabled else None
    changed = await tx.execute(
        update(users).where(users.c.id == user_id).values(disabled_at_ms=when).returning(users.c.is_admin)
    )
    row = changed.first()
    if row is None:
        return False
    if disabled and row.is_admin and not await _enabled_admins(tx):
        raise LastAdmin(user_id)  # raised inside the transaction, so the change is rolled back
    return True


async def issue_token(tx: Tx, user_id: int, name: str) -> IssuedToken:
    """Make a token for a user that exists."""
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token_id = await tx.insert(
        tokens, user_id=user_id, name=name, digest=_digest(secret), created_at_ms=await tx.now_ms()
    )
    return IssuedToken(token_id, name, secret)


async def list_tokens(tx: Tx, user_id: int) -> list[Token]:
    """Every token the user ever had, revoked ones too, by id."""
    rows = await tx.execute(select(tokens).where(tokens.c.user_id == user_id).order_by(tokens.c.id))
    return [
        Token(row.id, row.user_id, row.name, row.created_at_ms, row.last_used_at_ms, row.revoked_at_ms) for row in rows
    ]


async def find_token_owner(tx: Tx, token_id: int) -> int | None:
    """The id of the user a token belongs to."""
    found: int | None = (await tx.execute(select(tokens.c.user_id).where(tokens.c.id == token_id))).scalar_one_or_none()
    return found


async def revoke_token(tx: Tx, token_id: int) -> bool:
    """Make a token useless from the next request on. False when there is none; revoking twice is fine."""
    changed = await tx.execute(
        update(tokens)
        .where(tokens.c.id == token_id)
        .values(revoked_at_ms=func.coalesce(tokens.c.revoked_at_ms, tx.now))
        .returning(tokens.c.id)
    )
    return changed.first() is not None


async def find_caller(tx: Tx, secret: str) -> Caller | None:
    """The owner of a token that is not revoked. Compares digests, in constant time."""
    if not secret.startswith(TOKEN_PREFIX) or len(secret) > _TOKEN_CHARS_MAX:
        return None
    digest = _digest(secret)
    rows = await tx.execute(
        select(tokens.c.id, tokens.c.digest, tokens.c.last_used_at_ms, users.c.id.label("user_id"), users.c.name)
        .add_columns(users.c.is_admin, users.c.disabled_at_ms)
        .join(users, tokens.c.user_id == users.c.id)
        .where(and_(tokens.c.digest == digest, tokens.c.revoked_at_ms.is_(None)))
    )
    row = rows.first()
    if row is None or not hmac.compare_digest(row.digest, digest):
        return None
    disabled = row.disabled_at_ms is not None
    return Caller(row.user_id, row.name, bool(row.is_admin), disabled, row.id, row.last_used_at_ms)


async def note_token_used(tx: Tx, token_id: int) -> None:
    """Remember that a token was used now."""
    await tx.execute(update(tokens).where(tokens.c.id == token_id).values(last_used_at_ms=tx.now))


async def _users(tx: Tx, where: ColumnElement[bool], limit: int = 1) -> list[User]:
    rows = await tx.execute(select(users).where(where).order_by(users.c.id).limit(limit))
    return [
        User(row.id, row.name, bool(row.is_admin), row.disabled_at_ms is not None, row.created_at_ms) for row in rows
    ]


async def _enabled_admins(tx: Tx) -> int:
    count = select(func.count()).select_from(users).where(and_(users.c.is_admin, users.c.disabled_at_ms.is_(None)))
    return int((await tx.execute(count)).scalar_one())


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
