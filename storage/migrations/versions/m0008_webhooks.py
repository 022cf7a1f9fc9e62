"""Webhooks of projects, and a delivery for each run that ended (A9).

A migration is frozen: it repeats what the schema said on its day instead of importing it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLE = "webhook_deliveries"
MOVES = [
    ("pending", "delivering"),
    ("delivering", "pending"),
    ("delivering", "delivered"),
    ("delivering", "failed"),
]


def upgrade() -> None:
    """Add the two tables."""
    op.create_table(
        "project_webhooks",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_project_webhooks")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_project_webhooks_project_id")),
    )
    op.create_table(
        TABLE,
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, server_default="pending", nullable=False),
        sa.Column("attempt", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("worker_id", sa.Text),
        sa.Column("lease_expires_at", sa.BigInteger),
        sa.Column("available_at", sa.BigInteger, nullable=False),
        sa.Column("last_status", sa.Integer),
        sa.Column("error", sa.JSON),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{TABLE}")),
        sa.ForeignKeyConstraint(["run_id"], ["ai_agent_runs.id"], name=op.f(f"fk_{TABLE}_run_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f(f"fk_{TABLE}_project_id")),
        sa.UniqueConstraint("run_id", name=op.f(f"uq_{TABLE}_run_id")),
        sa.UniqueConstraint("message_id", name=op.f(f"uq_{TABLE}_message_id")),
        sa.CheckConstraint("state IN ('pending', 'delivering', 'delivered', 'failed')", name=op.f(f"ck_{TABLE}_state")),
        sa.CheckConstraint(
            "state <> 'delivering' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)",
            name=op.f(f"ck_{TABLE}_leased"),
        ),
        sa.CheckConstraint(
            "(state IN ('delivered', 'failed')) = (finished_at_ms IS NOT NULL)", name=op.f(f"ck_{TABLE}_finished")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(f"ix_{TABLE}_project_id", TABLE, ["project_id"])
    live = sa.text("finished_at_ms IS NULL")
    op.create_index(f"ix_{TABLE}_live", TABLE, ["available_at", "id"], sqlite_where=live, postgresql_where=live)
    allowed = " OR ".join(f"(OLD.state = '{a}' AND NEW.state = '{b}')" for a, b in MOVES)
    when = f"OLD.state <> NEW.state AND NOT ({allowed})"
    trigger = f"CREATE TRIGGER tr_{TABLE}_moves BEFORE UPDATE OF state ON {TABLE}"
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"{trigger} WHEN {when}\nBEGIN SELECT RAISE(ABORT, 'refused state change in {TABLE}'); END")
    else:
        op.execute(f"{trigger}\nFOR EACH ROW WHEN ({when}) EXECUTE FUNCTION pagegate_refuse_move()")
