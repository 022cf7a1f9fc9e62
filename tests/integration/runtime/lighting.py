"""A real worker of the light lane for tests that look at its answers, spoken to without a loop."""

import json
import socket
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pagegate.runtime.node_worker import _environment, find_node, runtime_home


class LightTools:
    """Runs one light tool after the other in one process."""

    def __init__(self, root: Path) -> None:
        home = runtime_home()
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [find_node(), home / "worker.mjs", str(theirs.fileno()), root, root, "light"],
            cwd=root,
            env=_environment(root),
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        ours.settimeout(120)
        self._lines = ours.makefile("rwb")
        ours.close()
        assert json.loads(self._lines.readline())["ready"]

    def run(self, tool: str, given: Mapping[str, Any], file: Path | None = None) -> dict[str, Any]:
        """The worker's whole answer: `result`, or `errors`."""
        task = {"id": uuid.uuid4().hex, "op": "light", "tool": tool, "input": given, "dir": "/nowhere"}
        self._lines.write(json.dumps({**task, "file": str(file) if file else None}).encode() + b"\n")
        self._lines.flush()
        answer: dict[str, Any] = json.loads(self._lines.readline())
        assert (answer["id"], answer["ok"]) == (task["id"], True), answer
        assert bool(answer["errors"]) != bool(answer["result"])
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._lines.close()
