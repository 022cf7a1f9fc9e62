"""`pagegate bench`, put together: measure, compare with the goals, print a table, write JSON.

Owns the goals, which are ratios within one run, and the order: mailboxes, rounds, memory. Missing a goal is told,
not an error: a busy machine is no broken build.
"""

import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pagegate.deploy.bench.mailboxes import measure_mailboxes
from pagegate.deploy.bench.measure import pss_mb_by_role
from pagegate.deploy.bench.stages import FIXTURE, Figures, Rounds, bench_server
from pagegate.deploy.bench.usual import FULL_CHROMIUM, BuildFailed, UsualBrowser, ViteProject
from pagegate.deploy.client import ApiRefused, ServerUnreachable
from pagegate.deploy.deck import Deck
from pagegate.deploy.demo import DemoFailed
from pagegate.deploy.gate import LocalGate
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.report import console_of
from pagegate.runtime.contract import Canvas
from pagegate.runtime.node_worker import find_node, runtime_home

IDLE_PSS_MB_MAX = 700.0
QUIET_S = 5.0  # for the spare browser to be launched and everything to come to rest
LET_GO_S = 75.0  # a spare browser without work is let go after a minute


@dataclass(frozen=True)
class Goal:
    """A ratio or a size that the project wants to keep."""

    name: str
    goal: str
    measured: str
    met: bool


def run_bench(json_file: Path | None, rounds: int) -> int:
    """The whole command; 2 when the machine lacks something."""
    console = console_of(sys.stdout)
    configure_logs("bench", level="error", stream=sys.stderr)
    if not FULL_CHROMIUM.exists():
        sys.stderr.write(
            f"pagegate bench: the opponent, {FULL_CHROMIUM}, is missing; bash deploy/setup.sh installs it\n"
        )
        return 2
    try:
        figures = asyncio.run(_measure(console, rounds))
    except (BuildFailed, DemoFailed, ServerUnreachable, ApiRefused) as error:
        sys.stderr.write(f"pagegate bench: {error}\n")
        return 2
    if json_file is not None:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        console.print(f"figures in {json_file}", markup=False)
    return 0


async def _measure(console: Console, rounds: int) -> dict[str, Any]:
    page = Deck().page(FIXTURE)
    width_px, height_px = page.canvas
    say = _teller(console)
    with tempfile.TemporaryDirectory(prefix="pagegate-bench-") as temporary:
        root = Path(temporary)
        (root / "vite").mkdir()
        node = await asyncio.to_thread(find_node, None)
        vite = ViteProject.create(root / "vite", Deck().folder, page.file.name, node, runtime_home() / "node_modules")
        dist = await vite.build()
        say("messages: the kernel beside threads")
        mailboxes = await measure_mailboxes()
        async with bench_server(root / "data") as (server, api, project_id):
            await asyncio.sleep(QUIET_S)
            memory = {"fresh": pss_mb_by_role(server.pid)}
            say(f"{rounds} rounds: a compile and an attempt, a commit on a server, and the usual way, in turns")
            gate = LocalGate(Canvas(width_px=width_px, height_px=height_px))
            async with gate, UsualBrowser(dist) as browser:
                figures = await Rounds(gate, api, project_id, vite, browser).run(rounds)
            await asyncio.sleep(QUIET_S)
            memory["idle after work"] = pss_mb_by_role(server.pid)
            say("memory: waiting a minute for the spare browser to be let go")
            await asyncio.sleep(LET_GO_S)
            memory["a minute later"] = pss_mb_by_role(server.pid)
    goals = _goals(figures, memory)
    _print(console, figures, mailboxes, memory, goals)
    return _as_json(rounds, figures, mailboxes, memory, goals)


def _teller(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(f"bench  {line}", markup=False)


def _goals(figures: Figures, memory: dict[str, dict[str, float]]) -> list[Goal]:
    compile_ratio = figures.build.p50_ms / figures.compile.p50_ms
    attempt_ratio = figures.usual.p50_ms / figures.attempt.p50_ms
    over_sum = figures.commit.p50_ms / (figures.compile.p50_ms + figures.attempt.p50_ms)
    script_ratio = figures.script.p50_ms / figures.commit.p50_ms
    idle_mb = max(sum(memory["fresh"].values()), sum(memory["idle after work"].values()))
    rested = "spare browser" not in memory["a minute later"]
    return [
        Goal("warm compile against vite build", "at least 7 x", f"{compile_ratio:.1f} x", compile_ratio >= 7),
        Goal("warm attempt against the usual way", "at least 3 x", f"{attempt_ratio:.1f} x", attempt_ratio >= 3),
        Goal("enqueue to commit over compile + attempt", "at most 1.5 x", f"{over_sum:.2f} x", over_sum <= 1.5),
        Goal("enqueue to commit against a plain script", "at least 4 x", f"{script_ratio:.1f} x", script_ratio >= 4),
        Goal("idle process tree", f"under {IDLE_PSS_MB_MAX:.0f} MB", f"{idle_mb:.0f} MB", idle_mb < IDLE_PSS_MB_MAX),
        Goal("spare browser let go after a minute", "yes", "yes" if rested else "no", rested),
    ]


def _print(
    console: Console,
    figures: Figures,
    mailboxes: dict[str, float],
    memory: dict[str, dict[str, float]],
    goals: list[Goal],
) -> None:
    times = Table("", "P50 ms", "P95 ms", "runs", box=None, header_style="bold", title="times", title_justify="left")
    for series in figures.all():
        times.add_row(series.name, f"{series.p50_ms:.1f}", f"{series.p95_ms:.1f}", str(len(series.values_ms)))
    sizes = Table("PSS in MB", *memory, box=None, header_style="bold", title="memory", title_justify="left")
    for role in dict.fromkeys(role for shares in memory.values() for role in shares):
        sizes.add_row(role, *(f"{shares[role]:.0f}" if role in shares else "" for shares in memory.values()))
    sizes.add_row("all", *(f"{sum(shares.values()):.0f}" for shares in memory.values()), style="bold")
    rates = Table(
        "messages a second", "ask", "tell", box=None, header_style="bold", title="actors", title_justify="left"
    )
    rates.add_row("asyncio kernel", f"{mailboxes['kernel_ask']:,.0f}", f"{mailboxes['kernel_tell']:,.0f}")
    rates.add_row("Pykka's threads", f"{mailboxes['threads_ask']:,.0f}", f"{mailboxes['threads_tell']:,.0f}")
    verdicts = Table(
        "goal", "wanted", "measured", "", box=None, header_style="bold", title="goals", title_justify="left"
    )
    for goal in goals:
        verdicts.add_row(
            goal.name, goal.goal, goal.measured, "met" if goal.met else "NOT MET", style="" if goal.met else "red"
        )
    for table in (times, sizes, rates, verdicts):
        console.print()
        console.print(table)


def _as_json(
    rounds: int,
    figures: Figures,
    mailboxes: dict[str, float],
    memory: dict[str, dict[str, float]],
    goals: list[Goal],
) -> dict[str, Any]:
    return {
        "rounds": rounds,
        "fixture": FIXTURE,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "times": {series.name.strip(): series.as_json() for series in figures.all()},
        "memory_pss_mb": {name: {role: round(mb, 1) for role, mb in shares.items()} for name, shares in memory.items()},
        "messages_per_second": {name: round(rate) for name, rate in mailboxes.items()},
        "goals": [goal.__dict__ for goal in goals],
    }
