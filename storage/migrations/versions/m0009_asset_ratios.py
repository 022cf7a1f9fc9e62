"""Ratios of files, and the jobs that measure what has none yet (V9).

Files that were measured get the ratio of their sides; pictures and videos that were not may be measured at once. A
migration is frozen: it repeats what the schema said on its day instead of importing it.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JOBS = "asset_ratio_backfill_jobs"
MOVES = [
    ("pending", "running"),
    ("pending", "cancelled"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "skipped"),
    ("running", "pending"),
]
RATIO_OF_MEASURED = """
UPDATE asset_versions SET ratio = round(width_px * 1000000.0 / height_px) / 1000000.0
WHERE width_px > 0 AND height_px > 0
"""
TO_BE_MEASURED = """
UPDATE asset_versions SET measure_at_ms = created_at_ms
WHERE ratio IS NULL AND (media_type LIKE 'image/%' OR media_type LIKE 'video/%') AND EXISTS (
    SELECT 1 FROM assets WHERE assets.id = asset_versions.asset_id AND assets.deleted_at_ms IS NULL
    AND assets.current_version_number = asset_versions.number
)
"""


def _ref(name: str, target: str, *, nullable: bool = False) -> list[Any]:
    key = sa.ForeignKeyConstraint([name], [f"{target}.id"], name=op.f(f"fk_{JOBS}_{name}"))
    return [sa.Column(name, ID, nullable=nullable), key]


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _counter(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, server_default=sa.text("0"), nullable=False)


def _ms(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _index(name: str, table: str, columns: list[str], condition: str | None = None, *, unique: bool = False) -> None:
    only = sa.text(condition) if condition else None
    op.create_index(name, table, columns, unique=unique, sqlite_where=only, postgresql_where=only)


def upgrade() -> None:
    """Add the columns and the table."""
    versions = "asset_versions"
    op.add_column(versions, sa.Column("ratio", sa.Float))
    op.add_column(versions, sa.Column("unmeasured", sa.JSON))
    op.add_column(versions, _ms("measure_at_ms", nullable=True))
    op.add_column(versions, _counter("measure_jobs"))
    op.execute(RATIO_OF_MEASURED)
    op.execute(TO_BE_MEASURED)
    _index(f"ix_{versions}_measure", versions, ["measure_at_ms", "id"], "measure_at_ms IS NOT NULL")
    _add_jobs()


def _add_jobs() -> None:
    op.create_table(
        JOBS,
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{JOBS}")),
        *_ref("workspace_id", "workspaces"),
        *_ref("project_id", "projects"),
        *_ref("user_id", "users"),
        *_ref("run_id", "ai_agent_runs", nullable=True),
        _counter("priority"),
        sa.Column("status", sa.Text, server_default="pending", nullable=False),
        _counter("attempt"),
        _text("worker_id", nullable=True),
        _ms("lease_expires_at", nullable=True),
        _ms("heartbeat_at", nullable=True),
        _ms("available_at"),
        _ms("deadline_at", nullable=True),
        _counter("infra_failures"),
        _counter("lease_losses"),
        _ms("cancel_requested_at", nullable=True),
        *_ref("retry_of", JOBS, nullable=True),
        _text("error_code", nullable=True),
        sa.Column("error", sa.JSON),
        sa.Column("result", sa.JSON),
        _ms("created_at_ms"),
        _ms("started_at_ms", nullable=True),
        _ms("finished_at_ms", nullable=True),
        *_ref("asset_id", "assets"),
        _text("asset_name"),
        sa.Column("asset_version", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'running', 'cancelled', 'succeeded', 'failed', 'skipped')",
            name=op.f(f"ck_{JOBS}_status"),
        ),
        sa.CheckConstraint(
            "status <> 'running' OR (worker_id IS NOT NULL AND lease_expires_at IS NOT NULL)",
            name=op.f(f"ck_{JOBS}_leased"),
        ),
        sa.CheckConstraint(
            "(status IN ('cancelled', 'succeeded', 'failed', 'skipped')) = (finished_at_ms IS NOT NULL)",
            name=op.f(f"ck_{JOBS}_finished"),
        ),
        sqlite_autoincrement=True,
    )
    _index(f"ix_{JOBS}_run_id", JOBS, ["run_id"])
    _index(f"ix_{JOBS}_live", JOBS, ["status", "workspace_id", "priority", "id"], "finished_at_ms IS NULL")
    _index(f"uq_{JOBS}_retry", JOBS, ["retry_of"], "retry_of IS NOT NULL", unique=True)
    _index(f"ix_{JOBS}_workspace", JOBS, ["workspace_id", "id"])
    _index(f"ix_{JOBS}_failed", JOBS, ["id"], "status = 'failed'")
    _index(f"ix_{JOBS}_loose", JOBS, ["finished_at_ms"], "run_id IS NULL")
    _index(f"ix_{JOBS}_asset_id", JOBS, ["asset_id"])
    _index(f"uq_{JOBS}_active", JOBS, ["asset_id"], "finished_at_ms IS NULL", unique=True)
    allowed = " OR ".join(f"(OLD.status = '{a}' AND NEW.status = '{b}')" for a, b in MOVES)
    when = f"OLD.status <> NEW.status AND NOT ({allowed})"
    trigger = f"CREATE TRIGGER tr_{JOBS}_moves BEFORE UPDATE OF status ON {JOBS}"
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"{trigger} WHEN {when}\nBEGIN SELECT RAISE(ABORT, 'refused state change in {JOBS}'); END")
    else:
        op.execute(f"{trigger}\nFOR EACH ROW WHEN ({when}) EXECUTE FUNCTION pagegate_refuse_move()")
