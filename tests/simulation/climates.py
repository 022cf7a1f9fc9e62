"""What kind of world a seed is played in: how large it is, who asks for what, and which trouble it has.

`mixed` worlds are large, and each seed has its own mix of trouble. The others are small ones in which one kind of
schedule is likely that is rare elsewhere: a rescuer that sleeps between its look and its deed, a transaction that
begins when its sender has long been given up. Three worlds in five are small ones, all of them in turn.
"""

from dataclasses import replace

from tests.simulation.build_climates import BUILD_CLIMATES
from tests.simulation.climate import Climate
from tests.simulation.maker_climates import MAKER_CLIMATES

MIXED = Climate(
    trouble=(
        "kill",
        "kill",
        "freeze",
        "suspend",
        "suspend",
        "sleep_on_a_batch",
        "crash_actor",
        "cut",
        "database_gone",
        "slow",
        "lose_answers",
        "refuse",
        "straggle",
        "runtime",
        "renderer",
        "restart_renderer",
        "restart_runtime",
        "objects",
        "interfere",
        "operate",
        "restart",
        "step_clock",
    ),
    choosy=True,
    pace_s=(0.5, 1.0, 3.0),
    storm_s=25.0,
    hosts=(1, 1, 2, 2, 3),
    renderers=(1, 1, 2),
    renders_max=((1, 1), (2, 1), (2, 2)),
    check_inflight_max=(1, 2, 2),
    infra_failures_max=(0, 1, 6),
    lease_losses_max=(1, 3),
    state_bytes_max=(500, 4096, 4096),  # the small one holds a single artifact
    workspaces=(1, 2, 2),
    agents=(3, 5, 7),
    calls=(1, 1, 2, 3),
    together=0.4,
    sleeps_s=(4.0, 10.1, 15.0, 15.0, 40.0),
)

_SLEEPERS = Climate(trouble=("suspend", "suspend", "kill"), hosts=(2, 3), pace_s=(1.5,), storm_s=18.0)

_CROWD = Climate(
    trouble=("renderer", "kill"),
    hosts=(3,),
    workers=(2,),
    renderers=(1, 2),
    renders_max=((1, 1), (2, 1), (2, 2)),
    waiting_renders_max=(2, 1),
    active_jobs_max=6,
    check_inflight_max=(1, 2),
    workspaces=(1, 2),
    agents=(5, 6),
    calls=(2, 3),
    together=0.9,
    weather={"renderer_hangs": 0.3},
    pace_s=(3.0,),
    storm_s=12.0,
)

_EDITORS = Climate(
    trouble=("edit", "interfere"),
    hosts=(2, 3),
    workers=(2,),
    agents=(3, 4),
    calls=(2, 3),
    asked="edits",
    together=0.8,
    pace_s=(0.4,),
)

