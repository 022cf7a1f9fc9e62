"""Fifty pages in the manner of an agent, and the same pages with one slip each: recall and false alarms (R10).

Red below 95 % recall and above 0 false alarms. The table of both by kind of finding is printed at the end of the run.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pagegate.renderer import diagnosis as rules
from pagegate.renderer.contract import Finding

from .judging import Judged, Project, judge_all
from .slips import WRITTEN, Slip, good_pages, read_slips

GOOD = list(good_pages())
SLIPS = read_slips()
RECALL_MIN = 0.95
FAILS = re.compile(r"PAGE_(?!TOO_TALL)")


@pytest.fixture(scope="module")
def written() -> Mapping[str, Judged]:
    """The good pages by their path, the slips by their name."""
    good = {page: (Project(WRITTEN), page) for page in GOOD}
    slips = {slip.name: (slip.project, slip.page) for slip in SLIPS}
    return asyncio.run(judge_all(good, slips))


def findings_of(judged: Judged) -> list[Finding]:
    assert judged.diagnosis is not None, judged.compiled.errors
    return judged.diagnosis.findings


def is_recalled(slip: Slip, judged: Judged) -> bool:
    """Found under its code and, where a line can be known, at its line."""
    places = {(f.code, f.file, f.line) for f in findings_of(judged)}
    if slip.at is None:
        return any(code == slip.code for code, _, _ in places)
    return (slip.code, *slip.at) in places


def test_there_are_enough_pages_and_kinds_of_slip() -> None:
    assert len(GOOD) >= 40
    assert len({slip.kind for slip in SLIPS}) >= 25


def test_every_code_that_a_finding_can_have_is_slipped_into_a_good_page() -> None:
    folder = Path(str(rules.__file__)).parent
    sources = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    codes = set(re.findall(r'"([A-Z]+_[A-Z_]+)"', sources))
    untried = codes - {slip.code for slip in SLIPS}
    # How long a page may load is a matter of the machine's time, and no page here uses the kit: both have own tests.
    assert untried == {"PAGE_NOT_SETTLED", "KIT_PROP_INVALID"}


@pytest.mark.parametrize("page", GOOD)
def test_a_good_page_has_no_finding(page: str, written: Mapping[str, Judged]) -> None:
    assert findings_of(written[page]) == []


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.name)
def test_a_slip_is_found_where_it_was_made(slip: Slip, written: Mapping[str, Judged]) -> None:
    diagnosis = written[slip.name].diagnosis
    findings = findings_of(written[slip.name])
    assert is_recalled(slip, written[slip.name]), findings
    assert {finding.code for finding in findings} == {slip.code}, findings
    assert diagnosis is not None
    assert diagnosis.status == ("failed" if FAILS.match(slip.code) else "warning")


def test_recall_and_false_alarms(written: Mapping[str, Judged], record_property: Callable[[str, object], None]) -> None:
    alarms = Counter(finding.code for page in GOOD for finding in findings_of(written[page]))
    made = Counter(slip.code for slip in SLIPS)
    recalled = Counter(slip.code for slip in SLIPS if is_recalled(slip, written[slip.name]))
    beside = Counter(f.code for slip in SLIPS for f in findings_of(written[slip.name]) if f.code != slip.code)
    lines = [f"{'finding':<22} slips  found  recall  false alarms"]
    for code in sorted(made | alarms | beside):
        share = f"{recalled[code] / made[code]:7.0%}" if made[code] else f"{'':7}"
        lines.append(f"{code:<22} {made[code]:5}  {recalled[code]:5} {share}  {alarms[code] + beside[code]:12}")
    recall = recalled.total() / made.total()
    false_alarms = alarms.total() + beside.total()
    lines.append(f"{'all':<22} {made.total():5}  {recalled.total():5} {recall:7.0%}  {false_alarms:12}")
    lines.append(f"{len(GOOD)} good pages, {len(SLIPS)} slips of {len({slip.kind for slip in SLIPS})} kinds")
    record_property("table", "\n".join(lines))
    assert recall >= RECALL_MIN
    assert false_alarms == 0
