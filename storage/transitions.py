"""Every state machine of the database, each as one table: (state, event) -> state.

Owns which states exist, which are terminal, and how a row may move. The CHECK constraints and the triggers of
`schema.py` are derived from it, the statements name their target through `Machine.target`, and the tests go over the
whole product of states and events. Pure: no database here.

A terminal state never changes (Q2). The statements keep that by their WHERE, and a trigger on each table refuses any
move that is not in the table: a terminal state must also survive a statement that nobody has written yet, and a human
with a database shell. The trigger compares two strings; it costs nothing that can be measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Machine:
    """One state machine. `moves` holds every move there is; what is not in it is refused."""

    name: str
    initial: str
    moves: Mapping[tuple[str, str], str]

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, the initial one first, in the order of their appearance."""
        seen = [self.initial]
        for (state, _event), target in self.moves.items():
            seen += [state, target]
        return tuple(dict.fromkeys(seen))

    @property
    def events(self) -> tuple[str, ...]:
        """Every event, in the order of their appearance."""
        return tuple(dict.fromkeys(event for _state, event in self.moves))

    @property
    def terminal(self) -> tuple[str, ...]:
        """The states that nothing leaves."""
        left = {state for state, _event in self.moves}
        return tuple(state for state in self.states if state not in left)

    @property
    def live(self) -> tuple[str, ...]:
        """The states that something leaves."""
        return tuple(state for state in self.states if state not in self.terminal)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(from, to) of every move that changes the state: what the trigger lets through."""
        changing = [(state, target) for (state, _event), target in self.moves.items() if state != target]
        return tuple(dict.fromkeys(changing))

    def sources(self, event: str) -> tuple[str, ...]:
        """The states in which `event` may happen: the WHERE of its statement. `KeyError` for an unknown event."""
        found = tuple(state for state, name in self.moves if name == event)
        if not found:
            raise KeyError(f"{self.name} knows no event {event!r}")
        return found

    def target(self, event: str) -> str:
        """Where `event` leads, from wherever it may happen. `KeyError` for an unknown event."""
        (target,) = {self.moves[state, event] for state in self.sources(event)}
        return target


JobState = Literal["pending", "running", "succeeded", "failed", "cancelled", "skipped"]

# Q2. The worker's own ends (finish, fail, skip, cancel) and its ways back (retry, release) carry its fence; `rescue`
# and `exhaust` carry the fence of the attempt that was seen expired (Q5); `cancel` of a pending job carries none (Q10).
JOB = Machine(
    "job",
    "pending",
    {
        ("pending", "claim"): "running",
        ("pending", "cancel"): "cancelled",
        ("running", "finish"): "succeeded",
        ("running", "fail"): "failed",
        ("running", "cancel"): "cancelled",
        ("running", "skip"): "skipped",
        ("running", "retry"): "pending",
        ("running", "release"): "pending",
        ("running", "rescue"): "pending",
        ("running", "exhaust"): "failed",
    },
)

RunState = Literal["queued", "running", "waiting_external", "succeeded", "failed", "cancelled"]

# A1, A7. `source=api` runs are born waiting: `submit` is their first move. A resume may end a run without running it
# (A9: the coordinator's fenced final write, without a model).
RUN = Machine(
    "run",
    "queued",
    {
        ("queued", "start"): "running",
        ("queued", "submit"): "waiting_external",
        ("running", "wait"): "waiting_external",
        ("waiting_external", "resume"): "running",
        ("running", "finish"): "succeeded",
        ("waiting_external", "finish"): "succeeded",
        ("queued", "fail"): "failed",
        ("running", "fail"): "failed",
        ("waiting_external", "fail"): "failed",
        ("queued", "cancel"): "cancelled",
        ("running", "cancel"): "cancelled",
        ("waiting_external", "cancel"): "cancelled",
    },
)

ToolCallState = Literal["pending", "succeeded", "failed", "cancelled", "skipped", "refused"]

# One deferred call and its external task (A3). It mirrors its job's end; `refuse` is an end without a job: the call was
# answered at the door. `reopen` gives the task of a failed job to the job's retry (Q11); the batch decides whether it
# still may.
EXTERNAL_TASK = Machine(
    "external_task",
    "pending",
    {
        ("pending", "finish"): "succeeded",
        ("pending", "fail"): "failed",
        ("pending", "cancel"): "cancelled",
        ("pending", "skip"): "skipped",
        ("pending", "refuse"): "refused",
        ("failed", "reopen"): "pending",
    },
)

ExternalBatchState = Literal["waiting", "ready", "resuming", "completed"]

# A3, A4. `takeover` is the claim of a batch whose coordinator's lease ran out: same state, next generation. `close`
# ends a batch whose run ended some other way (cancelled, or an old one at start: A5). `reopen`: a failed task of it was
# given to a retry (Q11) before any coordinator had claimed it; from `resuming` on the results may have been told.
EXTERNAL_BATCH = Machine(
    "external_batch",
    "waiting",
    {
        ("waiting", "settle"): "ready",
        ("ready", "claim"): "resuming",
        ("ready", "reopen"): "waiting",
        ("resuming", "takeover"): "resuming",
        ("resuming", "release"): "ready",
        ("resuming", "finish"): "completed",
        ("waiting", "close"): "completed",
        ("ready", "close"): "completed",
        ("resuming", "close"): "completed",
    },
)

RenderRequestState = Literal["pending", "running", "succeeded", "failed", "cancelled"]

# R2, R3. `busy` is no attempt; `lapse` is an attempt whose lease ran out; `exhaust` is the end of attempts or of time,
# also for a request that is waiting.
RENDER_REQUEST = Machine(
    "render_request",
    "pending",
    {
        ("pending", "reserve"): "running",
        ("running", "finish"): "succeeded",
        ("running", "fail"): "failed",
        ("running", "retry"): "pending",
        ("running", "busy"): "pending",
        ("running", "lapse"): "pending",
        ("running", "exhaust"): "failed",
        ("pending", "exhaust"): "failed",
        ("pending", "cancel"): "cancelled",
        ("running", "cancel"): "cancelled",
    },
)

RenderAttemptState = Literal["running", "succeeded", "failed", "busy", "lapsed", "cancelled"]

# R2. An attempt is one use of a worker's slot; every end of it releases the slot.
RENDER_ATTEMPT = Machine(
    "render_attempt",
    "running",
    {
        ("running", "finish"): "succeeded",
        ("running", "fail"): "failed",
        ("running", "busy"): "busy",
        ("running", "lapse"): "lapsed",
        ("running", "cancel"): "cancelled",
    },
)

WebhookDeliveryState = Literal["pending", "delivering", "delivered", "failed"]

# A9. `takeover` is the claim of a delivery whose sender's lease ran out: it may have been sent, and is sent again.
WEBHOOK_DELIVERY = Machine(
    "webhook_delivery",
    "pending",
    {
        ("pending", "claim"): "delivering",
        ("delivering", "takeover"): "delivering",
        ("delivering", "retry"): "pending",
        ("delivering", "finish"): "delivered",
        ("delivering", "fail"): "failed",
    },
)

MACHINES = (JOB, RUN, EXTERNAL_TASK, EXTERNAL_BATCH, RENDER_REQUEST, RENDER_ATTEMPT, WEBHOOK_DELIVERY)
