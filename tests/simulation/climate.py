"""What a climate is: how large a world is, who asks for what, and which trouble it has."""

from dataclasses import dataclass, field
from typing import Literal

Asked = Literal["anything", "edits", "names", "pictures"]


@dataclass(frozen=True)
class Climate:
    """Where there are several values, a seed draws one of them.

    `trouble`: names of what `trouble.py` can do, `choosy`: each seed leaves out about half of them. `wires` and
    `weather`: how the wires to the database and the surroundings are from the beginning on. `snares`: after which
    functions a process falls asleep for one of `sleeps_s` seconds, and how likely; `drowsy`: the same while a call to a
    Runtime, a Renderer or the object store is out. `stops_awake`: how likely one that wakes is stopped at once.
    `prunes`: ended work is deleted early. `builders`: how many Runtimes pull builds; none: there are no builds.
    """

    trouble: tuple[str, ...]
    choosy: bool = False
    pace_s: tuple[float, ...] = (1.0,)
    storm_s: float = 14.0
    hosts: tuple[int, ...] = (2,)
    workers: tuple[int, ...] = (1, 2)
    renderers: tuple[int, ...] = (1,)
    renders_max: tuple[tuple[int, int], ...] = ((1, 1), (2, 2))  # in all, in a workspace
    waiting_renders_max: tuple[int, int] = (3, 2)  # the same
    active_jobs_max: int = 8
    check_inflight_max: tuple[int, ...] = (2,)
    infra_failures_max: tuple[int, ...] = (6,)
    lease_losses_max: tuple[int, ...] = (3,)
    state_bytes_max: tuple[int, ...] = (4096,)
    workspaces: tuple[int, ...] = (1,)
    agents: tuple[int, ...] = (2, 3)
    calls: tuple[int, ...] = (1, 2)
    together: float = 0.5
    asked: Asked = "anything"
    cancels: float = 0.2
    sleeps_s: tuple[float, ...] = (10.1, 12.0, 15.0)
    weather: dict[str, float] = field(default_factory=dict)
    wires: dict[str, float] = field(default_factory=dict)
    snares: dict[str, float] = field(default_factory=dict)
    drowsy: float = 0.0
    stops_awake: float = 0.2
    prunes: bool = False
    photographs: bool = False  # there is a lane of screenshots, and people who ask for them
    makes: bool = False  # there are lanes of components, pictures and sizes of files, and work for them
    files: tuple[int, ...] = (4, 7)  # that people put
    builders: tuple[int, ...] = ()
    builds: tuple[int, ...] = (3, 5)
    build_deadline_ms: tuple[int, ...] = (60_000, 90_000)
    build_bytes_max: tuple[int, ...] = (100_000,)
