"""Edits: exactly one place, all or nothing."""

import pytest

from pagegate.actors.jobs.edits import EditRefused, apply_edits


def refused(source: str, *edits: tuple[str, str]) -> str:
    with pytest.raises(EditRefused) as caught:
        apply_edits(source, edits)
    return caught.value.code


def test_edits_apply_in_order_to_each_others_result() -> None:
    assert apply_edits("a b", [("a", "c"), ("c b", "d")]) == "d"


def test_an_edit_that_matches_nothing_is_refused() -> None:
    assert refused("a b", ("a", "c"), ("a", "x")) == "PAGE_EDIT_NO_MATCH"


def test_an_edit_that_matches_twice_is_refused_even_when_the_places_overlap() -> None:
    assert refused("a\nb\na", ("a", "c")) == "PAGE_EDIT_AMBIGUOUS"
    assert refused("aaa", ("aa", "c")) == "PAGE_EDIT_AMBIGUOUS"


def test_an_edit_written_with_lf_fits_a_page_saved_with_crlf_and_the_page_keeps_its_own() -> None:
    assert apply_edits("one\r\ntwo\r\nthree", [("one\ntwo", "1\n2")]) == "1\r\n2\r\nthree"


def test_an_edit_changes_no_byte_outside_of_its_place_whatever_line_ends_the_page_mixes() -> None:
    mixed = "a\r\nb\nc\r\nd\ne\r\nf"
    assert apply_edits(mixed, [("c", "C")]) == mixed.replace("c", "C")
    assert apply_edits(mixed, [("b\nc\nd", "b\nC\nD\nd")]) == "a\r\nb\nC\r\nD\r\nd\ne\r\nf"
    assert apply_edits("\ufeff" + mixed, [("e\nf", "e")]) == "\ufeff" + mixed[:-3]


def test_replacements_are_literal() -> None:
    assert apply_edits("a.b", [("a.b", r"\1$&")]) == r"\1$&"


def test_edits_that_leave_nothing_or_change_nothing_are_refused() -> None:
    assert refused("abc", ("abc", " \n")) == "PAGE_EDIT_EMPTIES_PAGE"
    assert refused("abc", ("b", "b")) == "PAGE_EDIT_NO_CHANGE"
