"""No kind of job can be forgotten: each is counted, shown, pruned, diagnosed and documented (Q1, Q11, O2)."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from pagegate.actors.systems.backend_metrics import BackendMetrics
from pagegate.storage import lane_views, lanes, pruning, schema
from pagegate.storage.engine import Database
from pagegate.storage.job_diagnosis import diagnose_job
from pagegate.storage.jobs import JobNotFound
from pagegate.storage.lease import Lease, LeaseLost, require_held
from pagegate.storage.pruning import Retention
from pagegate.storage.runtime_state import MemoryState

_DOCS = Path(__file__).parents[3] / "docs"
_KEEP_NOTHING = Retention(succeeded_ms=0, cancelled_ms=0, failed_ms=0)

pytestmark = pytest.mark.parametrize("kind", schema.JOB_KINDS)


async def test_a_scrape_shows_depth_age_lag_waits_runs_losses_and_rescues(db: Database, kind: str) -> None:
    registry = CollectorRegistry()
    metrics = BackendMetrics(registry, lanes=tuple(lanes.kinds()))
    await metrics.refresh(db, MemoryState(1000))
    for series in (
        "pagegate_queue_lag_seconds",
        "pagegate_lane_paused",
        "pagegate_job_wait_seconds_count",
        "pagegate_job_run_seconds_count",
        "pagegate_job_lease_losses_total",
        "pagegate_job_rescues_total",
    ):
        assert registry.get_sample_value(series, {"lane": kind}) == 0, series
    for series in ("pagegate_queue_jobs", "pagegate_queue_oldest_seconds"):
        for state in ("pending", "running"):
            assert registry.get_sample_value(series, {"lane": kind, "state": state}) == 0, series


async def test_its_lane_can_be_looked_at_pruned_and_diagnosed(db: Database, kind: str) -> None:
    async with db.write() as tx:
        assert (await lane_views.look_at_lane(tx, kind)).counts.pending == 0
        assert await lane_views.list_jobs(tx, kind, workspace_ids=None, status=None, before_id=None, limit=1) == []
        assert await pruning.prune_loose_jobs(tx, kind, _KEEP_NOTHING, 10) == 0
        with pytest.raises(JobNotFound):
            await diagnose_job(tx, kind, 1)
        with pytest.raises(LeaseLost):
            await require_held(tx, Lease(kind, 1, "nobody", 1, 0))


def test_it_is_documented(kind: str) -> None:
    for page in ("behaviour.md", "operating.md"):
        assert kind in (_DOCS / page).read_text("utf-8"), f"docs/{page} does not name {kind}"
