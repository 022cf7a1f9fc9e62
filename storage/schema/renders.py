"""Requests for renders, and attempts at them (R2, R3)."""

from sqlalchemy import CheckConstraint, Column, Index, Integer, Text, UniqueConstraint, text

from pagegate.storage.schema.columns import (
    Id,
    Json,
    Ms,
    counter,
    created_at,
    index_of_live,
    numbered_table,
    one_of,
    ref,
    sql_list,
    state_columns,
)
from pagegate.storage.transitions import RENDER_ATTEMPT, RENDER_REQUEST

# `attempt` is the fence and the number of the newest attempt; `attempt - busy_returns` is what RENDER_MAX_ATTEMPTS
# counts, since a worker that answers busy is no attempt. `job_attempt` is the fence of the job that asked.
render_requests = numbered_table(
    "render_requests",
    ref("workspace_id", "workspaces"),
    Column("klass", Text, nullable=False),
    one_of("klass", ("interactive", "background")),
    Column("operation", Text, nullable=False),
    Column("job_kind", Text, nullable=False),
    Column("job_id", Id, nullable=False),
    Column("job_attempt", Integer, nullable=False),
    Column("payload", Json, nullable=False),
    *state_columns("status", RENDER_REQUEST),
    counter("attempt"),
    counter("busy_returns"),
    Column("available_at", Ms, nullable=False),
    Column("first_dispatched_at", Ms),
    Column("deadline_at", Ms),
    Column("error", Json),
    Column("result", Json),
    Column("picture_key", Text),
    created_at(),
    Column("finished_at_ms", Ms),
    CheckConstraint(
        f"(status IN ({sql_list(RENDER_REQUEST.terminal)})) = (finished_at_ms IS NOT NULL)", name="finished"
    ),
    Index("ix_render_requests_job", "job_kind", "job_id"),
    index_of_live("render_requests", "finished_at_ms", "status", "klass", "id"),
)

# One use of a Renderer's only slot, held while `released_at IS NULL`. `worker_id` is the Renderer; `owner` is the
# Backend process that drives it and holds the lease.
_unreleased = text("released_at IS NULL")
render_attempts = numbered_table(
    "render_attempts",
    ref("request_id", "render_requests"),
    Column("number", Integer, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    *state_columns("status", RENDER_ATTEMPT),
    Column("lease_expires_at", Ms, nullable=False),
    Column("heartbeat_at", Ms, nullable=False),
    Column("released_at", Ms),
    Column("error", Json),
    created_at(),
    UniqueConstraint("request_id", "number"),
    CheckConstraint("(status = 'running') = (released_at IS NULL)", name="released"),
    Index(
        "uq_render_attempts_worker_slot",
        "worker_id",
        unique=True,
        sqlite_where=_unreleased,
        postgresql_where=_unreleased,
    ),
    Index(
        "uq_render_attempts_request_slot",
        "request_id",
        unique=True,
        sqlite_where=_unreleased,
        postgresql_where=_unreleased,
    ),
)
