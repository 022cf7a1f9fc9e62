"""The index of live jobs goes by workspace, since workspaces take turns in a lane.

A migration is frozen: it repeats what the schema said on its day instead of importing it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = ["status", "workspace_id", "priority", "id"]


def upgrade() -> None:
    """Put each index of live jobs in the place of the one without the workspace."""
    unended = sa.text("finished_at_ms IS NULL")
    for table in ("ai_page_mutation_jobs", "page_screenshot_jobs"):
        name = f"ix_{table}_live"
        op.drop_index(name, table)
        op.create_index(name, table, COLUMNS, sqlite_where=unended, postgresql_where=unended)
