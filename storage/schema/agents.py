"""Runs of agents and the resume control plane: events, tool calls, external tasks and batches (A1-A4, A7)."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from pagegate.storage.schema.columns import (
    Id,
    Json,
    Ms,
    counter,
    created_at,
    index_of_live,
    index_where,
    metadata,
    numbered_table,
    one_of,
    ref,
    sql_list,
    state_columns,
)
from pagegate.storage.transitions import EXTERNAL_BATCH, EXTERNAL_TASK, RUN

ai_agent_runs = numbered_table(
    "ai_agent_runs",
    ref("workspace_id", "workspaces"),
    ref("project_id", "projects", index=True),
    ref("user_id", "users"),
    Column("source", Text, nullable=False),
    one_of("source", ("api", "agent")),
    *state_columns("status", RUN),
    Column("idempotency_key", Text),
    Column("request_digest", Text),
    Column("process_owner", Text),  # hostname:pid:uuid (A7)
    counter("run_step"),
    counter("last_event_index"),
    Column("cancel_requested_at", Ms),
    Column("skip_visual_verification", Boolean, nullable=False, server_default=false()),
    Column("result", Json),
    Column("error", Json),
    created_at(),
    Column("started_at_ms", Ms),
    Column("finished_at_ms", Ms),
    UniqueConstraint("user_id", "idempotency_key"),
    CheckConstraint(f"(status IN ({sql_list(RUN.terminal)})) = (finished_at_ms IS NOT NULL)", name="finished"),
    index_where("ix_ai_agent_runs_ended", "finished_at_ms IS NOT NULL", "finished_at_ms", "id"),  # pruned from here
)

# A7. Numbered from 1 without a gap: the number comes from ai_agent_runs.last_event_index in the same transaction.
ai_agent_run_events = Table(
    "ai_agent_run_events",
    metadata,
    ref("run_id", "ai_agent_runs"),
    Column("event_index", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", Json, nullable=False),
    Column("at_ms", Ms, nullable=False),
    PrimaryKeyConstraint("run_id", "event_index"),
)

# The page source is stored once, here, in `arguments` (A2). `call_id` is the client's or the model's.
ai_agent_tool_calls = numbered_table(
    "ai_agent_tool_calls",
    ref("run_id", "ai_agent_runs"),
    Column("run_step", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool_name", Text, nullable=False),
    Column("arguments", Json, nullable=False),
    *state_columns("status", EXTERNAL_TASK),
    Column("result", Json),  # of a call that is no external task; theirs is in the task
    created_at(),
    UniqueConstraint("run_id", "run_step", "position"),
    UniqueConstraint("run_id", "call_id"),
)

ai_agent_external_batches = numbered_table(
    "ai_agent_external_batches",
    ref("run_id", "ai_agent_runs"),
    Column("run_step", Integer, nullable=False),
    *state_columns("state", EXTERNAL_BATCH),
    Column("worker_id", Text),
    counter("lease_generation"),
    Column("lease_expires_at", Ms),
    Column("heartbeat_at", Ms),
    created_at(),
    Column("completed_at_ms", Ms),
    UniqueConstraint("run_id", "run_step"),
    CheckConstraint("state <> 'resuming' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)", name="leased"),
    CheckConstraint("(state = 'completed') = (completed_at_ms IS NOT NULL)", name="completed"),
    index_of_live("ai_agent_external_batches", "completed_at_ms", "id"),
)

ai_agent_external_tasks = numbered_table(
    "ai_agent_external_tasks",
    ref("batch_id", "ai_agent_external_batches", index=True),
    Column("tool_call_id", Id, ForeignKey("ai_agent_tool_calls.id"), nullable=False, unique=True),
    Column("job_kind", Text),  # NULL with job_id: refused at the door, there is no job
    Column("job_id", Id),
    *state_columns("state", EXTERNAL_TASK),
    Column("result", Json),
    created_at(),
    Column("finished_at_ms", Ms),
    UniqueConstraint("job_kind", "job_id"),
    CheckConstraint("(state = 'pending') = (finished_at_ms IS NULL)", name="finished"),
)
