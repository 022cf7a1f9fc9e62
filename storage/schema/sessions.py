"""Runs of the built-in agent: sessions, what a run was asked for, its messages, credentials, remembered verdicts."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint, false

from pagegate.storage.schema.columns import Id, Json, Ms, created_at, metadata, numbered_table, one_of, ref

# `focus` is what the person looked at when the newest run began: {"pages": [{"code", "version"}]}.
ai_agent_sessions = numbered_table(
    "ai_agent_sessions",
    ref("workspace_id", "workspaces"),
    ref("project_id", "projects", index=True),
    ref("user_id", "users"),
    Column("title", Text, nullable=False),
    Column("focus", Json),
    created_at(),
    Column("updated_at_ms", Ms, nullable=False),
)

# One row for each run of `source=agent`. `model`: {"kind": "scripted"} or {"kind": "credential", "credential_id", …}.
# `heartbeat_at` is written by the process that executes the run; it says nothing while the run waits (A7).
ai_agent_prompts = Table(
    "ai_agent_prompts",
    metadata,
    Column("run_id", Id, ForeignKey("ai_agent_runs.id"), primary_key=True, autoincrement=False),
    ref("session_id", "ai_agent_sessions", index=True),
    Column("prompt", Text, nullable=False),
    Column("model", Json, nullable=False),
    Column("focus", Json),
    Column("retry_of", Id),  # a run; no foreign key, so that the older one can be pruned first
    Column("heartbeat_at", Ms, nullable=False),
)

# The history of a session, message by message, as Pydantic AI writes it. They outlive their run: a later run of the
# session needs them; they go with the session.
ai_agent_messages = numbered_table(
    "ai_agent_messages",
    ref("session_id", "ai_agent_sessions"),
    Column("run_id", Id, nullable=False),
    Column("position", Integer, nullable=False),
    Column("message", Json, nullable=False),
    created_at(),
    UniqueConstraint("run_id", "position"),
    Index("ix_ai_agent_messages_session", "session_id", "run_id", "position"),
)

# `secret` is a Fernet token (A10); nothing else of the key is kept, not even its end. `image_model` makes pictures with
# the same key; NULL: this credential makes none. `image_keys_honoured`: sent again with the same idempotency key, the
# provider answers with the picture it has already made instead of making and charging another.
ai_model_credentials = numbered_table(
    "ai_model_credentials",
    ref("user_id", "users"),
    Column("name", Text, nullable=False),
    Column("provider", Text, nullable=False),
    one_of("provider", ("openai", "anthropic")),
    Column("base_url", Text),
    Column("model", Text, nullable=False),
    Column("secret", Text, nullable=False),
    created_at(),
    Column("image_model", Text),
    Column("image_keys_honoured", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("user_id", "name"),
)

# A11: what the last check said of exactly this candidate. `digest` covers page, source, closure, Runtime build and
# render profile; only content verdicts that refused a page are kept.
ai_page_verdicts = numbered_table(
    "ai_page_verdicts",
    ref("project_id", "projects"),
    Column("digest", Text, nullable=False),
    Column("result", Json, nullable=False),
    created_at(),
    UniqueConstraint("project_id", "digest"),
    Index("ix_ai_page_verdicts_age", "created_at_ms"),
)
