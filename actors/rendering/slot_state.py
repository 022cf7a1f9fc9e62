"""What a render slot does next, decided without touching anything (R2-R5).

`decide(slot, event) -> (slot, effects)` over frozen values: the slot's actor runs the effects. One attempt is in hand
at a time. One more may be accepted while the browser of the last is still being closed: its answer has been given, the
slot is as good as free, and the Backend need not ask again.
"""

from dataclasses import dataclass, replace
from typing import Literal

SlotState = Literal["idle", "running", "cleaning", "broken"]


@dataclass(frozen=True, slots=True)
class Slot:
    """`running` is the attempt in hand; `next` the one accepted while `cleaning`.

    `browserless`: the last browser that was started ahead did not come up. It breaks the slot as soon as nothing is in
    hand, so that a machine without a browser takes no attempt only to fail it.
    """

    state: SlotState = "idle"
    running: str | None = None
    next: str | None = None
    browserless: bool = False

    @property
    def attempt_id(self) -> str | None:
        return self.running or self.next


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """An attempt is asked for; `known` when it is in hand or its result is kept."""

    attempt_id: str
    known: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt in hand has its result, or was cancelled (then its browser is killed)."""

    attempt_id: str
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The used browser is gone."""


@dataclass(frozen=True, slots=True)
class SpareFailed:
    """No browser comes up."""


@dataclass(frozen=True, slots=True)
class SpareReady:
    """A browser waits."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Somebody no longer wants an attempt (R5)."""

    attempt_id: str


Event = Asked | Ended | Cleaned | SpareFailed | SpareReady | Dropped

# -- effects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    attempt_id: str


@dataclass(frozen=True, slots=True)
class Clean:
    kill: bool


@dataclass(frozen=True, slots=True)
class KeepSpare:
    """Now; or after a pause, when none came up just now."""

    later: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the attempt in hand."""


@dataclass(frozen=True, slots=True)
class Forget:
    attempt_id: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """`busy`: nothing was started, ask again (R3). `broken`: no browser comes up on this machine."""

    reason: Literal["busy", "broken"]


Effect = Start | Clean | KeepSpare | Cancel | Forget | Refuse


def decide(slot: Slot, event: Event) -> tuple[Slot, list[Effect]]:
    """The slot after the event, and what is to be done. Pure."""
    match event:
        case Asked(attempt_id, known):
            return _asked(slot, attempt_id, known)
        case Ended(attempt_id, cancelled):
            if attempt_id != slot.running:
                return slot, []
            return replace(slot, state="cleaning", running=None), [Clean(kill=cancelled), KeepSpare()]
        case Cleaned():
            if slot.state != "cleaning":
                return slot, []
            if slot.next is None:
                return replace(slot, state="broken" if slot.browserless else "idle"), []
            return replace(slot, state="running", running=slot.next, next=None), [Start(slot.next)]
        case SpareFailed():
            state = "broken" if slot.state == "idle" else slot.state
            return replace(slot, state=state, browserless=True), [KeepSpare(later=True)]
        case SpareReady():
            return replace(slot, state="idle" if slot.state == "broken" else slot.state, browserless=False), []
        case Dropped(attempt_id):
            return _dropped(slot, attempt_id)


def _asked(slot: Slot, attempt_id: str, known: bool) -> tuple[Slot, list[Effect]]:
    if known:
        return slot, []
    if slot.state == "idle":
        return replace(slot, state="running", running=attempt_id), [Start(attempt_id)]
    if slot.state == "cleaning" and slot.next is None and not slot.browserless:
        return replace(slot, next=attempt_id), []
    return slot, [Refuse("broken" if slot.browserless and slot.running is None else "busy")]


def _dropped(slot: Slot, attempt_id: str) -> tuple[Slot, list[Effect]]:
    if attempt_id == slot.running:
        return slot, [Cancel()]  # it is still in hand until its task has really ended
    if attempt_id == slot.next:
        return replace(slot, next=None), [Forget(attempt_id)]
    return slot, [Forget(attempt_id)]
