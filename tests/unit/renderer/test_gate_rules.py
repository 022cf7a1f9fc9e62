"""What a failed request means: the page's mistake, or ours (R9)."""

from typing import Any

import pytest

from pagegate.renderer.gate import blocked_by_browser, delivered_by_us, fault_of_status


@pytest.mark.parametrize("path", ["/", "/index.html", "/page.js", "/page.css", "/page.js?v=1"])
def test_a_lost_output_is_infrastructure(path: str) -> None:
    fault = fault_of_status(path, "script", 404)
    assert fault is not None
    assert fault.code == "RENDER_OUTPUT_LOST"


def test_a_lost_framework_is_infrastructure_but_a_made_up_address_below_vendor_is_not() -> None:
    assert delivered_by_us("/vendor/vue.js", "script")
    assert fault_of_status("/vendor/vue.js", "script", 404) is not None
    assert fault_of_status("/vendor/picture.png", "image", 404) is None


@pytest.mark.parametrize("path", ["/assets/gone.svg", "/api/data", "/page.js.map"])
def test_what_the_page_asked_for_itself_and_is_not_there_is_its_own_mistake(path: str) -> None:
    assert fault_of_status(path, "fetch", 404) is None
    assert fault_of_status(path, "fetch", 200) is None


@pytest.mark.parametrize(("path", "status"), [("/assets/a.svg", 500), ("/assets/a.svg", 401), ("/x", 503), ("/", 302)])
def test_a_broken_service_is_infrastructure(path: str, status: int) -> None:
    fault = fault_of_status(path, "image", status)
    assert fault is not None
    assert fault.code == "RENDER_ORIGIN_UNREACHABLE"


def test_what_the_browser_stops_before_the_interception_is_told() -> None:
    def issue(**details: Any) -> dict[str, Any]:
        return {"details": details}

    mixed = {"insecureURL": "http://1.2.3.4/", "resourceType": "Beacon", "resolutionStatus": "MixedContentBlocked"}
    assert blocked_by_browser(issue(mixedContentIssueDetails=mixed)) == ("http://1.2.3.4/", "beacon", "other-origin")
    warned = {**mixed, "resolutionStatus": "MixedContentWarning"}
    assert blocked_by_browser(issue(mixedContentIssueDetails=warned)) is None
    worker = {"violatedDirective": "worker-src", "blockedURL": "blob"}
    assert blocked_by_browser(issue(contentSecurityPolicyIssueDetails=worker)) == ("blob", "worker", "worker")
    other = {"violatedDirective": "img-src", "blockedURL": "x"}
    assert blocked_by_browser(issue(contentSecurityPolicyIssueDetails=other)) is None
    assert blocked_by_browser(issue()) is None
