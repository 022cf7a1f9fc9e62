"""The contact sheet: a tile for every page, whether it has a picture or not."""

import io

from PIL import Image

from pagegate.actors.jobs.verdict import PageFinding
from pagegate.deploy.contact_sheet import CAPTION_PX, GAP_PX, TILE_PX, draw_contact_sheet
from pagegate.deploy.report import PageReport

STAGES = {"compile": "passed", "render": "passed"}


def png(colour: str, size: tuple[int, int] = (1280, 720)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, "PNG")
    return out.getvalue()


def test_pictures_are_in_order_and_a_refused_page_has_a_card() -> None:
    finding = PageFinding(stage="render", code="PAGE_BLANK", severity="error", message="Nothing is shown. " * 40)
    reports = [
        PageReport("red", "passed", STAGES),
        PageReport("refused", "failed", STAGES, [finding]),
        PageReport("tall", "passed", STAGES),
        PageReport("wordless", "unavailable", STAGES, error="RENDER_SERVICE_UNAVAILABLE: nobody answers"),
        PageReport("blue", "warning", STAGES),
    ]
    pictures = {"red": png("#ff0000"), "tall": png("#00ff00", (400, 9000)), "blue": png("#0000ff")}
    sheet = draw_contact_sheet(reports, pictures, columns=2)
    step_x, step_y = TILE_PX[0] + GAP_PX, TILE_PX[1] + CAPTION_PX + GAP_PX
    assert sheet.size == (2 * step_x + GAP_PX, 3 * step_y + GAP_PX)
    centre = (GAP_PX + TILE_PX[0] // 2, GAP_PX + TILE_PX[1] // 2)
    assert sheet.getpixel(centre) == (255, 0, 0)
    assert sheet.getpixel((centre[0], centre[1] + step_y)) == (0, 255, 0)
    assert sheet.getpixel((centre[0], centre[1] + 2 * step_y)) == (0, 0, 255)
    card = sheet.crop((GAP_PX + step_x, GAP_PX, GAP_PX + step_x + TILE_PX[0], GAP_PX + TILE_PX[1]))
    colours = card.getcolors(maxcolors=1 << 20)
    assert colours is not None
    assert len(colours) > 10, "something is written on the card"
