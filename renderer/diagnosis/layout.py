"""What the eye would stumble over, from boxes alone (R10): overflow, cut text, text over text. All warnings."""

import re
from typing import Any

from pagegate.renderer.contract import Finding
from pagegate.renderer.diagnosis.evidence import Evidence, Spot, finding, position_in
from pagegate.renderer.diagnosis.pixels import is_even, is_pale
from pagegate.renderer.sourcemap import Position

_LARGE_PX = 48.0
_SIDES = {
    "right": ("to the right of", "Make it narrower, let it wrap, or give it less padding."),
    "bottom": ("below", "Shorten the content, make type or spacing smaller, or split the page."),
    "left": ("to the left of", "Check negative margins, `left` and transforms."),
    "top": ("above", "Check negative margins, `top` and vertical centring of content that is taller than its box."),
}
_CUT = (
    "Let the box grow (`min-height` instead of `height`), shorten the text, or shorten it visibly with `truncate` or "
    "`line-clamp-3`."
)
_CUT_IN_DRAWING = "A drawing ends at its `viewBox`: make that larger, or move the text inside."


def find(evidence: Evidence) -> list[Finding]:
    return [
        *_overflows(evidence),
        *_cuts(evidence),
        *_overlaps(evidence),
        *_crowded(evidence),
        *_covered(evidence),
        *_glyphs(evidence),
        *_icons(evidence),
        *_drawings(evidence),
        *_too_tall(evidence),
    ]


def _canvas_of(evidence: Evidence) -> str:
    seen = evidence.seen
    return f"{seen.viewport_width_px}x{'auto' if seen.height_auto else seen.viewport_height_px}"


def _overflows(evidence: Evidence) -> list[Finding]:
    """One finding a side: the first culprit in the page's own source; the others are named in its message."""
    sides: dict[str, list[dict[str, Any]]] = {}
    for answer in evidence.answers("overflow"):
        sides.setdefault(answer["side"], []).append(answer)
    return [_overflow(evidence, side, culprits) for side, culprits in sides.items()]


def _overflow(evidence: Evidence, side: str, culprits: list[dict[str, Any]]) -> Finding:
    culprits.sort(key=lambda c: (not str(c["loc"]).startswith("pages/"), c["order"]))
    spots = [Spot.of(culprit) for culprit in culprits]
    px = round(max(float(culprit["px"]) for culprit in culprits))
    beside, hint = _SIDES[side]
    first = next((c["first"] for c in culprits if c["first"]), None)
    message = f"Content runs {px} px {beside} the canvas ({_canvas_of(evidence)})"
    if first:
        message += f', with the text "{first}"'
    others = {spot.position: spot for spot in spots if spot.position != spots[0].position}
    if others:
        message += "; also " + ", ".join(f"{spot.path}{spot.at}" for spot in list(others.values())[:3])
    return finding("CANVAS_OVERFLOW", "warning", f"{message}.", hint, spot=spots[0])


def _cuts(evidence: Evidence) -> list[Finding]:
    """At the author's style rule that hides what runs over, when the element's class has one; else at the element."""
    found = []
    for answer in evidence.answers("clipping"):
        if float(answer["paint"]["size"]) >= _LARGE_PX and is_pale(evidence.image, answer["paint"]):
            continue  # an ornament
        spot = Spot.of(answer)
        rule = _hiding_rule(evidence, spot)
        of = f", the element of {spot.position.file}:{spot.position.line}," if rule and spot.position else ""
        px = round(float(answer["px"]))
        found.append(
            finding(
                "TEXT_CLIPPED",
                "warning",
                f'This box{of} cuts off {px} px of its text at the {answer["side"]}: "{spot.text}".',
                _CUT_IN_DRAWING if answer.get("drawn") else _CUT,
                spot=spot,
                position=rule,
            )
        )
    return found


def _hiding_rule(evidence: Evidence, spot: Spot) -> Position | None:
    """The line with `overflow` in the style sheet of the element's own file."""
    text = evidence.map.contents.get(spot.position.file) if evidence.map and spot.position else None
    if not text or not spot.position:
        return None
    for name in re.findall(r"\.([A-Za-z_][\w-]*)", spot.path.rpartition(" > ")[2]):
        for rule in re.finditer(rf"\.{re.escape(name)}(?![\w-])[^{{}};]*\{{([^{{}}]*)\}}", text):
            overflow = re.search(r"overflow(?:-[xy])?\s*:", rule[1])
            if overflow:
                return position_in(spot.position.file, text, rule.start(1) + overflow.start())
    return None


