"""Contrast against what is painted (R10): the picture decides, not the style sheet."""

from io import BytesIO
from typing import Any

import pytest
from PIL import Image, ImageDraw

from pagegate.renderer.diagnosis import diagnose
from pagegate.renderer.observation import Observation

WORDS = "Twelve euros a month"


def judged(ground: Image.Image, colour: tuple[int, int, int], **text: Any) -> list[str]:
    """The codes for one line of 20 px text, painted on a ground in a colour."""
    pen = ImageDraw.Draw(ground)
    left, top, right, bottom = pen.textbbox((20, 20), WORDS, font_size=20)
    pen.text((20, 20), WORDS, fill=colour, font_size=20)
    ImageDraw.Draw(ground).rectangle((0, 150, 100, 170), fill="red")  # the page is not blank
    out = BytesIO()
    ground.save(out, "PNG")
    lines = [[left, top, right - left, bottom - top]]
    facts = {"colour": list(colour), "alpha": 1, "size": 20, "faded": False, "turned": False}
    place = {"path": "main > p", "loc": "pages/x.vue:6:7", "text": WORDS, "rect": lines[0], "lines": lines, "order": 1}
    observation = Observation(320, 180, mounted=True, settled=True, png=out.getvalue())
    observation.probe = {"page": {"contrast": [facts | place | text]}}
    return [finding.code for finding in diagnose(observation).findings]


def plain(colour: str) -> Image.Image:
    return Image.new("RGB", (320, 180), colour)


def gradient(first: int, last: int) -> Image.Image:
    band = Image.linear_gradient("L").rotate(90).resize((320, 180))
    return band.point(lambda v: first + (last - first) * v // 255).convert("RGB")


@pytest.mark.parametrize(
    ("ground", "colour"),
    [(plain("white"), (255, 255, 255)), (plain("#0f172a"), (30, 41, 59)), (gradient(235, 255), (255, 255, 255))],
)
def test_text_of_the_colour_of_its_ground_is_told(ground: Image.Image, colour: tuple[int, int, int]) -> None:
    assert judged(ground, colour) == ["TEXT_UNREADABLE"]


@pytest.mark.parametrize(
    ("ground", "colour"),
    [
        (plain("#fafaf9"), (166, 160, 155)),  # dim, but meant so
        (plain("#0a0a0a"), (82, 82, 82)),
        (gradient(0, 120), (255, 255, 255)),
        (gradient(0, 255), (255, 255, 255)),  # readable for most of its length
    ],
)
def test_text_that_stands_out_is_not_told(ground: Image.Image, colour: tuple[int, int, int]) -> None:
    assert judged(ground, colour) == []


def test_dark_on_dark_needs_more_than_the_ratio_of_pale_on_white() -> None:
    assert judged(plain("#1e293b"), (0, 0, 0)) == ["TEXT_UNREADABLE"]
    assert judged(plain("#1e293b"), (100, 116, 139)) == []


@pytest.mark.parametrize(
    ("ground", "painted", "codes"),
    [
        (plain("#0f172a"), (15, 26, 46), ["TEXT_UNREADABLE"]),
        (plain("#0f172a"), (125, 211, 252), []),
        (gradient(0, 255), (128, 128, 128), []),  # the ground changes too: nothing is known
    ],
)
def test_letters_cut_out_of_a_gradient_are_judged_by_what_is_seen(
    ground: Image.Image, painted: tuple[int, int, int], codes: list[str]
) -> None:
    assert judged(ground, painted, from_ground=True) == codes


def test_translucent_text_is_judged_as_it_is_painted() -> None:
    assert judged(plain("white"), (0, 0, 0), alpha=0.05, lines=[[150, 100, 100, 20]]) == ["TEXT_UNREADABLE"]


def test_big_pale_letters_behind_a_title_are_an_ornament() -> None:
    image = plain("white")
    pen = ImageDraw.Draw(image)
    pen.text((20, 20), "2026", fill="#e2e8f0", font_size=96)
    pen.text((20, 80), "What we expect", fill="black", font_size=30)
    out = BytesIO()
    image.save(out, "PNG")
    paint = {"lines": [[20, 40, 200, 60]], "colour": [226, 232, 240], "alpha": 1, "size": 96}
    title = {"lines": [[20, 80, 200, 30]], "colour": [0, 0, 0], "alpha": 1, "size": 30}
    place = {"path": "h2", "loc": "pages/x.vue:3:3", "text": "x", "rect": [20, 80, 200, 30], "order": 2}
    observation = Observation(320, 180, mounted=True, settled=True, png=out.getvalue())
    overlap = place | {"paint": title, "others": [place | {"paint": paint}]}
    observation.probe = {"page": {"overlap": [overlap]}}
    assert diagnose(observation).findings == []
    overlap["others"][0]["paint"] |= {"colour": [30, 41, 59]}
    assert [finding.code for finding in diagnose(observation).findings] == ["TEXT_OVERLAP"]
