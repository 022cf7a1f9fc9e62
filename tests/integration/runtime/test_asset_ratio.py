"""Asset ratio (V9): the size a browser gives a file, from its header alone; a hostile file gets a code."""

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from .lighting import LightTools

VIDEOS = Path(__file__).parent / "videos"  # headers only, made with made-up pictures
MEDIA_TYPES = {
    "jpg": "image/jpeg",
    "svg": "image/svg+xml",
    "mov": "video/mp4",
    "mp4": "video/mp4",
    "webm": "video/webm",
}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" {}>'
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LightTools]:
    tools = LightTools(tmp_path_factory.mktemp("light"))
    yield tools
    tools.close()


class Measure:
    def __init__(self, tools: LightTools, folder: Path) -> None:
        self.tools, self.folder = tools, folder

    def __call__(self, content: bytes | str, ending: str) -> dict[str, Any]:
        file = self.folder / f"file.{ending}"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        media_type = MEDIA_TYPES.get(ending, f"image/{ending}")
        return self.tools.run("asset-ratio", {"media_type": media_type}, file)

    def size(self, content: bytes | str, ending: str) -> tuple[int, int]:
        answer = self(content, ending)
        assert answer["errors"] == []
        return answer["result"]["width_px"], answer["result"]["height_px"]

    def code(self, content: bytes | str, ending: str) -> str:
        (error,) = self(content, ending)["errors"]
        assert error["hint"]
        assert str(self.folder) not in str(error)
        return str(error["code"])


@pytest.fixture
def measure(tools: LightTools, tmp_path: Path) -> Measure:
    return Measure(tools, tmp_path)


def picture(ending: str, size: tuple[int, int] = (30, 20), **how: Any) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, (200, 10, 10)).save(file, "jpeg" if ending == "jpg" else ending, **how)
    return file.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "webp", "avif"])
def test_raster_images_have_the_size_of_their_header(measure: Measure, ending: str) -> None:
    answer = measure(picture(ending), ending)["result"]
    assert answer == {
        "kind": "raster",
        "format": ending,
        "width_px": 30,
        "height_px": 20,
        "ratio": 1.5,
        "declared": True,
    }


@pytest.mark.parametrize(
    ("ending", "orientations"), [("jpg", range(1, 9)), ("png", (3, 6)), ("avif", (3, 6)), ("webp", (6,))]
)
def test_turned_pictures_have_the_size_that_chromium_gives_them(
    measure: Measure, ending: str, orientations: range
) -> None:
    """Chromium turns JPEG and PNG by their EXIF, AVIF by its own property, WebP not at all: looked up there."""
    for orientation in orientations:
        upright = orientation < 5 or ending == "webp"
        content = picture(ending, exif=turned(orientation))
        assert measure.size(content, ending) == ((30, 20) if upright else (20, 30)), orientation


def test_photograph_with_a_large_head_is_measured(measure: Measure) -> None:
    plain = picture("jpg")
    thumbnails = b"".join(b"\xff\xee" + struct.pack(">H", 65_535) + bytes(65_533) for _ in range(20))
    assert measure.size(plain[:2] + thumbnails + plain[2:], "jpg") == (30, 20)


def test_content_decides_and_not_the_name(measure: Measure) -> None:
    assert measure(picture("png"), "jpg")["result"]["format"] == "png"


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ('width="40" height="30"', (40, 30)),
        ('width="40px" height="30.4px" viewBox="0 0 1 1"', (40, 30)),
        ('width="1in" height="72pt"', (96, 96)),
        ('width="10mm" height="2.54cm"', (38, 96)),
        ('width="2em" height="1pc"', (32, 16)),
        ('viewBox="0 0 200 100"', (200, 100)),
        ('viewBox=" -5,-5 , 200,100 "', (200, 100)),
        ('width="100%" height="100%" viewBox="0 0 200 100"', (200, 100)),
        ('width="100%" height="50" viewBox="0 0 200 100"', (100, 50)),
        ('width="40" viewBox="0 0 200 100"', (40, 20)),
        ('width="auto" height="-3" viewBox="0 0 7 5"', (7, 5)),
        ('width="1e2" height="+.5e2"', (100, 50)),
        ('width="40"', (40, 150)),
    ],
)
def test_svg_has_the_size_of_its_root(measure: Measure, attributes: str, size: tuple[int, int]) -> None:
    assert measure.size(SVG.format(attributes) + '<rect width="9" height="9"/></svg>', "svg") == size


def test_svg_behind_a_preamble_is_measured(measure: Measure) -> None:
    start = '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY ns "http://www.w3.org/2000/svg">]><!-- <svg width="1"> -->\n'
    assert measure.size(start + '<s:svg xmlns:s="&ns;" width="3" height="4"/>', "svg") == (3, 4)
    assert measure.size(('\ufeff<svg width="7" height="8"/>').encode("utf-16-le"), "svg") == (7, 8)


