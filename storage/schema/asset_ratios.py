"""The backfill of asset ratios: its jobs (V9, Q1). What came of them is in the columns of `asset_versions`."""

from sqlalchemy import Column, Integer, Text

from pagegate.storage.schema.columns import index_where, numbered_table, ref
from pagegate.storage.schema.jobs import job_columns

# A job fixes one version of one file; among live jobs there is one for a file.
asset_ratio_backfill_jobs = numbered_table(
    "asset_ratio_backfill_jobs",
    *job_columns("asset_ratio_backfill_jobs"),
    ref("asset_id", "assets", index=True),
    Column("asset_name", Text, nullable=False),
    Column("asset_version", Integer, nullable=False),
    index_where("uq_asset_ratio_backfill_jobs_active", "finished_at_ms IS NULL", "asset_id", unique=True),
)
