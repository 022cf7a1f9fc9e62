"""What befalls builds: the Runtimes that make them, the wires they talk over, their progress, their lane (B1-B4).

Mixed into `Trouble`, whose plan it is.
"""

from typing import TYPE_CHECKING

from tests.simulation.building import roll_back
from tests.simulation.moves import BUILDS, COMPONENT_JOBS, IMAGE_JOBS, RATIO_JOBS

if TYPE_CHECKING:
    from tests.simulation.backend import Backend
    from tests.simulation.builders import Builder
    from tests.simulation.virtual_loop import Life, VirtualLoop
    from tests.simulation.world import World

_PROVIDER = ("provider_refuses", "provider_declines", "provider_hangs", "provider_loses", "provider_garbles")
_WIRES = ("wire_refuses", "wire_loses", "wire_repeats", "wire_strays", "wire_stalls", "wire_cuts")


class BuildTrouble:
    _world: "World"
    _loop: "VirtualLoop"

    # -- Runtimes -------------------------------------------------------------------------------------------------

    async def _kill_builder(self) -> None:
        if (builder := self._awake_builder()) is not None:
            builder.life.light_fuse(self._loop.chance.choice([0, 5, 50, 200]), lambda: self._builder_killed(builder))

    async def _suspend_builder(self) -> None:
        """It sleeps, and its monotonic clock with it: it comes back and believes that it is in time."""
        if (builder := self._awake_builder()) is not None:
            fuse = self._loop.chance.choice([0, 5, 50, 200])
            builder.life.light_fuse(fuse, lambda: self._builder_paused(builder, asleep=True))

    async def _freeze_builder(self) -> None:
        if (builder := self._awake_builder()) is not None:
            self._builder_paused(builder, asleep=False)

    async def _restart_builder(self) -> None:
        """Stopped in order: what it makes is told as interrupted."""
        builder = self._awake_builder()
        if builder is not None and builder not in self._world.closing:
            self._world.note(builder.life.name, "stops")
            self._world.closing.append(builder)
            builder.life.begin(self._world.close_builder(builder))

    def _awake_builder(self) -> "Builder | None":
        builder = self._loop.chance.choice(self._world.builders)
        return None if builder.life.stopped else builder

    def _builder_killed(self, builder: "Builder") -> None:
        self._world.note(builder.life.name, "KILLED")
        builder.life.stop()
        builder.gone()
        self._loop.call_outside(self._loop.chance.choice([0.05, 0.5, 8.0]), self._world.build_anew, builder)

    def fall_asleep(self, life: "Life") -> None:
        """A Runtime's process is suspended where it stands."""
        for builder in self._world.builders:
            if builder.life is life and not life.stopped:
                self._builder_paused(builder, asleep=True)

    def _builder_paused(self, builder: "Builder", *, asleep: bool) -> None:
        for_s = self._loop.chance.choice([3.0, 9.0, 12.0, 25.0])

        def goes_on() -> None:
            self._world.note(builder.life.name, "goes on")
            builder.life.go_on(for_s if asleep else 0.0)

        self._world.note(builder.life.name, "SUSPENDED" if asleep else "FROZEN")
        builder.life.stop()
        self._loop.call_outside(for_s, goes_on)

    # -- Backends, their wires and what they show ------------------------------------------------------------------

    async def _kill_at_a_build(self) -> None:
        """Just when a Backend has committed something of a build: a claim, a renewal in an upload, a release."""
        backend: Backend = self._loop.chance.choice(self._world.backends)
        if not backend.life.stopped:
            backend.wire.trap = (lambda touched: BUILDS in touched, lambda: self._killed(backend))  # type: ignore[attr-defined]

    async def _crash_actor_of_builds(self) -> None:
        backend: Backend = self._loop.chance.choice(self._world.backends)
        if not backend.life.stopped and backend not in self._world.stopping:
            self._world.note(backend.life.name, "actor crashes", actor="builds")
            backend.crash("builds")

    async def _wires(self) -> None:
        self._storm(self._loop.chance.choice(_WIRES), 0.1, 0.4, 1.0)  # type: ignore[attr-defined]  # of Trouble

    async def _botch(self) -> None:
        self._storm("builder_botches", 0.3, 1.0)  # type: ignore[attr-defined]  # the same

    async def _forget_state(self) -> None:
        """All runtime state is gone (B4)."""
        for backend in self._world.backends:
            await backend.state.delete(list(backend.state._entries))
        self._world.note("state", "is gone")

    # -- components, pictures, sizes --------------------------------------------------------------------------------

    async def _provider(self) -> None:
        self._storm(self._loop.chance.choice(_PROVIDER), 0.2, 0.5, 1.0)  # type: ignore[attr-defined]  # of Trouble

    async def _kill_at_a_picture(self) -> None:
        """Just when a Backend has committed something of a picture: a claim, that it asks, its end."""
        backend: Backend = self._loop.chance.choice(self._world.backends)
        if not backend.life.stopped:
            backend.wire.trap = (lambda touched: IMAGE_JOBS in touched, lambda: self._killed(backend))  # type: ignore[attr-defined]

    async def _crash_actor_of_makers(self) -> None:
        name = self._loop.chance.choice(["components", "images", "ratios", "scan", "worker of images"])
        backend: Backend = self._loop.chance.choice(self._world.backends)
        if not backend.life.stopped and backend not in self._world.stopping:
            self._world.note(backend.life.name, "actor crashes", actor=name)
            backend.crash(name)

    async def _operate_makers(self) -> None:
        await self._world.people.operate(self._loop.chance.choice([COMPONENT_JOBS, IMAGE_JOBS, RATIO_JOBS]))

    # -- people ---------------------------------------------------------------------------------------------------

    async def _edit_badly(self) -> None:
        await self._world.people.edit(badly=True)

    async def _roll_back(self) -> None:
        await roll_back(self._world)

    async def _operate_builds(self) -> None:
        await self._world.people.operate(BUILDS)
