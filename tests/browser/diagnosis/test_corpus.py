"""Pages as an agent writes them: good ones pass without a word, one slip is one finding at its line (R8, R10)."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from .conftest import CORPUS, deck_pages, expected_of
from .judging import Judged, Project

PAGES = Project(CORPUS).pages
GOOD = [page for page in PAGES if expected_of(page) is None]
SLIPS = [page for page in PAGES if expected_of(page) is not None]
FAILS = re.compile(r"PAGE_")


def test_the_corpus_has_enough_of_both_kinds() -> None:
    assert len(GOOD) >= 20
    assert len(SLIPS) >= 20


@pytest.mark.parametrize("page", GOOD)
def test_a_good_page_has_no_finding(page: str, judged: Mapping[str, Judged]) -> None:
    diagnosis = judged[f"corpus/{page}"].diagnosis
    assert diagnosis is not None
    assert (diagnosis.status, diagnosis.findings) == ("passed", [])


@pytest.mark.parametrize("page", SLIPS)
def test_one_slip_is_one_finding_where_the_author_made_it(page: str, judged: Mapping[str, Judged]) -> None:
    diagnosis = judged[f"corpus/{page}"].diagnosis
    expected = expected_of(page)
    assert diagnosis is not None
    assert expected is not None
    code, file, line = expected
    found = [(finding.code, finding.file, finding.line) for finding in diagnosis.findings]
    assert [code for code, _, _ in found] == [code], diagnosis.findings
    if line is not None:
        assert found[0][1:] == (file, line)
    assert diagnosis.status == ("failed" if FAILS.match(code) else "warning")


@pytest.mark.parametrize("page", deck_pages(), ids=lambda page: page["code"])
def test_the_decks_pages_get_the_verdict_that_was_written_for_them(
    page: dict[str, str], judged: Mapping[str, Judged]
) -> None:
    became = judged[f"deck/{page['file']}"]
    if page["stage"] == "compile":
        assert not became.compiled.ok
        places = [f"{error.file}:{error.line}" for error in became.compiled.errors]
    else:
        assert became.diagnosis is not None
        assert became.diagnosis.status == page["expect"]
        places = [f"{finding.file}:{finding.line}" for finding in became.diagnosis.findings]
    where = page["where"].partition(" ")[0]
    assert places == ([where] if where else [])


def test_an_element_is_named_and_has_its_place_in_the_picture(judged: Mapping[str, Judged]) -> None:
    diagnosis = judged["deck/pages/q3-voices.vue"].diagnosis
    assert diagnosis is not None
    [finding] = diagnosis.findings
    assert finding.element is not None
    assert "div.text" in finding.element
    assert finding.rect is not None
    assert (finding.rect.width, finding.rect.height) == (312, 150)


def test_no_probe_stumbles_over_any_page(judged: Mapping[str, Judged]) -> None:
    stumbled = {
        name: became.seen.probe["page"]["stumbled"]
        for name, became in judged.items()
        if became.seen is not None and "page" in became.seen.probe
    }
    assert len(stumbled) > 60
    assert all(what == {} for what in stumbled.values()), stumbled


def test_what_a_finding_says_names_no_machine(judged: Mapping[str, Judged]) -> None:
    texts = [f"{f.message} {f.hint} {f.element}" for b in judged.values() if b.diagnosis for f in b.diagnosis.findings]
    assert texts
    assert not [text for text in texts if re.search(r"gate\.test|/vendor/|\.runtime-task|/tmp", text)]
    assert not [text for text in texts if str(Path.home()) in text]


def test_the_kit_looks_the_same_in_both_frameworks(judged: Mapping[str, Judged]) -> None:
    """D3."""
    pictures = [judged[f"corpus/pages/{name}"].seen for name in ("good-kit.vue", "good-kit-react.tsx")]
    assert all(seen is not None and seen.png for seen in pictures)
    assert len({seen.png for seen in pictures if seen is not None}) == 1
