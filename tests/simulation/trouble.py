"""The faults of a simulation, by seed: each world has some kinds of trouble and not others.

Owns nothing but the plan. A kill or a freeze comes after a seeded number of the process's own steps, so it hits between
any two awaits, those that take no time among them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.simulation.backend import Backend
from tests.simulation.build_trouble import BuildTrouble
from tests.simulation.moves import ATTEMPTS, BATCHES, JOBS, REQUESTS, RUNS
from tests.simulation.virtual_loop import Life

if TYPE_CHECKING:
    from tests.simulation.world import World

_RUNTIME = ("runtime_refuses", "runtime_hangs", "runtime_forgets")
_RENDERER = ("renderer_refuses", "renderer_loses_answer", "renderer_hangs", "renderer_errs", "renderer_repeats")


class Trouble(BuildTrouble):
    """`run` makes trouble until `until_s`, and then puts everything right again."""

    def __init__(self, world: "World") -> None:
        self._world, self._loop = world, world.loop
        chance, climate = self._loop.chance, world.climate
        kinds: list[Callable[[], Awaitable[None]]] = [getattr(self, f"_{kind}") for kind in climate.trouble]
        chosen = [kind for kind in kinds if not climate.choosy or chance.random() < 0.5]
        self._kinds = chosen or [self._kill]
        self._pace_s = chance.choice(climate.pace_s)
        for name, value in climate.weather.items():
            setattr(world.around.weather, name, value)

    async def run(self, until_s: float) -> None:
        chance = self._loop.chance
        while self._loop.time() < until_s:
            await asyncio.sleep(chance.uniform(0, 2 * self._pace_s))
            await chance.choice(self._kinds)()
        await self._put_right()

    async def _put_right(self) -> None:
        world = self._world
        world.stormy = False
        world.around.weather.calm_down()
        for backend in world.backends:
            backend.wire.heal()
            backend.life.put_out_fuse()
        for builder in world.builders:
            builder.life.put_out_fuse()
        while any(process.life.stopped for process in (*world.backends, *world.builders)):
            await asyncio.sleep(0.5)
        await asyncio.sleep(2)  # what an operator asked of a frozen process is done only now
        await world.people.put_right()
        world.note("weather", "calm")

    # -- processes ------------------------------------------------------------------------------------------------

    async def _kill(self) -> None:
        self._catch(self._killed)

    async def _freeze(self) -> None:
        """SIGSTOP, or a long collection of garbage: its clock goes on."""
        self._catch(self._frozen)

    async def _suspend(self) -> None:
        """A paused virtual machine: its monotonic clock stands still, and its deadlines with it."""
        self._catch(self._suspended)

    async def _sleep_on_a_batch(self) -> None:
        """A coordinator claims a batch and is suspended for longer than that lease."""
        backend = self._loop.chance.choice(self._world.backends)
        if not backend.life.stopped:
            claimed = {BATCHES}.__eq__  # an end of a job, which makes a batch ready, touches other tables too
            backend.wire.trap = (claimed, lambda: self._pause(backend, "SUSPENDED", 11.0, asleep=True))

    def _catch(self, then: Callable[[Backend], None]) -> None:
        """Between any two of its steps; or just when it has committed something that it goes on with."""
        chance, backend = self._loop.chance, self._loop.chance.choice(self._world.backends)
        if backend.life.stopped:
            return
        if chance.random() < 0.4:
            backend.life.light_fuse(chance.choice([0, 5, 50, 500]), lambda: then(backend))
        else:
            table = chance.choice([JOBS, JOBS, RUNS, RUNS, BATCHES, REQUESTS, ATTEMPTS])
            backend.wire.trap = (lambda touched: table in touched, lambda: then(backend))

    def _killed(self, backend: Backend) -> None:
        self._world.note(backend.life.name, "KILLED")
        backend.life.stop()
        backend.gone()
        self._loop.call_outside(self._loop.chance.choice([0.05, 0.5, 8.0]), self._world.start_anew, backend)

    def _frozen(self, backend: Backend) -> None:
        self._pause(backend, "FROZEN", self._loop.chance.choice([0.3, 4.0, 9.9, 10.1, 15.0]), asleep=False)

    def _suspended(self, backend: Backend) -> None:
        self._pause(backend, "SUSPENDED", self._loop.chance.choice(self._world.climate.sleeps_s), asleep=True)

    def fall_asleep(self, life: Life) -> None:
        """A process is suspended where it stands."""
        super().fall_asleep(life)
        for backend in self._world.backends:
            if backend.life is life and not life.stopped:
                self._suspended(backend)

    def _pause(self, backend: Backend, what: str, for_s: float, *, asleep: bool) -> None:
        def goes_on() -> None:
            self._world.note(backend.life.name, "goes on")
            backend.life.go_on(for_s if asleep else 0.0)
            self._greet(backend)

        self._world.note(backend.life.name, what)
        backend.life.stop()
        self._world.server.lose_touch(backend.life)
        self._loop.call_outside(for_s, goes_on)

    def _greet(self, backend: Backend) -> None:
        """Who has slept is asked for something at once, before it can know what it has lost."""
        chance, world = self._loop.chance, self._world
        if chance.random() < world.climate.stops_awake and backend not in world.stopping:
            world.stop_and_start(backend)
        elif chance.random() < 0.3:
            world.background(world.people.cancel_one_of(backend))

    async def _restart(self) -> None:
        """An orderly stop and a new start."""
        backend = self._loop.chance.choice(self._world.backends)
        if not backend.life.stopped and backend not in self._world.stopping:
            self._world.stop_and_start(backend)

    async def _crash_actor(self) -> None:
        backend = self._loop.chance.choice(self._world.backends)
        names = ["coordinator", "external", "admission", "queue", "runs", "worker0"]
        name = self._loop.chance.choice(names)
        if not backend.life.stopped and backend not in self._world.stopping:
            self._world.note(backend.life.name, "actor crashes", actor=name)
            backend.crash(name)

    # -- the database ---------------------------------------------------------------------------------------------

    async def _cut(self) -> None:
        wire = self._loop.chance.choice(self._world.backends).wire
        wire.cut = True
        self._later(lambda: setattr(wire, "cut", False), 0.2, 3.0, 12.0)

    async def _database_gone(self) -> None:
        wires = [backend.wire for backend in self._world.backends]
        self._world.note("database", "gone")
        for wire in wires:
            wire.cut = True
        self._later(lambda: [setattr(wire, "cut", False) for wire in wires], 0.5, 3.0, 8.0)

    async def _slow(self) -> None:
        wire = self._loop.chance.choice(self._world.backends).wire
        wire.slow_s = self._loop.chance.choice([0.05, 0.5, 3.0, 14.0])
        self._later(lambda: setattr(wire, "slow_s", 0.0), 2.0, 10.0)

    async def _lose_answers(self) -> None:
        wire = self._loop.chance.choice(self._world.backends).wire
        wire.loses = self._loop.chance.choice([0.1, 0.5])
        self._later(lambda: setattr(wire, "loses", 0.0), 1.0, 5.0)

    async def _refuse(self) -> None:
        wire = self._loop.chance.choice(self._world.backends).wire
        wire.refuses = self._loop.chance.choice([0.05, 0.3])
        self._later(lambda: setattr(wire, "refuses", 0.0), 1.0, 5.0)

    async def _straggle(self) -> None:
        wire = self._loop.chance.choice(self._world.backends).wire
        wire.straggles = self._loop.chance.choice([0.05, 0.3])
        self._later(lambda: setattr(wire, "straggles", 0.0), 2.0, 10.0)

    async def _step_clock(self) -> None:
        """The clock that decides about leases is put right; there is one, so only where one process owns it (Q6)."""
        if len(self._world.backends) == 1:
            step_ms = self._loop.chance.choice([-10_000, -500, 500, 10_000, 600_000])
            self._world.note("clock", "steps", ms=step_ms)
            self._world.server.clock.skew_ms += step_ms

    # -- what stands around ---------------------------------------------------------------------------------------

    async def _runtime(self) -> None:
        self._storm(self._loop.chance.choice(_RUNTIME), 0.1, 0.5, 1.0)

    async def _renderer(self) -> None:
        self._storm(self._loop.chance.choice(_RENDERER), 0.1, 0.4, 1.0)

    async def _objects(self) -> None:
        self._storm("objects_fail", 0.2, 0.7)

    async def _restart_renderer(self) -> None:
        renderer = self._loop.chance.choice(list(self._world.around.renderers.values()))
        self._world.note(renderer.worker_id, "starts anew")
        renderer.restart()

    async def _restart_runtime(self) -> None:
        self._world.note("runtime", "starts anew")
        self._world.around.runtime.forget()

    async def _interfere(self) -> None:
        await self._world.people.interfere()

    async def _edit(self) -> None:
        await self._world.people.edit()

    async def _come_and_go(self) -> None:
        await self._world.people.come_and_go()

    async def _cancel(self) -> None:
        await self._world.people.cancel_one_of(self._loop.chance.choice(self._world.backends), through_another=True)

    async def _operate(self) -> None:
        await self._world.people.operate()

    def _storm(self, name: str, *likelihoods: float) -> None:
        weather = self._world.around.weather
        weather.slow_s = self._loop.chance.choice([0.0, 0.0, 2.0])
        setattr(weather, name, self._loop.chance.choice(likelihoods))
        self._world.note("weather", name, now=getattr(weather, name))
        self._later(lambda: setattr(weather, name, 0.0), 1.0, 5.0, 20.0)

    def _later(self, then: Callable[[], object], *delays_s: float) -> None:
        self._loop.call_outside(self._loop.chance.choice(delays_s), then)
