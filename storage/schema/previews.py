"""What a preview of saved versions is made of, while it may be opened (P2)."""

from sqlalchemy import Column, Table, Text

from pagegate.storage.schema.columns import Json, Ms, created_at, metadata, ref

# No content, only which immutable versions it is: `modules` is logical path -> [table, version id]. `sha256` is that of
# the artifact as it was first made; what is made again must have the same.
preview_snapshots = Table(
    "preview_snapshots",
    metadata,
    Column("artifact_id", Text, primary_key=True),
    ref("project_id", "projects", index=True),
    Column("manifest", Json, nullable=False),
    Column("modules", Json, nullable=False),
    Column("assets", Json, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("expires_at_ms", Ms, nullable=False, index=True),
    created_at(),
)
