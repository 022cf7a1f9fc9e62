"""The Backend's numbers: depths, ages, waits and runs by lane and class (O2).

Gauges are read from the database when somebody scrapes, so they are right after a crash and right on every replica;
counters and histograms are this process's own and never fall. A lane is a kind of job, or a class of renders.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pagegate.actors.jobs.build_numbers import BuildNumbers
from pagegate.actors.jobs.image_generation import OUTCOMES as IMAGE_OUTCOMES
from pagegate.storage import lane_views, renders
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.runtime_state import RuntimeState, StateUnavailable

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class BackendMetrics:
    def __init__(self, registry: CollectorRegistry, lanes: tuple[str, ...]) -> None:
        self._lanes = lanes
        self._depth = Gauge("pagegate_queue_jobs", "Live jobs.", ["lane", "state"], registry=registry)
        self._oldest = Gauge(
            "pagegate_queue_oldest_seconds", "Age of the oldest live job.", ["lane", "state"], registry=registry
        )
        self._lag = Gauge(
            "pagegate_queue_lag_seconds",
            "How long the job that has waited longest could have been running.",
            ["lane"],
            registry=registry,
        )
        self._paused = Gauge("pagegate_lane_paused", "1 while nobody may claim.", ["lane"], registry=registry)
        self._renders = Gauge("pagegate_render_requests", "Live renders.", ["klass", "state"], registry=registry)
        self._state = Gauge(
            "pagegate_runtime_state_bytes",
            "Bytes of previews and progress; on Redis, of the server.",
            ["store"],
            registry=registry,
        )
        self._state_max = Gauge(
            "pagegate_runtime_state_bytes_max", "Their limit, where there is one.", ["store"], registry=registry
        )
        self._swept = Counter(
            "pagegate_runtime_state_swept_total", "Entries of previews and progress that expired.", registry=registry
        )
        self._wait = Histogram(
            "pagegate_job_wait_seconds",
            "From when it could run to its claim.",
            ["lane"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._run = Histogram(
            "pagegate_job_run_seconds", "From its claim to its end.", ["lane"], buckets=_SECONDS, registry=registry
        )
        self._rescues = Counter(
            "pagegate_job_rescues_total", "Jobs taken from a lost worker.", ["lane"], registry=registry
        )
        self._lease_losses = Counter(
            "pagegate_job_lease_losses_total",
            "Leases lost under a worker that still worked; of builds, those that ran out.",
            ["lane"],
            registry=registry,
        )
        for lane in lanes:  # there from the start: a rate needs a zero to begin with
            for series in (self._wait, self._run, self._rescues, self._lease_losses):
                series.labels(lane)
        self._images = Counter(
            "pagegate_image_requests_total",
            "Requests to providers of pictures; what was made was charged.",
            ["outcome"],
            registry=registry,
        )
        for outcome in IMAGE_OUTCOMES:
            self._images.labels(outcome)
        self._webhooks = Counter(
            "pagegate_webhook_tries_total", "Tries to tell a webhook of a run's end.", ["outcome"], registry=registry
        )

        self.builds = BuildNumbers(registry, self._ran, self.lease_lost)

    def executed(self, job: ClaimedJob, run_s: float) -> None:
        self._ran(job.lease.table, job.waited_ms / 1000, run_s)

    def _ran(self, lane: str, wait_s: float, run_s: float) -> None:
        self._wait.labels(lane).observe(wait_s)
        self._run.labels(lane).observe(run_s)

    def rescued(self, lane: str) -> None:
        self._rescues.labels(lane).inc()

    def lease_lost(self, lane: str) -> None:
        self._lease_losses.labels(lane).inc()

    def told_webhook(self, outcome: str) -> None:
        self._webhooks.labels(outcome).inc()

    def asked_for_image(self, outcome: str) -> None:
        self._images.labels(outcome).inc()

    def swept(self, entries: int) -> None:
        self._swept.inc(entries)

    async def refresh(self, db: Database, state: RuntimeState) -> None:
        """Set the gauges to what is true now; without a database the old values are dropped, not kept."""
        for gauge in (self._depth, self._oldest, self._lag, self._paused, self._renders):
            gauge.clear()
        await self._show_state(state)
        try:
            async with db.read() as tx:
                for lane in self._lanes:
                    view = await lane_views.look_at_lane(tx, lane)
                    counts = view.counts
                    self._lag.labels(lane).set((view.lag_ms or 0) / 1000)
                    self._paused.labels(lane).set(view.state.pause is not None)
                    self._depth.labels(lane, "pending").set(counts.pending)
                    self._depth.labels(lane, "running").set(counts.running)
                    self._oldest.labels(lane, "pending").set((counts.oldest_pending_age_ms or 0) / 1000)
                    self._oldest.labels(lane, "running").set((counts.oldest_running_age_ms or 0) / 1000)
                live = await renders.count_by_class(tx)
        except DatabaseUnavailable:
            return
        for klass in ("interactive", "background"):
            for status in ("pending", "running"):
                self._renders.labels(klass, status).set(live.get((klass, status), 0))

    async def _show_state(self, state: RuntimeState) -> None:
        self._state.clear()
        self._state_max.clear()
        try:
            usage = await state.usage()
        except StateUnavailable:
            return
        self._state.labels(state.kind).set(usage.bytes_used)
        if usage.bytes_max is not None:
            self._state_max.labels(state.kind).set(usage.bytes_max)
