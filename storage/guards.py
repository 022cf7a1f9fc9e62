"""Triggers that let a state move only as `transitions.py` says (Q2).

Owns their text for both databases. The statements keep the rule by their WHERE already; the trigger keeps it against a
statement that nobody has written yet, and against a human with a database shell.
"""

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import DDL, MetaData, event
from sqlalchemy.schema import ExecutableDDLElement

from pagegate.storage.transitions import Machine

FUNCTION = """CREATE OR REPLACE FUNCTION pagegate_refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused state change in %', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END
$$"""


def trigger(table: str, column: str, machine: Machine, dialect: str) -> str:
    """The trigger that refuses every change of state that `machine` does not know."""
    allowed = " OR ".join(f"(OLD.{column} = '{a}' AND NEW.{column} = '{b}')" for a, b in machine.pairs)
    when = f"OLD.{column} <> NEW.{column} AND NOT ({allowed})"
    if dialect == "sqlite":
        return (
            f"CREATE TRIGGER tr_{table}_moves BEFORE UPDATE OF {column} ON {table} WHEN {when}\n"
            f"BEGIN SELECT RAISE(ABORT, 'refused state change in {table}'); END"
        )
    return (
        f"CREATE TRIGGER tr_{table}_moves BEFORE UPDATE OF {column} ON {table}\n"
        f"FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION pagegate_refuse_move()"
    )


def guard(metadata: MetaData, guarded: Mapping[str, tuple[str, Machine]]) -> None:
    """Create a trigger with each guarded table: name -> (its state column, its machine)."""
    event.listen(metadata, "before_create", _ddl(FUNCTION, "postgresql"))
    for table, (column, machine) in guarded.items():
        for dialect in ("sqlite", "postgresql"):
            event.listen(
                metadata.tables[table], "after_create", _ddl(trigger(table, column, machine, dialect), dialect)
            )


def _ddl(statement: str, dialect: str) -> ExecutableDDLElement:
    make = cast(Any, DDL)  # the library leaves its constructor untyped
    return cast(ExecutableDDLElement, make(statement.replace("%", "%%")).execute_if(dialect=dialect))
