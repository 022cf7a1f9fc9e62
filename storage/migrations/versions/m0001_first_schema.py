"""The first schema: people, projects, runs, jobs, external tasks, renders.

A migration is frozen: it repeats what `schema.py` and `transitions.py` said on its day instead of importing them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True)

REFUSE_MOVE = """CREATE OR REPLACE FUNCTION pagegate_refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused state change in %', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END
$$"""

# table: (its state column, the changes of state that are let through)
MOVES = {
    "ai_agent_runs": (
        "status",
        [
            ("queued", "running"),
            ("queued", "waiting_external"),
            ("running", "waiting_external"),
            ("waiting_external", "running"),
            ("running", "succeeded"),
            ("waiting_external", "succeeded"),
            ("queued", "failed"),
            ("running", "failed"),
            ("waiting_external", "failed"),
            ("queued", "cancelled"),
            ("running", "cancelled"),
            ("waiting_external", "cancelled"),
        ],
    ),
    "ai_agent_tool_calls": (
        "status",
        [
            ("pending", "succeeded"),
            ("pending", "failed"),
            ("pending", "cancelled"),
            ("pending", "skipped"),
            ("pending", "refused"),
        ],
    ),
    "ai_agent_external_batches": (
        "state",
        [
            ("waiting", "ready"),
            ("ready", "resuming"),
            ("resuming", "ready"),
            ("resuming", "completed"),
            ("waiting", "completed"),
            ("ready", "completed"),
        ],
    ),
    "ai_agent_external_tasks": (
        "state",
        [
            ("pending", "succeeded"),
            ("pending", "failed"),
            ("pending", "cancelled"),
            ("pending", "skipped"),
            ("pending", "refused"),
        ],
    ),
    "ai_page_mutation_jobs": (
        "status",
        [
            ("pending", "running"),
            ("pending", "cancelled"),
            ("running", "succeeded"),
            ("running", "failed"),
            ("running", "cancelled"),
            ("running", "skipped"),
            ("running", "pending"),
        ],
    ),
    "render_requests": (
        "status",
        [
            ("pending", "running"),
            ("running", "succeeded"),
            ("running", "failed"),
            ("running", "pending"),
            ("pending", "failed"),
            ("pending", "cancelled"),
            ("running", "cancelled"),
        ],
    ),
    "render_attempts": (
        "status",
        [
            ("running", "succeeded"),
            ("running", "failed"),
            ("running", "busy"),
            ("running", "lapsed"),
            ("running", "cancelled"),
        ],
    ),
}


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "users",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("is_admin", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("disabled_at_ms", sa.BigInteger, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "workspaces",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workspaces")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "members",
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.CheckConstraint("role IN ('owner', 'editor', 'viewer')", name=op.f("ck_members_role")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_members_user_id")),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_members_workspace_id")),
        sa.PrimaryKeyConstraint("workspace_id", "user_id", name=op.f("pk_members")),
    )
    op.create_index(op.f("ix_members_user_id"), "members", ["user_id"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("canvas_width_px", sa.Integer, nullable=False),
        sa.Column("canvas_height_px", sa.Integer, nullable=True),
        sa.Column("theme", JSON, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_projects_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_projects_workspace_id"), "projects", ["workspace_id"], unique=False)
    op.create_table(
        "render_requests",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("klass", sa.Text, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("job_kind", sa.Text, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("job_attempt", sa.Integer, nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("status", sa.Text, server_default="pending", nullable=False),
        sa.Column("attempt", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("busy_returns", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("available_at", sa.BigInteger, nullable=False),
        sa.Column("first_dispatched_at", sa.BigInteger, nullable=True),
        sa.Column("deadline_at", sa.BigInteger, nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("result", JSON, nullable=True),
        sa.Column("picture_key", sa.Text, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger, nullable=True),
        sa.CheckConstraint(
            "(status IN ('succeeded', 'failed', 'cancelled')) = (finished_at_ms IS NOT NULL)",
            name=op.f("ck_render_requests_finished"),
        ),
        sa.CheckConstraint("klass IN ('interactive', 'background')", name=op.f("ck_render_requests_klass")),
        sa.CheckConstraint(
            "status IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_render_requests_status"),
        ),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_render_requests_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_render_requests")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_render_requests_job", "render_requests", ["job_kind", "job_id"], unique=False)
    op.create_index(
        "ix_render_requests_live",
        "render_requests",
        ["status", "klass", "id"],
        unique=False,
        sqlite_where=sa.text("finished_at_ms IS NULL"),
        postgresql_where=sa.text("finished_at_ms IS NULL"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("last_used_at_ms", sa.BigInteger, nullable=True),
        sa.Column("revoked_at_ms", sa.BigInteger, nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_tokens_user_id"), "tokens", ["user_id"], unique=False)
    op.create_table(
        "ai_agent_runs",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("status", sa.Text, server_default="queued", nullable=False),
        sa.Column("idempotency_key", sa.Text, nullable=True),
        sa.Column("request_digest", sa.Text, nullable=True),
        sa.Column("process_owner", sa.Text, nullable=True),
        sa.Column("run_step", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("last_event_index", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("cancel_requested_at", sa.BigInteger, nullable=True),
        sa.Column("skip_visual_verification", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("result", JSON, nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("started_at_ms", sa.BigInteger, nullable=True),
        sa.Column("finished_at_ms", sa.BigInteger, nullable=True),
        sa.CheckConstraint(
            "(status IN ('succeeded', 'failed', 'cancelled')) = (finished_at_ms IS NOT NULL)",
            name=op.f("ck_ai_agent_runs_finished"),
        ),
        sa.CheckConstraint("source IN ('api', 'agent')", name=op.f("ck_ai_agent_runs_source")),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'waiting_external', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_ai_agent_runs_status"),
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_ai_agent_runs_project_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_ai_agent_runs_user_id")),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_ai_agent_runs_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ai_agent_runs")),
        sa.UniqueConstraint("user_id", "idempotency_key", name=op.f("uq_ai_agent_runs_user_id_idempotency_key")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_ai_agent_runs_project_id"), "ai_agent_runs", ["project_id"], unique=False)
    op.create_table(
        "assets",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("current_version_number", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_assets_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assets")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_assets_project_id_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "components",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("current_version_number", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_components_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_components")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_components_project_id_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "pages",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("speaker_notes", sa.Text, server_default="", nullable=False),
        sa.Column("framework", sa.Text, nullable=False),
        sa.Column("canvas_width_px", sa.Integer, nullable=True),
        sa.Column("canvas_height_px", sa.Integer, nullable=True),
        sa.Column("current_version_number", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.CheckConstraint("framework IN ('vue', 'react')", name=op.f("ck_pages_framework")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_pages_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pages")),
        sa.UniqueConstraint("project_id", "code", name=op.f("uq_pages_project_id_code")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "render_attempts",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("worker_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("status", sa.Text, server_default="running", nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=False),
        sa.Column("released_at", sa.BigInteger, nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.CheckConstraint("(status = 'running') = (released_at IS NULL)", name=op.f("ck_render_attempts_released")),
        sa.CheckConstraint(
            "status IN ('running', 'succeeded', 'failed', 'busy', 'lapsed', 'cancelled')",
            name=op.f("ck_render_attempts_status"),
        ),
        sa.ForeignKeyConstraint(["request_id"], ["render_requests.id"], name=op.f("fk_render_attempts_request_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_render_attempts")),
        sa.UniqueConstraint("request_id", "number", name=op.f("uq_render_attempts_request_id_number")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_render_attempts_request_slot",
        "render_attempts",
        ["request_id"],
        unique=True,
        sqlite_where=sa.text("released_at IS NULL"),
        postgresql_where=sa.text("released_at IS NULL"),
    )
    op.create_index(
        "uq_render_attempts_worker_slot",
        "render_attempts",
        ["worker_id"],
        unique=True,
        sqlite_where=sa.text("released_at IS NULL"),
        postgresql_where=sa.text("released_at IS NULL"),
    )
    op.create_table(
        "ai_agent_external_batches",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("run_step", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, server_default="waiting", nullable=False),
        sa.Column("worker_id", sa.Text, nullable=True),
        sa.Column("lease_generation", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger, nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("completed_at_ms", sa.BigInteger, nullable=True),
        sa.CheckConstraint(
            "(state = 'completed') = (completed_at_ms IS NOT NULL)", name=op.f("ck_ai_agent_external_batches_completed")
        ),
        sa.CheckConstraint(
            "state <> 'resuming' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)",
            name=op.f("ck_ai_agent_external_batches_leased"),
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'ready', 'resuming', 'completed')", name=op.f("ck_ai_agent_external_batches_state")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["ai_agent_runs.id"], name=op.f("fk_ai_agent_external_batches_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ai_agent_external_batches")),
        sa.UniqueConstraint("run_id", "run_step", name=op.f("uq_ai_agent_external_batches_run_id_run_step")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_ai_agent_external_batches_live",
        "ai_agent_external_batches",
        ["id"],
        unique=False,
        sqlite_where=sa.text("completed_at_ms IS NULL"),
        postgresql_where=sa.text("completed_at_ms IS NULL"),
    )
    op.create_table(
        "ai_agent_run_events",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("event_index", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", JSON, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["ai_agent_runs.id"], name=op.f("fk_ai_agent_run_events_run_id")),
        sa.PrimaryKeyConstraint("run_id", "event_index", name=op.f("pk_ai_agent_run_events")),
    )
    op.create_table(
        "ai_agent_tool_calls",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("run_step", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("tool_name", sa.Text, nullable=False),
        sa.Column("arguments", JSON, nullable=False),
        sa.Column("status", sa.Text, server_default="pending", nullable=False),
        sa.Column("result", JSON, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'succeeded', 'failed', 'cancelled', 'skipped', 'refused')",
            name=op.f("ck_ai_agent_tool_calls_status"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["ai_agent_runs.id"], name=op.f("fk_ai_agent_tool_calls_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ai_agent_tool_calls")),
        sa.UniqueConstraint("run_id", "call_id", name=op.f("uq_ai_agent_tool_calls_run_id_call_id")),
        sa.UniqueConstraint(
            "run_id", "run_step", "position", name=op.f("uq_ai_agent_tool_calls_run_id_run_step_position")
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "ai_page_mutation_batches",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("run_step", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["ai_agent_runs.id"], name=op.f("fk_ai_page_mutation_batches_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ai_page_mutation_batches")),
        sa.UniqueConstraint("run_id", "run_step", name=op.f("uq_ai_page_mutation_batches_run_id_run_step")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "asset_versions",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("asset_id", ID, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("object_key", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("width_px", sa.Integer, nullable=True),
        sa.Column("height_px", sa.Integer, nullable=True),
        sa.Column("created_by", ID, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["assets.id"], name=op.f("fk_asset_versions_asset_id")),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name=op.f("fk_asset_versions_created_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asset_versions")),
        sa.UniqueConstraint("asset_id", "number", name=op.f("uq_asset_versions_asset_id_number")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "component_versions",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("component_id", ID, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("created_by", ID, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["component_id"], ["components.id"], name=op.f("fk_component_versions_component_id")),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name=op.f("fk_component_versions_created_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_component_versions")),
        sa.UniqueConstraint("component_id", "number", name=op.f("uq_component_versions_component_id_number")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "page_versions",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("page_id", ID, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("speaker_notes", sa.Text, server_default="", nullable=False),
        sa.Column("component_pins", JSON, nullable=False),
        sa.Column("verdict", JSON, nullable=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("picture_key", sa.Text, nullable=True),
        sa.Column("job_id", ID, nullable=True),
        sa.Column("created_by", ID, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.CheckConstraint(
            "status IN ('passed', 'warning', 'failed', 'unavailable')", name=op.f("ck_page_versions_status")
        ),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name=op.f("fk_page_versions_created_by")),
        sa.ForeignKeyConstraint(["page_id"], ["pages.id"], name=op.f("fk_page_versions_page_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_page_versions")),
        sa.UniqueConstraint("job_id", name=op.f("uq_page_versions_job_id")),
        sa.UniqueConstraint("page_id", "number", name=op.f("uq_page_versions_page_id_number")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "ai_agent_external_tasks",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("batch_id", ID, nullable=False),
        sa.Column("tool_call_id", ID, nullable=False),
        sa.Column("job_kind", sa.Text, nullable=True),
        sa.Column("job_id", ID, nullable=True),
        sa.Column("state", sa.Text, server_default="pending", nullable=False),
        sa.Column("result", JSON, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger, nullable=True),
        sa.CheckConstraint(
            "(state = 'pending') = (finished_at_ms IS NULL)", name=op.f("ck_ai_agent_external_tasks_finished")
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'succeeded', 'failed', 'cancelled', 'skipped', 'refused')",
            name=op.f("ck_ai_agent_external_tasks_state"),
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["ai_agent_external_batches.id"], name=op.f("fk_ai_agent_external_tasks_batch_id")
        ),
        sa.ForeignKeyConstraint(
            ["tool_call_id"], ["ai_agent_tool_calls.id"], name=op.f("fk_ai_agent_external_tasks_tool_call_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ai_agent_external_tasks")),
        sa.UniqueConstraint("job_kind", "job_id", name=op.f("uq_ai_agent_external_tasks_job_kind_job_id")),
        sa.UniqueConstraint("tool_call_id", name=op.f("uq_ai_agent_external_tasks_tool_call_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_ai_agent_external_tasks_batch_id"), "ai_agent_external_tasks", ["batch_id"], unique=False)
    op.create_table(
        "ai_page_mutation_jobs",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("priority", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("status", sa.Text, server_default="pending", nullable=False),
        sa.Column("attempt", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("worker_id", sa.Text, nullable=True),
        sa.Column("lease_expires_at", sa.BigInteger, nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=True),
        sa.Column("available_at", sa.BigInteger, nullable=False),
        sa.Column("deadline_at", sa.BigInteger, nullable=True),
        sa.Column("infra_failures", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("lease_losses", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("cancel_requested_at", sa.BigInteger, nullable=True),
        sa.Column("retry_of", ID, nullable=True),
        sa.Column("error_code", sa.Text, nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("result", JSON, nullable=True),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("started_at_ms", sa.BigInteger, nullable=True),
        sa.Column("finished_at_ms", sa.BigInteger, nullable=True),
        sa.Column("batch_id", ID, nullable=False),
        sa.Column("tool_call_id", ID, nullable=False),
        sa.Column("page_code", sa.Text, nullable=False),
        sa.Column("candidate_code", sa.Text, nullable=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "(status IN ('cancelled', 'succeeded', 'failed', 'skipped')) = (finished_at_ms IS NOT NULL)",
            name=op.f("ck_ai_page_mutation_jobs_finished"),
        ),
        sa.CheckConstraint(
            "status <> 'running' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)",
            name=op.f("ck_ai_page_mutation_jobs_leased"),
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'running', 'cancelled', 'succeeded', 'failed', 'skipped')",
            name=op.f("ck_ai_page_mutation_jobs_status"),
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["ai_page_mutation_batches.id"], name=op.f("fk_ai_page_mutation_jobs_batch_id")
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_ai_page_mutation_jobs_project_id")),
        sa.ForeignKeyConstraint(
            ["retry_of"], ["ai_page_mutation_jobs.id"], name=op.f("fk_ai_page_mutation_jobs_retry_of")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["ai_agent_runs.id"], name=op.f("fk_ai_page_mutation_jobs_run_id")),
        sa.ForeignKeyConstraint(
            ["tool_call_id"], ["ai_agent_tool_calls.id"], name=op.f("fk_ai_page_mutation_jobs_tool_call_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_ai_page_mutation_jobs_user_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_ai_page_mutation_jobs_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ai_page_mutation_jobs")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_ai_page_mutation_jobs_live",
        "ai_page_mutation_jobs",
        ["status", "priority", "id"],
        unique=False,
        sqlite_where=sa.text("finished_at_ms IS NULL"),
        postgresql_where=sa.text("finished_at_ms IS NULL"),
    )
    op.create_index(
        "ix_ai_page_mutation_jobs_order", "ai_page_mutation_jobs", ["batch_id", "page_code", "position"], unique=False
    )
    op.create_index(op.f("ix_ai_page_mutation_jobs_run_id"), "ai_page_mutation_jobs", ["run_id"], unique=False)
    op.create_index(
        op.f("ix_ai_page_mutation_jobs_tool_call_id"), "ai_page_mutation_jobs", ["tool_call_id"], unique=False
    )
    if op.get_context().dialect.name == "postgresql":
        op.execute(REFUSE_MOVE)
    for table, (column, pairs) in MOVES.items():
        allowed = " OR ".join(f"(OLD.{column} = '{a}' AND NEW.{column} = '{b}')" for a, b in pairs)
        when = f"OLD.{column} <> NEW.{column} AND NOT ({allowed})"
        trigger = f"CREATE TRIGGER tr_{table}_moves BEFORE UPDATE OF {column} ON {table}"
        if op.get_context().dialect.name == "sqlite":
            refuse = f"SELECT RAISE(ABORT, 'refused state change in {table}')"
            op.execute(f"{trigger} WHEN {when}\nBEGIN {refuse}; END")
        else:
            op.execute(f"{trigger}\nFOR EACH ROW WHEN ({when}) EXECUTE FUNCTION pagegate_refuse_move()")
