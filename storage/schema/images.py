"""Image generation: pictures that a provider makes for a project, a job each (A1, Q1)."""

from sqlalchemy import Column, Index, Integer, Text

from pagegate.storage.schema.columns import Json, Ms, numbered_table, ref
from pagegate.storage.schema.jobs import job_columns

# `batch_id` is the batch of the whole model step: pages of it wait for the pictures that were called before them (A2).
# `asset_name` is the file behind `@assets/` that was asked for. `sent_at_ms` and `sent_to` stand while a request may be
# under way, or answered unheard: written before it is sent, taken away by an answer that says that nothing was made.
image_generation_jobs = numbered_table(
    "image_generation_jobs",
    *job_columns("image_generation_jobs"),
    ref("batch_id", "ai_page_mutation_batches"),
    ref("tool_call_id", "ai_agent_tool_calls", index=True),
    Column("position", Integer, nullable=False),
    Column("asset_name", Text, nullable=False),
    Column("sent_at_ms", Ms),
    Column("sent_to", Json),
    Index("ix_image_generation_jobs_order", "batch_id", "position"),
)
