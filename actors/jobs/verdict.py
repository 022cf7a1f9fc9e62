"""The verdict over a page: what compile and render found, as one answer that an agent can act on (R8, R9).

Pure. Content is judged here; infrastructure is no verdict about the page: it only makes the render `unavailable`, and
whether that is retried, refused or let through is the job's decision (`page_mutation.decide`).
"""

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pagegate.renderer.contract import Diagnosis, Finding, Rect
from pagegate.runtime.contract import CompileResult, LocatedError

Status = Literal["passed", "warning", "failed", "unavailable"]
CompileStage = Literal["passed", "failed"]
RenderStage = Literal["passed", "warning", "unavailable", "failed", "skipped"]


class Stages(BaseModel):
    model_config = ConfigDict(frozen=True)

    compile: CompileStage
    render: RenderStage


class PageFinding(BaseModel):
    """One finding of either stage, in one shape. `error` refuses the page, `warning` is told and saved."""

    model_config = ConfigDict(frozen=True)

    stage: Literal["compile", "render"]
    code: str
    severity: Literal["error", "warning"]
    message: str
    hint: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    frame: str | None = None
    element: str | None = None
    rect: Rect | None = None


class Verdict(BaseModel):
    """`success` is true exactly when the page may be saved as it is: passed or warning (R8)."""

    model_config = ConfigDict(frozen=True)

    status: Status
    success: bool
    stages: Stages
    findings: list[PageFinding] = []
    unavailable_code: str | None = None  # why the render is unavailable: an infrastructure code, never a content one
    unavailable_reason: str | None = None  # its cause, where there is more to say than the code does

    def summary(self) -> str:
        """One sentence for a person or a model."""
        first = next((f for f in self.findings if f.severity == "error"), next(iter(self.findings), None))
        if self.status == "unavailable":
            why = (
                f"{self.unavailable_code}: {self.unavailable_reason}"
                if self.unavailable_reason
                else self.unavailable_code
            )
            return f"The page compiles; it could not be looked at ({why}). Its source is not at fault."
        if first is None:
            return "The page compiles, renders and has no finding."
        others = len(self.findings) - 1
        more = f" (and {others} more finding{'s' if others > 1 else ''})" if others else ""
        return f"{_where(first)}{first.message}{more}"


def judge(
    compiled: CompileResult,
    diagnosis: Diagnosis | None,
    unavailable_code: str | None = None,
    unavailable_reason: str | None = None,
) -> Verdict:
    """The verdict of one check: a failed compile skips the render; a render that did not happen needs its code (R8)."""
    if not compiled.ok:
        findings = [_of_compile(error) for error in compiled.errors]
        return Verdict(
            status="failed", success=False, stages=Stages(compile="failed", render="skipped"), findings=findings
        )
    if diagnosis is None:
        assert unavailable_code is not None, "a render that did not happen has a reason"
        return Verdict(
            status="unavailable",
            success=False,
            stages=Stages(compile="passed", render="unavailable"),
            unavailable_code=unavailable_code,
            unavailable_reason=unavailable_reason,
        )
    return Verdict(
        status=diagnosis.status,
        success=diagnosis.status != "failed",
        stages=Stages(compile="passed", render=diagnosis.status),
        findings=[_of_render(finding) for finding in diagnosis.findings],
    )


def judge_compile(compiled: CompileResult, reworded: Callable[[str], str]) -> Verdict:
    """The verdict of a check that ends with the compile: a component's (R7). `reworded`: what is said is of no page."""
    if compiled.ok:
        return Verdict(status="passed", success=True, stages=Stages(compile="passed", render="skipped"))
    verdict = judge(compiled, None)
    told = [
        one.model_copy(update={"message": reworded(one.message), "hint": reworded(one.hint)})
        for one in verdict.findings
    ]
    return verdict.model_copy(update={"findings": told})


def _of_compile(error: LocatedError) -> PageFinding:
    return PageFinding(
        stage="compile", severity="error", **error.model_dump(include=set(LocatedError.model_fields) - {"plugin"})
    )


def _of_render(finding: Finding) -> PageFinding:
    return PageFinding(stage="render", **{name: getattr(finding, name) for name in Finding.model_fields})


def _where(finding: PageFinding) -> str:
    if finding.file is None:
        return ""
    return f"{finding.file}:{finding.line}: " if finding.line is not None else f"{finding.file}: "
