"""Whether the database can be read (O1)."""

from sqlalchemy import select

from pagegate.storage.engine import Database
from pagegate.storage.schema import users


async def touch(db: Database) -> None:
    """Read something small from a table of ours. Raises `DatabaseUnavailable`."""
    async with db.read() as tx:
        await tx.execute(select(users.c.id).limit(1))
