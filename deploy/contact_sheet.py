"""A contact sheet: the pictures of a deck on one PNG, a refused page as a card that says why.

Owns the drawing only; pictures come as bytes, verdicts as reports.
"""

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from pagegate.deploy.report import PageReport

TILE_PX = (400, 225)
CAPTION_PX = 34
GAP_PX = 20
COLUMNS = 4
_INK, _PAPER, _CARD, _EDGE = "#1c1917", "#f5f5f4", "#e7e5e4", "#d6d3d1"
_COLOURS = {"passed": "#15803d", "warning": "#b45309", "failed": "#b91c1c", "unavailable": "#7e22ce"}
_FONTS = ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "DejaVuSans.ttf")


def draw_contact_sheet(
    reports: Sequence[PageReport], pictures: Mapping[str, bytes], columns: int = COLUMNS
) -> Image.Image:
    """One tile a report, in order; `pictures` by the report's file."""
    rows = -(-len(reports) // columns)
    tile_width, tile_height = TILE_PX[0] + GAP_PX, TILE_PX[1] + CAPTION_PX + GAP_PX
    sheet = Image.new("RGB", (columns * tile_width + GAP_PX, rows * tile_height + GAP_PX), _PAPER)
    for number, report in enumerate(reports):
        left = GAP_PX + number % columns * tile_width
        top = GAP_PX + number // columns * tile_height
        picture = pictures.get(report.file)
        tile = _thumbnail(picture) if picture is not None else _card(report)
        sheet.paste(tile, (left, top))
        edge = (left - 1, top - 1, left + TILE_PX[0], top + TILE_PX[1])
        ImageDraw.Draw(sheet).rectangle(edge, outline=_EDGE)
        _caption(sheet, report, left, top + TILE_PX[1])
    return sheet


def _thumbnail(png: bytes) -> Image.Image:
    """The picture, whole, on a tile; a tall page is shown from its top."""
    tile = Image.new("RGB", TILE_PX, _CARD)
    with Image.open(io.BytesIO(png)) as opened:
        picture = opened.convert("RGB")
    width = TILE_PX[0]
    scaled = picture.resize((width, max(1, round(picture.height * width / picture.width))), Image.Resampling.LANCZOS)
    tile.paste(scaled, (0, 0))
    return tile


def _card(report: PageReport) -> Image.Image:
    tile = Image.new("RGB", TILE_PX, _CARD)
    draw = ImageDraw.Draw(tile)
    finding = next((found for found in report.findings if found.severity == "error"), None)
    head = finding.code if finding is not None else report.status
    said = finding.message if finding is not None else (report.error or "")
    place = f"{finding.file}:{finding.line}" if finding is not None and finding.line is not None else ""
    draw.text((18, 18), head, fill=_COLOURS.get(report.status, _INK), font=_font(15))
    lines = textwrap.wrap(said.replace("\n", " "), 46)[:6]
    draw.multiline_text((18, 48), "\n".join(lines), fill=_INK, font=_font(13), spacing=6)
    draw.text((18, TILE_PX[1] - 32), place, fill=_INK, font=_font(12))
    return tile


def _caption(sheet: Image.Image, report: PageReport, left: int, top: int) -> None:
    draw = ImageDraw.Draw(sheet)
    draw.text((left, top + 8), report.file, fill=_INK, font=_font(15))
    status = report.status if not report.findings else f"{report.status} ({len(report.findings)})"
    width = draw.textlength(status, font=_font(15))
    draw.text((left + TILE_PX[0] - width, top + 8), status, fill=_COLOURS.get(report.status, _INK), font=_font(15))


def _font(size_px: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    for name in _FONTS:
        if Path(name).exists() or "/" not in name:
            try:
                return ImageFont.truetype(name, size_px)
            except OSError:
                continue
    return ImageFont.load_default(size_px)
