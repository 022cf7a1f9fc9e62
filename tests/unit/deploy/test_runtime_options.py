"""What the settings of a Runtime become (V1, V4)."""

import pytest

from pagegate.actors.systems.runtime import LaneSize
from pagegate.deploy.process_settings import load
from pagegate.deploy.runtime_process import runtime_options
from pagegate.deploy.settings import RuntimeSettings, setting_names


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)


def test_lanes_have_the_sizes_of_their_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    for profile, slots, heap_mb in (("lite", 1, 1024), ("regular", 2, 2048)):
        monkeypatch.setenv("PAGEGATE_PROFILE", profile)
        options = runtime_options(load(RuntimeSettings))
        assert options.check == options.build == options.light == LaneSize(slots, 16, 45.0)
        assert options.build_heap_mb == heap_mb
        assert (options.worker_tasks_max, options.worker_reuse, options.worker_idle_s) == (25, True, None)


def test_each_lane_can_have_its_own_size_and_idle_workers_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_VITE_TASK_CONCURRENCY", "check=3,build=1,light=2")
    monkeypatch.setenv("RUNTIME_VITE_TASK_QUEUE_WAIT_TIMEOUT_MS", "check=1500,build=2500,light=3500")
    monkeypatch.setenv("RUNTIME_DIAGNOSTICS_WORKER_IDLE_SECONDS", "30")
    monkeypatch.setenv("RUNTIME_DIAGNOSTICS_WORKER_REUSE_ENABLED", "false")
    options = runtime_options(load(RuntimeSettings))
    assert [options.check, options.build, options.light] == [
        LaneSize(3, 16, 1.5),
        LaneSize(1, 16, 2.5),
        LaneSize(2, 16, 3.5),
    ]
    assert (options.worker_idle_s, options.worker_reuse) == (30, False)
