"""What frameworks and pages say on the console (R10), in their own words."""

import json

import pytest

from pagegate.renderer.contract import Finding
from pagegate.renderer.diagnosis import diagnose
from pagegate.renderer.observation import ConsoleMessage, Observation, PageError

PAGE = """<script setup>
import StatTile from '@components/StatTile.vue'
</script>

<template>
  <main>
    <p>{{ count }}</p>
    <StatTile label="Shops" />
    <StatTile label="Shops" :now="'3'" />
    <Legend />
  </main>
</template>
"""


def told(*messages: ConsoleMessage, errors: tuple[PageError, ...] = ()) -> list[Finding]:
    sources = {"version": 3, "sources": ["pages/x.vue"], "sourcesContent": [PAGE], "mappings": ""}
    observation = Observation(320, 180, mounted=True, settled=True, console=list(messages), errors=list(errors))
    observation.source_map = json.dumps(sources).encode()
    return diagnose(observation).findings


def vue(text: str) -> ConsoleMessage:
    return ConsoleMessage("warning", f"[Vue warn]: {text}", url="https://gate.test/vendor/vue.js", line=1)


def react(text: str) -> ConsoleMessage:
    return ConsoleMessage("error", text, url="https://gate.test/vendor/react-dom-client.js", line=1)


@pytest.mark.parametrize(
    ("message", "code", "line"),
    [
        (vue("Failed to resolve component: Legend\nIf this is a … \n  at <X>"), "COMPONENT_UNRESOLVED", 10),
        (vue('Property "count" was accessed during render but is not defined on …'), "NAME_UNDEFINED", 7),
        (vue('Missing required prop: "now" \n  at <StatTile label="Shops" > \n  at <X>'), "PROP_MISSING", 8),
        (vue('Invalid prop: type check failed for prop "now". … \n  at <StatTile now="3" >'), "PROP_INVALID", 9),
        (vue("Duplicate keys found during update: 1 Make sure keys are unique."), "KEY_DUPLICATE", None),
        (vue("Some sentence that nobody has seen before"), "FRAMEWORK_WARNING", None),
        (react('Each child in a list should have a unique "key" prop.\n\nCheck …'), "KEY_MISSING", None),
        (react("Encountered two children with the same key, `a`."), "KEY_DUPLICATE", None),
        (react('In HTML, <b> cannot be a child of <p>.\n<div data-pg-loc="pages/x.tsx:6:9"'), "NESTING_INVALID", 6),
        (react("Invalid DOM property `class`. Did you mean `className`?"), "ATTRIBUTE_UNKNOWN", None),
        (react("You provided a `value` prop to a form field without an `onChange` handler."), "FIELD_READ_ONLY", None),
        (react("Maximum update depth exceeded. This can happen when …"), "UPDATE_LOOP", None),
        (react("useEffect must not return anything besides a function, which …"), "HOOK_INVALID", None),
        (react("React has detected a change in the order of Hooks called by Kpi."), "HOOK_INVALID", None),
        (react("Something new in react"), "FRAMEWORK_WARNING", None),
    ],
)  # fmt: skip
def test_a_warning_of_a_framework_has_a_code_and_the_line_it_is_about(
    message: ConsoleMessage, code: str, line: int | None
) -> None:
    [finding] = told(message)
    assert (finding.code, finding.severity, finding.line) == (code, "warning", line)
    assert finding.hint


@pytest.mark.parametrize(
    "message",
    [
        ConsoleMessage("log", "hello"),
        ConsoleMessage("info", "Download the React DevTools for a better development experience"),
        ConsoleMessage("debug", "detail"),
        ConsoleMessage("warning", "a value is old", url="https://gate.test/page.js"),
        ConsoleMessage("error", "Refused to connect", source="security"),
        react("Download the React DevTools for a better development experience: https://react.dev"),
        vue("Feature flag __VUE_PROD_DEVTOOLS__ is not explicitly defined."),
    ],
)
def test_what_is_no_fault_of_the_page_is_not_told(message: ConsoleMessage) -> None:
    assert told(message) == []


def test_an_error_of_the_pages_own_is_a_warning_with_its_words() -> None:
    [finding] = told(ConsoleMessage("error", "no theme", url="https://gate.test/page.js", line=3, column=1))
    assert (finding.code, finding.severity) == ("CONSOLE_ERROR", "warning")
    assert "no theme" in finding.message


def test_an_error_that_is_logged_and_thrown_is_told_once() -> None:
    logged = ConsoleMessage("error", "Error: no shops at load (https://gate.test/page.js:1:1)")
    findings = told(logged, errors=(PageError("Error: no shops"),))
    assert [finding.code for finding in findings] == ["PAGE_ERROR"]


def test_what_react_says_of_hooks_before_it_throws_is_told_with_the_error() -> None:
    said = react("React has detected a change in the order of Hooks called by Kpi.")
    thrown = PageError("TypeError: Cannot read properties of undefined (reading 'length')", "", "", 0, 0)
    [finding] = told(said, errors=(thrown,))
    assert finding.code == "PAGE_ERROR"
    assert "top level of a component" in finding.hint
