"""Contracts compared, and a change held against how a page uses the component (D4)."""

from typing import Any

import pytest

from pagegate.actors.jobs.component_contract import breaks, contract_changes
from pagegate.runtime.contract import ComponentContract, ComponentProp, ComponentUse, OpenParts


def contract(
    *props: str, events: tuple[str, ...] = (), slots: tuple[str, ...] = (), **open_: bool
) -> ComponentContract:
    """A `!` at the end of a prop's name: it is required."""
    told = [ComponentProp(name=name.rstrip("!"), required=name.endswith("!")) for name in props]
    parts = {name.removesuffix("_open"): value for name, value in open_.items()}
    return ComponentContract(props=told, events=list(events), slots=list(slots), open=OpenParts(**parts))


def use(*props: str, **more: Any) -> ComponentUse:
    return ComponentUse(file="pages/home.vue", line=3, column=1, props=list(props), **more)


EVENTS, SLOTS = ("close", "update:modelValue"), ("default", "head")
OLD = contract("title!", "size", events=EVENTS, slots=SLOTS)

CHANGES = {
    "nothing": (OLD, []),
    "a prop gone": (contract("title!", events=EVENTS, slots=SLOTS), [("prop_removed", "size")]),
    "a prop new": (contract("title!", "size", "x!", events=EVENTS, slots=SLOTS), [("prop_added", "x")]),
    "required": (contract("title!", "size!", events=EVENTS, slots=SLOTS), [("prop_required", "size")]),
    "an event, a slot": (
        contract("title!", "size", events=("close", "pick"), slots=("default",)),
        [("event_removed", "update:modelValue"), ("event_added", "pick"), ("slot_removed", "head")],
    ),
    "open": (contract("title!", events=EVENTS, slots=SLOTS, props_open=True), []),
}


@pytest.mark.parametrize(("new", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_what_changed_between_two_contracts(new: Any, expected: list[tuple[str, str]]) -> None:
    assert [(one.change, one.name) for one in contract_changes(OLD, new)] == expected


BREAKS = {
    "a given prop is gone": (contract("title!"), use("title", "size"), ["COMPONENT_PROP_REMOVED"]),
    "a prop that is not given is gone": (contract("title!"), use("title"), []),
    "an attribute that never was a prop": (contract("title!", "size"), use("title", "class", "dataX"), []),
    "props are open": (contract("title!", props_open=True), use("title", "size"), []),
    "a new required prop": (contract("title!", "size", "x!"), use("title"), ["COMPONENT_PROP_REQUIRED"]),
    "a new required prop that is given": (contract("title!", "size", "x!"), use("title", "x"), []),
    "more is given than can be seen": (contract("title!", "size", "x!"), use(open=True), []),
    "it was missing before": (contract("title!", "size"), use(), []),
    "now required": (contract("title!", "size!"), use("title"), ["COMPONENT_PROP_REQUIRED"]),
    "an event is gone": (
        contract("title!", "size", slots=("head",)),
        use("title", events=["close", "click"]),
        ["COMPONENT_EVENT_REMOVED"],
    ),
    "events are open": (contract("title!", "size", events_open=True), use("title", events=["close"]), []),
    "a slot is gone": (
        contract("title!", "size", slots=("default",)),
        use("title", slots=["head", "default", "other"]),
        ["COMPONENT_SLOT_REMOVED"],
    ),
    "slots are open": (contract("title!", "size", slots_open=True), use("title", slots=["head"]), []),
    "written with dashes": (contract("title!", "aSize"), use("title", "a-size"), []),
}


@pytest.mark.parametrize(("new", "at", "codes"), BREAKS.values(), ids=BREAKS.keys())
def test_what_a_change_breaks_at_a_place(new: Any, at: Any, codes: list[str]) -> None:
    found = breaks(OLD, new, [at])
    assert [one.code for one in found] == codes
    assert all((one.file, one.line) == ("pages/home.vue", 3) for one in found)


def test_of_an_unknown_contract_only_what_is_missing_now_can_be_said() -> None:
    found = breaks(None, contract("title!", "x!"), [use("title", "size", events=["close"], slots=["head"])])
    assert [one.code for one in found] == ["COMPONENT_PROP_REQUIRED"]
