"""What a kind of durable job is to its statements: a table, and an order among some of its rows (Q1, A2).

Owns the names of the kinds, the row of a claim, and the condition that a job may run now.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, and_, select
from sqlalchemy.sql.selectable import NamedFromClause

from pagegate.storage import schema
from pagegate.storage.lease import Lease
from pagegate.storage.present import word

# The kinds that exist, for callers to name.
PAGE_MUTATION = schema.ai_page_mutation_jobs.name
COMPONENT_MUTATION = schema.component_mutation_jobs.name
IMAGE_GENERATION = schema.image_generation_jobs.name

# The kinds that carry out deferred tool calls (A1), and the column that says what such a job is about.
SUBJECTS = {PAGE_MUTATION: "page_code", COMPONENT_MUTATION: "component_name", IMAGE_GENERATION: "asset_name"}

# Jobs of one kind that agree in these columns run one after another, by `position` (A2). A component may use any other
# of its step, so all of a step have one order; compiling one takes less time than finding out which.
_ORDERED_WITHIN = {PAGE_MUTATION: ("batch_id", "page_code"), COMPONENT_MUTATION: ("batch_id",)}

# Jobs of the first kind wait for live ones of the others that were called before them in the same batch: a page may use
# what the calls before it in its step make.
_WAITS_FOR = {PAGE_MUTATION: (COMPONENT_MUTATION, IMAGE_GENERATION)}


class JobNotFound(LookupError):
    """There is no such job of this kind."""


@dataclass(frozen=True)
class ClaimedJob:
    """One claim of one job. `row` holds every column of the kind's table, as of the claim."""

    lease: Lease
    row: Row[Any]

    @property
    def id(self) -> int:
        return self.lease.id

    @property
    def waited_ms(self) -> int:
        """From the moment it could first run until this claim."""
        return int(self.row.heartbeat_at - self.row.available_at)


def table_of(kind: str) -> Table:
    """The table of a kind; `KeyError` when there is no such kind."""
    if kind not in schema.JOB_KINDS:
        raise KeyError(f"no kind of job is called {kind!r}")
    return schema.metadata.tables[kind]


def waiting_for(kind: str) -> tuple[str, ...]:
    """The kinds whose jobs may wait for the end of one of this kind."""
    return tuple(waits for waits, others in _WAITS_FOR.items() if kind in others)


@cache
def _earlier(table: Table) -> NamedFromClause[Any]:
    """The table once more, for a look beside the row; made once, since copying its columns is dear."""
    return table.alias("earlier")


def goes_behind(kind: str) -> list[tuple[Table, tuple[str, ...]]]:
    """The tables whose live jobs come first: those that agree in the columns and stand at an earlier `position`."""
    own = _ORDERED_WITHIN.get(kind)
    others = [(schema.metadata.tables[other], ("batch_id",)) for other in _WAITS_FOR.get(kind, ())]
    return ([] if own is None else [(schema.metadata.tables[kind], own)]) + others


def runnable(table: Table, present: ColumnElement[int]) -> ColumnElement[bool]:
    """The job may run now: by time, and by the calls before it (A2).

    The latter can only become true, never false again but by a retry, so a stale look is merely late.
    """
    now = and_(schema.live(table), table.c.status == word("pending"), table.c.available_at <= present)
    for other, columns in goes_behind(table.name):
        earlier = _earlier(other)
        same = [earlier.c[column] == table.c[column] for column in columns]
        found = select(earlier.c.id).where(*same, earlier.c.position < table.c.position, schema.live(earlier))
        now = and_(now, ~found.exists())
    return now
