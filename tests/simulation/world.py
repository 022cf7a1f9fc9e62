"""One simulated world, from a seed to its end: a storm, the calm after it, and what must be true then.

Owns the Backends of the hour, the people, the surroundings and the trace. `play(seed)` is all that others need: the
same seed plays the same world in the same climate, event by event. While faults last, only safety is asked for
(`books.py` and the files of rules); once they stop, everything must come to its end within a bound of virtual time, and
what was put away for a while must be gone after its time.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pagegate.actors.rendering.coordinator import RenderLimits
from pagegate.storage.pruning import Retention
from tests.simulation.backend import ARTIFACT_TTL_S, HOLD_S, SWEEP_S, Backend, Rules, StateOfState
from tests.simulation.books import Books, Limits
from tests.simulation.build_rules import judge_lost_object
from tests.simulation.builders import SWEEP_AGE_S, Builder, small_and_virtual
from tests.simulation.building import judge_releases, order_builds, staged
from tests.simulation.climate import Climate
from tests.simulation.climates import CLIMATES, climate_of
from tests.simulation.database import Server, Wire, make_template
from tests.simulation.edges import OUTPUT_TTL_S, PlayedRenderer, Surroundings
from tests.simulation.makers import MAKING_MAX_S, STAGED_S, put_files
from tests.simulation.moves import JOBS, Violation
from tests.simulation.people import People
from tests.simulation.photographs import COLLECT_S, held_pictures, judge_pictures, photograph
from tests.simulation.staging import chance_of, listening, presenting, snares
from tests.simulation.trouble import Trouble
from tests.simulation.virtual_loop import LIFE, VirtualLoop, simulate

STORM_MAX_S = 150.0  # until the last of those who sleep has woken
CALM_MAX_S = 240.0
_LOOK_S = 0.5

_RETENTION = Retention(succeeded_ms=12_000, cancelled_ms=15_000, failed_ms=18_000)
_PRUNED_MAX_S = 60.0
_STAGED_MAX_S = SWEEP_AGE_S + 45.0  # two sweeps, and a fault of the first


@dataclass(frozen=True)
class Event:
    """One line of a trace."""

    at_s: float
    who: str
    what: str
    about: str

    def __str__(self) -> str:
        return f"{self.at_s:9.3f}  {self.who:<10} {self.what} {self.about}".rstrip()


@dataclass
class World:
    """See the module."""

    loop: VirtualLoop
    server: Server
    books: Books
    around: Surroundings
    rules: Rules
    wire: Wire
    climate: Climate
    trace: list[Event]
    backends: list[Backend] = field(default_factory=list)
    stopping: list[Backend] = field(default_factory=list)
    builders: list[Builder] = field(default_factory=list)
    closing: list[Builder] = field(default_factory=list)
    lives: int = 0
    stormy: bool = True
    over: bool = False

    def __post_init__(self) -> None:
        self.people = People(self)
        self._tasks: list[asyncio.Task[None]] = []
        self._buried: list[Backend | Builder] = []

    @property
    def broken_at_s(self) -> float:
        return self.trace[-1].at_s if self.trace else 0.0

    def note(self, who: str, what: str, **about: Any) -> None:
        if self.over or self.books.broken_by is not None:
            return
        said = " ".join(f"{name}={value}" for name, value in about.items())
        self.trace.append(Event(self.loop.true_time, who, what, said))

    # -- processes ------------------------------------------------------------------------------------------------

    def start(self, host: str) -> Backend:
        self.lives += 1
        backend = Backend(self.server, self.around, self.rules, host, self.lives)
        self.note(backend.life.name, "starts", clock=f"{backend.clock.skew_ms / 1000:+.0f}s")
        for name, value in self.climate.wires.items() if self.stormy else ():
            setattr(backend.wire, name, value)
        backend.start()
        return backend

    def start_anew(self, old: Backend) -> None:
        """Another process in the place of one that is gone."""
        if old in self.backends:
            self._buried.append(old)
            self.backends[self.backends.index(old)] = self.start(old.host)

    def stop_and_start(self, backend: Backend) -> None:
        """The orderly end of a process, which may be killed meanwhile, and another one in its place."""

        async def stop() -> None:
            self.note(backend.life.name, "stops")
            await backend.stop(self.loop.chance.choice([0.0, 5.0]))
            self.note(backend.life.name, "stopped")
            self.loop.call_outside(0, self.start_anew, backend)

        self.stopping.append(backend)
        backend.life.begin(stop())

    def start_builder(self, name: str) -> Builder:
        self.lives += 1
        builder = Builder(self.around, name, self.lives)
        self.note(builder.life.name, "starts")
        builder.start()
        return builder

    def build_anew(self, old: Builder) -> None:
        """Another Runtime in the place of one that is gone."""
        if old in self.builders:
            self._buried.append(old)
            self.builders[self.builders.index(old)] = self.start_builder(old.name)

    async def close_builder(self, builder: Builder) -> None:
        await builder.close()
        self.note(builder.life.name, "stopped")
        self.loop.call_outside(0, self.build_anew, builder)

    # -- the story ------------------------------------------------------------------------------------------------

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def live(self) -> None:
        chance, climate = self.loop.chance, self.climate
        await self.people.settle_in(chance.choice(climate.workspaces))
        self.backends = [self.start(host) for host in "abc"[: chance.choice(climate.hosts)]]
        if climate.builders:
            self.builders = [self.start_builder(f"r{place}-") for place in range(chance.choice(climate.builders))]
        self.trouble = Trouble(self)
        trouble = asyncio.create_task(self.trouble.run(climate.storm_s))
        at_s = 0.0
        for number in range(chance.choice(climate.agents)):
            # some come together
            at_s = at_s if chance.random() < climate.together else chance.uniform(0, climate.storm_s * 0.8)
            self.background(self._agent(f"key-{number}", at_s))
        if climate.photographs:
            self.background(photograph(self))
        if climate.builders:
            self.background(order_builds(self))
        if climate.makes:
            self.background(put_files(self))
        await self._until(trouble.done, STORM_MAX_S, "the storm")
        trouble.result()
        # Without faults, everything ends.
        await self._until(self._all_is_over, CALM_MAX_S, "the calm")
        await self._until(lambda: not self._left_behind(), ARTIFACT_TTL_S + OUTPUT_TTL_S + 2 * SWEEP_S, "the sweep")
        if climate.photographs:
            await self._collected()
            await judge_pictures(self)
        if climate.makes:
            await self._until(lambda: not self._staged_pictures(), STAGED_S + 60.0, "the sweep of staged pictures")
        if climate.builders:
            await self._until(lambda: not staged(self), _STAGED_MAX_S, "the sweep of staged builds")
            await judge_releases(self)
        if self.rules.retention is not None:
            await self._until(lambda: not self.books.rows[JOBS], _PRUNED_MAX_S, "the pruning")

    async def end(self) -> None:
        """Let every process end, killed ones too, so that nothing of this world is left."""
        self.over = True
        for process in (*self.backends, *self.builders, *self._buried):
            if isinstance(process, Backend):
                process.wire.cut = True
            process.life.put_out_fuse()
            process.life.go_on()
        for _ in range(20):
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1)
        for task in self._tasks:
            if not task.cancelled():
                task.exception()  # seen: it is told already
        self.server.close()

    async def _agent(self, key: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self.people.submit(key, self.loop.chance.choice(self.people.places))

    def fall_asleep(self) -> bool:
        """The process that runs this, if it is one, is suspended; false when nobody may be any more."""
        life = LIFE.get()
        if life is None or not self.stormy or self.over:
            return False
        self.trouble.fall_asleep(life)
        return life.stopped

    def _all_is_over(self) -> bool:
        return (
            all(task.done() for task in self._tasks)
            and not self.books.unfinished()
            and all(renderer.idle for renderer in self.around.renderers.values())
            and all(builder.idle for builder in self.builders)
            and not any(process.life.stopped for process in (*self.backends, *self.builders))
        )

    def _left_behind(self) -> list[str]:
        """What is kept for a time and is not gone."""
        found = [f"{backend.life.name} holds artifacts" for backend in self.backends if backend.state.bytes_used()]
        found += [f"{self.around.runtime.sweep()} outputs"] if self.around.runtime.sweep() else []
        return found + [f"temporary picture {key}" for key in self.around.objects.kept if key.startswith("renders/")]

    def _staged_pictures(self) -> list[str]:
        return [key for key in self.around.objects.kept if key.startswith("generated/")]

    async def nap(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _collected(self) -> None:
        """What was held for a time is published or gone after it (S5)."""
        deadline_s = self.loop.time() + HOLD_S + 3 * COLLECT_S
        while held := await held_pictures(self):
            if self.loop.time() > deadline_s:
                raise Violation(f"pictures are still held: {held[:4]}")
            await self._until(lambda: True, 1.0, "the collection")
            await asyncio.sleep(_LOOK_S)

    async def _until(self, done: Any, within_s: float, phase: str) -> None:
        deadline_s = self.loop.time() + within_s
        while True:
            if self.books.broken_by is not None:
                raise self.books.broken_by
            for task in self._tasks:
                if task.done():
                    task.result()
            if done():
                return
            if self.loop.time() > deadline_s:
                left = self.books.unfinished() + self._left_behind()
                left += [f"{name} is at work" for name, slot in self.around.renderers.items() if not slot.idle]
                left += staged(self)
                left += ["an agent waits"] if not all(task.done() for task in self._tasks) else []
                raise Violation(f"{phase} did not end within {within_s:.0f} s: {', '.join(left[:8])}")
            await asyncio.sleep(_LOOK_S)


@dataclass(frozen=True)
class Outcome:
    """How a world ended. `violation` None: well.

    `ends`: of each page job, its error code, or how it ended without one; `ends_of_builds`: the same of builds;
    `ends_of_makers`: of components, pictures and sizes, behind the kind.
    """

    seed: int
    climate: str
    violation: str | None
    trace: list[Event]
    ends: list[str]
    commits: int
    virtual_s: float
    ends_of_builds: list[str]
    ends_of_makers: list[str]

    @property
    def replay(self) -> str:
        return f"python -m tests.simulation --seed {self.seed} --climate '{self.climate}' --trace"


def play(seed: int, folder: Path, template: Path, climate: str | None = None, state: StateOfState = "kept") -> Outcome:
    """Play the world of a seed on a copy of `template`, an empty database; in its own climate, or in another one.

    `state`: whether runtime state is kept.
    """
    climate = climate or climate_of(seed)
    name = f"world-{seed}-{os.getpid()}.db"  # another process may play the same seed in another climate
    path = folder / name
    shutil.copy(template, path)
    trace: list[Event] = []
    seen: dict[str, Any] = {}

    async def story(loop: VirtualLoop) -> None:
        world = seen["world"] = _make(loop, path, trace, CLIMATES[climate], state)
        with listening(world), snares(world), small_and_virtual():
            try:
                await world.live()
            finally:
                await world.end()

    violation: str | None = None
    try:
        with presenting(), chance_of(seed):
            simulate(seed, story)
    except Exception as error:
        if "world" not in seen:
            raise  # it did not even begin
        violation = f"{error}" if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
    finally:
        for leftover in folder.glob(f"{name}*"):
            leftover.unlink()
    world = seen["world"]
    if violation is not None:
        trace.append(Event(world.broken_at_s, "RULE", "BROKEN:", violation.splitlines()[0]))
    return Outcome(
        seed,
        climate,
        violation,
        trace,
        list(world.books.ends.values()),
        world.books.commits,
        world.loop.true_time,
        list(world.books.ends_of_builds.values()),
        [f"{table} {end}" for (table, _), end in world.books.ends_of_makers.items()],
    )


def _make(loop: VirtualLoop, path: Path, trace: list[Event], climate: Climate, state: StateOfState) -> World:
    def note(who: str, what: str, **about: Any) -> None:
        world.note(who, what, **about)

    chance = loop.chance
    server = Server(loop, path, note)
    around = Surroundings(loop, note)
    for number in range(chance.choice(climate.renderers)):
        around.renderers[f"renderer{number}"] = PlayedRenderer(around, f"renderer{number}")
    renders_max, workspace_max = chance.choice(climate.renders_max)
    renders = RenderLimits(
        renders_max, workspace_max, attempts_max=3, budget_s=25.0, lease_s=8.0, picture_ttl_s=30.0, collect_s=COLLECT_S
    )
    waiting_max, waiting_here_max = climate.waiting_renders_max
    rules = Rules(
        workers=chance.choice(climate.workers),
        renders=renders,
        state_bytes_max=chance.choice(climate.state_bytes_max),
        check_inflight_max=chance.choice(climate.check_inflight_max),
        infra_failures_max=chance.choice(climate.infra_failures_max),
        lease_losses_max=chance.choice(climate.lease_losses_max),
        retention=_RETENTION if climate.prunes else None,
        screenshots=climate.photographs,
        state=state,
        makes=climate.makes,
        builders=climate.builders,
        build_bytes_max=chance.choice(climate.build_bytes_max) if climate.builders else 0,
    )
    rules = replace(
        rules,
        runs=replace(
            rules.runs,
            active_jobs_max=climate.active_jobs_max,
            job_deadline_s=MAKING_MAX_S if climate.makes else rules.runs.job_deadline_s,
        ),
        check=replace(rules.check, render_queue_max=waiting_max, render_workspace_queue_max=waiting_here_max),
    )
    around.compiles_max = rules.check_inflight_max
    limits = Limits(
        renders=renders_max,
        workspace_renders=workspace_max,
        render_attempts=renders.attempts_max,
        waiting_renders=waiting_max,
        waiting_renders_of_workspace=waiting_here_max,
        active_jobs=climate.active_jobs_max,
    )
    books = Books(server, limits, rules.retention)
    books.photographed = climate.photographs
    books.objects, books.charges = around.objects.kept, around.provider.charges
    if climate.makes:
        around.provider.honours = chance.random() < 0.6
    around.objects.on_delete = lambda key: judge_lost_object(books, key)
    around.broken = lambda said: books.broken(Violation(said))
    server.witness = books
    world = World(loop, server, books, around, rules, Wire(server), climate, trace)
    around.drowsy, around.fall_asleep = climate.drowsy, world.fall_asleep
    return world


@contextmanager
def workshop() -> Iterator[tuple[Path, Path]]:
    """(folder, template) to play in; in memory where the machine has a place for that."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="pagegate-sim-") as folder:
        template = Path(folder) / "template.db"
        make_template(template)
        yield Path(folder), template
