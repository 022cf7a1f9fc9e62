"""What a kind of job is to its queue: work outside any transaction, then an end decided inside one (Q1, Q3, Q7).

Owns the small vocabulary between the queue's actors, which know leases and nothing about pages, and `jobs/`, which know
pages and nothing about leases.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pagegate.storage.engine import Tx
from pagegate.storage.jobs import ClaimedJob


@dataclass(frozen=True)
class End:
    """How a job ends. `error` has the one shape of every error: code, message, hint."""

    event: Literal["finish", "fail", "cancel", "skip"]
    result: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None


# Runs in the transaction whose first statement is the job's fence: re-checks (Q7), writes the domain's rows, answers
# the end, which the worker writes in the same transaction. May raise `StartOver`; any exception rolls all of it back.
# It may be called again after that: jobs that end together share a transaction, and one may undo it for all.
Settle = Callable[[Tx], Awaitable[End]]


class StartOver(Exception):
    """The world changed so that the prepared result no longer fits, but the job can be done again (S4)."""


class TryLater(Exception):
    """Infrastructure failed: the job goes back to pending and is tried again after a backoff (R9).

    `counts=False` for a full queue or a busy worker: waited for within the job's own deadline, in no budget (Q2).
    `result` is kept with the job when its budget is used up, and `hint` is told then. `wait_s`: the other side wants
    to be left alone for so long; a job whose deadline comes before that fails at once.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        counts: bool = True,
        result: dict[str, Any] | None = None,
        hint: str = "",
        wait_s: float = 0.0,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.counts, self.result = code, message, counts, result or {}
        self.hint, self.wait_s = hint, wait_s


Tell = Callable[[Tx, ClaimedJob, End | TryLater], Awaitable[None]]


class JobKind(Protocol):
    """One kind of durable job; its table has the kind's name."""

    @property
    def name(self) -> str: ...

    def log_event(self, what: str) -> str:
        """The seeds' name of an event of this kind, such as `ai.page_mutation.job.<what>` (O3)."""
        ...

    @property
    def tell(self) -> "Tell | None":
        """Write what others are told of an end or a retry, in its transaction, after it (locks: job, task, run).

        None: nobody is, and the end is the last statement of its transaction.
        """
        ...

    async def execute(self, job: ClaimedJob) -> Settle:
        """Do the work, holding no transaction (Q7). Cancelled when the lease nears its end, at a cancel, at shutdown.

        Raises `TryLater`; `LeaseLost` from a fenced write of its own. Anything else is a bug in the kind.
        """
        ...

    async def ended(self, job: ClaimedJob) -> None:
        """The job's end is durable, or no longer ours to write: send hints (K6). Must not fail and must be quick."""
        ...
