"""The numbers of a render slot (O2), in the registry of its process."""

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pagegate.actors.rendering.slot_state import SlotState

_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0)


class SlotGauges:
    """One per slot. States are shown as one series each, so that none is left standing when the slot moves on."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._state = Gauge(
            "pagegate_render_slot_state", "1 for the state the slot is in.", ["state"], registry=registry
        )
        self._attempts = Counter(
            "pagegate_render_attempts_total", "Attempts by how they ended.", ["outcome"], registry=registry
        )
        self._seconds = Histogram(
            "pagegate_render_attempt_seconds",
            "From acceptance to the result.",
            ["operation"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._kept_bytes = Gauge("pagegate_render_kept_bytes", "Pictures that wait to be fetched.", registry=registry)
        self._spare = Gauge("pagegate_render_spare", "1 while a spare browser waits.", registry=registry)
        self.show("idle", kept_bytes=0, spare=False)

    def show(self, state: SlotState, *, kept_bytes: int, spare: bool) -> None:
        for name in get_args(SlotState):
            self._state.labels(name).set(name == state)
        self._kept_bytes.set(kept_bytes)
        self._spare.set(spare)

    def ended(self, outcome: str, operation: str, seconds: float) -> None:
        """`outcome`: a verdict, `picture`, `cancelled`, or the code of an infrastructure error."""
        self._attempts.labels(outcome).inc()
        self._seconds.labels(operation).observe(seconds)
