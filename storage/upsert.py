"""Insert unless it is there, in one statement on both databases.

A read followed by an insert would race with another replica, and on PostgreSQL a violated constraint ends the
transaction.
"""

from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from pagegate.storage.engine import Tx


async def insert_unless_there(tx: Tx, table: Table, *, unique: tuple[str, ...], **values: Any) -> bool:
    """Insert a row unless one has the same values in the columns `unique` (a unique constraint). True when inserted."""
    if tx.dialect == "sqlite":
        statement: Any = sqlite.insert(table).values(**values).on_conflict_do_nothing(index_elements=unique)
    else:
        statement = postgresql.insert(table).values(**values).on_conflict_do_nothing(index_elements=unique)
    found = await tx.execute(statement.returning(*(table.c[name] for name in unique)))
    return found.first() is not None
