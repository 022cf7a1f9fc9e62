"""Insert unless it is there, in one statement on both databases.

A read followed by an insert would race with another replica, and on PostgreSQL a violated constraint ends the
transaction.
"""

from typing import Any

from sqlalchemy import Table, text
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


async def insert_live_unless_there(tx: Tx, table: Table, *, unique: str, **values: Any) -> int | None:
    """Insert a row unless a live one has the same value in `unique`; answers its id, None when there is one.

    The unique index of the live rows, those whose `finished_at_ms` is NULL, decides.
    """
    insert: Any = sqlite.insert if tx.dialect == "sqlite" else postgresql.insert
    statement = insert(table).values(**values)
    live = text("finished_at_ms IS NULL")
    added = statement.on_conflict_do_nothing(index_elements=[unique], index_where=live).returning(table.c.id)
    found: int | None = (await tx.execute(added)).scalar()
    return found
