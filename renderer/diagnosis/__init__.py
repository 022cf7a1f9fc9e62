"""The Renderer's judgement: what one attempt saw of a page, turned into a verdict with findings (R8-R11).

Owns `diagnose`, a pure function of an `Observation`: no browser, no clock, no network. One file a concern:
`failures` (what refuses a page), `frameworks` (what vue and react say), `templates` (what they do not say), `layout`
and `pixels` (what the eye would see), `resources` (what did not arrive), `verdict` (merging, order, limits). A good
page has no finding: each rule would rather miss than raise a false alarm, for a false alarm costs an agent a round of
repair.
"""

from pagegate.renderer.contract import Diagnosis
from pagegate.renderer.diagnosis import failures, frameworks, layout, pixels, resources, templates, verdict
from pagegate.renderer.diagnosis.evidence import Evidence
from pagegate.renderer.observation import Observation

__all__ = ["diagnose"]


def diagnose(observation: Observation) -> Diagnosis:
    """Judge one page (R8, R10): `failed` when any finding is an error, `warning` when there are only warnings."""
    evidence = Evidence.of(observation)
    found = [
        *failures.find(evidence),
        *frameworks.find(evidence),
        *templates.find(evidence),
        *resources.find(evidence),
    ]
    if all(finding.code != "PAGE_BLANK" for finding in found):  # where nothing shows, nothing is cut or unreadable
        found += [*layout.find(evidence), *pixels.find(evidence)]
    findings = verdict.settle(found)
    return Diagnosis(
        status=verdict.status_of(findings), findings=findings, page_height_px=max(0, observation.page_height_px)
    )
