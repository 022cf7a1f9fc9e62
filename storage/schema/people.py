"""Who there is: users, tokens, workspaces, members (D1, O8)."""

from sqlalchemy import Boolean, Column, PrimaryKeyConstraint, Table, Text, false

from pagegate.storage.schema.columns import Ms, created_at, metadata, numbered_table, one_of, ref

users = numbered_table(
    "users",
    Column("name", Text, nullable=False, unique=True),
    Column("is_admin", Boolean, nullable=False, server_default=false()),
    Column("disabled_at_ms", Ms),
    created_at(),
)

# A token is shown once; only its digest is kept (O8).
tokens = numbered_table(
    "tokens",
    ref("user_id", "users", index=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    created_at(),
    Column("last_used_at_ms", Ms),
    Column("revoked_at_ms", Ms),
)

workspaces = numbered_table("workspaces", Column("name", Text, nullable=False), created_at())

members = Table(
    "members",
    metadata,
    ref("workspace_id", "workspaces"),
    ref("user_id", "users", index=True),
    Column("role", Text, nullable=False),
    one_of("role", ("owner", "editor", "viewer")),
    created_at(),
    PrimaryKeyConstraint("workspace_id", "user_id"),
)
