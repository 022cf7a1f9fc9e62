"""The arithmetic of the benchmark: quantiles, ratios, and the memory of a process tree by role.

Owns no state. PSS counts a shared page once over all who share it, so the sum over a tree is what the tree costs.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

_KIB = 1024


@dataclass
class Series:
    """Durations of one thing, in ms."""

    name: str
    values_ms: list[float] = field(default_factory=list)

    @contextmanager
    def timed(self) -> Iterator[None]:
        started_s = time.perf_counter()
        yield
        self.values_ms.append((time.perf_counter() - started_s) * 1000)

    @property
    def p50_ms(self) -> float:
        return quantile(self.values_ms, 0.5)

    @property
    def p95_ms(self) -> float:
        return quantile(self.values_ms, 0.95)

    def as_json(self) -> dict[str, Any]:
        rounded = [round(value, 2) for value in self.values_ms]
        return {"runs": len(rounded), "p50_ms": round(self.p50_ms, 2), "p95_ms": round(self.p95_ms, 2), "ms": rounded}


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed (nearest rank). Needs a value."""
    assert values, "nothing was measured"
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def pss_mb_by_role(pid: int) -> dict[str, float]:
    """PSS of a process and all its descendants, added up by what each of them is, in MiB."""
    found: dict[str, float] = {}
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        for process in [top, *top.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                role = "supervisor" if process.pid == pid else role_of(process.cmdline())
                found[role] = found.get(role, 0.0) + _pss_kib(process.pid) / _KIB
    return found


def role_of(command: Sequence[str]) -> str:
    """What a process of ours is, from its command line."""
    text = " ".join(command)
    if "pagegate.deploy.process" in text:
        return {"serve": "backend"}.get(command[-1], command[-1])
    if "chrom" in text:
        return "spare browser"
    if "playwright" in text:
        return "browser driver (node)"
    if "node" in Path(command[0]).name if command else False:
        return "compile worker (node)"
    return Path(command[0]).name if command else "other"


def _pss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0
