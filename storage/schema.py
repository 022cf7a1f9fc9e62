"""The tables, for both databases.

Owns names, types and the invariants that the database itself keeps: uniqueness, foreign keys, states (CHECK and
trigger, derived from `transitions.py`), and that a running row has an owner and a lease. Statements live in one file
per noun; changes to an installed database live in `migrations/`, and a test holds both to the same result.

Conventions: `id` counts up and is never used again; times are integers, ms UTC (Q6), named `…_at_ms`, or as the
specification names them (`lease_expires_at`, `heartbeat_at`, `available_at`, `deadline_at`, `released_at`,
`cancel_requested_at`); JSON is plain JSON text, kept byte for byte, and `None` is SQL NULL.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.schema import SchemaItem

from pagegate.storage.guards import guard
from pagegate.storage.transitions import (
    EXTERNAL_BATCH,
    EXTERNAL_TASK,
    JOB,
    RENDER_ATTEMPT,
    RENDER_REQUEST,
    RUN,
    Machine,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts ids up only in a column of exactly the type INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")
Ms = BigInteger()
Json = JSON(none_as_null=True)


def _id() -> Column[int]:
    return Column("id", Id, primary_key=True, autoincrement=True)


def _ref(name: str, target: str, *, nullable: bool = False, index: bool = False) -> Column[int]:
    return Column(name, Id, ForeignKey(f"{target}.id"), nullable=nullable, index=index)


def _created() -> Column[int]:
    return Column("created_at_ms", Ms, nullable=False)


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text("0"))


def _one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({_sql_list(values)})", name=column)


def _state(column: str, machine: Machine) -> tuple[Column[str], CheckConstraint]:
    return Column(column, Text, nullable=False, server_default=machine.initial), _one_of(column, machine.states)


def _sql_list(values: tuple[str, ...]) -> str:
    return ", ".join(repr(value) for value in values)


def _index_of_live(table: str, ended: str, *columns: str) -> Index:
    """An index of the rows that have not ended: small for ever, however old the database.

    It hangs on `IS NULL` and not on states: a statement's states are parameters, and neither database can see from a
    parameter that an index on some states would do. So a statement that wants it says `live`.
    """
    unended = text(f"{ended} IS NULL")
    return Index(f"ix_{table}_live", *columns, sqlite_where=unended, postgresql_where=unended)


def _index_where(name: str, condition: str, *columns: str, unique: bool = False) -> Index:
    only = text(condition)
    return Index(name, *columns, unique=unique, sqlite_where=only, postgresql_where=only)


def live(table: FromClause) -> ColumnElement[bool]:
    """The row has not ended. CHECK constraints hold this to the same as its state being a live one."""
    ended = table.c.finished_at_ms if "finished_at_ms" in table.c else table.c.completed_at_ms
    return ended.is_(None)


def _table(name: str, *parts: SchemaItem) -> Table:
    # sqlite_autoincrement: an id of a deleted row is never given to another one.
    return Table(name, metadata, _id(), *parts, sqlite_autoincrement=True)


# --- people ---------------------------------------------------------------------------------------------------------

users = _table(
    "users",
    Column("name", Text, nullable=False, unique=True),
    Column("is_admin", Boolean, nullable=False, server_default=false()),
    Column("disabled_at_ms", Ms),
    _created(),
)

# A token is shown once; only its digest is kept (O8).
tokens = _table(
    "tokens",
    _ref("user_id", "users", index=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    _created(),
    Column("last_used_at_ms", Ms),
    Column("revoked_at_ms", Ms),
)

workspaces = _table("workspaces", Column("name", Text, nullable=False), _created())

members = Table(
    "members",
    metadata,
    _ref("workspace_id", "workspaces"),
    _ref("user_id", "users", index=True),
    Column("role", Text, nullable=False),
    _one_of("role", ("owner", "editor", "viewer")),
    _created(),
    PrimaryKeyConstraint("workspace_id", "user_id"),
)

# --- what is written ------------------------------------------------------------------------------------------------

projects = _table(
    "projects",
    _ref("workspace_id", "workspaces", index=True),
    Column("name", Text, nullable=False),
    Column("canvas_width_px", Integer, nullable=False),
    Column("canvas_height_px", Integer),  # NULL: each page decides its own height
    Column("theme", Json),
    _created(),
)

# `current_version_number` names a row of page_versions; 0 before the first. A save is a compare-and-swap on it, so a
# stale base is refused by the database (D2, Q7). A deleted page keeps its code: it can be brought back.
pages = _table(
    "pages",
    _ref("project_id", "projects"),
    Column("code", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("speaker_notes", Text, nullable=False, server_default=""),
    Column("framework", Text, nullable=False),
    _one_of("framework", ("vue", "react")),
    Column("canvas_width_px", Integer),  # NULL: the project's canvas
    Column("canvas_height_px", Integer),  # with a width, NULL: the page decides its own height
    _count("current_version_number"),
    Column("deleted_at_ms", Ms),
    _created(),
    Column("updated_at_ms", Ms, nullable=False),
    UniqueConstraint("project_id", "code"),
)

# Immutable (D2). `component_pins`: component name -> component_versions.id it was checked with (D4). `job_id` is the
# ai_page_mutation_jobs row that wrote it; unique, so a job writes at most one version, whatever happens.
page_versions = _table(
    "page_versions",
    _ref("page_id", "pages"),
    Column("number", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("speaker_notes", Text, nullable=False, server_default=""),
    Column("component_pins", Json, nullable=False),
    Column("verdict", Json),
    Column("status", Text, nullable=False),
    _one_of("status", ("passed", "warning", "failed", "unavailable")),
    Column("picture_key", Text),
    Column("job_id", Id, unique=True),
    _ref("created_by", "users"),
    _created(),
    UniqueConstraint("page_id", "number"),
)

# `name` is the file behind `@components/`, with its ending: `StatTile.vue` and `StatTile.tsx` are two components.
components = _table(
    "components",
    _ref("project_id", "projects"),
    Column("name", Text, nullable=False),
    _count("current_version_number"),
    Column("deleted_at_ms", Ms),
    _created(),
    UniqueConstraint("project_id", "name"),
)

component_versions = _table(
    "component_versions",
    _ref("component_id", "components"),
    Column("number", Integer, nullable=False),
    Column("source", Text, nullable=False),
    _ref("created_by", "users"),
    _created(),
    UniqueConstraint("component_id", "number"),
)

# `name` is the file behind `@assets/`.
assets = _table(
    "assets",
    _ref("project_id", "projects"),
    Column("name", Text, nullable=False),
    _count("current_version_number"),
    Column("deleted_at_ms", Ms),
    _created(),
    UniqueConstraint("project_id", "name"),
)

asset_versions = _table(
    "asset_versions",
    _ref("asset_id", "assets"),
    Column("number", Integer, nullable=False),
    Column("object_key", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("width_px", Integer),
    Column("height_px", Integer),
    _ref("created_by", "users"),
    _created(),
    UniqueConstraint("asset_id", "number"),
)

# --- runs -----------------------------------------------------------------------------------------------------------

ai_agent_runs = _table(
    "ai_agent_runs",
    _ref("workspace_id", "workspaces"),
    _ref("project_id", "projects", index=True),
    _ref("user_id", "users"),
    Column("source", Text, nullable=False),
    _one_of("source", ("api", "agent")),
    *_state("status", RUN),
    Column("idempotency_key", Text),
    Column("request_digest", Text),
    Column("process_owner", Text),  # hostname:pid:uuid (A7)
    _count("run_step"),
    _count("last_event_index"),
    Column("cancel_requested_at", Ms),
    Column("skip_visual_verification", Boolean, nullable=False, server_default=false()),
    Column("result", Json),
    Column("error", Json),
    _created(),
    Column("started_at_ms", Ms),
    Column("finished_at_ms", Ms),
    UniqueConstraint("user_id", "idempotency_key"),
    CheckConstraint(f"(status IN ({_sql_list(RUN.terminal)})) = (finished_at_ms IS NOT NULL)", name="finished"),
    _index_where("ix_ai_agent_runs_ended", "finished_at_ms IS NOT NULL", "finished_at_ms", "id"),  # pruned from here
)

# A7. Numbered from 1 without a gap: the number comes from ai_agent_runs.last_event_index in the same transaction.
ai_agent_run_events = Table(
    "ai_agent_run_events",
    metadata,
    _ref("run_id", "ai_agent_runs"),
    Column("event_index", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", Json, nullable=False),
    Column("at_ms", Ms, nullable=False),
    PrimaryKeyConstraint("run_id", "event_index"),
)

# The page source is stored once, here, in `arguments` (A2). `call_id` is the client's or the model's.
ai_agent_tool_calls = _table(
    "ai_agent_tool_calls",
    _ref("run_id", "ai_agent_runs"),
    Column("run_step", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool_name", Text, nullable=False),
    Column("arguments", Json, nullable=False),
    *_state("status", EXTERNAL_TASK),
    Column("result", Json),  # of a call that is no external task; theirs is in the task
    _created(),
    UniqueConstraint("run_id", "run_step", "position"),
    UniqueConstraint("run_id", "call_id"),
)

# --- external tasks: the resume control plane (A3, A4) --------------------------------------------------------------

ai_agent_external_batches = _table(
    "ai_agent_external_batches",
    _ref("run_id", "ai_agent_runs"),
    Column("run_step", Integer, nullable=False),
    *_state("state", EXTERNAL_BATCH),
    Column("worker_id", Text),
    _count("lease_generation"),
    Column("lease_expires_at", Ms),
    Column("heartbeat_at", Ms),
    _created(),
    Column("completed_at_ms", Ms),
    UniqueConstraint("run_id", "run_step"),
    CheckConstraint("state <> 'resuming' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)", name="leased"),
    CheckConstraint("(state = 'completed') = (completed_at_ms IS NOT NULL)", name="completed"),
    _index_of_live("ai_agent_external_batches", "completed_at_ms", "id"),
)

ai_agent_external_tasks = _table(
    "ai_agent_external_tasks",
    _ref("batch_id", "ai_agent_external_batches", index=True),
    Column("tool_call_id", Id, ForeignKey("ai_agent_tool_calls.id"), nullable=False, unique=True),
    Column("job_kind", Text),  # NULL with job_id: refused at the door, there is no job
    Column("job_id", Id),
    *_state("state", EXTERNAL_TASK),
    Column("result", Json),
    _created(),
    Column("finished_at_ms", Ms),
    UniqueConstraint("job_kind", "job_id"),
    CheckConstraint("(state = 'pending') = (finished_at_ms IS NULL)", name="finished"),
)

# --- durable jobs (Q1) ----------------------------------------------------------------------------------------------


def job_columns(table: str) -> list[SchemaItem]:
    """The columns, checks and indexes of every kind of job: one lease protocol serves them all (Q1-Q5).

    `attempt` is the fence: it counts claims and says nothing about failures. Budgets count apart from it:
    `infra_failures` and `lease_losses` (Q2). `available_at`: not before. `priority`: smaller goes first.
    """
    return [
        _ref("workspace_id", "workspaces"),
        _ref("project_id", "projects"),
        _ref("user_id", "users"),
        _ref("run_id", "ai_agent_runs", nullable=True, index=True),
        _count("priority"),
        *_state("status", JOB),
        _count("attempt"),
        Column("worker_id", Text),
        Column("lease_expires_at", Ms),
        Column("heartbeat_at", Ms),
        Column("available_at", Ms, nullable=False),
        Column("deadline_at", Ms),
        _count("infra_failures"),
        _count("lease_losses"),
        Column("cancel_requested_at", Ms),
        _ref("retry_of", table, nullable=True),
        Column("error_code", Text),
        Column("error", Json),
        Column("result", Json),
        _created(),
        Column("started_at_ms", Ms),
        Column("finished_at_ms", Ms),
        CheckConstraint(
            "status <> 'running' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)", name="leased"
        ),
        CheckConstraint(f"(status IN ({_sql_list(JOB.terminal)})) = (finished_at_ms IS NOT NULL)", name="finished"),
        _index_of_live(table, "finished_at_ms", "status", "priority", "id"),
        _index_where(f"uq_{table}_retry", "retry_of IS NOT NULL", "retry_of", unique=True),  # a job is retried once
        Index(f"ix_{table}_workspace", "workspace_id", "id"),
        _index_where(f"ix_{table}_failed", "status = 'failed'", "id"),  # rare, and what an operator looks for
        _index_where(f"ix_{table}_loose", "run_id IS NULL", "finished_at_ms"),  # pruned by themselves
    ]


# The calls of one model step. It groups, and nothing else (A2).
ai_page_mutation_batches = _table(
    "ai_page_mutation_batches",
    _ref("run_id", "ai_agent_runs"),
    Column("run_step", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    _created(),
    UniqueConstraint("run_id", "run_step"),
)

# `page_code` is the page that the job is about, and orders the jobs of a batch by `position` (A2). `candidate_code` is
# the code that a new page will get, fixed at enqueue (S4); NULL for an edit.
ai_page_mutation_jobs = _table(
    "ai_page_mutation_jobs",
    *job_columns("ai_page_mutation_jobs"),
    _ref("batch_id", "ai_page_mutation_batches"),
    _ref("tool_call_id", "ai_agent_tool_calls", index=True),
    Column("page_code", Text, nullable=False),
    Column("candidate_code", Text),
    Column("position", Integer, nullable=False),
    Index("ix_ai_page_mutation_jobs_order", "batch_id", "page_code", "position"),
)

# A kind of job is called by the name of its table (Q1).
JOB_KINDS = ("ai_page_mutation_jobs",)

# One row a kind, made when there is something to remember (Q11). `rescues` only grows.
lanes = Table(
    "lanes",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("paused_at_ms", Ms),
    _ref("paused_by", "users", nullable=True),
    Column("rescues", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("(paused_at_ms IS NULL) = (paused_by IS NULL)", name="paused"),
)

# --- renders (R2, R3) -----------------------------------------------------------------------------------------------

# `attempt` is the fence and the number of the newest attempt; `attempt - busy_returns` is what RENDER_MAX_ATTEMPTS
# counts, since a worker that answers busy is no attempt. `job_attempt` is the fence of the job that asked.
render_requests = _table(
    "render_requests",
    _ref("workspace_id", "workspaces"),
    Column("klass", Text, nullable=False),
    _one_of("klass", ("interactive", "background")),
    Column("operation", Text, nullable=False),
    Column("job_kind", Text, nullable=False),
    Column("job_id", Id, nullable=False),
    Column("job_attempt", Integer, nullable=False),
    Column("payload", Json, nullable=False),
    *_state("status", RENDER_REQUEST),
    _count("attempt"),
    _count("busy_returns"),
    Column("available_at", Ms, nullable=False),
    Column("first_dispatched_at", Ms),
    Column("deadline_at", Ms),
    Column("error", Json),
    Column("result", Json),
    Column("picture_key", Text),
    _created(),
    Column("finished_at_ms", Ms),
    CheckConstraint(
        f"(status IN ({_sql_list(RENDER_REQUEST.terminal)})) = (finished_at_ms IS NOT NULL)", name="finished"
    ),
    Index("ix_render_requests_job", "job_kind", "job_id"),
    _index_of_live("render_requests", "finished_at_ms", "status", "klass", "id"),
)

# One use of a Renderer's only slot, held while `released_at IS NULL`. `worker_id` is the Renderer; `owner` is the
# Backend process that drives it and holds the lease.
_unreleased = text("released_at IS NULL")
render_attempts = _table(
    "render_attempts",
    _ref("request_id", "render_requests"),
    Column("number", Integer, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    *_state("status", RENDER_ATTEMPT),
    Column("lease_expires_at", Ms, nullable=False),
    Column("heartbeat_at", Ms, nullable=False),
    Column("released_at", Ms),
    Column("error", Json),
    _created(),
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

# --- no move that is not in the table of moves ----------------------------------------------------------------------

GUARDED: dict[str, tuple[str, Machine]] = {
    "ai_agent_runs": ("status", RUN),
    "ai_agent_tool_calls": ("status", EXTERNAL_TASK),
    "ai_agent_external_batches": ("state", EXTERNAL_BATCH),
    "ai_agent_external_tasks": ("state", EXTERNAL_TASK),
    **dict.fromkeys(JOB_KINDS, ("status", JOB)),
    "render_requests": ("status", RENDER_REQUEST),
    "render_attempts": ("status", RENDER_ATTEMPT),
}

guard(metadata, GUARDED)
