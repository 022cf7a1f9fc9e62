"""A Backend of the simulation: its real actors, composed as `actors/systems/backend.py` does, between played edges.

Owns one process: what it is made of, how it starts and how it ends. A new life under the same host name is another
process with another owner, as after a restart; nothing of the old one is cleaned up.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal, TypeVar, cast

import pykka

from pagegate.actors.agents.external_tasks import BatchesMayBeReady, ExternalTasks
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.runs import AgentRuns, RunLimits
from pagegate.actors.compiling.admission import RuntimeAdmission
from pagegate.actors.jobs.candidate_compile import CheckLimits
from pagegate.actors.jobs.page_check import PageCheck
from pagegate.actors.jobs.page_mutation import PageMutation
from pagegate.actors.jobs.page_picture import PagePictures
from pagegate.actors.jobs.page_screenshot import PageScreenshot
from pagegate.actors.jobs.project_build import ProjectBuilds
from pagegate.actors.jobs.validation_screenshot_publisher import ValidationScreenshotPublisher
from pagegate.actors.kernel import ask, stop
from pagegate.actors.queues.control import JobControl, RetryLimits
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.pruner import Pruner
from pagegate.actors.queues.queue import Drain, JobQueue, JobsSubmitted
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import Executed, LeaseTimes
from pagegate.actors.rendering.coordinator import RenderCoordinator, RenderLimits
from pagegate.actors.rendering.drive import Drive
from pagegate.actors.state_sweeper import StateSweeper
from pagegate.actors.tickets import Tickets
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.runtime.build_client import offer_builds
from pagegate.storage.builds import PROJECT_BUILD
from pagegate.storage.objects import Objects
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.pruning import Retention
from pagegate.storage.runtime_state import Fields, MemoryState, StateUnavailable
from tests.simulation.database import Server, Wire
from tests.simulation.edges import RendererWire, Surroundings
from tests.simulation.makers import LANES, open_lanes
from tests.simulation.network import Door, PlayedTickets
from tests.simulation.virtual_loop import Life, LoopClock

SWEEP_S = 30.0
ARTIFACT_TTL_S = 60.0
HOLD_S = 20.0
SHOTS_MAX = 6
BATCH_LEASE_S = 10.0  # so that nobody has to sleep for a minute to lose it


T = TypeVar("T")
StateOfState = Literal["kept", "lost", "away"]


class LostState(MemoryState):
    """Runtime state that is gone as soon as it is written; or whose store does not answer (B4)."""

    def __init__(self, how: StateOfState, clock: LoopClock) -> None:
        super().__init__(4096, clock)
        self._how = how

    async def put(self, entries: Mapping[str, Fields], ttl_s: float) -> None:
        if self._how == "away":
            raise StateUnavailable("the store does not answer")


@dataclass(frozen=True)
class Rules:
    """The settings of every Backend of one world."""

    workers: int = 2
    times: LeaseTimes = field(default_factory=lambda: LeaseTimes(lease_s=10.0, heartbeat_s=2.5))
    renders: RenderLimits = field(default_factory=RenderLimits)
    runs: RunLimits = field(default_factory=lambda: RunLimits(active_jobs_max=8, job_deadline_s=120.0))
    check: CheckLimits = field(
        default_factory=lambda: CheckLimits(
            compile_deadline_s=10.0,
            compile_request_timeout_s=12.0,
            artifact_ttl_s=ARTIFACT_TTL_S,
            render_queue_max=3,
            render_workspace_queue_max=2,
        )
    )
    check_inflight_max: int = 2
    state_bytes_max: int = 4096
    infra_failures_max: int = 6
    lease_losses_max: int = 3
    retention: Retention | None = None
    screenshots: bool = False  # with the lane of screenshots
    builders: tuple[int, ...] = ()  # with the lane of builds, and a door for so many Runtimes that pull them
    build_bytes_max: int = 0
    state: StateOfState = "kept"
    makes: bool = False  # with the lanes of components, pictures and sizes of files


class _PlayedTickets:
    def issue(self, artifact_id: str, ttl_s: float = 0) -> str:
        return "ticket"


class Backend:
    """One life of one process on a host. Start it, then kill, freeze or stop it."""

    def __init__(self, server: Server, around: Surroundings, rules: Rules, host: str, life: int) -> None:
        self.host, self.number = host, life
        self.life = Life(server.loop, f"{host}{life}")
        self.owner = f"{host}:1:{self.life.name}"
        self.wire = Wire(server, self.life)
        self.address = f"sim://{host}/{life}"
        # A replica's own clock may be minutes off: nothing that matters may depend on it.
        self.clock = LoopClock(server.loop, skew_ms=server.loop.chance.choice([0, 0, -600_000, 600_000]))
        kept = rules.state == "kept"
        self.state = MemoryState(rules.state_bytes_max, self.clock) if kept else LostState(rules.state, self.clock)
        self.actors: dict[str, pykka.ActorRef[Any]] = {}
        self._server, self._around, self._rules = server, around, rules

    @property
    def dead(self) -> bool:
        return self.life.stopped

    @property
    def around(self) -> Surroundings:
        return self._around

    def tickets(self, kind: type[T]) -> T:
        """Tickets that nobody looks at."""
        return cast(T, _PlayedTickets())

    def start(self) -> None:
        self._around.states[self.address] = PreviewArtifacts(self.state)
        self.life.context.run(self._compose)

    def gone(self) -> None:
        """The process was killed: what it held in memory is gone with it."""
        self._around.states.pop(self.address, None)
        self._around.network.doors.pop(self.address, None)
        self._around.network.lost(self.life)
        self._server.lose_touch(self.life)

    async def stop(self, grace_s: float = 5.0) -> None:
        """The orderly end: drain, then in reverse of the start (Q10)."""
        for queue in ("screenshots", *LANES, "queue"):  # screenshots stop claiming first (S6)
            with suppress(pykka.ActorDeadError, KeyError):  # it crashed while it drained, or there is none
                await ask(self.actors[queue], Drain(grace_s))
        for ref in reversed(self.actors.values()):
            await stop(ref)
        self._around.states.pop(self.address, None)
        self._around.network.doors.pop(self.address, None)
        self._around.network.lost(self.life)

    def crash(self, name: str) -> None:
        """Make one actor raise where nobody expects it; the kernel starts it anew."""
        ref = self.actors[name]
        ref.tell(Executed(cast(Any, None)) if name.startswith("worker") else _Unheardof())

    def _compose(self) -> None:
        db, rules, feed = self.wire.database, self._rules, RunFeed()
        owner = self.owner
        objects = cast(Objects, self._around.objects)
        runtime = self._around.runtime
        actors = self.actors
        actors["sweeper"] = StateSweeper.start(self.state, SWEEP_S)
        actors["admission"] = RuntimeAdmission.start(
            runtime, ["sim://runtime"], {"check": rules.check_inflight_max, "light": 2 if rules.makes else 0}
        )
        renderers = [RendererWire(self._around, renderer) for renderer in self._around.renderers.values()]
        drive = Drive(db, objects, rules.renders.lease_s)
        actors["coordinator"] = RenderCoordinator.start(db, owner, renderers, drive, rules.renders, tick_s=2.0)
        external = actors["external"] = ExternalTasks.start(
            db, owner, feed, lease_s=BATCH_LEASE_S, poll_s=3.0, reconcile_s=15.0
        )
        check = PageCheck(
            db,
            objects,
            self._around.states[self.address],
            cast(Tickets, _PlayedTickets()),
            actors["admission"],
            actors["coordinator"],
            self.address,
            rules.check,
        )
        publisher = ValidationScreenshotPublisher(db, objects, hold_s=HOLD_S)
        pictures = PagePictures(db, publisher, active_jobs_max=SHOTS_MAX, deadline_s=rules.runs.job_deadline_s)
        kind = PageMutation(
            db, objects, check, feed, on_end=lambda: external.tell(BatchesMayBeReady()), pictures=pictures
        )
        queues = {}
        if rules.screenshots:
            shots = PageScreenshot(db, check, publisher, on_end=lambda _: None)
            shot_worker = JobWorker.start(
                db, shots, rules.times, rules.infra_failures_max, writer=LaneWriter(db, shots, rules.times)
            )
            actors["worker of screenshots"] = shot_worker
            actors["screenshots"] = queues[shots.name] = JobQueue.start(
                db,
                shots.name,
                f"{owner}:shots",
                [shot_worker],
                rules.times,
                lease_losses_max=rules.lease_losses_max,
                poll_s=2.0,
                sweep_s=4.0,
            )
            pictures.on_ordered = lambda: actors["screenshots"].tell(JobsSubmitted())
        writer = LaneWriter(db, kind, rules.times)
        workers = [
            JobWorker.start(db, kind, rules.times, rules.infra_failures_max, writer=writer)
            for _ in range(rules.workers)
        ]
        actors |= {f"worker{place}": worker for place, worker in enumerate(workers)}
        actors["queue"] = JobQueue.start(
            db, kind.name, owner, workers, rules.times, lease_losses_max=rules.lease_losses_max, poll_s=2.0, sweep_s=4.0
        )
        if rules.makes:
            queues |= open_lanes(self, rules, feed, lambda: external.tell(BatchesMayBeReady()))
        if rules.builders:
            actors["builds"] = queues[PROJECT_BUILD] = self._open_builds()
        actors["control"] = JobControl.start(
            db,
            {kind.name: actors["queue"], **queues},
            RetryLimits(rules.runs.active_jobs_max, rules.runs.job_deadline_s),
            on_news=feed.publish,
            on_end=lambda: external.tell(BatchesMayBeReady()),
        )
        if rules.retention is not None:
            actors["pruner"] = Pruner.start(db, rules.retention, period_s=5.0)
        actors["runs"] = AgentRuns.start(db, {kind.name: actors["queue"], **queues}, feed, rules.runs)

    def _open_builds(self) -> pykka.ActorRef[Any]:
        """The lane of builds, and the door that Runtimes come to."""
        network, rules = self._around.network, self._rules
        db, objects = self.wire.database, cast(Objects, self._around.objects)
        tickets = cast(Tickets, PlayedTickets(self._server.clock))
        limits = ApiLimits(
            build_artifact_bytes_max=rules.build_bytes_max,
            job_lease_s=rules.times.lease_s,
            job_heartbeat_s=rules.times.heartbeat_s,
        )
        known = {"db": db, "objects": objects, "state": self.state, "tickets": tickets, "limits": limits}
        # Routes of builds need nothing else; what has a default keeps it.
        needed = {field.name: None for field in fields(BackendParts) if field.default is field.default_factory}
        network.doors[self.address] = Door(self.life, BackendParts(**cast(Any, needed | known)))
        urls = [f"sim://r{place}-" for place in range(max(rules.builders))]
        offer = partial(offer_builds, network.session())
        actor: pykka.ActorRef[Any] = ProjectBuilds.start(db, objects, tickets, offer, urls, self.address)
        return actor


class _Unheardof:
    """A message that no actor knows."""

    def __repr__(self) -> str:
        return "a message from the simulation"
