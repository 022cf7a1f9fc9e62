"""What refuses a page (R8-R10), judged from observations without a browser."""

import json
from io import BytesIO

import pytest
from PIL import Image, ImageDraw

from pagegate.renderer.contract import Diagnosis
from pagegate.renderer.diagnosis import diagnose
from pagegate.renderer.observation import ConsoleMessage, Observation, PageError, RequestRecord

RISKS = """<script setup lang="ts">
const ready = false
</script>

<template>
  <main v-if="ready">Later</main>
</template>
"""


def picture(*, word: str = "", ground: str = "white", size: tuple[int, int] = (320, 180)) -> bytes:
    image = Image.new("RGB", size, ground)
    if word:
        ImageDraw.Draw(image).text((150, 80), word, fill="black")
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def source_map(*, sources: tuple[str, ...] = ("pages/risks.vue",), mappings: str = "", content: str = RISKS) -> bytes:
    return json.dumps({"version": 3, "sources": sources, "sourcesContent": [content], "mappings": mappings}).encode()


def page(**seen: object) -> Observation:
    """A page that came up well, but for what is said."""
    observation = Observation(viewport_width_px=320, viewport_height_px=180)
    good: dict[str, object] = {"mounted": True, "settled": True, "page_height_px": 180, "png": picture(word="Hello")}
    for name, value in (good | seen).items():
        setattr(observation, name, value)
    return observation


def codes(diagnosis: Diagnosis) -> list[str]:
    return [finding.code for finding in diagnosis.findings]


def test_a_page_with_nothing_wrong_passes_without_a_finding() -> None:
    verdict = diagnose(page())
    assert (verdict.status, verdict.findings, verdict.page_height_px) == ("passed", [], 180)


def test_an_uncaught_error_fails_at_the_line_its_stack_leads_to() -> None:
    # Generated line 2, column 5 is line 2, column 1 of the source.
    stack = "TypeError: x is null\n    at setup (https://gate.test/page.js:2:5)\n    at vue (https://gate.test/vendor/vue.js:1:1)"
    verdict = diagnose(page(errors=[PageError("TypeError: x is null", stack)], source_map=source_map(mappings=";IACA")))
    assert verdict.status == "failed"
    [finding] = verdict.findings
    assert (finding.code, finding.file, finding.line, finding.column) == ("PAGE_ERROR", "pages/risks.vue", 2, 1)
    assert "null" in finding.hint


def test_an_error_told_by_the_framework_and_by_the_browser_is_one_finding() -> None:
    warned = ConsoleMessage("warning", "[Vue warn]: Unhandled error during execution of setup function \n  at <Risks>")
    verdict = diagnose(page(errors=[PageError("Error: no"), PageError("Error: no")], console=[warned]))
    [finding] = verdict.findings
    assert "during setup function" in finding.message


def test_an_error_that_only_the_framework_reports_still_fails() -> None:
    warned = ConsoleMessage("warning", "[Vue warn]: Unhandled error during execution of render function")
    assert codes(diagnose(page(console=[warned]))) == ["PAGE_ERROR"]


def test_a_blank_page_points_to_the_element_that_was_never_rendered() -> None:
    verdict = diagnose(page(png=picture(), source_map=source_map()))
    [finding] = verdict.findings
    assert (finding.code, finding.severity, finding.line, finding.column) == ("PAGE_BLANK", "error", 6, 3)
    assert "`ready`" in finding.message


@pytest.mark.parametrize("ground", ["white", "black", "#b91c1c"])
def test_one_colour_is_blank_whatever_the_colour(ground: str) -> None:
    assert codes(diagnose(page(png=picture(ground=ground)))) == ["PAGE_BLANK"]


def test_a_gradient_without_content_is_blank() -> None:
    out = BytesIO()
    Image.linear_gradient("L").resize((320, 180), Image.Resampling.BICUBIC).convert("RGB").save(out, "PNG")
    assert codes(diagnose(page(png=out.getvalue()))) == ["PAGE_BLANK"]


def test_a_single_word_is_not_blank() -> None:
    assert diagnose(page(png=picture(word="Hi"))).status == "passed"


def test_a_page_that_threw_and_is_blank_is_told_once() -> None:
    assert codes(diagnose(page(png=picture(), errors=[PageError("Error: no")]))) == ["PAGE_ERROR"]


def test_a_page_that_never_came_up_and_threw_nothing_is_told() -> None:
    assert codes(diagnose(page(mounted=False, png=picture()))) == ["PAGE_NOT_MOUNTED"]


@pytest.mark.parametrize("phase", ["load", "settle", "probe", "picture", ""])
def test_a_stuck_page_is_a_page_error(phase: str) -> None:
    verdict = diagnose(page(stuck=True, stuck_phase=phase, settled=False, png=None))
    assert (verdict.status, codes(verdict)) == ("failed", ["PAGE_STUCK"])


def test_a_stuck_page_is_located_by_where_its_thread_was() -> None:
    stack = "at <anonymous> (https://gate.test/page.js:2:5)"
    seen = page(stuck=True, stuck_stack=stack, settled=False, png=None, source_map=source_map(mappings=";IACA"))
    [finding] = diagnose(seen).findings
    assert (finding.code, finding.file, finding.line) == ("PAGE_STUCK", "pages/risks.vue", 2)


def test_a_page_that_brings_its_process_down_is_a_page_error() -> None:
    assert codes(diagnose(page(crashed=True, settled=False, png=None))) == ["PAGE_CRASHED"]


def test_a_page_killed_by_the_memory_watch_is_a_page_error() -> None:
    verdict = diagnose(page(killed_by_memory=True, memory_peak_mb=1536, settled=False, png=None))
    assert codes(verdict) == ["PAGE_OUT_OF_MEMORY"]
    assert "1536 MB" in verdict.findings[0].message


def test_a_page_that_left_itself_or_never_rested_fails() -> None:
    assert codes(diagnose(page(navigated_away=True))) == ["PAGE_NAVIGATED_AWAY"]
    assert codes(diagnose(page(settled=False))) == ["PAGE_NOT_SETTLED"]


def test_a_hanging_font_is_a_warning_and_no_failure() -> None:
    font = RequestRecord("/assets/x.woff2", "hanging", "font")
    verdict = diagnose(page(settled=False, requests=[font]))
    assert (verdict.status, codes(verdict)) == ("warning", ["RESOURCE_HANGING"])


def test_a_module_cycle_tells_what_to_do() -> None:
    error = PageError("ReferenceError: Cannot access 'Card' before initialization")
    [finding] = diagnose(page(errors=[error], mounted=False, png=picture())).findings
    assert "import each other" in finding.hint


def test_the_browsers_remark_about_resize_observers_is_no_error() -> None:
    error = PageError("ResizeObserver loop completed with undelivered notifications.")
    assert diagnose(page(errors=[error])).status == "passed"


def test_a_broken_picture_or_map_or_probe_answer_costs_no_verdict() -> None:
    verdict = diagnose(page(png=b"not a picture", source_map=b"{", probe={"page": ["odd"]}))
    assert verdict.status == "passed"
