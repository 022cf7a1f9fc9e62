"""Lanes that can be paused, failed jobs that can be retried, and indexes for pruning and looking (Q11).

A migration is frozen: it repeats what `schema.py` and `transitions.py` said on its day instead of importing them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# index: (table, columns, unique, condition)
INDEXES = {
    "ix_ai_agent_runs_ended": ("ai_agent_runs", ["finished_at_ms", "id"], False, "finished_at_ms IS NOT NULL"),
    "uq_ai_page_mutation_jobs_retry": ("ai_page_mutation_jobs", ["retry_of"], True, "retry_of IS NOT NULL"),
    "ix_ai_page_mutation_jobs_workspace": ("ai_page_mutation_jobs", ["workspace_id", "id"], False, None),
    "ix_ai_page_mutation_jobs_failed": ("ai_page_mutation_jobs", ["id"], False, "status = 'failed'"),
    "ix_ai_page_mutation_jobs_loose": ("ai_page_mutation_jobs", ["finished_at_ms"], False, "run_id IS NULL"),
}

_TASK = [
    ("pending", "succeeded"),
    ("pending", "failed"),
    ("pending", "cancelled"),
    ("pending", "skipped"),
    ("pending", "refused"),
    ("failed", "pending"),
]

# table: (its state column, the changes of state that are let through)
MOVES = {
    "ai_agent_tool_calls": ("status", _TASK),
    "ai_agent_external_tasks": ("state", _TASK),
    "ai_agent_external_batches": (
        "state",
        [
            ("waiting", "ready"),
            ("ready", "resuming"),
            ("ready", "waiting"),
            ("resuming", "ready"),
            ("resuming", "completed"),
            ("waiting", "completed"),
            ("ready", "completed"),
        ],
    ),
}


def upgrade() -> None:
    """Add the table and the indexes, and replace the triggers whose moves have changed."""
    op.create_table(
        "lanes",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("paused_at_ms", sa.BigInteger, nullable=True),
        sa.Column("paused_by", ID, nullable=True),
        sa.Column("rescues", sa.BigInteger, server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("(paused_at_ms IS NULL) = (paused_by IS NULL)", name=op.f("ck_lanes_paused")),
        sa.ForeignKeyConstraint(["paused_by"], ["users.id"], name=op.f("fk_lanes_paused_by")),
        sa.PrimaryKeyConstraint("kind", name=op.f("pk_lanes")),
    )
    for name, (table, columns, unique, condition) in INDEXES.items():
        only = sa.text(condition) if condition else None
        op.create_index(name, table, columns, unique=unique, sqlite_where=only, postgresql_where=only)
    on_sqlite = op.get_context().dialect.name == "sqlite"
    for table, (column, pairs) in MOVES.items():
        allowed = " OR ".join(f"(OLD.{column} = '{a}' AND NEW.{column} = '{b}')" for a, b in pairs)
        when = f"OLD.{column} <> NEW.{column} AND NOT ({allowed})"
        trigger = f"CREATE TRIGGER tr_{table}_moves BEFORE UPDATE OF {column} ON {table}"
        op.execute(f"DROP TRIGGER tr_{table}_moves" + ("" if on_sqlite else f" ON {table}"))
        if on_sqlite:
            refuse = f"SELECT RAISE(ABORT, 'refused state change in {table}')"
            op.execute(f"{trigger} WHEN {when}\nBEGIN {refuse}; END")
        else:
            op.execute(f"{trigger}\nFOR EACH ROW WHEN ({when}) EXECUTE FUNCTION pagegate_refuse_move()")
