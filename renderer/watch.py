"""How much memory and processor a browser's process tree takes, read from `/proc` (R9, X3).

Reads only; the attempt decides. Processes come and go while they are counted: what vanished counts nothing.
"""

import contextlib
import os
from collections import deque
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """The process and all its descendants, those in other pid namespaces included."""
    tree: list[int] = []
    waiting = deque([pid])
    while waiting:
        parent = waiting.popleft()
        tree.append(parent)
        with contextlib.suppress(OSError):
            for task in (_PROC / str(parent) / "task").iterdir():
                with contextlib.suppress(OSError):
                    waiting.extend(map(int, (task / "children").read_text().split()))
    return tree


def memory_mb(pids: list[int]) -> int:
    """What the processes hold together, in MiB: private memory summed, and the largest shared part once.

    Summing resident memory would count the browser's shared pages once a process; the exact figure (PSS) costs
    milliseconds for each.
    """
    private = shared_max = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (_PROC / str(pid) / "statm").read_text().split()
            resident, shared = int(fields[1]), int(fields[2])
            private += resident - shared
            shared_max = max(shared_max, shared)
    return (private + shared_max) * _PAGE_BYTES >> 20


def processor_s(pids: list[int]) -> float:
    """Processor seconds that the processes have used so far."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The command's name is in parentheses and may hold anything; the figures come after the last one.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S
