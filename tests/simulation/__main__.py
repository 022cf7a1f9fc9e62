"""`python -m tests.simulation`: play worlds until one breaks a rule; say which world, which rule, and what led to it.

    python -m tests.simulation --seeds 500 --jobs 2          many worlds, in every climate in turn
    python -m tests.simulation --climate sleepers --seeds 50 many worlds of one climate (--climates lists them)
    python -m tests.simulation --seed 7 --trace              one world, event by event

A line of a trace is a virtual second, who, and what: `a1` is the first life of the process on host `a`, `people` are
people, and `job 3: running -> succeeded` is a row that a commit of theirs changed.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.simulation.climates import CLIMATES
from tests.simulation.world import Outcome, play, workshop

_LAST_EVENTS = 60


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--climate", choices=CLIMATES, metavar="NAME", help="play them all in this climate")
    parser.add_argument("--climates", action="store_true", help="list the climates")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    parser.add_argument("--trace", action="store_true", help="print whole traces, not only their ends")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first world that breaks a rule")
    asked = parser.parse_args()
    if asked.climates:
        print("\n".join(CLIMATES))
        return 0
    seeds = [asked.seed] if asked.seed is not None else list(range(asked.first, asked.first + asked.seeds))
    return _play_all(seeds, asked)


def _play_all(seeds: list[int], asked: argparse.Namespace) -> int:
    started_s, broken, commits, virtual_s = time.monotonic(), 0, 0, 0.0
    for number, outcome in enumerate(_outcomes(seeds, asked.climate, asked.jobs), start=1):
        commits, virtual_s = commits + outcome.commits, virtual_s + outcome.virtual_s
        broken += outcome.violation is not None
        if outcome.violation is not None or asked.trace:
            _tell(outcome, whole=asked.trace)
        stop = broken > 0 and not asked.keep_going
        if stop or number % 25 == 0 or number == len(seeds):
            rate = number / (time.monotonic() - started_s)
            print(
                f"{number} of {len(seeds)} worlds, {broken} broken, {rate:.2f} a second;"
                f" {commits} commits in {virtual_s / 60:.0f} virtual minutes",
                file=sys.stderr,
            )
        if stop:
            break
    return 1 if broken else 0


@dataclass(frozen=True)
class _Player:
    climate: str | None

    def __call__(self, seed: int) -> Outcome:
        with workshop() as (folder, template):
            return play(seed, folder, template, self.climate)


def _outcomes(seeds: list[int], climate: str | None, jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        with workshop() as (folder, template):
            yield from (play(seed, folder, template, climate) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for first in range(0, len(seeds), 4 * jobs):  # not all at once: whoever listens may have heard enough
            yield from pool.map(_Player(climate), seeds[first : first + 4 * jobs])


def _tell(outcome: Outcome, *, whole: bool) -> None:
    events = outcome.trace if whole else outcome.trace[-_LAST_EVENTS:]
    if len(events) < len(outcome.trace):
        print(f"… {len(outcome.trace) - len(events)} earlier events, see them with --trace")
    for event in events:
        print(event)
    if outcome.violation is not None:
        print(f"\nBROKEN  {outcome.violation}")
        print(
            f"world   seed {outcome.seed}, climate {outcome.climate!r}, after {outcome.virtual_s:.3f} virtual seconds"
        )
        print(f"replay  {outcome.replay}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
