"""Climates with components, pictures and sizes of files. Played by tests of their own."""

from dataclasses import replace

from tests.simulation.climate import Climate

_MAKERS = Climate(
    trouble=("kill", "suspend", "provider", "runtime", "come_and_go"),
    makes=True,
    hosts=(1, 2),
    workers=(1,),
    agents=(3, 5),
    calls=(1, 2, 3),
    pace_s=(1.0, 2.0),
    storm_s=20.0,
)

MAKER_CLIMATES: dict[str, Climate] = {
    # everything that can happen to them, some of it in each world
    "makers": replace(
        _MAKERS,
        trouble=(
            *_MAKERS.trouble,
            "freeze",
            "restart",
            "crash_actor_of_makers",
            "cut",
            "database_gone",
            "slow",
            "lose_answers",
            "refuse",
            "straggle",
            "objects",
            "interfere",
            "operate_makers",
            "cancel",
            "forget_state",
        ),
        choosy=True,
        hosts=(1, 2, 3),
        infra_failures_max=(1, 6),
        storm_s=25.0,
    ),
    # workers of pictures that sleep past their leases, and providers that are slow and lose what they said
    "lost pictures": replace(
        _MAKERS,
        trouble=("kill", "suspend", "kill_at_a_picture", "kill_at_a_picture", "objects"),
        weather={"provider_loses": 0.2, "provider_hangs": 0.2},
        asked="pictures",
        drowsy=0.05,
    ),
    # files that are replaced and deleted while they are measured
    "files come and go": replace(
        _MAKERS,
        trouble=("suspend", "kill", "edit"),
        agents=(4,),
        files=(8, 12),
        weather={"runtime_hangs": 0.8},
        drowsy=0.05,
    ),
}
