"""What a run asks of a model, and what comes back: the seam between runs and Pydantic AI.

Owns the vocabulary only. `Brain.answer` takes a history and the results that are due and gives one answer: a text, or
calls to be carried out elsewhere (A1). `pydantic_brain.py` is the real one; a simulation plays another.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Tell an event of the run while the answer is being made; raises `LeaseLost` for who may not speak any more (A4).
Tell = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class RunEnds(Exception):
    """The run ends here, failed. `code` is stable, `message` the cause, `hint` the next step."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.hint = code, message, hint

    @property
    def error(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "hint": self.hint}


@dataclass(frozen=True)
class Asked:
    """One question to a model.

    `history` are stored messages, complete but for the calls that `results` answers, by the model's own call ids.
    `requests_left` bounds how often the model may be asked within this answer. `model` names it; never its key.
    """

    run_id: int
    project_id: int
    user_id: int
    model: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    results: Mapping[str, Any]
    requests_left: int
    focus: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class DeferredCall:
    """A call that the model made and that a job carries out. `arguments` are valid for the tool."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """`messages` are new ones, as the history keeps them. Without `calls` the run ends with `text`."""

    messages: Sequence[Mapping[str, Any]]
    text: str = ""
    calls: Sequence[DeferredCall] = ()


class Brain(Protocol):
    async def answer(self, asked: Asked, tell: Tell) -> Answer:
        """Ask the model. Raises `RunEnds`; `LeaseLost` from `tell`. Cancelled when the run is stopped."""
        ...
