"""Durable jobs, a table a kind (Q1), and what is known of each lane (Q11)."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, Table, Text, UniqueConstraint, text
from sqlalchemy.schema import SchemaItem

from pagegate.storage.schema.columns import (
    Json,
    Ms,
    counter,
    created_at,
    index_of_live,
    index_where,
    metadata,
    numbered_table,
    ref,
    sql_list,
    state_columns,
)
from pagegate.storage.transitions import JOB


def job_columns(table: str) -> list[SchemaItem]:
    """The columns, checks and indexes of every kind of job: one lease protocol serves them all (Q1-Q5).

    `attempt` is the fence: it counts claims and says nothing about failures. Budgets count apart from it:
    `infra_failures` and `lease_losses` (Q2). `available_at`: not before. `priority`: smaller goes first.
    """
    return [
        ref("workspace_id", "workspaces"),
        ref("project_id", "projects"),
        ref("user_id", "users"),
        ref("run_id", "ai_agent_runs", nullable=True, index=True),
        counter("priority"),
        *state_columns("status", JOB),
        counter("attempt"),
        Column("worker_id", Text),
        Column("lease_expires_at", Ms),
        Column("heartbeat_at", Ms),
        Column("available_at", Ms, nullable=False),
        Column("deadline_at", Ms),
        counter("infra_failures"),
        counter("lease_losses"),
        Column("cancel_requested_at", Ms),
        ref("retry_of", table, nullable=True),
        Column("error_code", Text),
        Column("error", Json),
        Column("result", Json),
        created_at(),
        Column("started_at_ms", Ms),
        Column("finished_at_ms", Ms),
        CheckConstraint(
            "status <> 'running' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)", name="leased"
        ),
        CheckConstraint(f"(status IN ({sql_list(JOB.terminal)})) = (finished_at_ms IS NOT NULL)", name="finished"),
        # By workspace, since turns are taken by workspace, whoever has how many waiting (V1).
        index_of_live(table, "finished_at_ms", "status", "workspace_id", "priority", "id"),
        index_where(f"uq_{table}_retry", "retry_of IS NOT NULL", "retry_of", unique=True),  # a job is retried once
        Index(f"ix_{table}_workspace", "workspace_id", "id"),
        index_where(f"ix_{table}_failed", "status = 'failed'", "id"),  # rare, and what an operator looks for
        index_where(f"ix_{table}_loose", "run_id IS NULL", "finished_at_ms"),  # pruned by themselves
    ]


# The calls of one model step. It groups, and nothing else (A2).
ai_page_mutation_batches = numbered_table(
    "ai_page_mutation_batches",
    ref("run_id", "ai_agent_runs"),
    Column("run_step", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    created_at(),
    UniqueConstraint("run_id", "run_step"),
)

# `page_code` is the page that the job is about, and orders the jobs of a batch by `position` (A2). `candidate_code` is
# the code that a new page will get, fixed at enqueue (S4); NULL for an edit.
ai_page_mutation_jobs = numbered_table(
    "ai_page_mutation_jobs",
    *job_columns("ai_page_mutation_jobs"),
    ref("batch_id", "ai_page_mutation_batches"),
    ref("tool_call_id", "ai_agent_tool_calls", index=True),
    Column("page_code", Text, nullable=False),
    Column("candidate_code", Text),
    Column("position", Integer, nullable=False),
    Index("ix_ai_page_mutation_jobs_order", "batch_id", "page_code", "position"),
)

# A kind of job is called by the name of its table (Q1).
JOB_KINDS = (
    "ai_page_mutation_jobs",
    "component_mutation_jobs",
    "image_generation_jobs",
    "page_screenshot_jobs",
    "project_build_jobs",
    "asset_ratio_backfill_jobs",
)

# One row a kind, made when there is something to remember (Q11). `rescues` only grows.
lanes = Table(
    "lanes",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("paused_at_ms", Ms),
    ref("paused_by", "users", nullable=True),
    Column("rescues", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("(paused_at_ms IS NULL) = (paused_by IS NULL)", name="paused"),
)
