"""Proof that the simulation can fail: statements and decisions without a condition that they need.

The fence is taken out of each fenced statement in turn, the condition out of each claim, rescue, limit and re-check. A
mutant names the weather in which it is likely noticed; `hunt.py` looks for worlds that do. What no world could ever
notice stands in `SURVIVORS` with the reason, which is nearly always a second fence behind the one that is missing.

A file for each thing that is promised; all of them here.
"""

from tests.simulation.mutant import Mutant
from tests.simulation.mutants import builds, claims, leases, makers, pages, renders

_FILES = (leases, claims, renders, pages, builds, makers)

MUTANTS: tuple[Mutant, ...] = tuple(mutant for file in _FILES for mutant in file.MUTANTS)

# Not noticed in any world, and why.
SURVIVORS: dict[str, str] = {name: why for file in _FILES for name, why in file.SURVIVORS.items()}
