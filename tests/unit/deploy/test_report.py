"""How verdicts are shown: a contract for scripts, and nothing that a page could do to a terminal."""

import io
import json

from rich.console import Console

from pagegate.actors.jobs.verdict import PageFinding
from pagegate.deploy.report import PageReport, Progressing, print_findings, summary, verdict_table
from pagegate.renderer.contract import Rect

FINDING = PageFinding(
    stage="render",
    code="TEXT_CLIPPED",
    severity="warning",
    message="The text is cut off.",
    hint="Give it room.",
    file="deck/pages/a.vue",
    line=37,
    column=5,
    element="p.text",
    rect=Rect(x=1, y=2, width=3, height=4),
)
STAGES = {"compile": "passed", "render": "warning"}
REPORT = PageReport("deck/pages/a.vue", "warning", STAGES, [FINDING], "p/a.png", 123.4)


def shown(*reports: PageReport) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(verdict_table(reports))
    print_findings(console, reports)
    console.print(summary(reports))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_json_line_has_the_fields_that_scripts_rely_on() -> None:
    line = REPORT.as_json()
    assert "\n" not in line
    answer = json.loads(line)
    assert list(answer) == ["file", "status", "stages", "findings", "picture", "elapsed_ms"]
    assert {"code", "message", "file", "line", "column", "element", "rect"} <= set(answer["findings"][0])
    assert answer["findings"][0]["rect"] == {"x": 1, "y": 2, "width": 3, "height": 4}


def test_a_finding_is_shown_with_its_place_and_the_next_step() -> None:
    text = shown(REPORT)
    assert "deck/pages/a.vue:37:5  warning  TEXT_CLIPPED" in text
    assert "→ Give it room." in text
    assert "1 page: 1 with warnings" in text


def test_an_infrastructure_error_says_that_nothing_is_known() -> None:
    down = PageReport("a.vue", "unavailable", {"compile": "passed", "render": "unavailable"}, error="RENDER_X: gone")
    assert "nothing is known about this page" in shown(down)
    assert json.loads(down.as_json())["error"] == "RENDER_X: gone"


def test_a_page_cannot_steer_the_terminal() -> None:
    hostile = FINDING.model_copy(update={"message": "\x1b[2Jcleared \x9b31m[bold]not markup[/bold]", "element": "\x07"})
    text = shown(PageReport("a.vue", "warning", STAGES, [hostile]))
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\x07" not in text
    assert "[bold]not markup[/bold]" in text
    line = PageReport("a.vue", "warning", STAGES, [hostile]).as_json()
    assert "\x1b" not in line
    assert "\x9b" not in line
    assert json.loads(line)["findings"][0]["message"] == hostile.message


def test_without_a_terminal_each_finished_page_is_one_line() -> None:
    stream = io.StringIO()
    with Progressing(stream, 2) as progress:
        progress.doing("compiling")
        progress.finished(REPORT)
    assert stream.getvalue() == "[1/2] deck/pages/a.vue: warning (123 ms)\n"
