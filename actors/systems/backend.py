"""The Backend, composed: what is built from what, started in order and stopped in reverse (Q10, S6).

Start: database (migrated, and locked for this process on SQLite), object store, runtime state, signing key; then from
the ground up admission, coordinator, external tasks, workers, queue, and last the way in. Stop: nothing new is taken
in, the queue drains within its grace time while everything below it still works, then the rest in reverse.
"""

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pykka
import structlog
from prometheus_client import CollectorRegistry

from pagegate.actors.agents.external_tasks import BatchesMayBeReady
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.runs import AgentRuns, RunLimits
from pagegate.actors.compiling.admission import RuntimeAdmission
from pagegate.actors.images.credentials import ImageCredentials
from pagegate.actors.images.provider import HttpImageProvider
from pagegate.actors.images.sweeper import StagedSweeper
from pagegate.actors.jobs.asset_ratio import AssetRatio
from pagegate.actors.jobs.asset_ratio_scan import AssetRatioScan, RatioJobEnded, ScanLimits
from pagegate.actors.jobs.candidate_compile import CheckLimits
from pagegate.actors.jobs.component_check import ComponentCheck
from pagegate.actors.jobs.component_mutation import ComponentMutation
from pagegate.actors.jobs.image_generation import ImageGeneration
from pagegate.actors.jobs.page_check import PageCheck
from pagegate.actors.jobs.page_mutation import PageMutation
from pagegate.actors.jobs.page_picture import PagePictures
from pagegate.actors.jobs.page_screenshot import PageScreenshot
from pagegate.actors.jobs.project_build import ProjectBuilds
from pagegate.actors.jobs.validation_screenshot_publisher import ValidationScreenshotPublisher
from pagegate.actors.kernel import Asks, ask, stop
from pagegate.actors.previews import Previews, again, forget_expired_snapshots
from pagegate.actors.queues.control import JobControl, RetryLimits
from pagegate.actors.queues.kinds import JobKind
from pagegate.actors.queues.lane_writer import LaneWriter
from pagegate.actors.queues.listener import HintListener
from pagegate.actors.queues.pruner import Pruner
from pagegate.actors.queues.pulse import Pulse
from pagegate.actors.queues.queue import Drain, GetQueueState, JobQueue, JobsSubmitted
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.actors.rendering.coordinator import RenderCoordinator, RenderLimits
from pagegate.actors.rendering.drive import Drive
from pagegate.actors.signing_keys import KeySources, load_key_ring
from pagegate.actors.state_sweeper import StateSweeper
from pagegate.actors.systems.agent_options import AgentOptions
from pagegate.actors.systems.backend_agents import AgentSide
from pagegate.actors.systems.backend_metrics import BackendMetrics
from pagegate.actors.tickets import Tickets
from pagegate.actors.webhook_sender import WebhookAddresses
from pagegate.actors.webhooks import Webhooks
from pagegate.renderer.client import RenderWorker
from pagegate.runtime.build_client import offer_builds
from pagegate.runtime.client import HttpRuntimes
from pagegate.storage import asset_ratios, builds, images, jobs, lanes
from pagegate.storage.engine import Clock, Database, SystemClock, dialect_of, sqlite_path
from pagegate.storage.migrations import migrate
from pagegate.storage.objects import Objects, ObjectStoreUnavailable, S3Options
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.pruning import Retention
from pagegate.storage.runtime_state import MemoryState, RuntimeState
from pagegate.storage.single_process import SingleProcessLock

log = structlog.get_logger()

DAY_MS = 24 * 3600 * 1000
MEMORY_STATE_URL = "memory://lite"


@dataclass(frozen=True)
class RenderWorkerOptions:
    worker_id: str
    base_url: str


