"""Two contracts of a component compared, and a change held against how a page uses it (D4). Pure.

A place is broken by a change only where it can be seen: what a contract leaves open, or a place gives unseen
(`v-bind="all"`), is not guessed about. What the old contract did not name is no loss: in Vue it fell through to the
element, and goes on doing so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagegate.runtime.contract import ComponentContract, ComponentProp, ComponentUse


@dataclass(frozen=True)
class Change:
    """One difference between two contracts: `prop_removed`, `prop_added`, `prop_required`, `event_…`, `slot_…`."""

    change: str
    name: str

    @property
    def told(self) -> dict[str, str]:
        return {"change": self.change, "name": self.name}


@dataclass(frozen=True)
class Break:
    """What a change would break at one place. `code`: `COMPONENT_PROP_REMOVED` and its like, or a compile's own."""

    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def told(self) -> dict[str, Any]:
        place = {"file": self.file, "line": self.line, "column": self.column}
        return {"code": self.code, "message": self.message, **{k: v for k, v in place.items() if v is not None}}


def contract_changes(old: ComponentContract, new: ComponentContract) -> list[Change]:
    """What is different, by name; what an open part leaves unsaid is no difference."""
    before, after = _props(old), _props(new)
    changes = _moves("prop", [*before], [*after], old.open.props, new.open.props)
    changes += [Change("prop_required", name) for name in after if name in before and _requires(before, after[name])]
    changes += _moves("event", old.events, new.events, old.open.events, new.open.events)
    changes += _moves("slot", old.slots, new.slots, old.open.slots, new.open.slots)
    return changes


def _moves(noun: str, was: Sequence[str], now: Sequence[str], was_open: bool, now_open: bool) -> list[Change]:
    removed = [] if now_open else [Change(f"{noun}_removed", name) for name in was if name not in now]
    return removed + ([] if was_open else [Change(f"{noun}_added", name) for name in now if name not in was])


def breaks(old: ComponentContract | None, new: ComponentContract, uses: Sequence[ComponentUse]) -> list[Break]:
    """What the new contract breaks at these places. `old` None: it is not known what there was before."""
    return [found for use in uses for found in _breaks_at(old, new, use)]


def _breaks_at(old: ComponentContract | None, new: ComponentContract, use: ComponentUse) -> Iterator[Break]:
    before, after = _props(old) if old is not None else {}, _props(new)
    given = {_camel(name) for name in use.props}

    def broken(code: str, message: str) -> Break:
        return Break(code, message, use.file, use.line, use.column)

    if not new.open.props:
        for name in sorted(given):
            if name in before and name not in after:
                yield broken("COMPONENT_PROP_REMOVED", f"The prop {name!r}, which is given here, is gone.")
    for name in after:
        if _requires(before, after[name]) and name not in given and not use.open:
            yield broken("COMPONENT_PROP_REQUIRED", f"The prop {name!r} is required now, and is not given here.")
    if old is None:
        return
    was, now = {_camel(name) for name in old.events}, {_camel(name) for name in new.events}
    for name in () if new.open.events else use.events:
        if _camel(name) in was - now:
            yield broken("COMPONENT_EVENT_REMOVED", f"The event {name!r}, which is listened to here, is gone.")
    for name in () if new.open.slots else use.slots:
        if name in old.slots and name not in new.slots:
            yield broken("COMPONENT_SLOT_REMOVED", f"The slot {name!r}, which is filled here, is gone.")


def _requires(before: Mapping[str, ComponentProp], prop: ComponentProp) -> bool:
    known = before.get(_camel(prop.name))
    return prop.required and (known is None or not known.required)


def _props(contract: ComponentContract) -> dict[str, ComponentProp]:
    return {_camel(prop.name): prop for prop in contract.props}


def _camel(name: str) -> str:
    return re.sub(r"-(\w)", lambda found: found[1].upper(), name)
