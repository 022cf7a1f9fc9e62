"""The numbers of a lane (O2), in the registry of its process: how many wait and run, how long, and how it ended."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class RuntimeGauges:
    """One per process; `lane(name)` is what a lane reports to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waiting = Gauge("pagegate_vite_queue_depth", "Compiles that wait.", ["lane"], registry=registry)
        self.running = Gauge("pagegate_vite_running", "Compiles that run.", ["lane"], registry=registry)
        self.wait_s = Histogram(
            "pagegate_vite_wait_seconds", "From arrival to start.", ["lane"], buckets=_SECONDS, registry=registry
        )
        self.run_s = Histogram(
            "pagegate_vite_run_seconds", "From start to end.", ["lane"], buckets=_SECONDS, registry=registry
        )
        self.outcomes = Counter("pagegate_vite_compiles_total", "Ended.", ["lane", "outcome"], registry=registry)

    def lane(self, name: str) -> "LaneGauges":
        return LaneGauges(self, name)


class LaneGauges:
    def __init__(self, gauges: RuntimeGauges, name: str) -> None:
        self._gauges, self._name = gauges, name
        self.show(waiting=0, running=0)

    def show(self, *, waiting: int, running: int) -> None:
        self._gauges.waiting.labels(self._name).set(waiting)
        self._gauges.running.labels(self._name).set(running)

    def refused(self, code: str) -> None:
        self._gauges.outcomes.labels(self._name, code).inc()

    def ended(self, outcome: str, *, wait_s: float, run_s: float) -> None:
        self._gauges.outcomes.labels(self._name, outcome).inc()
        self._gauges.wait_s.labels(self._name).observe(wait_s)
        self._gauges.run_s.labels(self._name).observe(run_s)
