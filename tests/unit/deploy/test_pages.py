"""What a FILE argument means: its project, what it needs of it, and how a person sees its paths again."""

import os
from pathlib import Path

import pytest

from pagegate.deploy.pages import BadArguments, LocalPage, local_pages, parse_canvas
from pagegate.deploy.settings import PAGE_SOURCE_BYTES_MAX
from pagegate.runtime.contract import Canvas, LocatedError

GOOD = "<template><p>hello</p></template>\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def page(root: Path, name: str, text: str = GOOD) -> LocalPage:
    write(root, {name: text})
    return local_pages([root / name], None)[0]


def test_a_page_in_a_folder_called_pages_belongs_to_its_parent(tmp_path: Path) -> None:
    assert page(tmp_path, "deck/pages/a.vue").project == tmp_path / "deck"


def test_a_page_anywhere_else_belongs_to_its_own_folder(tmp_path: Path) -> None:
    assert page(tmp_path, "deck/a.tsx").project == tmp_path / "deck"


def test_a_page_named_without_a_folder_belongs_to_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"deck/pages/a.vue": GOOD})
    monkeypatch.chdir(tmp_path / "deck" / "pages")
    assert local_pages([Path("a.vue")], None)[0].project == tmp_path / "deck"


def test_project_says_otherwise(tmp_path: Path) -> None:
    write(tmp_path, {"drafts/a.vue": GOOD, "deck/components/Box.vue": GOOD})
    found = local_pages([tmp_path / "drafts/a.vue"], tmp_path / "deck")[0]
    assert found.snapshot("import Box from '@components/Box.vue'").modules.keys() == {
        "pages/a.vue",
        "components/Box.vue",
    }


def test_every_wrong_argument_is_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "x", "b": "x", "folder/x.vue": GOOD})
    names = ["none.vue", "folder", "a.txt", "b"]
    with pytest.raises(BadArguments) as caught:
        local_pages([tmp_path / name for name in names], tmp_path / "no-project")
    assert [line.split(": ", 1)[1] for line in caught.value.problems] == [
        "is no folder",
        "there is no such file",
        "is a folder; name the pages in it, like pages/*.vue",
        "is neither .vue nor .tsx (.txt)",
        "is neither .vue nor .tsx (no suffix)",
    ]


def test_a_pipe_is_no_page_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.vue")
    with pytest.raises(BadArguments, match="no regular file"):
        local_pages([tmp_path / "a.vue"], None)


def test_a_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.vue")
    (tmp_path / name).write_text(GOOD)
    with pytest.raises(BadArguments, match="its name is not UTF-8"):
        local_pages([tmp_path / name], None)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "PAGE_SOURCE_EMPTY"),
        (b" \n\t\n", "PAGE_SOURCE_EMPTY"),
        (b"<template>\xff</template>", "PAGE_SOURCE_NOT_TEXT"),
        (b"x" * (PAGE_SOURCE_BYTES_MAX + 1), "PAGE_SOURCE_TOO_LARGE"),
    ],
)
def test_a_file_that_cannot_be_a_page_is_refused_not_a_usage_error(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "a.vue").write_bytes(content)
    refused = local_pages([tmp_path / "a.vue"], None)[0].source
    assert isinstance(refused, LocatedError)
    assert (refused.code, refused.file) == (code, "pages/a.vue")


def test_a_byte_order_mark_is_no_part_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "a.vue").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert local_pages([tmp_path / "a.vue"], None)[0].source == GOOD


def test_a_manifest_names_only_what_the_page_uses(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "components/Box.vue": '<template><img src="@assets/img/one.svg"></template>',
            "components/Other.vue": GOOD,
            "assets/img/one.svg": "<svg/>",
            "assets/two.svg": "<svg/>",
        },
    )
    found = page(tmp_path, "pages/a.vue", "<script setup>import Box from '@components/Box.vue'</script>")
    manifest = found.manifest(found.snapshot(str(found.source)), "a1", Canvas(width_px=1280, height_px=720))
    assert manifest.modules == ["components/Box.vue", "pages/a.vue"]
    assert {name: ref.media_type for name, ref in manifest.assets.items()} == {"img/one.svg": "image/svg+xml"}
    assert (manifest.entry, manifest.framework, manifest.entry_page.code) == ("pages/a.vue", "vue", "a")


def test_an_asset_outside_the_project_cannot_be_named(tmp_path: Path) -> None:
    write(tmp_path, {"secret.txt": "s", "deck/assets/ok.txt": "x"})
    found = page(tmp_path, "deck/pages/a.vue")
    assert found.snapshot("'@assets/../../secret.txt' '@assets/ok.txt'").assets == {"ok.txt"}
    with pytest.raises(KeyError):
        found.asset_file("../../secret.txt")


def test_paths_are_shown_as_they_were_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"deck/pages/a.vue": GOOD})
    monkeypatch.chdir(tmp_path)
    relative = local_pages([Path("deck/pages/a.vue")], None)[0]
    assert relative.shown("pages/a.vue") == "deck/pages/a.vue"
    assert relative.shown("components/Box.vue") == "deck/components/Box.vue"
    absolute = local_pages([tmp_path / "deck/pages/a.vue"], None)[0]
    assert absolute.shown("components/Box.vue") == str(tmp_path / "deck/components/Box.vue")
    assert relative.shown(None) is None


@pytest.mark.parametrize(
    ("text", "width", "height"), [("1280x720", 1280, 720), ("1280xauto", 1280, None), ("1920X1080", 1920, 1080)]
)
def test_a_canvas_is_read(text: str, width: int, height: int | None) -> None:
    assert parse_canvas(text) == Canvas(width_px=width, height_px=height)


@pytest.mark.parametrize("text", ["", "1280", "1280x", "x720", "autox720", "0x0", "99999x10", "1280x-1", "1280×720"])
def test_a_bad_canvas_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(BadArguments, match="write it as 1280x720 or 1280xauto"):
        parse_canvas(text)
