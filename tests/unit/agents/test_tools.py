"""The tools as data: what a call shows by itself, and nothing about the state it will meet (A2, A9, S4)."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pagegate.actors.agents.arguments import PAGE_CODE_PATTERN, SOURCE_BYTES_MAX
from pagegate.actors.agents.tools import (
    SUBJECTS,
    ToolCallsRefused,
    derive_page_code,
    parse_tool_call,
    refuse_step,
    request_digest,
    subject_of,
)
from pagegate.storage import jobs

SOURCE = "<template/>"


def create(call_id: str = "c1", **arguments: Any) -> Any:
    return parse_tool_call(call_id, "create_project_page", {"title": "Costs", "source": SOURCE, **arguments})


def edit(**arguments: Any) -> Any:
    given_ = {"page": "q3-costs", "base_version": 1, "edits": [{"search": "a", "replace": "b"}], **arguments}
    return parse_tool_call("e1", "apply_page_edits", given_)


@pytest.mark.parametrize(
    ("title", "code"),
    [
        ("The quarter in numbers", "the-quarter-in-numbers"),
        ("  Q3: costs & people!  ", "q3-costs-people"),
        ("Übersicht für Zoë", "ubersicht-fur-zoe"),
        ("季度回顾", "page"),
        ("---", "page"),
        ("Ⅻ ﬁnal", "xii-final"),
    ],
)
def test_a_code_is_derived_from_the_title(title: str, code: str) -> None:
    assert derive_page_code(title, lambda _: False) == code


def test_a_taken_code_is_counted_on() -> None:
    assert derive_page_code("Costs", {"costs", "costs-2"}.__contains__) == "costs-3"


@given(st.text(max_size=200), st.integers(0, 5))
def test_every_derived_code_is_a_page_code(title: str, taken: int) -> None:
    seen: list[str] = []

    def is_taken(code: str) -> bool:
        seen.append(code)
        return len(seen) <= taken

    assert re.fullmatch(PAGE_CODE_PATTERN, derive_page_code(title, is_taken))
    assert len(seen) == len(set(seen)) == taken + 1


@given(st.text(max_size=50))
def test_what_is_stored_reads_back_the_same(source: str) -> None:
    try:
        call = create(source=source, canvas={"width_px": 800, "height_px": None})
    except ValidationError:
        return
    assert parse_tool_call(call.call_id, call.tool, call.arguments.model_dump(mode="json")) == call
    call.arguments.source.encode()


def test_the_digest_knows_one_request_from_another_and_not_how_it_was_written() -> None:
    digest = request_digest(1, [create()], False)
    assert digest == request_digest(1, [create(framework="vue", speaker_notes="")], False)
    others = [
        request_digest(2, [create()], False),
        request_digest(1, [create()], True),
        request_digest(1, [create(title="Other")], False),
        request_digest(1, [create("c2")], False),
        request_digest(1, [create(), create("c2")], False),
    ]
    assert len({digest, *others}) == 6


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        ([create("a"), create("b"), create("c")], "AI_PAGE_MUTATION_BATCH_TOO_LARGE"),
        ([create("a"), create("a")], "TOOL_CALL_ID_DUPLICATE"),
        ([create("a", source="x" * 101)], "PAGE_SOURCE_TOO_LARGE"),
        ([edit(edits=[{"search": "a", "replace": "é" * 51}])], "PAGE_SOURCE_TOO_LARGE"),
    ],
)
def test_a_step_is_refused_as_a_whole(calls: list[Any], code: str) -> None:
    with pytest.raises(ToolCallsRefused) as refused:
        refuse_step(calls, batch_size_max=2, source_bytes_max=100)
    assert refused.value.code == code
    assert refused.value.hint


def test_a_step_at_its_limits_is_fine() -> None:
    refuse_step([create("a", source="é" * 50), create("b")], batch_size_max=2, source_bytes_max=100)


def test_edits_are_bounded_together() -> None:
    half = "x" * (SOURCE_BYTES_MAX // 2)
    with pytest.raises(ValidationError, match="the edits have"):
        edit(edits=[{"search": half, "replace": half + "!"}])


def test_what_a_call_is_about_has_one_name_in_events_results_and_tables() -> None:
    assert set(jobs.SUBJECTS.values()) <= set(SUBJECTS)
    assert [subject_of({name: "it"}) for name in SUBJECTS] == ["it"] * len(SUBJECTS)
    assert subject_of({"call_id": "c1"}) == ""
