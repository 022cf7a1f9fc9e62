"""Visual edits as search and replace (V9): applied in order they make exactly the page that the tool made."""

from hypothesis import given
from hypothesis import strategies as st

from pagegate.actors.agents.visual_edits import Splice, search_and_replace
from pagegate.actors.jobs.edits import apply_edits

PIECES = st.sampled_from(["a", "ab", "\n", "\r\n", "🎉", "<p>x</p>", " ", "aaaa"])


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(parts=st.lists(st.tuples(PIECES, st.none() | st.sampled_from(["", "a", "z🎉", "aa"])), min_size=1, max_size=40))
def test_pairs_make_the_same_page_byte_for_byte(parts: list[tuple[str, str | None]]) -> None:
    source = "\ufeffstart\r\n" + "".join(old for old, _ in parts) + "end"
    made, at, splices = "\ufeffstart\r\n", units("\ufeffstart\r\n"), []
    for old, new in parts:
        replaced = new is not None and "\n" not in old
        made += new if new is not None and replaced else old
        if new is not None and replaced:
            splices.append(Splice(at, at + units(old), new))
        at += units(old)
    made += "end"
    if made != source:
        assert apply_edits(source, search_and_replace(source, splices)) == made


def test_search_names_no_more_of_the_page_than_it_needs() -> None:
    source = "x" * 5000 + "one" + "y" * 5000
    ((search, replace),) = search_and_replace(source, [Splice(5000, 5003, "two")])
    assert (search, replace) == ("x" * 24 + "one" + "y" * 24, "x" * 24 + "two" + "y" * 24)