@dataclass(frozen=True)
class BackendOptions:
    """The Backend's slice of the settings: seconds, bytes, counts. Runtime and Renderer call it at `internal_url`."""

    database_url: str
    objects_dir: Path
    keys: KeySources
    preview_url: str  # where a person's browser reaches a Runtime
    internal_url: str
    runtime_urls: Sequence[str]
    render_workers: Sequence[RenderWorkerOptions]
    render_credential: str = field(repr=False)
    s3: S3Options | None = None  # None: objects are files below `objects_dir`
    render_profile_digest: str = ""  # empty: any profile is accepted (R6)
    mutation_concurrency: int = 1
    screenshot_concurrency: int = 1
    screenshot_active_jobs_max: int = 256
    build_active_jobs_max: int = 16
    ratio_concurrency: int = 1
    ratio_scan: ScanLimits = field(default_factory=ScanLimits)
    component_concurrency: int = 1
    image_concurrency: int = 1
    image_timeout_s: float = 180.0
    infra_failures_max: int = 10
    lease_losses_max: int = 3
    lease: LeaseTimes = field(default_factory=LeaseTimes)
    run_limits: RunLimits = field(default_factory=RunLimits)
    agents: AgentOptions = field(default_factory=AgentOptions)
    check_limits: CheckLimits = field(default_factory=CheckLimits)
    render_limits: RenderLimits = field(default_factory=RenderLimits)
    check_inflight_max: int = 8
    light_inflight_max: int = 8
    state_url: str = field(default=MEMORY_STATE_URL, repr=False)  # REDIS_URL: it may hold a password
    state_bytes_max: int = 256 * 1024 * 1024
    state_sweep_s: float = 30.0
    retention: Retention = field(default_factory=lambda: Retention(7 * DAY_MS, 7 * DAY_MS, 30 * DAY_MS))
    prune_s: float = 300.0
    drain_grace_s: float = 20.0
    webhook_allowed_urls: Sequence[str] = ()


