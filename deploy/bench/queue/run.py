"""`pagegate bench queue`, put together: both databases, in turns with their opponents, the goals, a table, JSON.

Owns the goals, which are ratios within one run. Both sides of a ratio run one after the other in each round and the
medians are compared, so a busy machine slows both. Missing a goal is told, not an error.
"""

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from rich.console import Console
from rich.table import Table

from pagegate.deploy import event_loop
from pagegate.deploy.bench.queue.lane import add_finished, drain, settle_in, submit, transactions_of
from pagegate.deploy.bench.queue.opponent import Procrastinate, ProcrastinateMissing
from pagegate.deploy.bench.queue.raw import one_by_one, replay
from pagegate.deploy.bench.queue.server import PostgresMissing, own_postgres
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.report import console_of
from pagegate.storage.engine import Database, DatabaseOptions
from pagegate.storage.migrations import migrate

CREW = 10  # workers of the goals
RAW_SHARE_MIN = 1 / 5
OPPONENT_MIN = 2.0
OLD_TABLE_MAX = 1.3
CHECK_SHARE_MAX = 0.05
PAGE_CHECK_MS = 450.0  # a warm page check on two cores, for the share; `pagegate bench` measures it

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """How much to measure."""

    jobs: int = 2_000
    rounds: int = 3
    finished: int = 1_000_000
    page_check_ms: float = PAGE_CHECK_MS


@dataclass
class Rates:
    """Jobs a second, round by round, by (database, who, workers)."""

    found: dict[tuple[str, str, int], list[float]] = field(default_factory=dict)

    def add(self, database: str, who: str, workers: int, rate: float) -> None:
        self.found.setdefault((database, who, workers), []).append(rate)

    def ratio(self, database: str, who: str, other: str, workers: int) -> float | None:
        """The median of the rounds' ratios; None when one of the two was not measured."""
        mine, theirs = self.found.get((database, who, workers)), self.found.get((database, other, workers))
        if mine is None or theirs is None:
            return None
        return statistics.median(a / b for a, b in zip(mine, theirs, strict=True))

    def median(self, database: str, who: str, workers: int) -> float | None:
        rates = self.found.get((database, who, workers))
        return None if rates is None else statistics.median(rates)


@dataclass(frozen=True)
class Goal:
    name: str
    wanted: str
    measured: str
    met: bool


def run_queue_bench(json_file: Path | None, wanted: Wanted) -> int:
    """The whole command."""
    console = console_of(sys.stdout)
    configure_logs("bench", level="error", stream=sys.stderr)
    rates = event_loop.run(measure(wanted, lambda line: console.print(f"bench  {line}", markup=False)))
    goals = goals_of(rates, wanted)
    print_rates(console, rates, goals)
    if json_file is not None:
        figures = {
            "jobs": wanted.jobs,
            "finished": wanted.finished,
            "rates": [
                {
                    "database": key[0],
                    "who": key[1],
                    "workers": key[2],
                    "jobs_per_s": [round(rate, 1) for rate in rates_],
                }
                for key, rates_ in rates.found.items()
            ],
            "goals": [goal.__dict__ for goal in goals],
        }
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        console.print(f"figures in {json_file}", markup=False)
    return 0


async def measure(wanted: Wanted, say: Say) -> Rates:
    """Everything, one thing after the other."""
    rates = Rates()
    with tempfile.TemporaryDirectory(prefix="pagegate-bench-queue-") as folder:
        await _sqlite(Path(folder), wanted, rates, say)
    try:
        with own_postgres() as port:
            await _postgres(port, wanted, rates, say)
    except (PostgresMissing, ProcrastinateMissing) as error:
        say(f"left out: {error}")
    return rates


async def _sqlite(folder: Path, wanted: Wanted, rates: Rates, say: Say) -> None:
    empty, old = folder / "empty.db", folder / "old.db"
    await _prepare(_sqlite_url(empty), 0)
    if wanted.finished:
        say(f"SQLite: {wanted.finished:,} finished jobs")
        await _prepare(_sqlite_url(old), wanted.finished)
    for synchronous in ("NORMAL", "FULL"):
        name = f"SQLite, {synchronous}"
        for workers in (1, CREW):
            say(f"{name}: {workers} workers, {wanted.rounds} rounds of {wanted.jobs:,} jobs")
            for number in range(wanted.rounds + 1):  # the first warms up
                counted = rates if number else Rates()
                await _sqlite_round(folder, empty, name, synchronous, workers, wanted.jobs, counted)
    if wanted.finished:
        say("SQLite: an empty table and an old one, in turns")
        for _ in range(wanted.rounds):
            for who, path in (("pagegate, empty table", empty), ("pagegate, old table", old)):
                rates.add("SQLite, NORMAL", who, CREW, await _submit_and_drain(_sqlite_url(path), wanted.jobs, CREW))


