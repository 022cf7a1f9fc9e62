"""What the Backend's HTTP door needs from the rest of the process.

Owns nothing: the composition (`actors/systems/backend.py`) builds the parts, the door holds them for as long as it is
open.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pykka
from aiohttp import web
from prometheus_client import CollectorRegistry

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.models import Models
from pagegate.actors.jobs.build_numbers import BuildNumbers
from pagegate.actors.previews import Previews
from pagegate.actors.tickets import Tickets
from pagegate.actors.webhook_sender import WebhookAddresses
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.runtime_state import RuntimeState

MIB = 1024 * 1024


async def _nothing() -> None:
    return


@dataclass(frozen=True)
class ApiLimits:
    """How much one request may bring. Sizes in bytes."""

    batch_size_max: int = 16  # AI_PAGE_MUTATION_MAX_BATCH_SIZE
    source_bytes_max: int = MIB  # PAGE_SOURCE_MAX_BYTES
    asset_bytes_max: int = 20 * MIB
    upload_wait_s: float = 300.0
    streams_max: int = 200
    mcp_wait_s: float = 50.0  # of the 60 s that A9 allows and after which most clients give up
    screenshot_active_jobs_max: int = 256  # PAGE_SCREENSHOT_MAX_ACTIVE_JOBS
    screenshot_group_max: int = 64  # PAGE_SCREENSHOT_MAX_GROUP_SIZE
    build_artifact_bytes_max: int = 512 * MIB  # PROJECT_BUILD_ARTIFACT_MAX_BYTES
    build_deadline_s: float = 3600.0  # PROJECT_BUILD_TOTAL_DEADLINE_SECONDS
    build_active_jobs_max: int = 16
    job_lease_s: float = 60.0  # DURABLE_JOB_LEASE_SECONDS
    job_heartbeat_s: float = 15.0  # DURABLE_JOB_HEARTBEAT_SECONDS

    def source_body_bytes_max(self) -> int:
        """A body with one source. JSON writes a byte of source as up to two in any sensible text."""
        return 2 * self.source_bytes_max + MIB // 4

    def step_body_bytes_max(self) -> int:
        return self.batch_size_max * 2 * self.source_bytes_max + MIB


@dataclass(frozen=True)
class BackendParts:
    """Everything a handler may ask. `render_workers` counts those configured, alive or not (O1)."""

    db: Database
    objects: Objects
    artifacts: PreviewArtifacts
    state: RuntimeState
    previews: Previews
    agent_runs: pykka.ActorRef[Any]  # the AgentRuns actor
    job_control: pykka.ActorRef[Any]  # the JobControl actor
    admission: pykka.ActorRef[Any]  # the RuntimeAdmission actor
    tickets: Tickets
    feed: RunFeed
    limits: ApiLimits
    registry: CollectorRegistry
    render_workers: int
    models: Models | None = None  # None: this door serves no credentials
    refresh_numbers: Callable[[], Awaitable[None]] = _nothing  # makes the registry's gauges true, before a scrape
    unready: Callable[[], Sequence[str]] = field(default=lambda: ())  # why the process itself is not ready
    screenshot_feed: RunFeed = field(default_factory=RunFeed)  # by project
    wake_screenshots: Callable[[], None] = field(default=lambda: None)
    wake_builds: Callable[[], None] = field(default=lambda: None)
    build_numbers: BuildNumbers = field(default_factory=BuildNumbers)
    wake_ratios: Callable[[], None] = field(default=lambda: None)
    webhook_addresses: WebhookAddresses = field(default_factory=WebhookAddresses)
    sites_url: str = ""  # where a browser reaches the sites: another origin than this API's (X6)


PARTS = web.AppKey("pagegate_parts", BackendParts)
