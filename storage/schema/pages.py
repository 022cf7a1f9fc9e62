"""What is written: projects, pages, components, assets and their versions (D1, D2)."""

from sqlalchemy import BigInteger, Column, Float, Integer, Text, UniqueConstraint

from pagegate.storage.schema.columns import (
    Id,
    Json,
    Ms,
    counter,
    created_at,
    index_where,
    numbered_table,
    one_of,
    ref,
)

projects = numbered_table(
    "projects",
    ref("workspace_id", "workspaces", index=True),
    Column("name", Text, nullable=False),
    Column("canvas_width_px", Integer, nullable=False),
    Column("canvas_height_px", Integer),  # NULL: each page decides its own height
    Column("theme", Json),
    created_at(),
)

# `current_version_number` names a row of page_versions; 0 before the first. A save is a compare-and-swap on it, so a
# stale base is refused by the database (D2, Q7). A deleted page keeps its code: it can be brought back.
pages = numbered_table(
    "pages",
    ref("project_id", "projects"),
    Column("code", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("speaker_notes", Text, nullable=False, server_default=""),
    Column("framework", Text, nullable=False),
    one_of("framework", ("vue", "react")),
    Column("canvas_width_px", Integer),  # NULL: the project's canvas
    Column("canvas_height_px", Integer),  # with a width, NULL: the page decides its own height
    counter("current_version_number"),
    Column("deleted_at_ms", Ms),
    created_at(),
    Column("updated_at_ms", Ms, nullable=False),
    UniqueConstraint("project_id", "code"),
)

# Immutable (D2). `component_pins`: component name -> component_versions.id it was checked with (D4). `job_id` is the
# ai_page_mutation_jobs row that wrote it; unique, so a job writes at most one version, whatever happens.
page_versions = numbered_table(
    "page_versions",
    ref("page_id", "pages"),
    Column("number", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("speaker_notes", Text, nullable=False, server_default=""),
    Column("component_pins", Json, nullable=False),
    Column("verdict", Json),
    Column("status", Text, nullable=False),
    one_of("status", ("passed", "warning", "failed", "unavailable")),
    Column("picture_key", Text),
    Column("job_id", Id, unique=True),
    ref("created_by", "users"),
    created_at(),
    UniqueConstraint("page_id", "number"),
)

# `name` is the file behind `@components/`, with its ending: `StatTile.vue` and `StatTile.tsx` are two components.
components = numbered_table(
    "components",
    ref("project_id", "projects"),
    Column("name", Text, nullable=False),
    counter("current_version_number"),
    Column("deleted_at_ms", Ms),
    created_at(),
    UniqueConstraint("project_id", "name"),
)

# Immutable (D2). `contract`: what the check found that it takes and offers; NULL for a version that nobody checked.
# `job_id` is the component_mutation_jobs row that wrote it: unique, and NULL for one that was put there by hand.
component_versions = numbered_table(
    "component_versions",
    ref("component_id", "components"),
    Column("number", Integer, nullable=False),
    Column("source", Text, nullable=False),
    ref("created_by", "users"),
    created_at(),
    Column("contract", Json),
    Column("job_id", Id),
    UniqueConstraint("component_id", "number"),
    index_where("uq_component_versions_job", "job_id IS NOT NULL", "job_id", unique=True),
)

# `name` is the file behind `@assets/`.
assets = numbered_table(
    "assets",
    ref("project_id", "projects"),
    Column("name", Text, nullable=False),
    counter("current_version_number"),
    Column("deleted_at_ms", Ms),
    created_at(),
    UniqueConstraint("project_id", "name"),
)

# What a file measures (V9): `ratio` is width by height. `measure_at_ms`: not before then is a job made to measure it;
# NULL: never, because it is measured, or it cannot be (`unmeasured` says why), or `measure_jobs` came to nothing.
asset_versions = numbered_table(
    "asset_versions",
    ref("asset_id", "assets"),
    Column("number", Integer, nullable=False),
    Column("object_key", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("width_px", Integer),
    Column("height_px", Integer),
    ref("created_by", "users"),
    created_at(),
    Column("ratio", Float),
    Column("unmeasured", Json),
    Column("measure_at_ms", Ms),
    counter("measure_jobs"),
    UniqueConstraint("asset_id", "number"),
    index_where("ix_asset_versions_measure", "measure_at_ms IS NOT NULL", "measure_at_ms", "id"),
)
