"""A statement that was built once, as the driver of SQLite takes it: its text, the order of its parameters, its rows.

SQLAlchemy remembers the text of a statement, but builds a context, a cursor and a result around each execution, which
costs several times what SQLite needs for it. Here all that is left of it for a job's claim, renewal and end is a look
into a dictionary. Owns no connection; lives as long as its statement.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Executable
from sqlalchemy.engine import Dialect, IteratorResult, Result, Row
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import DBAPIError

_prepared: "WeakKeyDictionary[Executable, PreparedStatement]" = WeakKeyDictionary()


class PreparedStatement:
    """See the module. Parameters are plain values that the driver takes as they are."""

    def __init__(self, statement: Any, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        for bind in compiled.binds.values():
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            assert convert is None, f"{bind.key} would have to be converted"
        self.text: str = compiled.string
        self._written: dict[str, Any] = compiled.params
        self._required = frozenset(name for name, bind in compiled.binds.items() if bind.required)
        self._order: Sequence[str] = compiled.positiontup
        columns = statement.exported_columns
        self._shape = SimpleResultMetaData(list(columns.keys()))
        self._readers = _readers_of([column.type for column in columns], dialect)

    def parameters(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """In the order of the text; what the text does not name is left out. `KeyError` for what is missing."""
        if missing := self._required - given.keys():
            raise KeyError(f"the statement misses {', '.join(sorted(missing))}")
        known = {**self._written, **given}
        return tuple([known[name] for name in self._order])

    def run(self, connection: sqlite3.Connection, given: Mapping[str, Any]) -> Sequence[Row[Any]]:
        """Execute and fetch all. Raises what SQLAlchemy would: `DBAPIError`."""
        rows: list[Any] = run_text(connection, self.text, self.parameters(given))
        if self._readers:
            rows = [self._read(row) for row in rows]
        found: Result[Any] = IteratorResult(self._shape, iter(rows))
        return found.all()

    def _read(self, row: Sequence[Any]) -> tuple[Any, ...]:
        values = list(row)
        for place, reader in self._readers:
            values[place] = reader(values[place])
        return tuple(values)


def prepared(statement: Executable, dialect: Dialect) -> PreparedStatement:
    """The same one each time, as long as there is the statement."""
    found = _prepared.get(statement)
    if found is None:
        found = _prepared[statement] = PreparedStatement(statement, dialect)
    return found


def run_text(connection: sqlite3.Connection, text: str, parameters: Sequence[Any] = ()) -> list[Any]:
    """Execute the driver's own text and fetch all. Raises what SQLAlchemy would: `DBAPIError`."""
    try:
        return connection.execute(text, parameters).fetchall()
    except sqlite3.Error as error:
        raised = DBAPIError.instance(text, None, error, sqlite3.Error, hide_parameters=True)
        raise raised from error


def _readers_of(types: Sequence[Any], dialect: Dialect) -> list[tuple[int, Callable[[Any], Any]]]:
    readers = [kind.dialect_impl(dialect).result_processor(dialect, None) for kind in types]
    return [(place, reader) for place, reader in enumerate(readers) if reader is not None]
