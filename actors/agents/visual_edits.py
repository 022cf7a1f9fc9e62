"""From a visual edit to a call of `apply_page_edits`: one way for every change of a page, through the gate (V9, A2).

Pure. The Runtime says which ranges of the source become what; here they become search-and-replace pairs of which each
fits exactly one place, so that the run shows what was changed in the words that any agent would use.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pagegate.actors.agents.tools import ApplyPageEditsCall, parse_tool_call

CALL_ID = "visual-edit"
_CONTEXT_CHARS = 24  # at the start; doubled until the place is the only one


@dataclass(frozen=True)
class Splice:
    """`source[start:end]` becomes `text`; offsets count UTF-16 units, as everywhere on the Runtime's wire."""

    start: int
    end: int
    text: str


def edit_call(page_code: str, base_version: int, source: str, splices: Sequence[Splice]) -> ApplyPageEditsCall:
    """The call that makes exactly these changes. `splices` are in order and do not overlap; there is at least one."""
    edits = [{"search": search, "replace": replace} for search, replace in search_and_replace(source, splices)]
    arguments = {"page": page_code, "base_version": base_version, "edits": edits}
    call = parse_tool_call(CALL_ID, "apply_page_edits", arguments)
    assert isinstance(call, ApplyPageEditsCall)
    return call


def search_and_replace(source: str, splices: Sequence[Splice]) -> list[tuple[str, str]]:
    """Pairs for `apply_edits`, the last place first: an edit made moves no place that is still to come."""
    text = source
    pairs = []
    for splice in reversed(splices):
        start, end = _index(source, splice.start), _index(source, splice.end)
        first, last = _only_place(text, start, end)
        pairs.append((text[first:last], text[first:start] + splice.text + text[end:last]))
        text = text[:start] + splice.text + text[end:]
    return pairs


def _index(source: str, utf16_offset: int) -> int:
    return len(source.encode("utf-16-le")[: 2 * utf16_offset].decode("utf-16-le"))


def _only_place(text: str, start: int, end: int) -> tuple[int, int]:
    """The range with as much around it as makes it the only such place. Line ends do not tell places apart."""
    plain, context = text.replace("\r\n", "\n"), _CONTEXT_CHARS
    while True:
        first, last = max(0, start - context), min(len(text), end + context)
        first -= text[first - 1 : first + 1] == "\r\n"
        last += text[last - 1 : last + 1] == "\r\n"
        search = text[first:last].replace("\r\n", "\n")
        if len(re.findall(f"(?={re.escape(search)})", plain)) == 1:
            return first, last
        context *= 2
