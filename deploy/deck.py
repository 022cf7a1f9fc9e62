"""The sample deck as data, and its way through a running server (D5): used by the demo, the benchmark and the tests.

Owns what `deploy/sample/deck.json` says: pages, the verdict each must get, and where the fault is. Talks to the server
through `client.Api` only.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pagegate.actors.jobs.verdict import PageFinding
from pagegate.deploy.client import Api
from pagegate.deploy.report import PageReport

SAMPLE = Path(__file__).resolve().parent / "sample"


@dataclass(frozen=True)
class DeckPage:
    """One page and the verdict it must get. `where` is `file:line` of its fault, empty for a good page."""

    code: str
    title: str
    framework: str
    file: Path
    speaker_notes: str
    canvas: tuple[int, int]
    expect: str
    stage: str
    fault: str
    where: str

    @property
    def source(self) -> str:
        return self.file.read_text("utf-8")

    def create_call(self) -> dict[str, Any]:
        """The tool call that creates the page; the code is its call id too."""
        arguments = {
            "title": self.title,
            "code": self.code,
            "framework": self.framework,
            "speaker_notes": self.speaker_notes,
            "source": self.source,
        }
        return {"call_id": self.code, "tool": "create_project_page", "arguments": arguments}

    def is_met_by(self, report: PageReport) -> bool:
        """Whether the verdict is the expected one, at the expected stage."""
        return report.status == self.expect and report.stages[self.stage] == self.expect

    def is_located_by(self, findings: Sequence[PageFinding]) -> bool:
        """Whether a finding names the very line of the fault."""
        return any(f"{finding.file}:{finding.line}" == self.where for finding in findings)


@dataclass(frozen=True)
class Deck:
    folder: Path = SAMPLE

    @cached_property
    def pages(self) -> list[DeckPage]:
        described = json.loads((self.folder / "deck.json").read_text("utf-8"))["pages"]
        return [
            DeckPage(
                code=page["code"],
                title=page["title"],
                framework=page["framework"],
                file=self.folder / page["file"],
                speaker_notes=page["speaker_notes"],
                canvas=(page["canvas"]["width"], page["canvas"]["height"]),
                expect=page["expect"],
                stage=page["stage"],
                fault=page["fault"],
                where=page["where"].split(" ")[0],
            )
            for page in sorted(described, key=lambda page: int(page["order"]))
        ]

    def page(self, code: str) -> DeckPage:
        """Raises StopIteration for a code that is not in the deck."""
        return next(page for page in self.pages if page.code == code)


async def create_project(api: Api, deck: Deck) -> int:
    """A workspace and a project with the deck's canvas, components and assets; the project's id."""
    workspace = await api.call("POST", "/workspaces", {"name": "Fernpost"})
    width, height = deck.pages[0].canvas
    wanted = {"name": "Q3 review", "canvas": {"width_px": width, "height_px": height}}
    project = await api.call("POST", f"/workspaces/{workspace['id']}/projects", wanted)
    project_id = int(project["id"])
    for file in sorted((deck.folder / "components").iterdir()):
        body = {"source": file.read_text("utf-8")}
        await api.call("PUT", f"/projects/{project_id}/components/{file.name}", body)
    for file in sorted((deck.folder / "assets").iterdir()):
        await api.call("PUT", f"/projects/{project_id}/assets/{file.name}", data=file.read_bytes())
    return project_id


async def send_calls(api: Api, project_id: int, calls: list[dict[str, Any]], key: str | None = None) -> int:
    """One step's calls; the id of their run. The same key answers the same run."""
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await api.call("POST", f"/projects/{project_id}/tool-calls", {"calls": calls}, headers=headers)
    return int(answer["run_id"])


def report_of_call(call: dict[str, Any], page: DeckPage) -> PageReport:
    """A call of a run that has ended, as a report beside what the deck expects."""
    result = call["result"] or {}
    findings = [PageFinding.model_validate(finding) for finding in result.get("findings", [])]
    timings = result.get("timings_ms", {})
    report = PageReport(
        file=page.code,
        status=result.get("status", call["status"]),
        stages=result.get("stages", {"compile": "", "render": ""}),
        findings=findings,
        elapsed_ms=sum(timings.values()),
        error=None if result.get("status") else f"{result.get('code', call['status'])}: {result.get('message', '')}",
        expected=page.expect,
    )
    located = "" if not page.where else "yes" if page.is_located_by(findings) else "no"
    marks = {"fault located": located, "as expected": "yes" if page.is_met_by(report) else "NO"}
    return replace(report, marks=marks)
