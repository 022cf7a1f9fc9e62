"""Files of tests that take long, begun first: then the processes of a run end at about the same time.

Begun last, one file of a few long tests would keep one process busy while the others have nothing left. The seconds are
rough; what counts is who is long. The end of every run says what took longest; a file that is not here is short.
"""

from collections import Counter
from collections.abc import Iterable

import pytest

SECONDS = {
    "tests/integration/lite/test_failures.py": 120,
    "tests/browser/diagnosis/test_written.py": 100,
    "tests/integration/processes/test_lost_processes.py": 80,
    "tests/integration/runtime/test_slot_and_lane.py": 80,
    "tests/browser/test_hostile.py": 70,
    "tests/simulation/test_mutants.py": 70,
    "tests/simulation/test_world.py": 70,
    "tests/browser/diagnosis/test_corpus.py": 60,
    "tests/integration/queues/test_bad_days.py": 60,
    "tests/simulation/test_lane.py": 60,
    "tests/integration/lite/test_demo.py": 50,
    "tests/integration/lite/test_lite.py": 40,
    "tests/integration/lite/test_mcp.py": 40,
    "tests/integration/processes/test_agent_runs.py": 40,
    "tests/integration/processes/test_runtime_state.py": 40,
    "tests/integration/queues/test_damaged_rows.py": 40,
    "tests/integration/runtime/test_hostile_sources.py": 40,
    "tests/browser/test_random_kills.py": 30,
    "tests/integration/builds/test_same_look.py": 30,
    "tests/integration/images/test_kills_everywhere.py": 30,
    "tests/simulation/test_build_worlds.py": 30,
    "tests/simulation/test_maker_worlds.py": 30,
    "tests/browser/test_attempt.py": 25,
    "tests/browser/test_egress.py": 25,
    "tests/browser/test_killed_renderer.py": 25,
    "tests/integration/lite/test_edits.py": 25,
    "tests/integration/lite/test_readme.py": 25,
    "tests/integration/processes/test_operator_commands.py": 25,
    "tests/integration/processes/test_signals.py": 25,
    "tests/integration/storage/test_jobs.py": 25,
    "tests/browser/test_driver.py": 20,
    "tests/browser/test_same_picture.py": 20,
    "tests/integration/agents/test_stops.py": 20,
    "tests/integration/builds/test_killed_backend.py": 20,
    "tests/integration/builds/test_local_build.py": 20,
    "tests/integration/builds/test_project_builds.py": 20,
    "tests/integration/cli/test_check.py": 20,
    "tests/integration/cli/test_preview.py": 20,
    "tests/integration/lite/test_screenshots_on_s3.py": 20,
    "tests/integration/previews/test_browser.py": 20,
    "tests/integration/processes/test_pictures.py": 20,
    "tests/integration/queues/test_job_queue.py": 20,
    "tests/integration/renderer/test_lossy_wire.py": 20,
    "tests/integration/runtime/test_compiled_pages.py": 20,
    "tests/integration/storage/test_migrations.py": 20,
    "tests/simulation/test_coordinator.py": 20,
    "tests/simulation/test_screenshot_worlds.py": 20,
    "tests/browser/test_component.py": 15,
    "tests/integration/agents/test_providers.py": 15,
    "tests/integration/agents/test_pruned_sessions.py": 15,
    "tests/integration/builds/test_on_s3.py": 15,
    "tests/integration/queues/test_pruner_and_listener.py": 15,
    "tests/integration/renderer/test_profile_match.py": 15,
    "tests/integration/runtime/test_second_wall.py": 15,
    "tests/simulation/test_agent_runs.py": 10,
    "tests/simulation/test_queue.py": 10,
    "tests/unit/test_layout.py": 10,
}


def dearest_first(items: list[pytest.Item]) -> None:
    """Sort by file, and keep the order inside each: the long ones, then by their number of tests."""
    counted = Counter(_file_of(item.nodeid) for item in items)
    items.sort(key=lambda item: (-SECONDS.get(_file_of(item.nodeid), 0), -counted[_file_of(item.nodeid)]))


def longest(reports: Iterable[pytest.TestReport], files_max: int) -> list[tuple[str, float]]:
    """The files that took longest, with their seconds, fixtures included."""
    seconds: dict[str, float] = {}
    for report in reports:
        name = _file_of(report.nodeid)
        seconds[name] = seconds.get(name, 0.0) + report.duration
    return sorted(seconds.items(), key=lambda item: -item[1])[:files_max]


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
