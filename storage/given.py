"""Many rows handed to one statement, whose text stays the same however many they are.

On PostgreSQL each column arrives as an array (`unnest`), on SQLite the rows arrive as one text of JSON (`json_each`).
A statement is built once with `given_rows` and run with `parameters_of`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, FromClause, Text, bindparam, column, func, select, type_coerce
from sqlalchemy.types import TypeEngine

_NAME = "given"

Columns = Mapping[str, TypeEngine[Any]]


def given_rows(dialect: str, columns: Columns) -> FromClause:
    """A source of rows with these columns, for a statement that is built once."""
    if dialect == "postgresql":
        arrays = [bindparam(f"{_NAME}_{name}", type_=ARRAY(kind)) for name, kind in columns.items()]
        named = [column(name, kind) for name, kind in columns.items()]
        return func.unnest(*arrays).table_valued(*named).render_derived(name=_NAME)
    each = func.json_each(bindparam(_NAME, type_=Text)).table_valued("value", name="each_given")
    values = [
        type_coerce(func.json_extract(each.c.value, f"$[{place}]"), kind).label(name)
        for place, (name, kind) in enumerate(columns.items())
    ]
    return select(*values).select_from(each).subquery(_NAME)


def parameters_of(dialect: str, columns: Columns, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What such a statement is run with: `rows` have their values in the order of the columns."""
    if dialect == "postgresql":
        return {f"{_NAME}_{name}": [row[place] for row in rows] for place, name in enumerate(columns)}
    return {_NAME: json.dumps([list(row) for row in rows])}
