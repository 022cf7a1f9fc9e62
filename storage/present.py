"""Statements that are built once, and the present and the words in them (Q6).

Building a statement from its parts costs more than running it, so what runs for every job is built once for a kind and
a dialect, and run with parameters (`Tx.run`). The present is the server's own clock on PostgreSQL, evaluated in the
statement; on SQLite it is the parameter `PRESENT`, which `Tx.run` fills in.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from sqlalchemy import BigInteger, ColumnElement, Text, bindparam, func, literal_column
from sqlalchemy import cast as sql_cast

F = TypeVar("F", bound=Callable[..., Any])

PRESENT = "present_ms"

_built: list[Callable[[], None]] = []


def built_once(build: F) -> F:
    """Remember what `build` makes of the same arguments; they must be hashable, and what it makes never changes."""
    known = cache(build)
    _built.append(known.cache_clear)
    return cast(F, known)


def forget_built() -> None:
    """Let every statement be built again: for a test that changes what they are built from."""
    for forget in _built:
        forget()


def word(value: str) -> ColumnElement[str]:
    """A state, written into the statement.

    As a parameter it would be dear on SQLite: a column that a partial index has in its condition (`status = 'failed'`)
    makes the plan depend on the parameter's value, and the statement is prepared anew at each execution.
    """
    assert value.isidentifier(), value
    return literal_column(f"'{value}'", Text)


def server_now() -> ColumnElement[int]:
    """PostgreSQL's clock, in ms: as of the moment that it is evaluated, also when the statement had to wait before."""
    return sql_cast(func.floor(func.extract("epoch", func.clock_timestamp()) * 1000), BigInteger)


def present_of(dialect: str) -> ColumnElement[int]:
    """The present, in ms, in a statement that is built once for a dialect and run by `Tx.run`."""
    return server_now() if dialect == "postgresql" else bindparam(PRESENT, type_=BigInteger)
