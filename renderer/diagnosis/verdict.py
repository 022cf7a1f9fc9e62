"""From all that was found to what is told (R10): merged, in order, and not more than one can work on."""

from collections.abc import Iterable

from pagegate.renderer.contract import Finding, RenderStatus

PER_CODE_MAX = 5
FINDINGS_MAX = 50


def status_of(findings: Iterable[Finding]) -> RenderStatus:
    """R8: errors refuse the page, warnings do not."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "failed"
    return "warning" if severities else "passed"


def settle(found: Iterable[Finding]) -> list[Finding]:
    """Repetitions of one slip become one finding with a count; errors come first, then the order of the source."""
    merged: dict[tuple[object, ...], list[Finding]] = {}
    for each in found:
        merged.setdefault(_identity(each), []).append(each)
    findings = [_counted(same[0], len(same) - 1) for same in merged.values()]
    findings.sort(key=_order)
    return _limited(findings)[:FINDINGS_MAX]


def _identity(finding: Finding) -> tuple[object, ...]:
    """One line of source that is rendered ten times (a list) is one slip; two props missing on it are two."""
    if finding.line is not None and finding.code == "PROP_MISSING":
        return (finding.code, finding.file, finding.line, finding.column, finding.message)
    if finding.line is not None:
        return (finding.code, finding.file, finding.line, finding.column)
    return (finding.code, finding.message, finding.element)


def _counted(finding: Finding, more: int) -> Finding:
    if not more:
        return finding
    return finding.model_copy(update={"message": f"{finding.message} ({more} more like it)"})


def _order(finding: Finding) -> tuple[object, ...]:
    y, x = (finding.rect.y, finding.rect.x) if finding.rect else (0.0, 0.0)
    return (finding.severity != "error", finding.file is None, finding.file or "", finding.line or 0, y, x)


def _limited(findings: list[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    dropped: dict[str, int] = {}
    count: dict[str, int] = {}
    for each in findings:
        count[each.code] = count.get(each.code, 0) + 1
        if count[each.code] > PER_CODE_MAX:
            dropped[each.code] = dropped.get(each.code, 0) + 1
        else:
            kept.append(each)
    last = {each.code: i for i, each in enumerate(kept)}
    for code, number in dropped.items():
        each = kept[last[code]]
        kept[last[code]] = each.model_copy(update={"message": f"{each.message} [and {number} more {code} elsewhere]"})
    return kept
