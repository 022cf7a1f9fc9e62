"""`pagegate build`: a folder becomes a site in a zip that stands by itself (B1, B5, cases 35, 36, 43)."""

import asyncio
import json
import re
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote

import pytest

from pagegate.deploy.build import LocalSource, pages_of, run_build
from pagegate.deploy.pages import BadArguments, parse_canvas
from pagegate.runtime.build_contract import BuildPage
from pagegate.runtime.contract import Canvas
from pagegate.runtime.site import folders

STRANGE = "图表😀 C# 50%?"


@pytest.fixture
def deck(tmp_path: Path) -> Path:
    for folder in ("pages", "components", "assets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "assets" / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "assets" / "unused.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "components" / "Tile.vue").write_text("<template><b>tile</b></template>")
    (tmp_path / "pages" / f"{STRANGE}.vue").write_text(
        '<script setup lang="ts">\nimport Tile from "@components/Tile.vue"\n'
        "const late: number = await Promise.resolve(42)\n</script>\n"
        '<template><h1 class="p"><Tile />{{ late }}<img src="@assets/logo.svg"></h1></template>\n'
        '<style scoped>.p { background: url("@assets/logo.svg") }</style>'
    )
    (tmp_path / "pages" / "two.tsx").write_text(
        "const late = await Promise.resolve(7)\nexport default () => <h1 className='text-3xl'>{late}</h1>\n"
    )
    return tmp_path


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def build(*args: str | Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pagegate.deploy.cli", "build", *map(str, args)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_folder_of_both_frameworks_becomes_a_site_that_finds_all_its_own_files(deck: Path) -> None:
    target = deck / "out.zip"
    code, out, err = await build(deck, "--out", target, "--clean-routes")
    assert (code, err) == (0, ""), err
    assert "2 pages" in out
    with zipfile.ZipFile(target) as site:
        files = {name: site.read(name) for name in site.namelist()}
    assert "图表😀 C# 50%-/index.html" in files  # `?` begins a query, and some systems have no file with one
    assert "assets/unused.svg" not in files
    for name, content in files.items():
        if name.startswith("vendor/"):
            continue  # holds addresses of its own making
        for address in addresses(name, content.decode()):
            assert address in files, f"{name} asks for {address}"
    text = b"".join(files.values()).decode()
    assert str(deck) not in text
    assert "data-pg-loc" not in files["pages/1/page.js"].decode() + files["pages/2/page.js"].decode()
    assert "jsxDEV" not in files["pages/2/page.js"].decode()
    assert ".vue" not in files["pages/1/page.js"].decode().replace("vendor/vue.js", "")
    before = target.read_bytes()
    assert (await build(deck, "--out", target, "--clean-routes"))[0] == 0
    assert target.read_bytes() == before, "the same sources give the same zip"


def addresses(name: str, text: str) -> set[str]:
    """What a file of the site asks for, as paths of the site."""
    found = re.findall(r"""(?:href|src)="([^"#]*)"|from\s?["']([^"']+)["']|url\(["']?([^"')]+)["']?\)""", text)
    base = Path("/") / Path(name).parent
    said = {unquote(address) for group in found for address in group if address and not address.startswith("data:")}
    asked = {(base / address / "index.html" if address.endswith("/") else base / address) for address in said}
    return {str(Path(*_normal(path))) for path in asked}


def _normal(path: Path) -> list[str]:
    parts: list[str] = []
    for part in path.parts[1:]:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return parts


async def test_a_refused_page_is_located_and_leaves_no_zip(deck: Path) -> None:
    (deck / "pages" / "broken.vue").write_text("<template><p>a<div></template>")
    (deck / "pages" / "lost.tsx").write_text('import x from "@assets/lost.svg"\nexport default () => <img src={x} />\n')
    code, _, err = await build(deck, "--out", deck / "out.zip")
    assert code == 1
    assert f"{deck / 'pages' / 'broken.vue'}:1:" in err
    assert "PAGE_ASSET_NOT_FOUND" in err
    assert names_in(deck) == ["assets", "components", "pages"]


def test_files_that_hold_no_page_are_refused_as_pages_are(deck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (deck / "pages" / "bytes.vue").write_bytes(b"\xff\xfe")
    (deck / "pages" / "empty.tsx").write_text("")
    code = run_build(deck, out=deck / "out.zip", canvas="1280x720", project=None, routes="hash")
    said = capsys.readouterr().err
    assert code == 1
    assert f"{deck / 'pages' / 'bytes.vue'}: PAGE_SOURCE_NOT_TEXT: The source is not UTF-8 text (byte 0)." in said
    assert f"{deck / 'pages' / 'empty.tsx'}: PAGE_SOURCE_EMPTY" in said
    assert names_in(deck) == ["assets", "components", "pages"]


def test_a_folder_without_pages_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BadArguments):
        pages_of(tmp_path, None)
    with pytest.raises(BadArguments):
        pages_of(tmp_path / "missing", None)


async def test_a_build_reads_what_was_there_when_it_was_asked_for(deck: Path) -> None:
    source = LocalSource(pages_of(deck, None), "deck", "hash", parse_canvas("1280x720"))
    before = await source.snapshot()
    (deck / "pages" / "two.tsx").write_text("export default () => <h1>newer</h1>\n")
    assert "newer" not in json.dumps((await source.snapshot()).model_dump())
    assert await source.snapshot() == before


def named(*codes: str) -> list[str]:
    canvas = Canvas(width_px=1280, height_px=720)
    return folders(
        [BuildPage(code=code, framework="vue", entry="pages/a.vue", modules={}, canvas=canvas) for code in codes]
    )


def test_no_two_pages_share_a_folder_and_none_takes_a_folder_of_the_site() -> None:
    assert named("a", "A", "pages", "..", "x/../../y", "C# 50%?") == [
        "a",
        "A-2",
        "pages-2",
        "page",
        "x-..-..-y",
        "C# 50%-",
    ]
    (long,) = named("图" * 200)
    assert len(long.encode()) <= 200
