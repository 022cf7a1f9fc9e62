"""From all that was found to what is told: merged, ordered, bounded."""

from pagegate.renderer.contract import Finding
from pagegate.renderer.diagnosis.verdict import FINDINGS_MAX, PER_CODE_MAX, settle, status_of


def warning(code: str = "TEXT_CLIPPED", line: int | None = 1, **more: object) -> Finding:
    fields = {"code": code, "severity": "warning", "message": "m", "hint": "h", "file": "pages/x.vue", "line": line}
    return Finding.model_validate(fields | more)


def test_one_line_of_source_that_is_rendered_often_is_one_finding_with_a_count() -> None:
    [finding] = settle([warning(line=16), warning(line=16), warning(line=16)])
    assert finding.message == "m (2 more like it)"


def test_two_props_that_are_missing_at_one_place_are_both_named() -> None:
    missing = [warning("PROP_MISSING", message=f'Missing required prop: "{name}"') for name in ("was", "now", "was")]
    assert [finding.message for finding in settle(missing)] == [
        'Missing required prop: "was" (1 more like it)',
        'Missing required prop: "now"',
    ]


def test_errors_come_first_and_warnings_in_the_order_of_the_source() -> None:
    found = [warning(line=30), warning("IMAGE_BROKEN", line=4), warning("PAGE_ERROR", line=9, severity="error")]
    assert [finding.line for finding in settle(found)] == [9, 4, 30]


def test_a_code_is_told_a_few_times_and_then_counted() -> None:
    settled = settle(warning(line=n) for n in range(1, 21))
    assert len(settled) == PER_CODE_MAX
    assert "15 more TEXT_CLIPPED" in settled[-1].message


def test_never_more_than_one_can_work_on() -> None:
    assert len(settle(warning(f"CODE_{n}", line=n) for n in range(1, 200))) == FINDINGS_MAX


def test_status_follows_the_gravest_finding() -> None:
    error = warning(severity="error")
    assert [status_of(f) for f in ([], [warning()], [warning(), error])] == ["passed", "warning", "failed"]