@pytest.mark.parametrize(
    ("name", "size"), [("wide.webm", (320, 180)), ("turned.mp4", (180, 320)), ("turned.mov", (180, 320))]
)
def test_video_has_the_size_it_is_shown_with(measure: Measure, name: str, size: tuple[int, int]) -> None:
    ending = name.rpartition(".")[2]
    answer = measure((VIDEOS / name).read_bytes(), ending)["result"]
    assert (answer["format"], answer["width_px"], answer["height_px"]) == (ending, *size)


# -- hostile files ----------------------------------------------------------------------------------------------------


def png(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


BOMB = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 60))
HOSTILE = {
    "nothing": (b"", "png", "ASSET_UNREADABLE"),
    "cut off": (picture("png")[:20], "png", "ASSET_UNREADABLE"),
    "cut off in a marker": (picture("jpg")[:40], "jpg", "ASSET_UNREADABLE"),
    "random bytes": (bytes(range(256)) * 40, "webp", "ASSET_UNREADABLE"),
    "a page": (b"<html></html>", "png", "ASSET_UNREADABLE"),
    "huge": (png(2**31 - 1, 2**31 - 1), "png", "ASSET_DIMENSIONS_TOO_LARGE"),
    "huge area": (png(60_000, 60_000), "png", "ASSET_DIMENSIONS_TOO_LARGE"),
    "no width": (png(0, 10), "png", "ASSET_UNREADABLE ASSET_HAS_NO_SIZE"),
    "markers for ever": (b"\xff\xd8\xff\xe0" + b"\x00\x02\xff\xe0" * 3_000_000, "jpg", "ASSET_UNREADABLE"),
    "box of no size": (b"\0\0\0\x1cftypavif" + bytes(16) + b"\0\0\0\0meta" * 9, "avif", "ASSET_UNREADABLE"),
    "svg without a size": (SVG.format("") + "</svg>", "svg", "ASSET_HAS_NO_SIZE"),
    "huge svg": (SVG.format('width="9e9" height="1"'), "svg", "ASSET_DIMENSIONS_TOO_LARGE"),
    "endless number": (SVG.format(f'width="{"9" * 100_000}"'), "svg", "ASSET_HAS_NO_SIZE"),
    "comment before the root": (
        "<!--" + "x" * 5 * MIB + "-->" + SVG.format('width="1" height="1"'),
        "svg",
        "ASSET_UNREADABLE",
    ),
    "entity bomb": (f'<!DOCTYPE svg [<!ENTITY a0 "a">{BOMB}]><svg width="&a59;">', "svg", "ASSET_HAS_NO_SIZE"),
    "entity of a file": (
        '<!DOCTYPE svg [<!ENTITY f SYSTEM "file:///etc/passwd">]><svg width="&f;">',
        "svg",
        "ASSET_HAS_NO_SIZE",
    ),
    "video cut off": ((VIDEOS / "turned.mp4").read_bytes()[:300], "mp4", "ASSET_HAS_NO_SIZE ASSET_UNREADABLE"),
    "video of zeros": (bytes(5000), "mp4", "ASSET_UNREADABLE"),
    "video box of 4 GB": (
        b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom\xff\xff\xff\xf0moov" + bytes(100),
        "mp4",
        "ASSET_UNREADABLE ASSET_HAS_NO_SIZE",
    ),
    "boxes in boxes": (
        b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"
        + b"".join(struct.pack(">I", 8 * n) + b"moov" for n in range(50_000, 0, -1)),
        "mp4",
        "ASSET_UNREADABLE ASSET_HAS_NO_SIZE",
    ),
    "picture called video": (picture("png"), "mp4", "ASSET_UNREADABLE"),
    "webm of unknown sizes": (
        b"\x1aE\xdf\xa3" + b"\x01" + b"\xff" * 7 + b"\x18S\x80g" * 1000,
        "webm",
        "ASSET_UNREADABLE ASSET_HAS_NO_SIZE",
    ),
}


@pytest.mark.parametrize(("content", "ending", "codes"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_file_is_answered_with_a_code_and_the_worker_lives(
    measure: Measure, content: bytes | str, ending: str, codes: str
) -> None:
    assert measure.code(content, ending) in codes.split()
    assert measure.size(picture("png"), "png") == (30, 20)


def test_svg_of_five_megabytes_costs_no_more_than_its_head(measure: Measure) -> None:
    """Case 41, as an asset."""
    assert measure.size(SVG.format('viewBox="0 0 8 4"') + "<path d='M0 0'/>" * 330_000 + "</svg>", "svg") == (8, 4)


def test_file_without_a_size_is_no_asset_to_measure(tools: LightTools, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    answer = tools.run("asset-ratio", {"media_type": "text/plain"}, tmp_path / "a.txt")
    assert answer["errors"][0]["code"] == "ASSET_NOT_MEASURABLE"
