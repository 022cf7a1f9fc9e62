"""The hunt for mutants: each is let loose in worlds of its weather until enough of them break a rule.

    python -m tests.simulation.hunt               what is saved, and who survives
    python -m tests.simulation.hunt --search      look for worlds for the mutants that have too few which still break
    python -m tests.simulation.hunt --show NAME   one saved world of a mutant, with its trace

`saved_worlds.json` keeps up to three worlds a mutant, as `climate/seed`. Worlds move a little with every change of the
code, so one that breaks today may be fine tomorrow: then the next worlds of the mutant's weather are played too.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation import stories
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS, SURVIVORS
from tests.simulation.world import Event, play, workshop

SAVED = Path(__file__).with_name("saved_worlds.json")
WORLDS_EACH = 3
_SEEDS_NEXT = 30


def play_with(mutant: Mutant, world: str, folder: Path, template: Path) -> tuple[str | None, list[Event]]:
    """What a world or a story says of a mutant, None when it notices nothing; and its trace."""
    weather, seed = world.rsplit("/", 1)
    with mutant.in_place():
        if weather in stories.NAMES:
            return stories.tell(weather, int(seed), folder, template), []
        outcome = play(int(seed), folder, template, weather)
        return outcome.violation, outcome.trace


def is_noticed(mutant: Mutant, folder: Path, template: Path) -> bool:
    """Whether one of its saved worlds still breaks, or when none does, one of the next worlds of its weather."""
    kept = saved().get(mutant.name, [])
    worlds = itertools.chain(kept, worlds_for(mutant, range(_SEEDS_NEXT)))
    return any(play_with(mutant, world, folder, template)[0] is not None for world in worlds)


def worlds_for(mutant: Mutant, seeds: range) -> Iterator[str]:
    """Worlds in which a mutant is likely noticed. A story is the same in nearly every seed, so one of it will do."""
    for seed in seeds:
        for weather in mutant.weather:
            if weather not in stories.NAMES or seed == seeds.start or len(mutant.weather) == 1:
                yield f"{weather}/{seed}"


def saved() -> dict[str, list[str]]:
    """Worlds by a mutant's name."""
    found: dict[str, list[str]] = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    return found


@dataclass(frozen=True)
class Hunt:
    """The search for one mutant: saved worlds first, then others of its weather, in turns."""

    place: int
    kept: list[str]
    seeds: range
    patience_s: float

    def run(self) -> "Bag":
        mutant, bag, began_s = MUTANTS[self.place], Bag(self.place), time.process_time()
        with workshop() as (folder, template):
            for world in [*self.kept, *[world for world in worlds_for(mutant, self.seeds) if world not in self.kept]]:
                said, _ = play_with(mutant, world, folder, template)
                bag.played += 1
                if said is not None:
                    bag.found[world] = said
                if len(bag.found) >= WORLDS_EACH or time.process_time() - began_s > self.patience_s:
                    break
        bag.took_s = time.process_time() - began_s
        return bag


@dataclass
class Bag:
    """What a hunt brought home. `found`: what each world said."""

    place: int
    found: dict[str, str] = field(default_factory=dict)
    played: int = 0
    took_s: float = 0.0


def _search(asked: argparse.Namespace) -> None:
    seeds = range(asked.first, asked.first + asked.seeds)
    hunts = [
        Hunt(place, [] if asked.anew else saved().get(mutant.name, []), seeds, asked.patience)
        for place, mutant in enumerate(MUTANTS)
        if asked.only in mutant.name and mutant.name not in SURVIVORS
    ]
    empty = 0
    with ProcessPoolExecutor(asked.jobs) as pool:
        for bag in pool.map(Hunt.run, hunts):
            name = MUTANTS[bag.place].name
            empty += not bag.found
            print(f"{name}: {len(bag.found)} of {bag.played} worlds, {bag.took_s:.0f} s", flush=True)
            for world, said in bag.found.items():
                print(f"    {world}: {said[:160]}", flush=True)
            _save(name, list(bag.found))
    print(f"{empty} of {len(hunts)} were not noticed" if empty else f"all {len(hunts)} were noticed")


def _save(name: str, worlds: list[str]) -> None:
    known = {mutant.name: saved().get(mutant.name, []) for mutant in MUTANTS} | {name: worlds}
    lines = [f"  {json.dumps(name)}: {json.dumps(kept)}" for name, kept in sorted(known.items()) if kept]
    text = ",\n".join(lines)
    beside = SAVED.with_suffix(".new")
    beside.write_text(f"{{\n{text}\n}}\n")
    beside.replace(SAVED)


def _show(part: str) -> None:
    for mutant in MUTANTS:
        if part in mutant.name and saved().get(mutant.name):
            with workshop() as (folder, template):
                world = saved()[mutant.name][0]
                said, trace = play_with(mutant, world, folder, template)
            for event in trace:
                print(event)
            print(f"\n{mutant.name}, world {world}: {said}")
            return
    print(f"no mutant with a saved world is called {part!r}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.hunt")
    parser.add_argument("--search", action="store_true", help="play, and save the worlds that break")
    parser.add_argument("--anew", action="store_true", help="do not begin with the saved worlds")
    parser.add_argument("--seeds", type=int, default=60, help="of each climate at most")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for a mutant at most")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--only", default="", help="part of a mutant's name")
    parser.add_argument("--show", help="part of a mutant's name")
    asked = parser.parse_args()
    if asked.show:
        _show(asked.show)
        return
    if asked.search:
        _search(asked)
    for mutant in MUTANTS:
        what = ", ".join(saved().get(mutant.name, [])) or SURVIVORS.get(mutant.name, "NOT NOTICED YET")
        print(f"{mutant.name:<72} {what}")


if __name__ == "__main__":
    main()
