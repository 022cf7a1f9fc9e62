"""What builds are counted by (O2): their ends by what they came to, how long they waited and ran, what they brought.

Owns counters of this process, which never fall. A build's end is counted where it was written: at the door that a
Runtime told it to, or by the actor that found it over.
"""

from collections.abc import Callable
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter

from pagegate.runtime.build_contract import BuildFault
from pagegate.storage.builds import PROJECT_BUILD
from pagegate.storage.jobs import CANCELLED

# Those of a Runtime, and `released`; a cancelled build that its Runtime no longer told of ends as every job does.
OUTCOMES = ("released", *get_args(BuildFault), CANCELLED["code"])

Ran = Callable[[str, float, float], None]


def _nobody(*_: object) -> None:
    return


class BuildNumbers:
    """`ran` hears lane, wait and run of each build that a Runtime had, in seconds; `lease_lost` the lane of each whose
    lease ran out."""

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        ran: Ran = _nobody,
        lease_lost: Callable[[str], None] = _nobody,
    ) -> None:
        registry, self._ran, self._lease_lost = registry or CollectorRegistry(), ran, lease_lost
        self._ends = Counter(
            "pagegate_build_ends_total", "Builds by what became of them.", ["outcome"], registry=registry
        )
        for outcome in OUTCOMES:  # there from the start: a rate needs a zero to begin with
            self._ends.labels(outcome)
        self._bytes = Counter(
            "pagegate_build_upload_bytes_total", "Bytes of artifacts that came whole.", registry=registry
        )
        self._refused = Counter(
            "pagegate_build_uploads_refused_total", "Uploads that were not kept.", ["code"], registry=registry
        )
        self._deleted = Counter(
            "pagegate_build_objects_deleted_total", "Objects of builds that belong to no release.", registry=registry
        )

    def ended(self, outcome: str, job: Any = None, now_ms: int = 0) -> None:
        """`outcome`: `released`, or the code of the error. `job` is its row, when a Runtime had it."""
        self._ends.labels(outcome).inc()
        if job is not None and job.started_at_ms is not None:
            wait_ms, run_ms = job.started_at_ms - job.created_at_ms, now_ms - job.started_at_ms
            self._ran(PROJECT_BUILD, max(0, wait_ms) / 1000, max(0, run_ms) / 1000)

    def ran_out(self, outcome: str) -> None:
        """A build ended because its lease had run out."""
        self._lease_lost(PROJECT_BUILD)
        self.ended(outcome)

    def uploaded(self, size_bytes: int) -> None:
        self._bytes.inc(size_bytes)

    def refused(self, code: str) -> None:
        self._refused.labels(code).inc()

    def deleted(self, objects: int) -> None:
        self._deleted.inc(objects)
