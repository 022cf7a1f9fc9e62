"""Climates with builds; the worlds of most of them do nothing else. Played by tests of their own."""

from dataclasses import replace

from tests.simulation.climate import Climate

_BUILDERS = Climate(
    trouble=("kill_builder", "kill", "kill_at_a_build", "suspend_builder", "wires", "edit"),
    builders=(1, 2),
    agents=(0,),
    hosts=(1, 2),
    workers=(1,),
    workspaces=(1, 2),
    builds=(4, 6),
    pace_s=(0.7, 1.5),
    storm_s=20.0,
)

BUILD_CLIMATES: dict[str, Climate] = {
    # everything that can happen to a build, some of it in each world
    "builders": replace(
        _BUILDERS,
        trouble=(
            *_BUILDERS.trouble,
            "freeze",
            "suspend",
            "freeze_builder",
            "restart_builder",
            "restart",
            "crash_actor_of_builds",
            "cut",
            "database_gone",
            "slow",
            "lose_answers",
            "refuse",
            "straggle",
            "runtime",
            "objects",
            "edit_badly",
            "come_and_go",
            "botch",
            "forget_state",
            "roll_back",
            "operate_builds",
        ),
        choosy=True,
        hosts=(1, 2, 3),
        builders=(1, 2, 2),
        build_deadline_ms=(20_000, 60_000, 90_000),
        build_bytes_max=(400, 100_000, 100_000),
        storm_s=25.0,
    ),
    # Runtimes that sleep past their leases, and do not know it when they wake
    "sleeping builders": replace(
        _BUILDERS, trouble=("suspend_builder", "suspend_builder", "edit"), pace_s=(1.0,), drowsy=0.02
    ),
    # streams that stall, break and come twice
    "bad wires": replace(
        _BUILDERS,
        trouble=("wires", "wires", "edit"),
        weather={"wire_repeats": 0.3, "wire_strays": 0.2, "wire_cuts": 0.05},
    ),
    # Backends that die between the store and the commit
    "lost uploads": replace(
        _BUILDERS,
        trouble=("kill_at_a_build", "kill_at_a_build", "objects", "lose_answers"),
        weather={"wire_repeats": 0.3, "objects_fail": 0.05, "slow_s": 1.0},
        wires={"lands_late": 0.3},
        prunes=True,
    ),
    "cancelled builds": replace(_BUILDERS, trouble=("edit", "operate_builds"), cancels=0.9, weather={"slow_s": 1.0}),
    # sources that do not compile, and Runtimes that cannot
    "failing builds": replace(
        _BUILDERS,
        trouble=("edit_badly", "edit_badly", "runtime", "botch", "operate_builds"),
        weather={"runtime_refuses": 0.2},
        build_deadline_ms=(8_000, 60_000),
        build_bytes_max=(400, 100_000),
    ),
}
