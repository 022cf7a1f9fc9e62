"""Where a project's ended runs are told, and the one delivery of each run (A9)."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, PrimaryKeyConstraint, Table, Text

from pagegate.storage.schema.columns import (
    Id,
    Json,
    Ms,
    counter,
    created_at,
    index_of_live,
    metadata,
    numbered_table,
    ref,
    sql_list,
    state_columns,
)
from pagegate.storage.transitions import WEBHOOK_DELIVERY

project_webhooks = Table(
    "project_webhooks",
    metadata,
    ref("project_id", "projects"),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),  # ciphertext
    created_at(),
    PrimaryKeyConstraint("project_id"),
)

# `message_id` is what the receiver knows the delivery by: the same for every try.
webhook_deliveries = numbered_table(
    "webhook_deliveries",
    Column("run_id", Id, ForeignKey("ai_agent_runs.id"), nullable=False, unique=True),
    ref("project_id", "projects", index=True),
    Column("message_id", Text, nullable=False, unique=True),
    *state_columns("state", WEBHOOK_DELIVERY),
    counter("attempt"),
    Column("worker_id", Text),
    Column("lease_expires_at", Ms),
    Column("available_at", Ms, nullable=False),
    Column("last_status", Integer),  # of HTTP, of the newest try that was answered
    Column("error", Json),  # of the newest try that failed
    created_at(),
    Column("finished_at_ms", Ms),
    CheckConstraint("state <> 'delivering' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)", name="leased"),
    CheckConstraint(
        f"(state IN ({sql_list(WEBHOOK_DELIVERY.terminal)})) = (finished_at_ms IS NOT NULL)", name="finished"
    ),
    index_of_live("webhook_deliveries", "finished_at_ms", "available_at", "id"),
)
