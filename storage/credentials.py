"""Model credentials of users (A10). Owns the statements on `ai_model_credentials`; what is stored is ciphertext.

Nothing here decrypts, and no row's `secret` leaves the process: views are made from the other columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, delete, select, update

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.upsert import insert_unless_there

_credentials = schema.ai_model_credentials


class CredentialNotFound(LookupError):
    """AI_CREDENTIAL_NOT_FOUND: the user has no such credential."""


class CredentialNameTaken(Exception):
    """AI_CREDENTIAL_NAME_TAKEN: the user has a credential of this name."""


@dataclass(frozen=True)
class NewCredential:
    """`secret` is already encrypted. With an `image_model` it makes pictures too; see the columns of the table."""

    user_id: int
    name: str
    provider: str
    base_url: str | None
    model: str
    secret: str
    image_model: str | None = None
    image_keys_honoured: bool = False


async def add_credential(tx: Tx, new: NewCredential) -> Row[Any]:
    """Raises `CredentialNameTaken`."""
    added = await insert_unless_there(tx, _credentials, unique=("user_id", "name"), **vars(new), created_at_ms=tx.now)
    if not added:
        raise CredentialNameTaken(f"There is already a credential called {new.name!r}.")
    mine = _credentials.c.user_id == new.user_id, _credentials.c.name == new.name
    return (await tx.execute(select(_credentials).where(*mine))).one()


async def list_credentials(tx: Tx, user_id: int) -> Sequence[Row[Any]]:
    mine = select(_credentials).where(_credentials.c.user_id == user_id)
    return (await tx.execute(mine.order_by(_credentials.c.id))).all()


async def get_credential(tx: Tx, user_id: int, credential_id: int) -> Row[Any]:
    """A credential of this user; another's does not exist for them. Raises `CredentialNotFound`."""
    mine = select(_credentials).where(_credentials.c.id == credential_id, _credentials.c.user_id == user_id)
    row = (await tx.execute(mine)).first()
    if row is None:
        raise CredentialNotFound(f"There is no credential {credential_id}.")
    return row


async def delete_credential(tx: Tx, user_id: int, credential_id: int) -> bool:
    mine = delete(_credentials).where(_credentials.c.id == credential_id, _credentials.c.user_id == user_id)
    return (await tx.execute(mine.returning(_credentials.c.id))).first() is not None


async def list_secrets(tx: Tx, after_id: int, limit: int) -> Sequence[Row[Any]]:
    """id and secret of the credentials of all users, by id: for the re-encryption (K7)."""
    following = select(_credentials.c.id, _credentials.c.secret).where(_credentials.c.id > after_id)
    return (await tx.execute(following.order_by(_credentials.c.id).limit(limit))).all()


async def replace_secret(tx: Tx, credential_id: int, was: str, secret: str) -> bool:
    """Put another ciphertext in the place of `was`; False when somebody has changed it meanwhile."""
    changed = update(_credentials).where(_credentials.c.id == credential_id, _credentials.c.secret == was)
    return (await tx.execute(changed.values(secret=secret).returning(_credentials.c.id))).first() is not None
