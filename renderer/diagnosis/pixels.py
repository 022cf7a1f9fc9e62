"""What only the picture can tell (R10): whether anything is there at all, and whether text stands out from its ground.

The ground of a text is what is painted there (a gradient, a photo, a sibling lying underneath), so it is read from the
picture and never guessed from the colours of ancestors.
"""

from itertools import pairwise
from math import ceil
from typing import Any, cast

from PIL import Image, ImageChops

from pagegate.renderer.contract import Finding
from pagegate.renderer.diagnosis.evidence import Evidence, Spot, finding

Colour = tuple[int, int, int]

_SAME_PX_STEP = 6  # neighbours that differ less are one surface: gradients, rounding
_BAND_PX = 180
_EDGES_MIN = 24  # a single small letter has about this many
_CONTRAST_MIN = 1.35  # less than grey-300 on white, the palest that is chosen for dates and footnotes
_CONTRAST_DARK_MIN = 1.5  # the ratio flatters what is dark on dark: black on slate-800 has 1.44
_DARK = 0.03
_CONTRAST_LARGE_MIN = 1.2
_CONTRAST_FADED_MIN = 1.15  # the author dimmed it: only what has really vanished is told
_LARGE_PX = 40.0
_CONTRAST_PLAINLY_FINE = 3.0
_VISIBLE_SHARE_MIN = 0.1  # of a line's pixels: a ground fills most of a line, so a text that shows leaves far more
_CUT_OUT_SHARE_MIN = 0.02
_COLOURS_MAX = 2048
_LOST_SHARE_MAX = 0.34  # of a line's length: more than that and the words are gone, not a letter at an edge
_PIECE_EM = 1.5
_PIECES_MAX = 16


def is_blank(image: Image.Image) -> bool:
    """Whether a picture has no shape in it: one colour, or colours that only flow into each other."""
    edges = 0
    for top in range(0, image.height, _BAND_PX):
        band = image.crop((0, top, image.width, min(image.height, top + _BAND_PX + 1)))
        edges += _edges(band)
        if edges >= _EDGES_MIN:
            return False
    return True


def _edges(image: Image.Image) -> int:
    """How many pixels differ plainly from their right or lower neighbour."""
    if all(_span(band) <= _SAME_PX_STEP for band in image.split()):
        return 0
    width, height = image.size
    most = 0
    for shifted, still in (
        ((1, 0, width, height), (0, 0, width - 1, height)),
        ((0, 1, width, height), (0, 0, width, height - 1)),
    ):
        steps = ImageChops.difference(image.crop(shifted), image.crop(still))
        most = max(most, *(sum(band.histogram()[_SAME_PX_STEP + 1 :]) for band in steps.split()))
    return most


def _span(band: Image.Image) -> float:
    levels = band.histogram()
    used = [level for level, count in enumerate(levels) if count]
    return used[-1] - used[0] if used else 0


def find(evidence: Evidence) -> list[Finding]:
    """Texts that cannot be read against what is painted behind them, or that are not painted at all."""
    image = evidence.image
    if image is None:
        return []
    found = []
    for text in evidence.answers("contrast"):
        worst = _lost_in_ground(image, text) if text.get("from_ground") else _unreadable(image, text)
        if worst is not None:
            why = f"its colour hardly differs from what is painted behind it (contrast {worst:.2f} to 1)"
            hint = "Choose a text colour that stands out from the ground that is really painted there."
        elif not text["turned"] and is_even(image, text["lines"]):
            why = "nothing of it is painted, so something lies over it"
            hint = "Check `z-index`, stacking, and what covers this place."
        else:
            continue
        spot = Spot.of(text)
        found.append(finding("TEXT_UNREADABLE", "warning", f'"{spot.text}" cannot be read: {why}.', hint, spot=spot))
    return found


def is_even(image: Image.Image, lines: list[list[float]]) -> bool:
    """Whether the places of a text's lines show one even surface."""
    boxes = [box for box in (_pixels_of(image, *line) for line in lines) if box is not None]
    return bool(boxes) and all(_span(band) <= _SAME_PX_STEP for box in boxes for band in image.crop(box).split())


def _unreadable(image: Image.Image, text: dict[str, Any]) -> float | None:
    """The contrast of a text that cannot be read; None when any of its lines can be, or nothing is known."""
    red, green, blue = (int(n) for n in text["colour"])
    needed = _needed(float(text["size"]), faded=bool(text["faded"]))
    worst: float | None = None
    for line in text["lines"]:
        box = _pixels_of(image, *line)
        if box is None:
            continue
        contrast = _piecewise_contrast(
            image.crop(box), (red, green, blue), float(text["alpha"]), needed, piece_px=_PIECE_EM * float(text["size"])
        )
        if contrast is None:
            return None
        worst = contrast if worst is None else min(worst, contrast)
    return worst