def _overlaps(evidence: Evidence) -> list[Finding]:
    found = []
    for answer in evidence.answers("overlap"):
        if answer.get("itself"):
            continue
        spot = Spot.of(answer)
        others = [Spot.of(other) for other in answer["others"][:3] if not _is_ornament(evidence, other, answer)]
        if not others or _is_ornament(evidence, answer, answer["others"][0]):
            continue
        over = ", ".join(f'"{other.text}"{other.at}' for other in others)
        found.append(
            finding(
                "TEXT_OVERLAP",
                "warning",
                f'"{spot.text}" and {over} are printed over each other.',
                "Give both their own room: check absolute positions, negative margins, fixed heights and line heights.",
                spot=spot,
            )
        )
    return found


def _crowded(evidence: Evidence) -> list[Finding]:
    """Lines of one text that are printed over each other."""
    return [
        finding(
            "TEXT_OVERLAP",
            "warning",
            f'The lines of "{spot.text}" are printed over each other.',
            "Give it a larger `line-height`.",
            spot=spot,
        )
        for spot in (Spot.of(answer) for answer in evidence.answers("overlap") if answer.get("itself"))
    ]


def _covered(evidence: Evidence) -> list[Finding]:
    """Text under something opaque. Where all of it is covered, the picture must agree, unless what covers it has a
    content of its own; of such a cover one text is named for all."""
    found = []
    buriers: set[str] = set()
    for answer in evidence.answers("cover"):
        spot, cover = Spot.of(answer), Spot.of(answer["cover"])
        if answer.get("buried"):
            if cover.path in buriers:
                continue
            buriers.add(cover.path)
        elif answer["whole"] and evidence.image is not None and not is_even(evidence.image, _middles(answer["paint"])):
            continue
        if answer["whole"]:
            code, how = "TEXT_UNREADABLE", "cannot be read: nothing of it is painted, it lies under"
        else:
            code, how = "TEXT_OVERLAP", "is partly covered by"
        found.append(
            finding(
                code,
                "warning",
                f'"{spot.text}" {how} {cover.path}{cover.at}.',
                "Check `z-index`, widths, negative margins, and what covers this place.",
                spot=spot,
            )
        )
    return found


def _middles(paint: dict[str, Any]) -> list[list[float]]:
    """The lines without their ends: what covers a text may have round corners."""
    em = float(paint["size"])
    return [[x + em, y + h * 0.25, max(3.0, w - 2 * em), h * 0.5] for x, y, w, h in paint["lines"]]


def _too_tall(evidence: Evidence) -> list[Finding]:
    """A page that decides its own height, and is taller than a picture may be (R11)."""
    seen = evidence.seen
    if not seen.cut:
        return []
    return [
        finding(
            "PAGE_TOO_TALL",
            "warning",
            f"The page is {seen.page_height_px} px tall or more; its picture ends at {seen.png_height_px} px.",
            "Split the page, or show a bounded part of an endless list with a button for more.",
        )
    ]


def _is_ornament(evidence: Evidence, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Big pale letters behind smaller ones: printed over on purpose."""
    big = float(one["paint"]["size"]) >= 1.5 * float(other["paint"]["size"])
    return big and is_pale(evidence.image, one["paint"])


def _glyphs(evidence: Evidence) -> list[Finding]:
    found = []
    for answer in evidence.answers("glyphs"):
        letters = ", ".join(f"U+{int(each['code']):04X}" for each in answer["letters"])
        found.append(
            finding(
                "GLYPH_MISSING",
                "warning",
                f"No font has a picture for {letters}: an empty box is painted instead.",
                "Use a letter or emoji that common fonts have, an inline SVG instead of an icon font, or bring the "
                "font as an asset.",
                spot=Spot.of(answer),
            )
        )
    return found


def _icons(evidence: Evidence) -> list[Finding]:
    return [
        finding(
            "ICON_MISSING",
            "warning",
            f'The icon "{answer["name"]}" belongs to an icon font that the page does not have.',
            "Draw the icon as inline SVG, or use an emoji.",
            spot=Spot.of(answer),
        )
        for answer in evidence.answers("icons")
    ]


def _drawings(evidence: Evidence) -> list[Finding]:
    """Shapes with numbers that are none. React says so itself where the whole value is one."""
    said = " ".join(message.text for message in evidence.seen.console if "for the `" in message.text)
    return [
        finding(
            "ATTRIBUTE_INVALID",
            "warning",
            f'`{answer["name"]}="{answer["value"]}"` holds no number there: the shape is left out or misplaced.',
            "Compute a finite number: check the names of the fields, and divisions by zero.",
            spot=Spot.of(answer),
        )
        for answer in evidence.answers("drawings")
        if f"for the `{answer['name']}` attribute" not in said
    ]
