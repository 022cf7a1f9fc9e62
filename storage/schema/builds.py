"""Builds and releases: their jobs, what came of them, and which release a site shows (B1-B5)."""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, Text, UniqueConstraint

from pagegate.storage.schema.columns import (
    Id,
    Json,
    Ms,
    created_at,
    index_where,
    metadata,
    numbered_table,
    one_of,
    ref,
)
from pagegate.storage.schema.jobs import job_columns

# `snapshot` is all that the build reads, as ids of versions that never change (B1). `runtime_build` and `log` are what
# the Runtime that claimed it said. `swept_at_ms`: when what it left in the object store was looked for, after its end.
project_build_jobs = numbered_table(
    "project_build_jobs",
    *job_columns("project_build_jobs"),
    Column("snapshot", Json, nullable=False),
    Column("routes", Text, nullable=False),
    one_of("routes", ("hash", "clean")),
    Column("runtime_build", Text),
    Column("log", Json),
    Column("swept_at_ms", Ms),
    index_where(
        "ix_project_build_jobs_unswept", "swept_at_ms IS NULL AND finished_at_ms IS NOT NULL", "finished_at_ms"
    ),
)

# Immutable (B5). `files`: path in the site -> [sha256, size]. `job_id` is a number that may name a job that is gone.
project_releases = numbered_table(
    "project_releases",
    ref("project_id", "projects"),
    Column("number", Integer, nullable=False),
    Column("job_id", Id, nullable=False, unique=True),
    Column("object_key", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("files", Json, nullable=False),
    ref("created_by", "users"),
    created_at(),
    UniqueConstraint("project_id", "number"),
)

# `site_key` stands in the address of the site and is hard to guess; `release_number` is the release that it shows.
project_sites = Table(
    "project_sites",
    metadata,
    Column("project_id", Id, ForeignKey("projects.id"), primary_key=True, autoincrement=False),
    Column("site_key", Text, nullable=False, unique=True),
    Column("release_number", Integer, nullable=False),
    Column("updated_at_ms", Ms, nullable=False),
)
