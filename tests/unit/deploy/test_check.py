"""What `pagegate check` decides: exit codes, picture names, and that infrastructure is never a verdict."""

from pathlib import Path
from typing import Any

import pytest

from pagegate.deploy import gate as local_gate
from pagegate.deploy.check import exit_code, picture_names
from pagegate.deploy.gate import TRIES_MAX, Compiled, LocalGate
from pagegate.deploy.pages import LocalPage
from pagegate.deploy.report import PageReport
from pagegate.renderer.contract import AttemptError, Diagnosis, RenderResult
from pagegate.runtime.contract import ArtifactManifest, Canvas, CompileOutput, CompileResult, EntryPage
from pagegate.runtime.refusals import WorkerLost

CANVAS = Canvas(width_px=1280, height_px=720)


def report(status: str) -> PageReport:
    return PageReport("a.vue", status, {"compile": "passed", "render": status})


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["passed"], 0),
        (["passed", "warning"], 0),
        (["passed", "failed"], 1),
        (["failed", "unavailable"], 2),
        (["unavailable"], 2),
    ],
)
def test_an_incomplete_answer_outweighs_a_refusal(statuses: list[str], code: int) -> None:
    assert exit_code([report(status) for status in statuses]) == code


def test_no_picture_overwrites_another() -> None:
    files = [Path("a/x.vue"), Path("b/x.vue"), Path("x-2.tsx"), Path("x.tsx")]
    names = picture_names([LocalPage(file, Path()) for file in files])
    assert names == ["x.png", "x-2.png", "x-2-2.png", "x-3.png"]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> LocalGate:
    """A gate whose two systems are never started: the tests play them."""
    monkeypatch.setattr(local_gate, "RETRY_WAIT_S", 0.0)
    made = LocalGate(CANVAS)
    monkeypatch.setattr(made, "origin_of", lambda _: None)
    return made


def compiled(page: LocalPage) -> Compiled:
    output = CompileOutput(output_id="o", navigation_url="", vendor_url="", size_bytes=1)
    manifest = ArtifactManifest(
        artifact_id="a", entry="pages/a.vue", framework="vue", modules=[], entry_page=EntryPage(code="a"), canvas=CANVAS
    )
    return Compiled(page, CompileResult(ok=True, output=output), manifest, None, 1.0)


class Renderer:
    """Answers with one result after the other."""

    def __init__(self, *results: dict[str, Any] | Exception) -> None:
        self.results = list(results)
        self.asked = 0

    async def render(self, task: Any, origin: Any) -> tuple[RenderResult, bytes | None]:
        self.asked += 1
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return RenderResult(attempt_id="x", worker_id="w", profile_digest="d", **result), b"png"


LOST = {"error": AttemptError(code="RENDER_BROWSER_LOST", message="the browser went away")}
PASSED = {"diagnosis": Diagnosis(status="passed")}


class Outputs:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    def delete(self, output_id: str) -> None:
        self.deleted.append(output_id)


async def test_a_lost_browser_is_tried_again(gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    renderer, outputs = Renderer(LOST, TimeoutError(), PASSED), Outputs()
    monkeypatch.setattr(gate, "renderer", renderer)
    monkeypatch.setattr(gate.runtime, "outputs", outputs, raising=False)
    answer, png = await gate.look(compiled(LocalPage(Path("a.vue"), Path())))
    assert (answer.status, answer.error, png, renderer.asked) == ("passed", None, b"png", 3)
    assert outputs.deleted == ["o"]


async def test_a_browser_that_never_comes_is_no_word_about_the_page(
    gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer, outputs = Renderer(*[LOST] * TRIES_MAX), Outputs()
    monkeypatch.setattr(gate, "renderer", renderer)
    monkeypatch.setattr(gate.runtime, "outputs", outputs, raising=False)
    answer, png = await gate.look(compiled(LocalPage(Path("a.vue"), Path())))
    assert (answer.status, answer.findings, png) == ("unavailable", [], None)
    assert answer.stages == {"compile": "passed", "render": "unavailable"}
    assert answer.error == "RENDER_BROWSER_LOST: the browser went away"
    assert outputs.deleted == ["o"], "the output is let go whatever happens"


async def test_a_compile_that_never_comes_is_no_word_about_the_page(
    gate: LocalGate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = 0

    async def lost(*_: Any, **__: Any) -> CompileResult:
        nonlocal asked
        asked += 1
        raise WorkerLost("the worker went away")

    monkeypatch.setattr(gate.runtime, "compile", lost)
    page = tmp_path / "a.vue"
    page.write_text("<template>x</template>")
    answer, _ = await gate.look(await gate.compile(LocalPage(page, tmp_path)))
    assert (answer.status, answer.findings, asked) == ("unavailable", (), TRIES_MAX)
    assert answer.stages == {"compile": "unavailable", "render": "skipped"}
    assert answer.error == "RUNTIME_WORKER_LOST: the worker went away"