def _lost_in_ground(image: Image.Image, text: dict[str, Any]) -> float | None:
    """The contrast of letters cut out of a gradient, which have no colour of their own: they cannot be read where
    nothing differs from the commonest colour there. None when something does, or the ground itself changes as much."""
    most = 1.0
    for line in text["lines"]:
        box = _pixels_of(image, *line)
        if box is None:
            return None
        colours = _colours_of(image.crop(box))
        ground, total = max(colours)[1], sum(count for count, _ in colours)
        contrasts = [(contrast_of(colour, ground), count) for count, colour in colours]
        if sum(count for contrast, count in contrasts if contrast >= _CONTRAST_MIN) >= total * _CUT_OUT_SHARE_MIN:
            return None
        most = max(most, *(contrast for contrast, _ in contrasts))
    return most


def _pixels_of(image: Image.Image, x: float, y: float, width: float, height: float) -> tuple[int, int, int, int] | None:
    """A line's box in the picture; None for one that lies outside it or is too small to tell anything."""
    box = (max(0, int(x)), max(0, int(y)), min(image.width, ceil(x + width)), min(image.height, ceil(y + height)))
    return box if box[2] - box[0] >= 3 and box[3] - box[1] >= 3 else None


_PALE = 1.6


def is_pale(image: Image.Image | None, paint: dict[str, Any]) -> bool:
    """Whether a text hardly stands out where it is painted: what a big one is when it is meant as an ornament."""
    box = _pixels_of(image, *paint["lines"][0]) if image is not None and paint["lines"] else None
    if image is None or box is None:
        return False
    ground = max(_colours_of(image.crop(box)))[1]
    red, green, blue = (int(n) for n in paint["colour"])
    return contrast_of(_blend((red, green, blue), ground, float(paint["alpha"])), ground) < _PALE


def _needed(size_px: float, *, faded: bool) -> float:
    if faded:
        return _CONTRAST_FADED_MIN
    return _CONTRAST_LARGE_MIN if size_px >= _LARGE_PX else _CONTRAST_MIN


def _piecewise_contrast(
    line: Image.Image, colour: Colour, alpha: float, needed: float, *, piece_px: float
) -> float | None:
    """The contrast of a line of which too much is lost; a ground may change below it (a picture, a bar half full)."""
    whole = _line_contrast(line, colour, alpha, needed)
    if whole is not None:
        return whole
    count = min(_PIECES_MAX, int(line.width / piece_px))
    if count < 3 or _has_one_ground(line):
        return None
    edges = [round(i * line.width / count) for i in range(count + 1)]
    pieces = [line.crop((left, 0, right, line.height)) for left, right in pairwise(edges)]
    lost = [c for c in (_line_contrast(piece, colour, alpha, needed) for piece in pieces) if c is not None]
    return min(lost) if len(lost) > count * _LOST_SHARE_MAX else None


def _has_one_ground(line: Image.Image) -> bool:
    """Most lines lie on one even colour; nothing changes below them."""
    colours = _colours_of(line)
    return max(colours)[0] >= 0.55 * sum(count for count, _ in colours)


def _line_contrast(line: Image.Image, colour: Colour, alpha: float, needed: float) -> float | None:
    """The contrast of a line with its commonest ground, or None when enough of the line stands out."""
    colours = _colours_of(line)
    total = sum(count for count, _ in colours)
    ground_count, ground = max(colours)
    if needed == _CONTRAST_MIN and _luminance(ground) < _DARK:
        needed = _CONTRAST_DARK_MIN
    painted = _blend(colour, ground, alpha)
    contrast = contrast_of(painted, ground)
    if contrast >= _CONTRAST_PLAINLY_FINE and ground_count >= total * 0.3:
        return None
    visible = sum(count for count, each in colours if contrast_of(painted, each) >= needed)
    return None if visible >= total * _VISIBLE_SHARE_MIN else contrast


def _colours_of(line: Image.Image) -> list[tuple[int, Colour]]:
    """Every colour with its number of pixels; a photo has too many and is sampled."""
    colours = line.getcolors(_COLOURS_MAX)
    while colours is None:
        line = line.resize((max(1, line.width // 2), max(1, line.height // 2)), Image.Resampling.NEAREST)
        colours = line.getcolors(_COLOURS_MAX)
    return cast(list[tuple[int, Colour]], colours)  # the picture is RGB


def _blend(colour: Colour, ground: Colour, alpha: float) -> Colour:
    red, green, blue = (round(c * alpha + g * (1 - alpha)) for c, g in zip(colour, ground, strict=True))
    return (red, green, blue)


_LINEAR = [v / 255 / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in range(256)]


def contrast_of(a: Colour, b: Colour) -> float:
    """The ratio of WCAG: 1 (the same) to 21 (black on white)."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Colour) -> float:
    return 0.2126 * _LINEAR[colour[0]] + 0.7152 * _LINEAR[colour[1]] + 0.0722 * _LINEAR[colour[2]]
