"""`pagegate check` as a person runs it: real Vite, real Chromium, exit codes, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from pagegate.deploy.deck import Deck

CHECK = [sys.executable, "-m", "pagegate.deploy.cli", "check"]
DECK = Deck()
GOOD = DECK.page("q3-title").file
BROKEN = DECK.page("q3-shipped").file
PAGE = '<template><main class="p-8 text-2xl">{text}</main></template>\n'


def check(*arguments: str | Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CHECK, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **(environment or {})},
    )


def objects(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_good_page_passes_and_a_broken_one_is_refused_with_its_line(tmp_path: Path) -> None:
    done = check(GOOD, BROKEN, "--json", "--pictures", tmp_path / "pictures")
    assert done.returncode == 1, done.stderr
    good, broken = objects(done)
    assert (good["file"], good["status"], good["findings"]) == (str(GOOD), "passed", [])
    assert good["stages"] == {"compile": "passed", "render": "passed"}
    assert good["elapsed_ms"] > 0
    with Image.open(good["picture"]) as picture:
        assert picture.size == (1280, 720)
    assert (broken["status"], broken["picture"]) == ("failed", None)
    assert broken["stages"] == {"compile": "failed", "render": "skipped"}
    assert (broken["findings"][0]["file"], broken["findings"][0]["line"]) == (str(BROKEN), 26)


def test_the_whole_deck_gets_the_verdicts_that_it_must_get() -> None:
    done = check(*(page.file for page in DECK.pages), "--json")
    found = {Path(answer["file"]).stem: (answer["status"], answer["stages"]) for answer in objects(done)}
    wanted = {page.code: page for page in DECK.pages}
    assert {code: status for code, (status, _) in found.items()} == {code: page.expect for code, page in wanted.items()}
    assert all(stages[wanted[code].stage] == wanted[code].expect for code, (_, stages) in found.items())
    assert list(found) == [page.code for page in DECK.pages], "answers come in the order of the command line"
    assert done.returncode == 1


def test_the_table_names_file_line_and_next_step() -> None:
    done = check(GOOD, BROKEN)
    assert done.returncode == 1
    assert f"{BROKEN}:26" in done.stdout
    assert "→" in done.stdout
    assert "2 pages: 1 passed, 1 refused" in done.stdout
    assert "[1/2]" in done.stderr, "progress goes to stderr"
    assert "\x1b" not in done.stdout + done.stderr, "no colours where there is no terminal"


def test_every_page_may_be_saved_is_exit_0(tmp_path: Path) -> None:
    (tmp_path / "测试 😀 50%").mkdir()
    page = tmp_path / "测试 😀 50%" / "页 1#.vue"
    page.write_text(PAGE.format(text="你好"), "utf-8")
    done = check(page, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [answer["status"] for answer in objects(done)] == ["passed"]


def test_a_page_of_its_own_height_is_photographed_whole(tmp_path: Path) -> None:
    page = tmp_path / "tall.vue"
    page.write_text('<template><div style="height: 2000px" class="bg-sky-200 p-8">tall</div></template>', "utf-8")
    done = check(page, "--json", "--canvas", "800xauto", "--pictures", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with Image.open(tmp_path / "tall.png") as picture:
        assert picture.size == (800, 2000)


def test_pages_of_one_name_keep_a_picture_each(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.vue").write_text(PAGE.format(text=folder), "utf-8")
    done = check(tmp_path / "a/page.vue", tmp_path / "b/page.vue", "--json", "--pictures", tmp_path / "out")
    assert [Path(answer["picture"]).name for answer in objects(done)] == ["page.png", "page-2.png"]
    assert (tmp_path / "out/page.png").read_bytes() != (tmp_path / "out/page-2.png").read_bytes()


def test_an_empty_file_is_a_refused_page(tmp_path: Path) -> None:
    page = tmp_path / "empty.vue"
    page.touch()
    done = check(page, "--json")
    assert done.returncode == 1
    assert [finding["code"] for finding in objects(done)[0]["findings"]] == ["PAGE_SOURCE_EMPTY"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none.vue"], "none.vue: there is no such file"),
        (["."], ".: is a folder"),
        (["notes.md"], "notes.md: is neither .vue nor .tsx"),
        (["page.vue", "--canvas", "wide"], "--canvas wide: write it as 1280x720"),
        (["page.vue", "--canvas", "5x5"], "--canvas 5x5: write it as"),
        (["page.vue", "--project", "none"], "--project none: is no folder"),
        (["page.vue", "--pictures", "notes.md"], "--pictures notes.md: cannot be made"),
        ([], "Missing argument"),
    ],
)
def test_a_command_that_makes_no_sense_is_exit_2_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / "page.vue").write_text(PAGE.format(text="x"))
    done = check(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.vue").write_text(PAGE.format(text=number))
    command = [*CHECK, *sorted(map(str, tmp_path.iterdir())), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "Error" not in told


def test_a_narrow_locale_costs_a_character_and_no_verdict(tmp_path: Path) -> None:
    page = tmp_path / "页.vue"
    page.write_text("<template><p>", "utf-8")
    done = check(page, environment={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 1, done.stderr
    assert "\\u9875.vue:1" in done.stdout


@pytest.mark.parametrize("name", ["RENDERER_CHROMIUM", "RUNTIME_NODE"])
def test_a_machine_without_its_tools_is_exit_2_and_no_verdict(tmp_path: Path, name: str) -> None:
    page = tmp_path / "page.vue"
    page.write_text(PAGE.format(text="x"))
    done = check(page, "--json", environment={name: str(tmp_path / "missing")})
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("pagegate check: ")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A check of many pages that has just answered for the first."""
    pages = []
    for number in range(40):
        pages.append(tmp_path / f"page-{number}.vue")
        pages[-1].write_text(PAGE.format(text=number))
    process = subprocess.Popen(
        [*CHECK, *map(str, pages), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["status"] == "passed"
    yield process
    process.kill()
    process.communicate()


def test_ctrl_c_that_reaches_the_browsers_driver_too_is_told_in_one_line(running: subprocess.Popen[str]) -> None:
    """A terminal sends it to the whole group."""
    os.killpg(running.pid, signal.SIGINT)
    _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert told.splitlines()[-1] == "pagegate check: interrupted"
    assert "Traceback" not in told
    assert "ERROR" not in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_browser_and_no_node_outlive_the_command(running: subprocess.Popen[str], number: signal.Signals) -> None:
    descendants = psutil.Process(running.pid).children(recursive=True)
    assert descendants
    running.send_signal(number)
    _, told = running.communicate(timeout=30)
    _, alive = psutil.wait_procs(descendants, timeout=15)
    assert alive == []
    if number != signal.SIGKILL:
        assert running.returncode == 130
        assert "interrupted" in told
        assert "Traceback" not in told
