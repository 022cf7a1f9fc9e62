"""When what a build left in the object store was swept (B2).

A migration is frozen: it repeats what the schema said on its day instead of importing it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

JOBS = "project_build_jobs"


def upgrade() -> None:
    """Builds of before are swept once, too."""
    op.add_column(JOBS, sa.Column("swept_at_ms", sa.BigInteger))
    unswept = sa.text("swept_at_ms IS NULL AND finished_at_ms IS NOT NULL")
    op.create_index(f"ix_{JOBS}_unswept", JOBS, ["finished_at_ms"], sqlite_where=unswept, postgresql_where=unswept)
