"""The gate in front of components: its jobs (Q1, A1). What they save are rows of `component_versions`."""

from sqlalchemy import Column, Index, Integer, Text

from pagegate.storage.schema.columns import numbered_table, ref
from pagegate.storage.schema.jobs import job_columns

# `batch_id` is the batch of the whole model step, pages included: components of a step run in call order, and its pages
# wait for the components that were called before them (A2). `component_name` has its ending: `StatTile.vue`.
component_mutation_jobs = numbered_table(
    "component_mutation_jobs",
    *job_columns("component_mutation_jobs"),
    ref("batch_id", "ai_page_mutation_batches"),
    ref("tool_call_id", "ai_agent_tool_calls", index=True),
    Column("component_name", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Index("ix_component_mutation_jobs_order", "batch_id", "position"),
)
