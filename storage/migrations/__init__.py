"""Installing and upgrading a database (O7).

Owns the order of migrations and the refusal to work on a schema that this code does not know. One migration runs at a
time over all replicas, each database in one transaction: killed in the middle, nothing of it remains.
"""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.engine import URL

from pagegate.storage.engine import Database, Tx


class SchemaTooNew(Exception):
    """The database was upgraded by a newer pagegate; this one would misread it. Install that version again (O7)."""


class SchemaTooOld(Exception):
    """The database has not been migrated to this version yet: run `migrate` (O7)."""


async def migrate(url: str | URL) -> str:
    """Bring a database to this version, also from nothing; answers its revision. Raises `SchemaTooNew`."""
    db = await Database.open(url)
    try:
        async with db.write() as tx:
            await tx.serialize("migrate")
            await tx.conn.run_sync(_upgrade)
        return head_revision()
    finally:
        await db.close()


async def check_schema(tx: Tx) -> None:
    """Raise `SchemaTooNew` or `SchemaTooOld` unless the database is of this version."""
    current = await tx.conn.run_sync(_current)
    if current != head_revision():
        _refuse_unknown(current)
        raise SchemaTooOld(f"the database is at revision {current}, this pagegate needs {head_revision()}")


def head_revision() -> str:
    """The revision of this code."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_unknown(revision: str | None) -> None:
    known: set[Any] = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision is not None and revision not in known:
        raise SchemaTooNew(
            f"the database is at revision {revision}, which this pagegate does not know: it was upgraded by a newer one"
        )


def _upgrade(connection: Connection) -> None:
    _refuse_unknown(_current(connection))
    command.upgrade(_config(connection), "head")
