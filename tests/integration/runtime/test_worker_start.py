"""A Node worker whose start is given up at any moment (V4)."""

import asyncio
import contextlib
import gc
from pathlib import Path

import psutil

from pagegate.runtime.node_worker import NodeWorker, WorkerConfig, find_node, runtime_home


async def test_start_that_is_cancelled_at_any_moment_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    """Warnings are errors here: a socket that is only collected later would fail the test."""
    this = psutil.Process()
    before = {child.pid for child in this.children(recursive=True)}
    config = WorkerConfig(find_node(), runtime_home(), tmp_path)
    for steps in range(8):
        starting = asyncio.create_task(NodeWorker.start(config, tmp_path, tmp_path))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        assert starting.cancelled()
    await asyncio.sleep(0)  # transports close one turn later
    gc.collect()
    assert {child.pid for child in this.children(recursive=True)} <= before
