"""`python -m tests.simulation --seeds N`: play worlds until one breaks a rule, and say which and how.

--seeds N    how many worlds (default 100)
--first S    the first seed (default 0)
--seed S     only this one
--jobs N     processes at once (default 1)
--trace      print the whole trace, not only its end
"""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.world import Outcome, play, workshop

_LAST_EVENTS = 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Play worlds by seed.")
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--trace", action="store_true", help="print the whole trace")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    asked = parser.parse_args()
    seeds = [asked.seed] if asked.seed is not None else list(range(asked.first, asked.first + asked.seeds))
    started_s, broken, commits, virtual_s = time.monotonic(), 0, 0, 0.0
    for number, outcome in enumerate(_outcomes(seeds, asked.jobs), start=1):
        commits, virtual_s = commits + outcome.commits, virtual_s + outcome.virtual_s
        if outcome.violation is not None:
            broken += 1
            _tell(outcome, whole=asked.trace)
            if not asked.keep_going:
                return 1
        elif asked.trace:
            _tell(outcome, whole=True)
        if number % 25 == 0 or number == len(seeds):
            took_s = time.monotonic() - started_s
            print(
                f"{number} of {len(seeds)} worlds, {broken} broken, {number / took_s:.2f} a second;"
                f" {commits} commits in {virtual_s / 3600:.1f} virtual hours",
                file=sys.stderr,
            )
    return 1 if broken else 0


def _outcomes(seeds: list[int], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        with workshop() as (folder, template):
            yield from (play(seed, folder, template) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_play, seeds, chunksize=5)


def _play(seed: int) -> Outcome:
    with workshop() as (folder, template):
        return play(seed, folder, template)


def _tell(outcome: Outcome, *, whole: bool) -> None:
    events = outcome.trace if whole else outcome.trace[-_LAST_EVENTS:]
    if len(events) < len(outcome.trace):
        print(f"… {len(outcome.trace) - len(events)} earlier events; --seed {outcome.seed} --trace shows them all")
    for event in events:
        print(event)
    if outcome.violation is not None:
        print(f"\nseed {outcome.seed}: {outcome.violation}\n")


if __name__ == "__main__":
    sys.exit(main())
