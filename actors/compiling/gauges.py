"""The numbers of the lanes and their workers (O2), in the registry of its process.

What waits and runs, how long and how it ended, by lane and class; which workers live and why others were let go; what
the kept outputs weigh. Gauges say what is true now: one that depends on the clock is computed when it is read.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pagegate.actors.queues.rotation import Class

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_CLASSES: tuple[Class, ...] = ("interactive", "background")

# Why a worker was let go: worn out (V4), one process for one task, nobody needed it, or something went wrong.
Ending = Literal["tasks", "age", "heap", "one_shot", "idle", "lost", "timeout", "cancelled", "failed"]


class RuntimeGauges:
    """One per process; `lane(name)` is what a lane reports to, `workers(name)` what its slots do."""

    def __init__(self, registry: CollectorRegistry) -> None:
        by_class = ["lane", "class"]
        self.waiting = Gauge("pagegate_vite_queue_depth", "Tasks that wait.", by_class, registry=registry)
        self.oldest_s = Gauge(
            "pagegate_vite_queue_oldest_seconds", "How long the oldest has waited.", ["lane"], registry=registry
        )
        self.running = Gauge("pagegate_vite_running", "Tasks that run.", by_class, registry=registry)
        self.slots = Gauge("pagegate_vite_slots", "Slots of the lane.", ["lane"], registry=registry)
        self.wait_s = Histogram(
            "pagegate_vite_wait_seconds", "From arrival to start.", by_class, buckets=_SECONDS, registry=registry
        )
        self.run_s = Histogram(
            "pagegate_vite_run_seconds", "From start to end.", by_class, buckets=_SECONDS, registry=registry
        )
        self.outcomes = Counter(
            "pagegate_vite_tasks_total", "Tasks by how they ended.", [*by_class, "outcome"], registry=registry
        )
        self.living = Gauge("pagegate_vite_workers", "Node processes that live.", ["lane"], registry=registry)
        self.endings = Counter(
            "pagegate_vite_worker_endings_total", "Workers let go, by reason.", ["lane", "reason"], registry=registry
        )
        self._output_bytes = Gauge(
            "pagegate_runtime_output_bytes", "Compiled pages kept for the render.", registry=registry
        )
        self._compiled_bytes = Counter(
            "pagegate_runtime_compiled_bytes_total", "Compiled pages, kept or gone.", registry=registry
        )

    def lane(self, name: str, slots: int) -> "LaneGauges":
        self.slots.labels(name).set(slots)
        return LaneGauges(self, name)

    def workers(self, name: str) -> "WorkerGauges":
        return WorkerGauges(self, name)

    def watch_outputs(self, size_bytes: Callable[[], float]) -> None:
        self._output_bytes.set_function(size_bytes)

    def output_kept(self, size_bytes: int) -> None:
        self._compiled_bytes.inc(size_bytes)


class LaneGauges:
    def __init__(self, gauges: RuntimeGauges, name: str) -> None:
        self._gauges, self._name = gauges, name
        self.show({}, {})

    def show(self, waiting: Mapping[Class, int], running: Mapping[Class, int]) -> None:
        for klass in _CLASSES:
            self._gauges.waiting.labels(self._name, klass).set(waiting.get(klass, 0))
            self._gauges.running.labels(self._name, klass).set(running.get(klass, 0))

    def watch_oldest(self, oldest_s: Callable[[], float]) -> None:
        self._gauges.oldest_s.labels(self._name).set_function(oldest_s)

    def refused(self, klass: Class, code: str) -> None:
        self._gauges.outcomes.labels(self._name, klass, code).inc()

    def ended(self, klass: Class, outcome: str, *, wait_s: float, run_s: float) -> None:
        self._gauges.outcomes.labels(self._name, klass, outcome).inc()
        self._gauges.wait_s.labels(self._name, klass).observe(wait_s)
        self._gauges.run_s.labels(self._name, klass).observe(run_s)


class WorkerGauges:
    """What the slots of one lane report to."""

    def __init__(self, gauges: RuntimeGauges, name: str) -> None:
        self._gauges, self._name = gauges, name
        self._living: dict[object, int] = {}

    def show(self, slot: object, living: int) -> None:
        self._living[slot] = living
        self._gauges.living.labels(self._name).set(sum(self._living.values()))

    def ended(self, reason: Ending) -> None:
        self._gauges.endings.labels(self._name, reason).inc()