CLIMATES: dict[str, Climate] = {
    "mixed": MIXED,
    # processes that sleep past their leases, and do not know it when they wake
    "sleepers": _SLEEPERS,
    "lone sleeper": replace(
        _SLEEPERS,
        trouble=("edit",),
        pace_s=(4.0,),
        hosts=(1,),
        sleeps_s=(8.2, 10.1, 10.1, 12.0),
        drowsy=0.2,
        weather={"runtime_refuses": 0.3, "renderer_errs": 0.2},
    ),
    "woken to stop": replace(
        _SLEEPERS, trouble=("cancel",), hosts=(1, 2), sleeps_s=(10.1, 11.0), drowsy=0.15, stops_awake=0.8
    ),
    "sleeping coordinators": replace(_SLEEPERS, trouble=("sleep_on_a_batch",), pace_s=(0.7,), calls=(1,)),
    "sleeping rescuers": replace(
        _SLEEPERS, trouble=("kill", "freeze"), hosts=(3,), snares={"jobs.list_expired": 0.7}, sleeps_s=(5.0, 7.0, 9.0)
    ),
    "sleeping planners": replace(
        _SLEEPERS,
        trouble=("interfere", "suspend"),
        agents=(5,),
        asked="names",
        together=0.8,
        weather={"runtime_refuses": 0.3},
        snares={"page_plan.plan_page": 0.4},
    ),
    "sleeping dispatchers": replace(
        _SLEEPERS,
        trouble=("suspend",),
        hosts=(3,),
        renderers=(2,),
        agents=(3, 4),
        weather={"renderer_errs": 0.7},
        snares={"renders.list_pending": 0.1},
        sleeps_s=(0.5, 2.0),
    ),
    # transactions that begin when nobody waits for them any more
    "stragglers": Climate(
        trouble=("suspend",),
        hosts=(1, 2),
        workers=(1,),
        weather={"renderer_hangs": 1.0},
        wires={"straggles": 0.2},
        pace_s=(6.0,),
        storm_s=30.0,
        lease_losses_max=(3,),
    ),
    "long renders": Climate(
        trouble=("kill", "cancel", "suspend", "interfere"),
        hosts=(2, 3),
        weather={"renderer_hangs": 0.8},
        cancels=0.6,
        pace_s=(2.0,),
        storm_s=20.0,
    ),
    "cancelled renders": Climate(
        trouble=("cancel",),
        hosts=(1, 2),
        weather={"renderer_hangs": 1.0},
        wires={"loses": 0.3},
        cancels=0.6,
        pace_s=(1.5,),
        storm_s=20.0,
    ),
    "broken browsers": Climate(
        trouble=("restart_renderer", "objects", "lose_answers"),
        renderers=(1, 2),
        weather={"renderer_errs": 0.9, "renderer_repeats": 0.2},
        storm_s=18.0,
    ),
    "lost answers": Climate(
        trouble=("cancel", "refuse", "cut", "interfere"),
        weather={"renderer_hangs": 0.3},
        wires={"loses": 0.25, "refuses": 0.02},
        cancels=0.5,
    ),
    # many at once
    "crowd": _CROWD,
    "one render at once": replace(
        _CROWD, renderers=(2,), renders_max=((1, 1),), workspaces=(2,), agents=(4,), waiting_renders_max=(4, 3)
    ),
    "many renders wait": replace(
        _CROWD, renderers=(1,), workers=(2,), waiting_renders_max=(2, 2), weather={"renderer_hangs": 0.7}
    ),
    # people
    "editors": _EDITORS,
    "pages come and go": replace(_EDITORS, trouble=("come_and_go",)),
    "namesakes": Climate(
        trouble=("interfere", "kill"), hosts=(2, 3), agents=(4, 5), asked="names", together=0.8, pace_s=(0.5,)
    ),
    "revocations": Climate(trouble=("interfere",), weather={"slow_s": 2.0}, pace_s=(0.25,), agents=(3, 4), cancels=0.5),
    "late cancels": Climate(
        trouble=("cancel",),
        hosts=(2, 3),
        pace_s=(0.1,),
        agents=(5, 6),
        cancels=0.0,
        together=0.2,
        renders_max=((2, 2),),
    ),
    "operators": Climate(
        trouble=("operate", "operate", "operate", "runtime", "interfere"),
        infra_failures_max=(0, 1),
        pace_s=(0.3,),
        weather={"runtime_refuses": 0.3},
        agents=(3, 4),
        storm_s=16.0,
    ),
    "late retries": Climate(
        trouble=("operate", "operate", "sleep_on_a_batch"),
        infra_failures_max=(0,),
        pace_s=(0.2,),
        calls=(1,),
        weather={"runtime_refuses": 0.6},
    ),
    "pruners": Climate(
        trouble=("operate", "kill", "suspend", "database_gone"),
        infra_failures_max=(0, 1),
        prunes=True,
        storm_s=30.0,
        pace_s=(1.0,),
        agents=(3, 4),
        cancels=0.4,
    ),
    "stepping clock": Climate(
        trouble=("step_clock", "kill", "suspend"),
        hosts=(1,),
        snares={"jobs.list_expired": 0.3},
        sleeps_s=(0.5, 10.1),
        storm_s=18.0,
    ),
}

# Played by tests of their own, so that a seed keeps its climate when one of these is added.
CLIMATES["photographers"] = replace(
    MIXED,
    photographs=True,
    trouble=tuple(name for name in MIXED.trouble if name != "operate"),
    hosts=(1, 2, 2),
    workers=(1,),
    agents=(3, 4),
    storm_s=16.0,
    weather={"objects_fail": 0.08, "renderer_loses_answer": 0.08, "renderer_repeats": 0.15},
)

# What a mixed world meets too seldom to be counted on: a job that loses lease after lease, a compile without an answer.
RARE_CLIMATES: dict[str, Climate] = {
    "worn leases": Climate(
        trouble=("kill", "freeze"), hosts=(2, 3), lease_losses_max=(1,), pace_s=(1.0,), storm_s=60.0, agents=(4, 5)
    ),
    "stuck compiles": Climate(trouble=("kill",), weather={"runtime_hangs": 0.6}, pace_s=(6.0,), storm_s=40.0),
}

CLIMATES |= BUILD_CLIMATES | MAKER_CLIMATES | RARE_CLIMATES

PLAYED_APART = frozenset({"photographers", *BUILD_CLIMATES, *MAKER_CLIMATES, *RARE_CLIMATES})

_SMALL = [name for name in CLIMATES if name not in {"mixed", *PLAYED_APART}]


def climate_of(seed: int) -> str:
    """In which climate a seed is played when nothing else is said: two of five are mixed, the others take turns."""
    turn, place = divmod(seed, 5)
    return "mixed" if place < 2 else _SMALL[(turn * 3 + place - 2) % len(_SMALL)]
