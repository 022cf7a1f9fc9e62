"""Runs of the built-in agent: sessions, prompts, messages, credentials, remembered verdicts (A1, A7, A10, A11).

A migration is frozen: it repeats what the schema said on its day instead of importing it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id() -> sa.Column[int]:
    return sa.Column("id", ID, autoincrement=True, nullable=False)


def _ref(table: str, name: str, target: str) -> list[sa.schema.SchemaItem]:
    key = sa.ForeignKeyConstraint([name], [f"{target}.id"], name=op.f(f"fk_{table}_{name}"))
    return [sa.Column(name, ID, nullable=False), key]


def _ms(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def upgrade() -> None:
    """Add the five tables."""
    table = "ai_agent_sessions"
    op.create_table(
        table,
        _id(),
        *_ref(table, "workspace_id", "workspaces"),
        *_ref(table, "project_id", "projects"),
        *_ref(table, "user_id", "users"),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("focus", sa.JSON, nullable=True),
        _ms("created_at_ms"),
        _ms("updated_at_ms"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_ai_agent_sessions_project_id"), table, ["project_id"])
    table = "ai_agent_prompts"
    op.create_table(
        table,
        sa.Column("run_id", ID, autoincrement=False, nullable=False),
        *_ref(table, "session_id", "ai_agent_sessions"),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("model", sa.JSON, nullable=False),
        sa.Column("focus", sa.JSON, nullable=True),
        sa.Column("retry_of", ID, nullable=True),
        _ms("heartbeat_at"),
        sa.ForeignKeyConstraint(["run_id"], ["ai_agent_runs.id"], name=op.f("fk_ai_agent_prompts_run_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f(f"pk_{table}")),
    )
    op.create_index(op.f("ix_ai_agent_prompts_session_id"), table, ["session_id"])
    table = "ai_agent_messages"
    op.create_table(
        table,
        _id(),
        *_ref(table, "session_id", "ai_agent_sessions"),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("message", sa.JSON, nullable=False),
        _ms("created_at_ms"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("run_id", "position", name=op.f("uq_ai_agent_messages_run_id_position")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_ai_agent_messages_session", table, ["session_id", "run_id", "position"])
    table = "ai_model_credentials"
    op.create_table(
        table,
        _id(),
        *_ref(table, "user_id", "users"),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("base_url", sa.Text, nullable=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        _ms("created_at_ms"),
        sa.CheckConstraint("provider IN ('openai', 'anthropic')", name=op.f("ck_ai_model_credentials_provider")),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_ai_model_credentials_user_id_name")),
        sqlite_autoincrement=True,
    )
    table = "ai_page_verdicts"
    op.create_table(
        table,
        _id(),
        *_ref(table, "project_id", "projects"),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("result", sa.JSON, nullable=False),
        _ms("created_at_ms"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("project_id", "digest", name=op.f("uq_ai_page_verdicts_project_id_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_ai_page_verdicts_age", table, ["created_at_ms"])
