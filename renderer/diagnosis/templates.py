"""What a Vue template says that no browser shows before somebody clicks, or that only another browser would show (R10).

Vue's development build warns about names that a template *reads*; a handler's name is read when it is called. And it
builds elements one by one, so a block inside a paragraph may look right here and be moved where the same markup is
parsed. Both are in the author's source, which came with the source map. Pure; each rule asks for certainty: a name that
occurs anywhere in the script, or is introduced by the template itself, is no finding.
"""

import re
from collections.abc import Iterator

from pagegate.renderer.contract import Finding
from pagegate.renderer.diagnosis.evidence import Evidence, finding, position_in

_BLOCK = re.compile(r"^<(template|script)\b[^>]*>(.*?)^</\1\s*>", re.DOTALL | re.MULTILINE)
_NO_MARKUP = re.compile(r"<!--.*?-->|\{\{.*?\}\}", re.DOTALL)
_TAG = re.compile(r"""<(/?)([A-Za-z][\w.-]*)((?:"[^"]*"|'[^']*'|[^>"'])*?)(/?)>""", re.DOTALL)
_HANDLER = re.compile(r"""(?:@|v-on:)[\w.:-]+\s*=\s*("[^"]*"|'[^']*')""")
_LEADING_NAME = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?=$|\(|\.|\?\.|\[|=(?![=>])|\+\+|--|[+\-*/]=)")
_INTRODUCES = re.compile(r"""(?:v-for|v-slot(?::[\w.-]+)?|\#[\w.:\[\]-]+|slot-scope)\s*=\s*("[^"]*"|'[^']*')""")
_NAME = re.compile(r"[A-Za-z_]\w*")
_GLOBALS = frozenset(
    _NAME.findall(
        "console window document location history navigator Math Date JSON Number String Boolean Array Object Promise "
        "Symbol Map Set Intl alert confirm prompt setTimeout clearTimeout setInterval clearInterval undefined null "
        "true false this if for return void typeof await async function new delete throw let const var"
    )
)
# Props of an imported type bring names that the file itself does not mention.
_NAMES_FROM_ELSEWHERE = re.compile(r"defineProps<\s*[A-Z]|extends\s+\w+|mixins\s*:|defineComponent\(\s*\w+\s*\)")
_IS_SETUP = re.compile(r"<script\b[^>]*\bsetup\b")
_SPREADS = re.compile(r"\.\.\.|return\s+use\w+\(|=>\s*use\w+\(")

_VOID = frozenset(_NAME.findall("area base br col embed hr img input link meta source track wbr"))
_CLOSES_A_PARAGRAPH = frozenset(
    _NAME.findall(
        "address article aside blockquote details div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 "
        "header hr main menu nav ol p pre section table ul"
    )
)
# Inside the first one of the second is never kept by a browser that parses.
_NEVER_INSIDE = {"a": frozenset({"a"}), "button": frozenset({"button"}), "form": frozenset({"form"})}


def find(evidence: Evidence) -> list[Finding]:
    found = []
    for path, text in (evidence.map.contents if evidence.map else {}).items():
        if path.endswith(".vue"):
            found += [*_unknown_handlers(path, text), *_impossible_nesting(path, text)]
    return found


def _blocks(text: str) -> dict[str, tuple[int, str]]:
    """(offset, text) of the template and of all scripts together."""
    blocks: dict[str, tuple[int, str]] = {}
    for found in _BLOCK.finditer(text):
        _, before = blocks.get(found[1], (0, ""))
        blocks[found[1]] = (found.start(2), before + found[2])
    return blocks


def _markup(template: str) -> str:
    """The template without comments and expressions, each place where it was."""
    return _NO_MARKUP.sub(lambda found: " " * len(found[0]), template)


def _unknown_handlers(path: str, text: str) -> Iterator[Finding]:
    blocks = _blocks(text)
    offset, template = blocks.get("template", (0, ""))
    _, script = blocks.get("script", (0, ""))
    if not template or _NAMES_FROM_ELSEWHERE.search(script):
        return
    if not _IS_SETUP.search(text) and _SPREADS.search(script):
        return
    template = _markup(template)
    introduced = {name for each in _INTRODUCES.finditer(template) for name in _NAME.findall(each[1])}
    known = introduced | set(_NAME.findall(script)) | _GLOBALS
    for tag in _TAG.finditer(template):
        for handler in _HANDLER.finditer(tag[3]):
            name = _LEADING_NAME.match(handler[1][1:-1])
            if name is None or name[1] in known:
                continue
            yield finding(
                "NAME_UNDEFINED",
                "warning",
                f'The handler "{handler[1][1:-1].strip()}" uses "{name[1]}", which the script does not define.',
                "Define it in the script, or correct its spelling.",
                position=position_in(path, text, offset + tag.start(3) + handler.start()),
            )


def _impossible_nesting(path: str, text: str) -> Iterator[Finding]:
    offset, template = _blocks(text).get("template", (0, ""))
    opened: list[str] = []
    for tag in _TAG.finditer(_markup(template)):
        closing, name, closed = bool(tag[1]), tag[2], bool(tag[4])
        if closing:
            while opened and opened.pop() != name:
                continue
            continue
        outer = _broken_by(name, opened)
        if outer:
            yield finding(
                "NESTING_INVALID",
                "warning",
                f"<{name}> stands inside <{outer}>, where HTML does not allow it: a browser that parses this closes "
                f"<{outer}> before it.",
                "Nest as HTML allows (no `div` inside `p`, no link inside a link); a `div` may replace the `p`.",
                position=position_in(path, text, offset + tag.start()),
            )
        if not closed and name not in _VOID:
            opened.append(name)


def _broken_by(name: str, opened: list[str]) -> str | None:
    """The open element that `name` would end, or None. What a component does with its slot is not known."""
    for each in reversed(opened):
        if each[0].isupper() or "-" in each or each in {"svg", "math", "slot", "component"}:
            return None
        if each == "p" and name in _CLOSES_A_PARAGRAPH:
            return "p"
        if each in _NEVER_INSIDE.get(name, frozenset()):
            return each
        if each in {"td", "th", "caption", "table", "object", "button"}:
            return None
    return None
