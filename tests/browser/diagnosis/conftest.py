"""The corpus and the deck, looked at once for all tests of this folder.

The first line of each page of `corpus/pages` says what must be found: `expect: nothing`, or `expect: CODE LINE` (the
line may be left out, and may be `components/Name.tsx:3`).
"""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from .judging import Judged, Project, judge_all

CORPUS = Path(__file__).parent / "corpus"
DECK = Path(__file__).parents[3] / "deploy" / "sample"
EXPECT = re.compile(r"expect: (\w+)(?: (?:(\S+):)?(\d+))?")


@pytest.fixture(scope="session")
def judged() -> Mapping[str, Judged]:
    """Every page of the corpus and of the deck, by `corpus/pages/…` and `deck/pages/…`."""
    projects = {"corpus": Project(CORPUS), "deck": Project(DECK)}
    wanted = {f"{name}/{page}": (project, page) for name, project in projects.items() for page in project.pages}
    return asyncio.run(judge_all(wanted))


def expected_of(page: str) -> tuple[str, str, int | None] | None:
    """The code, file and line that the page's first line promises; None for a good page."""
    told = EXPECT.search((CORPUS / page).read_text(encoding="utf-8").partition("\n")[0])
    assert told is not None, f"{page} does not say what to expect"
    return None if told[1] == "nothing" else (told[1], told[2] or page, int(told[3]) if told[3] else None)


def deck_pages() -> list[dict[str, str]]:
    pages: list[dict[str, str]] = json.loads((DECK / "deck.json").read_text(encoding="utf-8"))["pages"]
    return pages
