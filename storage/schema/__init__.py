"""The tables, for both databases.

Owns names, types and the invariants that the database itself keeps: uniqueness, foreign keys, states (CHECK and
trigger, derived from `transitions.py`), and that a running row has an owner and a lease. Statements live in one file
per noun; changes to an installed database live in `migrations/`, and a test holds both to the same result.
"""

from pagegate.storage.guards import guard
from pagegate.storage.schema.agents import (
    ai_agent_external_batches,
    ai_agent_external_tasks,
    ai_agent_run_events,
    ai_agent_runs,
    ai_agent_tool_calls,
)
from pagegate.storage.schema.asset_ratios import asset_ratio_backfill_jobs
from pagegate.storage.schema.builds import project_build_jobs, project_releases, project_sites
from pagegate.storage.schema.columns import Id, Json, Ms, live, metadata
from pagegate.storage.schema.components import component_mutation_jobs
from pagegate.storage.schema.images import image_generation_jobs
from pagegate.storage.schema.jobs import JOB_KINDS, ai_page_mutation_batches, ai_page_mutation_jobs, lanes
from pagegate.storage.schema.pages import (
    asset_versions,
    assets,
    component_versions,
    components,
    page_versions,
    pages,
    projects,
)
from pagegate.storage.schema.people import members, tokens, users, workspaces
from pagegate.storage.schema.previews import preview_snapshots
from pagegate.storage.schema.renders import render_attempts, render_requests
from pagegate.storage.schema.screenshots import (
    page_screenshot_artifacts,
    page_screenshot_group_members,
    page_screenshot_groups,
    page_screenshot_holds,
    page_screenshot_jobs,
    page_screenshots,
)
from pagegate.storage.schema.sessions import (
    ai_agent_messages,
    ai_agent_prompts,
    ai_agent_sessions,
    ai_model_credentials,
    ai_page_verdicts,
)
from pagegate.storage.schema.webhooks import project_webhooks, webhook_deliveries
from pagegate.storage.transitions import (
    EXTERNAL_BATCH,
    EXTERNAL_TASK,
    JOB,
    RENDER_ATTEMPT,
    RENDER_REQUEST,
    RUN,
    WEBHOOK_DELIVERY,
    Machine,
)

__all__ = [
    "GUARDED",
    "JOB_KINDS",
    "Id",
    "Json",
    "Ms",
    "ai_agent_external_batches",
    "ai_agent_external_tasks",
    "ai_agent_messages",
    "ai_agent_prompts",
    "ai_agent_run_events",
    "ai_agent_runs",
    "ai_agent_sessions",
    "ai_agent_tool_calls",
    "ai_model_credentials",
    "ai_page_mutation_batches",
    "ai_page_mutation_jobs",
    "ai_page_verdicts",
    "asset_ratio_backfill_jobs",
    "asset_versions",
    "assets",
    "component_mutation_jobs",
    "component_versions",
    "components",
    "image_generation_jobs",
    "lanes",
    "live",
    "members",
    "metadata",
    "page_screenshot_artifacts",
    "page_screenshot_group_members",
    "page_screenshot_groups",
    "page_screenshot_holds",
    "page_screenshot_jobs",
    "page_screenshots",
    "page_versions",
    "pages",
    "preview_snapshots",
    "project_build_jobs",
    "project_releases",
    "project_sites",
    "project_webhooks",
    "projects",
    "render_attempts",
    "render_requests",
    "tokens",
    "users",
    "webhook_deliveries",
    "workspaces",
]

# No move that is not in the table of moves: table -> (its state column, its machine).
GUARDED: dict[str, tuple[str, Machine]] = {
    "ai_agent_runs": ("status", RUN),
    "ai_agent_tool_calls": ("status", EXTERNAL_TASK),
    "ai_agent_external_batches": ("state", EXTERNAL_BATCH),
    "ai_agent_external_tasks": ("state", EXTERNAL_TASK),
    **dict.fromkeys(JOB_KINDS, ("status", JOB)),
    "render_requests": ("status", RENDER_REQUEST),
    "render_attempts": ("status", RENDER_ATTEMPT),
    "webhook_deliveries": ("state", WEBHOOK_DELIVERY),
}

guard(metadata, GUARDED)
