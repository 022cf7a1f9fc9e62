"""Image generation: its jobs, and which of a user's credentials make pictures (A1, Q1).

A migration is frozen: it repeats what the schema said on its day instead of importing it.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JOBS = "image_generation_jobs"
MOVES = [
    ("pending", "running"),
    ("pending", "cancelled"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "skipped"),
    ("running", "pending"),
]


def _numbered(table: str) -> list[Any]:
    return [
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    ]


def _ref(table: str, name: str, target: str, *, nullable: bool = False) -> list[Any]:
    key = sa.ForeignKeyConstraint([name], [f"{target}.id"], name=op.f(f"fk_{table}_{name}"))
    return [sa.Column(name, ID, nullable=nullable), key]


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _int(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _counter(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, server_default=sa.text("0"), nullable=False)


def _ms(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _index(name: str, table: str, columns: list[str], condition: str | None = None, *, unique: bool = False) -> None:
    only = sa.text(condition) if condition else None
    op.create_index(name, table, columns, unique=unique, sqlite_where=only, postgresql_where=only)


def upgrade() -> None:
    """Add the table and the columns."""
    _add_jobs()
    credentials = "ai_model_credentials"
    op.add_column(credentials, sa.Column("image_model", sa.Text))
    op.add_column(credentials, sa.Column("image_keys_honoured", sa.Boolean, server_default=sa.false(), nullable=False))


def _add_jobs() -> None:
    op.create_table(
        JOBS,
        *_numbered(JOBS),
        *_ref(JOBS, "workspace_id", "workspaces"),
        *_ref(JOBS, "project_id", "projects"),
        *_ref(JOBS, "user_id", "users"),
        *_ref(JOBS, "run_id", "ai_agent_runs", nullable=True),
        _counter("priority"),
        sa.Column("status", sa.Text, server_default="pending", nullable=False),
        _counter("attempt"),
        _text("worker_id", nullable=True),
        _ms("lease_expires_at", nullable=True),
        _ms("heartbeat_at", nullable=True),
        _ms("available_at"),
        _ms("deadline_at", nullable=True),
        _counter("infra_failures"),
        _counter("lease_losses"),
        _ms("cancel_requested_at", nullable=True),
        *_ref(JOBS, "retry_of", JOBS, nullable=True),
        _text("error_code", nullable=True),
        sa.Column("error", sa.JSON, nullable=True),
        sa.Column("result", sa.JSON, nullable=True),
        _ms("created_at_ms"),
        _ms("started_at_ms", nullable=True),
        _ms("finished_at_ms", nullable=True),
        *_ref(JOBS, "batch_id", "ai_page_mutation_batches"),
        *_ref(JOBS, "tool_call_id", "ai_agent_tool_calls"),
        _int("position"),
        _text("asset_name"),
        _ms("sent_at_ms", nullable=True),
        sa.Column("sent_to", sa.JSON, nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'running', 'cancelled', 'succeeded', 'failed', 'skipped')",
            name=op.f(f"ck_{JOBS}_status"),
        ),
        sa.CheckConstraint(
            "status <> 'running' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)",
            name=op.f(f"ck_{JOBS}_leased"),
        ),
        sa.CheckConstraint(
            "(status IN ('cancelled', 'succeeded', 'failed', 'skipped')) = (finished_at_ms IS NOT NULL)",
            name=op.f(f"ck_{JOBS}_finished"),
        ),
        sqlite_autoincrement=True,
    )
    _index(f"ix_{JOBS}_run_id", JOBS, ["run_id"])
    _index(f"ix_{JOBS}_live", JOBS, ["status", "workspace_id", "priority", "id"], "finished_at_ms IS NULL")
    _index(f"uq_{JOBS}_retry", JOBS, ["retry_of"], "retry_of IS NOT NULL", unique=True)
    _index(f"ix_{JOBS}_workspace", JOBS, ["workspace_id", "id"])
    _index(f"ix_{JOBS}_failed", JOBS, ["id"], "status = 'failed'")
    _index(f"ix_{JOBS}_loose", JOBS, ["finished_at_ms"], "run_id IS NULL")
    _index(f"ix_{JOBS}_tool_call_id", JOBS, ["tool_call_id"])
    _index(f"ix_{JOBS}_order", JOBS, ["batch_id", "position"])
    allowed = " OR ".join(f"(OLD.status = '{a}' AND NEW.status = '{b}')" for a, b in MOVES)
    when = f"OLD.status <> NEW.status AND NOT ({allowed})"
    trigger = f"CREATE TRIGGER tr_{JOBS}_moves BEFORE UPDATE OF status ON {JOBS}"
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"{trigger} WHEN {when}\nBEGIN SELECT RAISE(ABORT, 'refused state change in {JOBS}'); END")
    else:
        op.execute(f"{trigger}\nFOR EACH ROW WHEN ({when}) EXECUTE FUNCTION pagegate_refuse_move()")
