"""What previews of saved versions are made of, so that one that Redis lost can be made again.

A migration is frozen: it repeats what the schema said on its day instead of importing it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "preview_snapshots",
        sa.Column("artifact_id", sa.Text, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("manifest", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("modules", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("assets", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("artifact_id", name="pk_preview_snapshots"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_preview_snapshots_project_id"),
    )
    op.create_index("ix_preview_snapshots_project_id", "preview_snapshots", ["project_id"])
    op.create_index("ix_preview_snapshots_expires_at_ms", "preview_snapshots", ["expires_at_ms"])
