"""The jobs behind a run's deferred calls, whichever kinds they are of, as one source of rows (A1, A8). Reads only."""

from collections.abc import Sequence

from sqlalchemy import Subquery, Text, literal, select, union_all
from sqlalchemy import cast as sql_cast

from pagegate.storage import schema
from pagegate.storage.jobs.kinds import SUBJECTS


def jobs_of_run(run_id: int, columns: Sequence[str] = ()) -> Subquery:
    """The run's jobs: `kind`, `id`, what each is about as `subject`, and more columns that every kind has."""
    found = []
    for kind, subject in SUBJECTS.items():
        table = schema.metadata.tables[kind]
        named = [sql_cast(literal(kind), Text).label("kind"), table.c.id, table.c[subject].label("subject")]
        found.append(select(*named, *[table.c[name] for name in columns]).where(table.c.run_id == run_id))
    return union_all(*found).subquery("jobs_of_run")
