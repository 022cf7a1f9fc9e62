"""The benchmark's arithmetic: a wrong quantile or a forgotten process would make every ratio a lie."""

import os
import subprocess
import sys

import pytest

from pagegate.deploy.bench.measure import pss_mb_by_role, quantile, role_of


@pytest.mark.parametrize(
    ("values", "share", "wanted"),
    [
        ([3.0], 0.5, 3.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        ([float(n) for n in range(1, 21)], 0.95, 19.0),
        ([2.0, 1.0], 1.0, 2.0),
    ],
)
def test_a_quantile_is_a_value_that_was_measured(values: list[float], share: float, wanted: float) -> None:
    assert quantile(values, share) == wanted


def test_the_memory_of_a_tree_counts_children_too() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "x = bytearray(60 << 20); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        shares = pss_mb_by_role(os.getpid())
        assert shares["supervisor"] > 5
        assert sum(shares.values()) - shares["supervisor"] > 50
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ([sys.executable, "-m", "pagegate.deploy.process", "serve"], "backend"),
        ([sys.executable, "-m", "pagegate.deploy.process", "renderer"], "renderer"),
        (["/usr/lib/chromium/chromium-headless-shell", "--type=renderer"], "spare browser"),
        (["/x/playwright/driver/node", "/x/playwright/driver/package/cli.js", "run-driver"], "browser driver (node)"),
        (["/usr/bin/node", "worker.mjs"], "compile worker (node)"),
        ([], "other"),
    ],
)
def test_a_process_is_named_by_what_it_does(command: list[str], role: str) -> None:
    assert role_of(command) == role
