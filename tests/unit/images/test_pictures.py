"""Which bytes are a picture that a project may have, and what its size is (X1, X4)."""

import io
from typing import Any

import pytest
from PIL import Image

from pagegate.actors.images import pictures
from pagegate.actors.images.answers import Declined, Failed
from pagegate.actors.images.pictures import Picture, look_at


def drawn(form: str, size: tuple[int, int] = (6, 4), mode: str = "RGB", **how: Any) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, 1).save(file, form, **how)
    return file.getvalue()


@pytest.mark.parametrize(
    ("form", "media_type", "ending"),
    [("PNG", "image/png", ".png"), ("JPEG", "image/jpeg", ".jpg"), ("WEBP", "image/webp", ".webp")],
)
def test_a_picture_is_taken_as_it_is(form: str, media_type: str, ending: str) -> None:
    content = drawn(form)
    assert look_at(content) == Picture(content, media_type, ending, 6, 4)


def test_a_picture_lying_on_its_side_measures_what_a_browser_shows() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found = look_at(drawn("JPEG", exif=exif))
    assert isinstance(found, Picture)
    assert (found.width_px, found.height_px) == (4, 6)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"<!doctype html>",
        drawn("GIF", mode="L"),
        drawn("BMP"),
        drawn("TIFF"),
        drawn("PNG")[:-10],
        drawn("PNG")[:40],
        drawn("JPEG", (60, 60))[:300],
        drawn("WEBP", (60, 60))[:-9],
        drawn("PNG").replace(b"IDAT", b"TADI"),
    ],
    ids=lambda content: f"{len(content)} bytes",
)
def test_what_is_no_whole_png_jpeg_or_webp_is_none(content: bytes) -> None:
    found = look_at(content)
    assert isinstance(found, Failed)
    assert found.code == "IMAGE_ANSWER_INVALID"


def test_a_picture_is_bounded_in_bytes_sides_and_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "PIXELS_MAX", 100)
    monkeypatch.setattr(pictures, "SIDE_PX_MAX", 20)
    assert isinstance(look_at(drawn("PNG", (10, 10))), Picture)
    for size in ((11, 10), (21, 1), (1, 21)):
        found = look_at(drawn("PNG", size))
        assert isinstance(found, Declined)
        assert found.code == "IMAGE_TOO_LARGE"
    monkeypatch.setattr(pictures, "BYTES_MAX", 50)
    assert isinstance(look_at(drawn("PNG", (10, 10))), Declined)


def test_a_bomb_is_refused_by_what_it_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    for size in ((4, 4), (40, 40)):  # the library warns of the one and refuses the other
        found = look_at(drawn("PNG", size))
        assert isinstance(found, Declined)
        assert found.code == "IMAGE_TOO_LARGE"
