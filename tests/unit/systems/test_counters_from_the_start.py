"""Counters whose outcomes are known are there at 0 before the first of each: a rate needs a zero to begin with (O2)."""

from prometheus_client import CollectorRegistry

from pagegate.actors.systems.backend_metrics import BackendMetrics


def outcomes(registry: CollectorRegistry, counter: str) -> dict[str, float]:
    return {
        sample.labels["outcome"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == counter
    }


def test_every_known_outcome_of_images_and_builds_is_there_at_zero() -> None:
    registry = CollectorRegistry()
    metrics = BackendMetrics(registry, lanes=("project_build_jobs",))
    images = outcomes(registry, "pagegate_image_requests_total")
    assert images == {"made": 0, "refused": 0, "failed": 0}
    builds = outcomes(registry, "pagegate_build_ends_total")
    assert {"released", "PROJECT_BUILD_SOURCE_ERROR", "PROJECT_BUILD_INTERRUPTED", "JOB_CANCELLED"} <= set(builds)
    assert set(builds.values()) == {0}
    metrics.asked_for_image("made")
    metrics.builds.ended("released")
    assert outcomes(registry, "pagegate_image_requests_total") == {**images, "made": 1}
    assert outcomes(registry, "pagegate_build_ends_total") == {**builds, "released": 1}
