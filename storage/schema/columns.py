"""What the tables are made of: types, columns and constraints that several of them share, and their `metadata`.

Conventions: `id` counts up and is never used again; times are integers, ms UTC (Q6), named `…_at_ms`, or as the
specification names them (`lease_expires_at`, `heartbeat_at`, `available_at`, `deadline_at`, `released_at`,
`cancel_requested_at`); JSON is plain JSON text, kept byte for byte, and `None` is SQL NULL.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.schema import SchemaItem

from pagegate.storage.transitions import Machine

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts ids up only in a column of exactly the type INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")
Ms = BigInteger()
Json = JSON(none_as_null=True)


def id_column() -> Column[int]:
    return Column("id", Id, primary_key=True, autoincrement=True)


def ref(name: str, target: str, *, nullable: bool = False, index: bool = False) -> Column[int]:
    return Column(name, Id, ForeignKey(f"{target}.id"), nullable=nullable, index=index)


def created_at() -> Column[int]:
    return Column("created_at_ms", Ms, nullable=False)


def counter(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text("0"))


def one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({sql_list(values)})", name=column)


def state_columns(column: str, machine: Machine) -> tuple[Column[str], CheckConstraint]:
    return Column(column, Text, nullable=False, server_default=machine.initial), one_of(column, machine.states)


def sql_list(values: tuple[str, ...]) -> str:
    return ", ".join(repr(value) for value in values)


def index_of_live(table: str, ended: str, *columns: str) -> Index:
    """An index of the rows that have not ended: small for ever, however old the database.

    It hangs on `IS NULL` and not on states: a statement's states are parameters, and neither database can see from a
    parameter that an index on some states would do. So a statement that wants it says `live`.
    """
    unended = text(f"{ended} IS NULL")
    return Index(f"ix_{table}_live", *columns, sqlite_where=unended, postgresql_where=unended)


def index_where(name: str, condition: str, *columns: str, unique: bool = False) -> Index:
    only = text(condition)
    return Index(name, *columns, unique=unique, sqlite_where=only, postgresql_where=only)


def live(table: FromClause) -> ColumnElement[bool]:
    """The row has not ended. CHECK constraints hold this to the same as its state being a live one."""
    ended = table.c.finished_at_ms if "finished_at_ms" in table.c else table.c.completed_at_ms
    return ended.is_(None)


def numbered_table(name: str, *parts: SchemaItem) -> Table:
    # sqlite_autoincrement: an id of a deleted row is never given to another one.
    return Table(name, metadata, id_column(), *parts, sqlite_autoincrement=True)