async def _sqlite_round(
    folder: Path, empty: Path, name: str, synchronous: Any, workers: int, jobs: int, rates: Rates
) -> None:
    ours, heard, theirs, plain = (folder / f"{whose}.db" for whose in ("ours", "heard", "theirs", "plain"))
    _clear(folder, ours, heard, theirs, plain)
    shutil.copy(empty, ours)
    db = await Database.open(_sqlite_url(ours))
    await submit(db, jobs)
    await db.close()
    for copy in (heard, theirs, plain):
        shutil.copy(ours, copy)
    options = DatabaseOptions(sqlite_synchronous=synchronous)
    db = await Database.open(_sqlite_url(ours), options=options)
    rates.add(name, "pagegate", workers, await drain(db, jobs, workers))
    await db.close()
    db = await Database.open(_sqlite_url(heard), options=options)
    with transactions_of(db) as made:  # a run of its own, since listening costs as much as some statements
        await drain(db, jobs, workers)
    await db.close()
    rates.add(name, "sqlite3, the same", workers, await asyncio.to_thread(replay, theirs, synchronous, made, jobs))
    rates.add(name, "sqlite3, one by one", workers, await asyncio.to_thread(one_by_one, plain, synchronous, jobs))


def _clear(folder: Path, *copies: Path) -> None:
    for copy in copies:
        for leftover in folder.glob(f"{copy.name}*"):
            leftover.unlink()


async def _postgres(port: int, wanted: Wanted, rates: Rates, say: Say) -> None:
    urls = {name: await _database(port, name) for name in ("empty", "old", "opponent")}
    await _prepare(urls["empty"], 0)
    async with Procrastinate(port, "opponent") as opponent:
        for workers in (1, CREW):
            say(f"PostgreSQL: {workers} workers, {wanted.rounds} rounds of {wanted.jobs:,} jobs")
            for number in range(wanted.rounds + 1):  # the first warms up
                counted = rates if number else Rates()
                ours = await _submit_and_drain(urls["empty"], wanted.jobs, workers)
                counted.add("PostgreSQL", "pagegate", workers, ours)
                counted.add("PostgreSQL", "procrastinate", workers, await opponent.drain(wanted.jobs, workers))
    if not wanted.finished:
        return
    say(f"PostgreSQL: {wanted.finished:,} finished jobs")
    await _prepare(urls["old"], wanted.finished)
    for _ in range(wanted.rounds):
        for who, name in (("pagegate, empty table", "empty"), ("pagegate, old table", "old")):
            rates.add("PostgreSQL", who, CREW, await _submit_and_drain(urls[name], wanted.jobs, CREW))


async def _database(port: int, name: str) -> str:
    conn = await asyncpg.connect(host="127.0.0.1", port=port, user="postgres", database="postgres")
    try:
        await conn.execute(f"CREATE DATABASE {name}")
    finally:
        await conn.close()
    return f"postgresql+asyncpg://postgres@127.0.0.1:{port}/{name}"


async def _prepare(url: str, finished: int) -> None:
    await migrate(url)
    options = DatabaseOptions(statement_timeout_s=1_800)
    db = await Database.open(url, options=options)
    try:
        await settle_in(db)
        if finished:
            await add_finished(db, finished)
    finally:
        await db.close()


async def _submit_and_drain(url: str, jobs: int, workers: int) -> float:
    db = await Database.open(url)
    try:
        await submit(db, jobs)
        return await drain(db, jobs, workers)
    finally:
        await db.close()


def _sqlite_url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


def goals_of(rates: Rates, wanted: Wanted) -> list[Goal]:
    """What was measured of the goals; what was left out has none."""
    goals: list[Goal] = []

    def goal(name: str, wish: str, found: float | None, met: Callable[[float], bool], form: str = "{:.2f} x") -> None:
        if found is not None:
            goals.append(Goal(name, wish, form.format(found), met(found)))

    for workers in (1, CREW):
        for synchronous in ("NORMAL", "FULL"):
            share = rates.ratio(f"SQLite, {synchronous}", "pagegate", "sqlite3, the same", workers)
            who = f"raw sqlite3, {synchronous}, {workers} workers"
            goal(who, f"at least {RAW_SHARE_MIN:.2f} x", share, lambda found: found >= RAW_SHARE_MIN)
        times = rates.ratio("PostgreSQL", "pagegate", "procrastinate", workers)
        goal(
            f"procrastinate, {workers} workers",
            f"at least {OPPONENT_MIN} x",
            times,
            lambda found: found >= OPPONENT_MIN,
        )
    for database in ("SQLite, NORMAL", "PostgreSQL"):
        slower = rates.ratio(database, "pagegate, empty table", "pagegate, old table", CREW)
        goal(
            f"{database}: old table",
            f"at most {OLD_TABLE_MAX} x slower",
            slower,
            lambda found: found <= OLD_TABLE_MAX,
        )
        alone = rates.median(database, "pagegate", 1)
        if alone is not None:
            share = 1000 / alone / wanted.page_check_ms
            met = lambda found: found <= CHECK_SHARE_MAX  # noqa: E731
            goal(f"{database}: of a page check", f"at most {CHECK_SHARE_MAX:.0%}", share, met, "{:.1%}")
    return goals


def print_rates(console: Console, rates: Rates, goals: Sequence[Goal]) -> None:
    """For people."""
    table = Table("jobs a second", "workers", "who", "median", box=None, header_style="bold")
    for database, who, workers in rates.found:
        table.add_row(database, str(workers), who, f"{rates.median(database, who, workers):,.0f}")
    verdicts = Table("goal", "wanted", "measured", "", box=None, header_style="bold")
    for goal in goals:
        style = "" if goal.met else "red"
        verdicts.add_row(goal.name, goal.wanted, goal.measured, "met" if goal.met else "NOT MET", style=style)
    for shown in (table, verdicts):
        console.print()
        console.print(shown)
