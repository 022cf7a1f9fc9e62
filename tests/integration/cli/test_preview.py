"""`pagegate preview`: pages of a folder in the browser, as they are on disk at each look, and nothing else (P4)."""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from pagegate.deploy.pages import BadArguments, parse_canvas
from pagegate.deploy.preview import Deck
from tests.services import dies_with_parent

CANVAS = parse_canvas("1280x720")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("pages", "components", "assets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "assets" / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "secret.svg").write_text("secret")
    (tmp_path / "components" / "Tile.vue").write_text("<template><b>tile</b></template>")
    one = '<script setup>\nimport Tile from "@components/Tile.vue"\n</script>\n'
    (tmp_path / "pages" / "one.vue").write_text(one + '<template><Tile /><img src="@assets/logo.svg"></template>')
    (tmp_path / "pages" / "two.tsx").write_text("export default () => <h1>two</h1>\n")
    (tmp_path / "pages" / "broken.vue").write_text("<template><p></template>")
    return tmp_path


async def test_a_folder_is_looked_at_and_a_reload_shows_what_was_saved(project: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pagegate.deploy.cli", "preview", str(project / "pages" / "two.tsx")),
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=dies_with_parent(signal.SIGKILL),
    )
    assert process.stdout is not None
    async with asyncio.timeout(60), aiohttp.ClientSession() as http:
        url, _, first = (await process.stdout.readline()).decode().strip().partition("#")
        assert first == "two.tsx"

        async def get(path: str) -> tuple[int, str]:
            async with http.get(url + path) as answer:
                return answer.status, await answer.text()

        _, host = await get("")
        listed = re.search(r'id="deck">(.*?)</script>', host)
        assert listed is not None
        assert [(page["part"], page["code"]) for page in json.loads(listed[1])] == [
            ("0", "broken.vue"),
            ("1", "one.vue"),
            ("2", "two.tsx"),
        ]
        status, errors = await get("pages/0/")
        assert (status, "pages/broken.vue:1" in errors) == (422, True)
        assert (await get("pages/1/"))[0] == 200
        assert "tile" in (await get("pages/1/page.js"))[1]
        assert (await get("pages/1/assets/logo.svg"))[0] == 200
        for wrong in (
            "pages/1/assets/..%2fsecret.svg",
            "pages/1/assets/none.svg",
            "pages/9/",
            "pages/x/",
            "pages/0/x.js",
        ):
            assert (await get(wrong))[0] == 404
        (project / "pages" / "broken.vue").write_text("<template><p>whole</p></template>")
        assert (await get("pages/0/"))[0] == 200
        assert "whole" in (await get("pages/0/page.js"))[1]
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


def test_a_folder_without_pages_is_said_before_anything_starts(project: Path) -> None:
    with pytest.raises(BadArguments, match="holds no page"):
        Deck(project / "assets", None, CANVAS)
    with pytest.raises(BadArguments, match="no such file"):
        Deck(project / "none.vue", None, CANVAS)
    with pytest.raises(BadArguments, match="neither"):
        Deck(project / "secret.svg", None, CANVAS)


def test_a_project_folder_stands_for_its_pages(project: Path) -> None:
    assert [page.code for page in Deck(project, None, CANVAS).pages()] == ["broken", "one", "two"]
