"""The text of a console call, as the console would show it."""

from typing import Any

import pytest

from pagegate.renderer.hearing import STEADY_URL, format_arguments, stack_text


def text(value: str) -> dict[str, Any]:
    return {"type": "string", "value": value}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], ""),
        ([text("plain")], "plain"),
        ([text("a %s and %s"), text("x"), text("y")], "a x and y"),
        ([text("missing %s")], "missing %s"),
        ([text("more %s"), text("x"), text("y")], "more x y"),
        ([text("%cred%c"), text("color:red"), text("")], "red"),
        ([text("100%% of %d"), {"type": "number", "value": 3}], "100% of 3"),
        ([text("is"), {"type": "boolean", "value": True}, {"type": "undefined"}], "is true undefined"),
        ([{"type": "object", "subtype": "error", "description": "Error: x\n    at y"}], "Error: x\n    at y"),
        ([{"type": "number", "unserializableValue": "NaN"}, {"type": "object", "value": None}], "NaN null"),
    ],
)
def test_arguments_are_shown_as_the_console_shows_them(arguments: list[dict[str, Any]], shown: str) -> None:
    assert format_arguments(arguments) == shown


def test_a_stack_counts_from_one_and_leaves_our_own_frames_out() -> None:
    page = {"functionName": "mount", "url": "https://gate.test/page.js", "lineNumber": 4, "columnNumber": 0}
    ours = {"functionName": "paint", "url": STEADY_URL, "lineNumber": 1, "columnNumber": 1}
    assert stack_text({"callFrames": [ours, page, ours]}) == "at mount (https://gate.test/page.js:5:1)"
    assert stack_text(None) == ""
