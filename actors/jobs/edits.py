"""Search-and-replace edits on a page's source (A2, A11). Pure: all edits apply, in order, or none does."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class EditRefused(Exception):
    """Why the edits were not applied: `PAGE_EDIT_NO_MATCH`, `PAGE_EDIT_AMBIGUOUS`, `PAGE_EDIT_EMPTIES_PAGE`,
    `PAGE_EDIT_NO_CHANGE`."""

    code: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def apply_edits(source: str, edits: Iterable[tuple[str, str]]) -> str:
    """The source after every `(search, replace)`; each `search` must occur exactly once when its turn comes.

    Line ends do not decide a match: an edit written with LF fits a page saved with CRLF, and the page keeps its own.
    Raises `EditRefused`.
    """
    newline = "\r\n" if "\r\n" in source else "\n"
    text = before = _lf(source)
    for number, (search, replace) in enumerate(edits, start=1):
        text = _apply(text, number, _lf(search), _lf(replace))
    if not text.strip():
        raise EditRefused(
            "PAGE_EDIT_EMPTIES_PAGE", "After the edits nothing is left of the page.", "Delete the page instead."
        )
    if text == before:
        raise EditRefused(
            "PAGE_EDIT_NO_CHANGE", "The edits leave the page as it is.", "Send edits that change something."
        )
    return text.replace("\n", newline)


def _apply(text: str, number: int, search: str, replace: str) -> str:
    places = _occurrences(text, search)
    if not places:
        raise EditRefused(
            "PAGE_EDIT_NO_MATCH",
            f"Edit {number} matches nothing: {_shown(search)} is not in the page.",
            "Read the page's current source and copy the text to search for from it, spaces included.",
        )
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:5])
        raise EditRefused(
            "PAGE_EDIT_AMBIGUOUS",
            f"Edit {number} matches {len(places)} places (lines {lines}): {_shown(search)}.",
            "Search for more of the surrounding text, so that exactly one place fits.",
        )
    return text[: places[0]] + replace + text[places[0] + len(search) :]


def _occurrences(text: str, search: str) -> list[int]:
    # Overlapping ones count: in "aaa" the search "aa" does not say which place is meant.
    return [match.start() for match in re.finditer(f"(?={re.escape(search)})", text)]


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _shown(search: str) -> str:
    first = search.strip().split("\n", 1)[0]
    return repr(first if len(first) <= 60 else first[:57] + "...")
