"""How verdicts over many pages are shown: progress on stderr, a table and findings on stdout, or JSON lines.

Owns the words and colours only; what was found comes as `PageReport`. The same table serves `pagegate check` and the
demo. Colour and moving progress appear on terminals only; elsewhere each finished page is one plain line.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pagegate.actors.jobs.verdict import PageFinding

COLOURS = {
    "passed": "green",
    "warning": "yellow",
    "failed": "red",
    "unavailable": "magenta",
    "skipped": "dim",
    "error": "red",
}


_C1 = re.compile(r"[\x7f-\x9f]")  # JSON leaves them as they are, and some terminals obey them
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class PageReport:
    """The verdict of one page. `error` says why nothing is known about it (infrastructure), never anything else."""

    file: str
    status: str
    stages: dict[str, str]
    findings: Sequence[PageFinding] = ()
    picture: str | None = None
    elapsed_ms: float = 0.0
    error: str | None = None
    expected: str | None = None
    marks: dict[str, Any] = field(default_factory=dict)  # further columns of a table, by title

    def as_json(self) -> str:
        """One line; the fields are a contract with scripts."""
        findings = [finding.model_dump(exclude_none=False) for finding in self.findings]
        answer: dict[str, Any] = {
            "file": self.file,
            "status": self.status,
            "stages": self.stages,
            "findings": findings,
            "picture": self.picture,
            "elapsed_ms": round(self.elapsed_ms, 1),
        }
        if self.error is not None:
            answer["error"] = self.error
        text = json.dumps(answer, ensure_ascii=False)
        return _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def console_of(stream: TextIO) -> Console:
    """A console that does not wrap what a script reads, nor guess at numbers in it."""
    console = Console(file=stream, highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(file=stream, highlight=False, width=160)


def word(status: str) -> Text:
    return Text(status, style=COLOURS.get(status, ""))


def verdict_table(reports: Iterable[PageReport]) -> Table:
    """One row a page."""
    rows = list(reports)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("page", overflow="fold")
    if expecting := any(report.expected is not None for report in rows):
        table.add_column("expected")
    table.add_column("verdict")
    table.add_column("compile")
    table.add_column("render")
    table.add_column("findings", justify="right")
    table.add_column("ms", justify="right")
    extra = list(dict.fromkeys(title for report in rows for title in report.marks))
    for title in extra:
        table.add_column(title)
    for report in rows:
        cells: list[Text | str] = [Text(report.file)]
        if expecting:
            cells.append(word(report.expected or ""))
        cells += [word(report.status), word(report.stages["compile"]), word(report.stages["render"])]
        cells += [str(len(report.findings) or ""), f"{report.elapsed_ms:.0f}"]
        table.add_row(*cells, *(str(report.marks.get(title, "")) for title in extra))
    return table


def print_findings(console: Console, reports: Iterable[PageReport]) -> None:
    """Every finding as file:line:column, what is wrong, where in the page, and the next step."""
    for report in reports:
        if report.error is not None:
            console.print(Text.assemble("\n", (report.file, "bold"), "  nothing is known about this page"))
            _print_indented(console, Text(report.error, style=COLOURS["unavailable"]))
        for finding in report.findings:
            console.print(_head(report, finding), soft_wrap=True)
            _print_indented(console, _body(finding))


def _print_indented(console: Console, text: Text) -> None:
    """Wrapped under its indent on a terminal; elsewhere lines stay whole, for grep and copy."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, 2)))
    else:
        for line in text.split():
            console.print(Text("  ") + line, soft_wrap=True)


def _head(report: PageReport, finding: PageFinding) -> Text:
    place = ":".join(str(part) for part in (finding.file or report.file, finding.line, finding.column) if part)
    severity = (finding.severity, COLOURS[finding.severity])
    return Text.assemble("\n", (_harmless(place), "bold"), "  ", severity, "  ", _harmless(finding.code))


def _body(finding: PageFinding) -> Text:
    text = Text(_harmless(finding.message))
    if finding.frame and finding.frame.strip() not in finding.message:
        text.append("\n" + "\n".join("  " + line for line in _harmless(finding.frame).splitlines()), style="dim")
    if finding.element:
        text.append(f"\nin {_harmless(finding.element)}", style="cyan")
        if finding.rect is not None:
            rect = finding.rect
            text.append(f"  at {rect.x:.0f},{rect.y:.0f}, {rect.width:.0f} x {rect.height:.0f} px", style="dim")
    if finding.hint:
        text.append("\n→ " + _harmless(finding.hint), style="green")
    return text


def _harmless(text: str) -> str:
    """Without control characters: what a page prints must not steer the terminal of who reads about it (X1)."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def summary(reports: Sequence[PageReport]) -> Text:
    """`12 pages: 5 passed, 2 warnings, 5 refused` with what it means."""
    counts = {status: sum(report.status == status for report in reports) for status in COLOURS}
    words = {"passed": "passed", "warning": "with warnings", "failed": "refused", "unavailable": "without a verdict"}
    said = [(status, f"{counts[status]} {ending}") for status, ending in words.items() if counts[status]]
    parts = [Text(text, style=COLOURS[status]) for status, text in said]
    pages = "1 page: " if len(reports) == 1 else f"{len(reports)} pages: "
    return Text(pages) + Text(", ").join(parts)


class Progressing:
    """Progress on stderr: a moving line on a terminal, one line for each finished page elsewhere."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._console, self._total, self._done = console_of(stream), total, 0
        self._progress: Progress | None = None
        if self._console.is_terminal:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._progress.add_task("starting", total=total)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def doing(self, what: str) -> None:
        """What is being worked on now; only a terminal shows it."""
        if self._progress is not None:
            self._progress.update(self._task, description=what)

    def finished(self, report: PageReport) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done)
        else:
            line = Text.assemble(f"[{self._done}/{self._total}] {report.file}: ", word(report.status))
            self._console.print(line + Text(f" ({report.elapsed_ms:.0f} ms)"))
