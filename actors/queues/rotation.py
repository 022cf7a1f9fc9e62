"""Who is next: 3 interactive to 1 background, and turns by workspace inside each class (R3).

Pure, and small enough for property tests to prove. The state is one replica's memory and may be lost: a lost state is
a new rotation, nothing else. Bounds, for heads that are eligible at every pick:

* an eligible background head is served by the fourth pick;
* with W workspaces eligible in a class, each is served within W picks of that class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Class = Literal["interactive", "background"]

INTERACTIVE_IN_A_ROW_MAX = 3
_WORKSPACES_REMEMBERED = 1024  # per class; a forgotten one is served as if it had never been


@dataclass(frozen=True)
class Head:
    """What may be served next of one workspace in one class: its oldest eligible entry."""

    klass: Class
    workspace_id: int
    entry_id: int


@dataclass(frozen=True)
class Rotation:
    """`interactive_in_a_row` since background was last served, and each class's workspaces, longest unserved first."""

    interactive_in_a_row: int = 0
    served_interactive: tuple[int, ...] = ()
    served_background: tuple[int, ...] = ()


def pick(rotation: Rotation, heads: Sequence[Head]) -> tuple[Head | None, Rotation]:
    """The next head and the rotation after it. Pure; ties go to the lower entry id (who came first)."""
    interactive = [head for head in heads if head.klass == "interactive"]
    background = [head for head in heads if head.klass == "background"]
    if not interactive and not background:
        return None, rotation
    backgrounds_turn = rotation.interactive_in_a_row >= INTERACTIVE_IN_A_ROW_MAX
    if background and (backgrounds_turn or not interactive):
        head = _longest_unserved(background, rotation.served_background)
        return head, Rotation(0, rotation.served_interactive, _served(rotation.served_background, head))
    head = _longest_unserved(interactive, rotation.served_interactive)
    in_a_row = min(rotation.interactive_in_a_row + 1, INTERACTIVE_IN_A_ROW_MAX)
    return head, Rotation(in_a_row, _served(rotation.served_interactive, head), rotation.served_background)


def deal(rotation: Rotation, heads: Sequence[Head], count: int) -> list[int]:
    """The workspaces of the next `count` picks, in their order, if each has entries enough. Pure.

    `heads`: one for each workspace.
    """
    turns: list[int] = []
    for _ in range(count):
        head, rotation = pick(rotation, heads)
        if head is None:
            break
        turns.append(head.workspace_id)
    return turns


def after(rotation: Rotation, klass: Class, turns: Sequence[int], found: Mapping[int, int]) -> Rotation:
    """The rotation after these turns, of which only the first `found` of each workspace were taken. Pure."""
    left = dict(found)
    for workspace_id in turns:
        if left.get(workspace_id, 0) > 0:
            left[workspace_id] -= 1
            _, rotation = pick(rotation, [Head(klass, workspace_id, 0)])
    return rotation


def last_served(rotation: Rotation, klass: Class) -> int | None:
    """The workspace that had the latest turn of a class; None when none had one."""
    served = rotation.served_interactive if klass == "interactive" else rotation.served_background
    return served[-1] if served else None


def _longest_unserved(heads: Sequence[Head], served: tuple[int, ...]) -> Head:
    turn = {workspace_id: place for place, workspace_id in enumerate(served)}
    return min(heads, key=lambda head: (turn.get(head.workspace_id, -1), head.entry_id))


def _served(served: tuple[int, ...], head: Head) -> tuple[int, ...]:
    others = tuple(workspace_id for workspace_id in served if workspace_id != head.workspace_id)
    return (*others, head.workspace_id)[-_WORKSPACES_REMEMBERED:]
