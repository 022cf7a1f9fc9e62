"""Whether this replica's jobs can be kept alive: what its queues and workers last heard from the database (CASE 6).

Owns the last news of each: a claim, and the heartbeats of each worker. While the news is bad the process says that it
is not ready, so that nobody sends it new work; its jobs stop by their own deadlines whatever is said here. Survives
nothing: a new process has heard no bad news yet.
"""

from collections.abc import Sequence


class Pulse:
    """Shared by the queues and workers of one process. A worker is named by its place, a queue by its kind."""

    def __init__(self) -> None:
        self._unclaiming: set[str] = set()
        self._failing: set[object] = set()  # workers whose last heartbeat failed, and which have a job
        self._doubtful: set[object] = set()  # the same, but their job is over: a write that works clears them

    def claimed(self, kind: str, *, ok: bool) -> None:
        """A queue looked for a job, found one or not; or could not look."""
        if ok:
            self._unclaiming.discard(kind)
            self._doubtful.clear()
        else:
            self._unclaiming.add(kind)

    def beat(self, worker: object, *, ok: bool) -> None:
        """A worker renewed its lease, or could not."""
        self._doubtful.discard(worker)
        (self._failing.discard if ok else self._failing.add)(worker)

    def rested(self, worker: object) -> None:
        """A worker has no job any more, so it has no heartbeat either."""
        if worker in self._failing:
            self._failing.discard(worker)
            self._doubtful.add(worker)

    def troubles(self) -> Sequence[str]:
        """Why the process should not be sent work now; nothing when it may."""
        found = [f"jobs of {kind} cannot be claimed" for kind in sorted(self._unclaiming)]
        if self._failing or self._doubtful:
            found.append("heartbeats of running jobs fail")
        return found
