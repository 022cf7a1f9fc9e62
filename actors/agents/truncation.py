"""Whether a source was cut short by a placeholder: "rest unchanged", "… existing code …" (A11).

Pure. A placeholder is a *whole comment* that says nothing but that something was left out. A sentence that merely
contains such words is none, and neither is text that a page shows, such as a listing of code: only what is a comment in
its place counts. So comments are read as the languages read them, strings and template literals passed over.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_THINGS = (
    r"(?:code|contents?|markup|template|html|jsx|script|styles?|css|imports?|logic|components?|file|page|sections?"
    r"|slides?|props|data|functions?|elements?|items?|rows?|cards?)"
)
_OF = rf"of (?:the |your |my )?(?:\w+ ){{0,3}}{_THINGS}"
_OLD = rf"(?:existing|previous|remaining|other|original) (?:\w+ ){{0,2}}{_THINGS}"
_STAYS = r"(?: (?:here|below|above))?(?: (?:is|are|remains?|stays?|goes|left|kept))?"
_SAME = (
    r"(?:unchanged|the same|same as (?:before|above|the original)|as (?:before|above|is|it was)|untouched|omitted"
    r"|not shown)"
)
_DOTS = r"(?:\.{2,}|…+)"

# With dots on either side, a few words are enough.
_WITH_DOTS = (
    rf"(?:the )?(?:rest|remainder) {_OF}",
    rf"(?:the )?(?:{_OLD}|unchanged (?:\w+ ){{0,2}}{_THINGS})",
    r"(?:the )?rest(?: of it)?",
    rf"(?:more|other) {_THINGS}(?: here)?",
    rf"{_THINGS} (?:continues|goes|here)(?: here)?",
    r"snip(?:ped)?|same|unchanged|etc",
)
# Without them, the comment must say that something stays as it was.
_ALONE = (
    (
        rf"(?:keep )?(?:the )?(?:(?:rest|remainder|everything else|all else)(?: {_OF})?|{_OLD})"
        rf"{_STAYS} (?:{_SAME}|here)(?: (?:for brevity|here|below|above))?"
    ),
    r"(?:no|without) changes? (?:here|below|above|needed)",
    rf"{_THINGS} (?:is |are |remains? |stays? )?{_SAME}(?: for brevity)?",
    r"(?:omitted|truncated|shortened|snipped|cut)(?: here)? for brevity|truncated",
    (
        r"(?:其余|其他|剩余|余下|后面|前面|现有|原有|原来)的?(?:代码|内容|部分|样式|模板|逻辑)*(?:均|都)?(?:保持)?"
        r"(?:不变|同上|相同|省略)"
    ),
    r"(?:此处|以下|这里|中间)?省略(?:其余|其他|部分)?(?:代码|内容)?|(?:代码|内容)?保持不变|同上",
)


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


_WITH_DOTS_RE, _ALONE_RE = _any_of(_WITH_DOTS), _any_of(_ALONE)
_EDGE = re.compile(r"[\s*/#=~<>!\[\](){}。，,;:：-]+")


@dataclass(frozen=True)
class Placeholder:
    """Where a source was cut short: `line` and `column` count from 1."""

    line: int
    column: int
    text: str


def find_placeholder(source: str, framework: Literal["vue", "react"]) -> Placeholder | None:
    """The first comment of a whole source that stands for something left out; None in a whole one."""
    comments = _comments_of_vue(source) if framework == "vue" else _comments_of_script(source, 0, len(source))
    for start, text in sorted(comments):
        if is_placeholder(text):
            line = source.count("\n", 0, start) + 1
            shown = " ".join(text.split())
            return Placeholder(line, start - (source.rfind("\n", 0, start) + 1) + 1, shown[:120])
    return None


def is_placeholder(comment: str) -> bool:
    """Whether the text of a comment, without its delimiters, says only that something was left out."""
    words = _EDGE.sub(" ", comment.replace("...", " … ")).strip()
    bare = " ".join(re.sub(_DOTS, " ", words).split()).rstrip(".")
    if not bare or len(bare) > 120:
        return False
    if _ALONE_RE.fullmatch(bare):
        return True
    return re.search(_DOTS, words) is not None and _WITH_DOTS_RE.fullmatch(bare) is not None


_BLOCK = re.compile(r"<(script|style)\b[^>]*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
_HTML_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)


def _comments_of_vue(source: str) -> Iterator[tuple[int, str]]:
    end = 0
    for block in _BLOCK.finditer(source):
        yield from _html_comments(source, end, block.start())
        yield from _comments_of_script(source, block.start(2), block.end(2))
        end = block.end()
    yield from _html_comments(source, end, len(source))


def _html_comments(source: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    for found in _HTML_COMMENT.finditer(source, start, end):
        yield found.start(), found[1]


# What a script or a style is made of, as far as comments go. A quote that does not close on its line (an apostrophe in
# the text of an element) is one character. A line comment counts only when nothing but space stands before it on its
# line or a statement does: `https://…` in an element's text is none.
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)"""
    r"""|/\*(?P<block>.*?)\*/|(?<![:\w])//(?P<line>[^\n]*)""",
    re.DOTALL,
)


def _comments_of_script(source: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    for found in _TOKEN.finditer(source, start, end):
        if found["block"] is not None:
            yield found.start(), found["block"]
        elif found["line"] is not None and _stands_alone(source, found.start()):
            yield found.start(), found["line"]


def _stands_alone(source: str, at: int) -> bool:
    before = source[source.rfind("\n", 0, at) + 1 : at].strip()
    return not before or before[-1] in ";{},)"
