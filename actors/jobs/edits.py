"""Search-and-replace edits on a source (A2, A11). Pure: all edits apply, in order, or none does."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Edited = Literal["page", "component"]


@dataclass(frozen=True)
class EditRefused(Exception):
    """Why the edits were not applied: `PAGE_EDIT_NO_MATCH`, `PAGE_EDIT_AMBIGUOUS`, `PAGE_EDIT_EMPTIES_PAGE`,
    `PAGE_EDIT_NO_CHANGE`; the same with `COMPONENT` for those of a component."""

    code: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def apply_edits(source: str, edits: Iterable[tuple[str, str]], of: Edited = "page") -> str:
    """The source of a page, or of a component, after every `(search, replace)`; each `search` must occur exactly once
    when its turn comes.

    Line ends do not decide a match: an edit written with LF fits a page saved with CRLF, and what it puts in gets the
    page's own. What an edit does not change keeps its bytes, in a page of mixed line ends too. Raises `EditRefused`.
    """
    newline = "\r\n" if 2 * source.count("\r\n") > source.count("\n") else "\n"
    text = source
    for number, (search, replace) in enumerate(edits, start=1):
        text = _apply(text, number, _lf(search), _lf(replace), newline, of)
    if not text.strip():
        code = f"{of.upper()}_EDIT_EMPTIES_{of.upper()}"
        raise EditRefused(code, f"After the edits nothing is left of the {of}.", f"Delete the {of} instead.")
    if _lf(text) == _lf(source):
        code = f"{of.upper()}_EDIT_NO_CHANGE"
        raise EditRefused(code, f"The edits leave the {of} as it is.", "Send edits that change something.")
    return text


def _apply(text: str, number: int, search: str, replace: str, newline: str, of: Edited) -> str:
    plain = _lf(text)
    places = _occurrences(plain, search)
    if not places:
        raise EditRefused(
            f"{of.upper()}_EDIT_NO_MATCH",
            f"Edit {number} matches nothing: {_shown(search)} is not in the {of}.",
            f"Read the {of}'s current source and copy the text to search for from it, spaces included.",
        )
    if len(places) > 1:
        lines = ", ".join(str(plain.count("\n", 0, place) + 1) for place in places[:5])
        raise EditRefused(
            f"{of.upper()}_EDIT_AMBIGUOUS",
            f"Edit {number} matches {len(places)} places (lines {lines}): {_shown(search)}.",
            "Search for more of the surrounding text, so that exactly one place fits.",
        )
    before, after = _kept(search, replace)
    start = _offset_in(text, places[0] + before)
    end = _offset_in(text, places[0] + len(search) - after)
    changed = replace[before : len(replace) - after]
    return text[:start] + changed.replace("\n", newline) + text[end:]


def _kept(search: str, replace: str) -> tuple[int, int]:
    """How many characters at the start and at the end are the same in both."""
    limit = min(len(search), len(replace))
    before = next((n for n in range(limit) if search[n] != replace[n]), limit)
    limit -= before
    after = next((n for n in range(limit) if search[-1 - n] != replace[-1 - n]), limit)
    return before, after


def _offset_in(text: str, plain_offset: int) -> int:
    """Where an offset of `_lf(text)` is in `text`."""
    skipped = 0
    for found in re.finditer("\r\n", text):
        if found.start() - skipped >= plain_offset:
            break
        skipped += 1
    return plain_offset + skipped


def _occurrences(text: str, search: str) -> list[int]:
    # Overlapping ones count: in "aaa" the search "aa" does not say which place is meant.
    return [match.start() for match in re.finditer(f"(?={re.escape(search)})", text)]


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _shown(search: str) -> str:
    first = search.strip().split("\n", 1)[0]
    return repr(first if len(first) <= 60 else first[:57] + "...")