class BackendSystem:
    """Use it as an async context manager. Its public attributes are what the HTTP door needs."""

    def __init__(self, options: BackendOptions, *, clock: Clock | None = None) -> None:
        self.options = options
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"  # a restarted process is another one
        self.registry = CollectorRegistry()
        self.metrics = BackendMetrics(self.registry, lanes=tuple(lanes.kinds()))
        self.feed = RunFeed()
        self.screenshot_feed = RunFeed()  # by project
        self.webhook_addresses = WebhookAddresses(options.webhook_allowed_urls)
        self.pulse = Pulse()
        self._clock = clock or SystemClock()
        self._stack = contextlib.AsyncExitStack()
        self._other_queues: list[pykka.ActorRef[JobQueue]] = []  # besides those of pages and screenshots

    async def __aenter__(self) -> "BackendSystem":
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        log.info("backend.started", owner=self.owner)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        log.info("backend.stopped", owner=self.owner)

    async def refresh_numbers(self) -> None:
        """Make the registry's gauges true; before every scrape (O2)."""
        await self.metrics.refresh(self.db, self.state)

    async def _start(self) -> None:
        options = self.options
        await self._open_storage()
        session = await self._stack.enter_async_context(aiohttp.ClientSession())
        self._started(
            StateSweeper.start(
                self.state,
                options.state_sweep_s,
                forget_snapshots=partial(forget_expired_snapshots, self.db),
                swept=self.metrics.swept,
            )
        )
        check = self._start_check(session)
        self.agents = AgentSide(
            self.db,
            self.objects,
            self.feed,
            self.owner,
            options.run_limits,
            options.agents,
            on_jobs=self._wake_calls,
        )
        self._started(self.agents.background)
        external = self.agents.external
        self._started(external)

        def hint_external() -> None:
            external.tell(BatchesMayBeReady())

        publisher = ValidationScreenshotPublisher(self.db, self.objects, options.render_profile_digest)
        pictures = PagePictures(self.db, publisher, options.screenshot_active_jobs_max)
        mutation = PageMutation(self.db, self.objects, check, self.feed, on_end=hint_external, pictures=pictures)
        screenshot = PageScreenshot(self.db, check, publisher, on_end=self.screenshot_feed.publish)
        self.queue = self._start_queue(mutation, options.mutation_concurrency)
        self.screenshot_queue = self._start_queue(screenshot, options.screenshot_concurrency)
        pictures.on_ordered = lambda: self.screenshot_queue.tell(JobsSubmitted())
        self.ratio_queue = self._start_ratios()
        self.image_queue = self._start_images(hint_external)
        self.component_queue = self._start_components(hint_external)
        self._other_queues = [self.ratio_queue, self.image_queue, self.component_queue]
        # Runs first at the stop: everything below still works while running jobs converge.
        self._stack.push_async_callback(self.drain)
        self.builds = self._start_builds(session)
        queues = {
            mutation.name: self.queue,
            jobs.COMPONENT_MUTATION: self.component_queue,
            images.IMAGE_GENERATION: self.image_queue,
            screenshot.name: self.screenshot_queue,
            builds.PROJECT_BUILD: self.builds,
            asset_ratios.ASSET_RATIO_BACKFILL: self.ratio_queue,
        }
        webhooks = Webhooks.start(
            self.db, self.agents.models.secrets, self.webhook_addresses, self.owner, observe=self.metrics.told_webhook
        )
        self._started(webhooks)
        self._started(HintListener.start(self.db, queues, external, webhooks))
        self._started(Pruner.start(self.db, options.retention, period_s=options.prune_s))
        self.agent_runs = self._started(
            AgentRuns.start(
                self.db,
                queues,
                self.feed,
                options.run_limits,
                owner=self.owner,
                background=self.agents.background,
                external=external,
            )
        )
        self._stack.push_async_callback(self.agents.stop_executing)
        limits = RetryLimits(
            options.run_limits.active_jobs_max,
            options.run_limits.job_deadline_s,
            {
                **options.run_limits.active_jobs_max_of,
                screenshot.name: options.screenshot_active_jobs_max,
                builds.PROJECT_BUILD: options.build_active_jobs_max,
                asset_ratios.ASSET_RATIO_BACKFILL: options.ratio_scan.active_jobs_max,
            },
        )
        self.job_control = self._started(
            JobControl.start(self.db, queues, limits, on_news=self.feed.publish, on_end=hint_external)
        )

    async def drain(self) -> None:
        """Stop claiming, screenshots first, and let running jobs end within the grace time (Q10, S6)."""
        grace = Drain(self.options.drain_grace_s)
        others = [asyncio.create_task(_ask_to_stop(queue, grace)) for queue in self._other_queues]
        screenshots = asyncio.create_task(_ask_to_stop(self.screenshot_queue, grace))
        await asyncio.sleep(0)  # the message is on its way
        await _ask_to_stop(self.screenshot_queue, GetQueueState())  # answered after it: none is claimed any more
        await asyncio.gather(screenshots, *others, _ask_to_stop(self.queue, grace))

    async def _open_storage(self) -> None:
        options = self.options
        if dialect_of(options.database_url) == "sqlite":
            self._stack.enter_context(SingleProcessLock(sqlite_path(options.database_url)))
        await migrate(options.database_url)
        self.db = await Database.open(options.database_url, clock=self._clock)
        self._stack.push_async_callback(self.db.close)
        self.objects = Objects.s3(options.s3) if options.s3 is not None else Objects.local(options.objects_dir)
        try:
            await self.objects.check()
        except ObjectStoreUnavailable as error:  # it may come back; what needs it says so until then
            log.error("object_store.unavailable", reason=str(error), cause=str(error.__cause__))  # noqa: TRY400
        self.state = await self._open_state()
        self.artifacts = PreviewArtifacts(self.state, partial(again, self.db))
        self.tickets = Tickets.of(await asyncio.to_thread(load_key_ring, options.keys))
        self.previews = Previews(self.db, self.artifacts, self.tickets, options.preview_url)

    async def _open_state(self) -> RuntimeState:
        """Raises `StateUnavailable` when Redis does not answer: better said now than with the first check."""
        options = self.options
        if options.state_url == MEMORY_STATE_URL:
            return MemoryState(options.state_bytes_max, self._clock)
        from pagegate.storage.redis_state import RedisState  # a library that a small machine need not hold

        state = RedisState(options.state_url)
        self._stack.push_async_callback(state.close)
        await state.usage()
        return state

    def _start_check(self, session: aiohttp.ClientSession) -> PageCheck:
        options = self.options
        runtimes = HttpRuntimes(session)
        limits = {"check": options.check_inflight_max, "light": options.light_inflight_max}
        self.admission = self._started(RuntimeAdmission.start(runtimes, options.runtime_urls, limits))
        workers = [
            RenderWorker(
                session,
                worker.worker_id,
                worker.base_url,
                options.render_credential,
                profile_digest=options.render_profile_digest,
            )
            for worker in options.render_workers
        ]
        drive = Drive(self.db, self.objects, options.render_limits.lease_s)
        coordinator = self._started(RenderCoordinator.start(self.db, self.owner, workers, drive, options.render_limits))
        return PageCheck(
            self.db,
            self.objects,
            self.artifacts,
            self.tickets,
            self.admission,
            coordinator,
            options.internal_url,
            options.check_limits,
        )

    def _wake_calls(self) -> None:
        """A step was submitted: look for work in every lane that carries out calls."""
        for queue in (self.queue, self.component_queue, self.image_queue):
            queue.tell(JobsSubmitted())

    def _start_components(self, hint_external: Callable[[], None]) -> pykka.ActorRef[JobQueue]:
        options = self.options

        def ended() -> None:
            hint_external()
            self.queue.tell(JobsSubmitted())  # a page of its step may run now

        check = ComponentCheck(self.artifacts, self.tickets, self.admission, options.internal_url, options.check_limits)
        source_bytes_max = options.run_limits.source_bytes_max
        kind = ComponentMutation(self.db, check, self.feed, ended, source_bytes_max=source_bytes_max)
        return self._start_queue(kind, options.component_concurrency)

    def _start_images(self, hint_external: Callable[[], None]) -> pykka.ActorRef[JobQueue]:
        def ended() -> None:
            hint_external()
            self.queue.tell(JobsSubmitted())  # a page of its step may run now

        kind = ImageGeneration(
            self.db,
            self.objects,
            HttpImageProvider(self.options.image_timeout_s),
            ImageCredentials(self.agents.models),
            self.feed,
            ended,
            observe=self.metrics.asked_for_image,
        )
        self._started(StagedSweeper.start(self.objects))
        return self._start_queue(kind, self.options.image_concurrency)

    def _start_builds(self, session: aiohttp.ClientSession) -> pykka.ActorRef[ProjectBuilds]:
        options = self.options
        started: pykka.ActorRef[ProjectBuilds] = self._started(
            ProjectBuilds.start(
                self.db,
                self.objects,
                self.tickets,
                partial(offer_builds, session),
                options.runtime_urls,
                options.internal_url,
                numbers=self.metrics.builds,
            )
        )
        return started

    def _start_ratios(self) -> pykka.ActorRef[JobQueue]:
        """The scan first: while the lane drains, its jobs still tell the scan of their ends."""

        def wake() -> None:
            if self.ratio_queue.is_alive():
                self.ratio_queue.tell(JobsSubmitted())

        scan = self._started(AssetRatioScan.start(self.db, wake, self.options.ratio_scan))
        self.ratio_scan: pykka.ActorRef[AssetRatioScan] = scan
        kind = AssetRatio(self.db, self.objects, self.admission, on_end=lambda: scan.tell(RatioJobEnded()))
        return self._start_queue(kind, self.options.ratio_concurrency)

    def _start_queue(self, kind: JobKind, concurrency: int) -> pykka.ActorRef[JobQueue]:
        options = self.options
        writer = LaneWriter(self.db, kind, options.lease)
        workers = [
            self._started(
                JobWorker.start(
                    self.db,
                    kind,
                    options.lease,
                    options.infra_failures_max,
                    observe=self.metrics.executed,
                    pulse=self.pulse,
                    writer=writer,
                    on_lease_lost=lambda: self.metrics.lease_lost(kind.name),
                )
            )
            for _ in range(concurrency)
        ]
        queue: pykka.ActorRef[JobQueue] = self._started(
            JobQueue.start(
                self.db,
                kind.name,
                self.owner,
                workers,
                options.lease,
                lease_losses_max=options.lease_losses_max,
                on_rescued=lambda _: self.metrics.rescued(kind.name),
                pulse=self.pulse,
            )
        )
        return queue

    def _started(self, ref: pykka.ActorRef[Any]) -> Any:
        self._stack.push_async_callback(stop, ref)
        return ref


async def _ask_to_stop(queue: pykka.ActorRef[JobQueue], message: Asks[Any]) -> None:
    """Of a queue that is dead nothing is claimed any more; its jobs are rescued, and the others have theirs to end."""
    try:
        await ask(queue, message)
    except pykka.ActorDeadError as error:
        log.warning("backend.drain.queue_lost", queue=str(queue), reason=str(error))
