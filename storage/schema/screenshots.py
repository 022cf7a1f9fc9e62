"""Screenshots: jobs of their own, groups that wait for them, and the pictures that came of it (S1, S2, S5)."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from pagegate.storage.schema.columns import Id, Json, Ms, created_at, index_where, metadata, numbered_table, ref
from pagegate.storage.schema.jobs import job_columns

# A viewport is text: `1280x720`, or `1280xauto` for a page that decides its own height.

# A job fixes page version, configuration and viewport; `capture_key` is the digest of the three, and among live jobs
# there is one of each (S1).
page_screenshot_jobs = numbered_table(
    "page_screenshot_jobs",
    *job_columns("page_screenshot_jobs"),
    ref("page_id", "pages"),
    Column("page_code", Text, nullable=False),
    Column("page_version", Integer, nullable=False),
    Column("config_fingerprint", Text, nullable=False),
    Column("viewport", Text, nullable=False),
    Column("capture_key", Text, nullable=False),
    index_where("uq_page_screenshot_jobs_active", "finished_at_ms IS NULL", "capture_key", unique=True),
)

# The content map of a page's history: which content is shown by which picture. Never changed. `content` names all that
# the picture depends on; `job_kind` and `job_id` may name a job that is gone.
page_screenshot_artifacts = numbered_table(
    "page_screenshot_artifacts",
    ref("workspace_id", "workspaces"),
    ref("project_id", "projects"),
    ref("page_id", "pages"),
    Column("page_version", Integer, nullable=False),
    Column("config_fingerprint", Text, nullable=False),
    Column("viewport", Text, nullable=False),
    Column("capture_key", Text, nullable=False, unique=True),
    Column("content", Json, nullable=False),
    Column("object_key", Text, nullable=False, unique=True),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("width_px", Integer, nullable=False),
    Column("height_px", Integer, nullable=False),
    Column("cut", Boolean, nullable=False, server_default=false()),
    Column("job_kind", Text, nullable=False),
    Column("job_id", Id, nullable=False),
    created_at(),
    Index("ix_page_screenshot_artifacts_page", "page_id", "id"),
)

# Which picture shows a page now, for each viewport that was asked for. It only moves to newer content (S2).
page_screenshots = Table(
    "page_screenshots",
    metadata,
    ref("page_id", "pages"),
    Column("viewport", Text, nullable=False),
    ref("artifact_id", "page_screenshot_artifacts"),
    Column("updated_at_ms", Ms, nullable=False),
    PrimaryKeyConstraint("page_id", "viewport"),
)

page_screenshot_groups = numbered_table(
    "page_screenshot_groups",
    ref("workspace_id", "workspaces"),
    ref("project_id", "projects", index=True),
    ref("user_id", "users"),
    created_at(),
)

# What a group waits for: a job, which other groups may wait for too, or a picture that was there already.
page_screenshot_group_members = Table(
    "page_screenshot_group_members",
    metadata,
    ref("group_id", "page_screenshot_groups"),
    Column("position", Integer, nullable=False),
    ref("page_id", "pages"),
    Column("page_version", Integer, nullable=False),
    Column("viewport", Text, nullable=False),
    ref("job_id", "page_screenshot_jobs", nullable=True, index=True),
    ref("artifact_id", "page_screenshot_artifacts", nullable=True),
    PrimaryKeyConstraint("group_id", "position"),
    CheckConstraint("(job_id IS NULL) <> (artifact_id IS NULL)", name="points"),
)

# An object at its final place that nothing points at yet: until `expires_at`, or for NULL as long as its job is kept.
# Whoever publishes takes the row away; `collecting`: its object is being deleted, nobody may publish it any more.
page_screenshot_holds = numbered_table(
    "page_screenshot_holds",
    Column("object_key", Text, nullable=False),
    Column("job_kind", Text, nullable=False),
    Column("job_id", Id, nullable=False),
    Column("expires_at", Ms),
    Column("collecting", Boolean, nullable=False, server_default=false()),
    created_at(),
    UniqueConstraint("object_key"),
    Index("ix_page_screenshot_holds_expires_at", "expires_at"),
    Index("ix_page_screenshot_holds_job", "job_kind", "job_id"),
)
