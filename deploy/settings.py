"""Settings: what each process reads from its environment (SPEC's table; every one is in `.env.example`).

Owns the names, types, limits and defaults. `PAGEGATE_PROFILE` (lite | regular) chooses the defaults; a variable that is
set always wins. A process gets its own class only, so a part's settings never bother another part.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from pagegate.deploy import replicas
from pagegate.deploy.agent_settings import AgentSettings
from pagegate.deploy.key_settings import KeySettings
from pagegate.deploy.process_settings import ProcessSettings
from pagegate.deploy.setting_values import (
    DAY_S,
    Bytes,
    Count,
    LongSeconds,
    PerLane,
    Port,
    Seconds,
    http_url,
    parse_json,
    url_list,
)

CREDENTIAL_CHARS_MIN = 16
PAGE_SOURCE_BYTES_MAX = 1024 * 1024


class RenderWorker(BaseModel):
    """One entry of `RENDER_WORKERS_CONFIG` (R6)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str = Field(min_length=1, max_length=100)
    base_url: str


class _HoldsCredential(ProcessSettings):
    """The secret that Backend and Renderer share (R6, K7): given as it is, or as the name of a file."""

    render_service_credential: SecretStr | None = None
    render_service_credential_file: Path | None = None

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        given = [self.render_service_credential, self.render_service_credential_file]
        if given.count(None) == 2:
            yield "RENDER_SERVICE_CREDENTIAL: set it, or RENDER_SERVICE_CREDENTIAL_FILE, on both sides"
        elif given.count(None) == 0:
            yield "RENDER_SERVICE_CREDENTIAL: set it or RENDER_SERVICE_CREDENTIAL_FILE, not both"
        else:
            try:
                length = len(self.credential())
            except ValueError as error:
                yield str(error)
                return
            if length < CREDENTIAL_CHARS_MIN:
                yield (
                    f"RENDER_SERVICE_CREDENTIAL: needs at least {CREDENTIAL_CHARS_MIN} characters, "
                    "for example from `openssl rand -hex 32`"
                )

    def credential(self) -> str:
        """The secret itself. Raises ValueError, without the content, when its file cannot be read."""
        if self.render_service_credential is not None:
            return self.render_service_credential.get_secret_value()
        assert self.render_service_credential_file is not None
        try:
            return self.render_service_credential_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"RENDER_SERVICE_CREDENTIAL_FILE: cannot be read ({type(error).__name__})") from error


class BackendSettings(_HoldsCredential, KeySettings, AgentSettings):
    """`pagegate serve`."""

    stand_ins: ClassVar[Mapping[str, Any]] = {
        "runtime_base_urls": ["http://127.0.0.1"],
        "render_workers_config": [RenderWorker(id="r", base_url="http://127.0.0.1")],
    }

    backend_host: str = "127.0.0.1"
    backend_port: Port = 8080
    backend_internal_url: str | None = None  # how the Runtime and the Renderer reach this Backend
    backend_multi_instance: bool = False
    web_concurrency: Count = 1
    uvicorn_workers: Count = 1

    operator_token_file: Path = Path("data/operator_token")

    database_url: str
    redis_url: str
    asset_storage_driver: Literal["local", "s3"] = "local"
    asset_storage_local_dir: Path = Path("data/objects")
    object_storage_shared_volume: bool = False
    s3_bucket: str = ""
    s3_endpoint_url: str | None = None
    s3_region: str = "us-east-1"
    s3_access_key_id: str = ""
    s3_secret_access_key: SecretStr | None = None
    s3_prefix: str = ""
    s3_force_path_style: bool = True
    runtime_base_urls: Annotated[list[str], NoDecode]
    runtime_preview_public_url: str | None = None  # how a person's browser reaches a Runtime
    render_workers_config: Annotated[list[RenderWorker], NoDecode]
    render_profile_digest: str = ""

    ai_page_mutation_concurrency: Count
    ai_page_mutation_max_active_jobs: Count
    ai_page_mutation_max_batch_size: Count = 16
    component_mutation_concurrency: Count
    component_mutation_max_active_jobs: Count
    page_screenshot_concurrency: Count = 1
    page_screenshot_max_active_jobs: Count = 256
    page_screenshot_max_group_size: Count = 64
    asset_ratio_backfill_concurrency: Count = 1
    asset_ratio_backfill_max_active_jobs: Count = 64
    asset_ratio_backfill_scan_seconds: Seconds = 60
    project_build_artifact_max_bytes: Bytes = 512 * 1024 * 1024
    project_build_total_deadline_seconds: Seconds = 3600
    durable_job_lease_seconds: Seconds = 60
    durable_job_heartbeat_seconds: Seconds = 15
    durable_job_drain_grace_seconds: Seconds = 20
    durable_job_retention_succeeded_seconds: LongSeconds = 7 * DAY_S
    durable_job_retention_cancelled_seconds: LongSeconds = 7 * DAY_S
    durable_job_retention_failed_seconds: LongSeconds = 30 * DAY_S
    durable_job_prune_interval_seconds: Seconds = 300
    page_source_max_bytes: Bytes = PAGE_SOURCE_BYTES_MAX

    runtime_check_max_inflight: Count
    runtime_light_max_inflight: Count
    runtime_diagnostics_request_timeout_seconds: Seconds = 180
    runtime_state_memory_max_bytes: Bytes = 256 * 1024 * 1024
    runtime_artifact_sweep_interval_seconds: Seconds = 30

    render_global_concurrency: Count
    render_workspace_concurrency: Count
    render_queue_size: Count = 64
    render_workspace_queue_size: Count = 32
    render_request_timeout_seconds: Seconds = 120
    render_max_attempts: Count = 3

    @field_validator("database_url")
    @classmethod
    def _database_is_known(cls, value: str) -> str:
        if not value.startswith(("sqlite+aiosqlite:///", "postgresql+asyncpg://")):
            raise ValueError("must begin with sqlite+aiosqlite:/// or postgresql+asyncpg://")
        return value

    @field_validator("redis_url")
    @classmethod
    def _state_is_known(cls, value: str) -> str:
        if value != "memory://lite" and not value.startswith(("redis://", "rediss://")):
            raise ValueError("must be memory://lite, or begin with redis:// or rediss://")
        return value

    @field_validator("runtime_base_urls", mode="before")
    @classmethod
    def _urls_from_text(cls, value: Any) -> Any:
        return url_list(value)

    @field_validator("runtime_base_urls")
    @classmethod
    def _runtimes_are_urls(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("names no Runtime")
        return [http_url(url) for url in value]

    @field_validator("render_workers_config", mode="before")
    @classmethod
    def _workers_from_text(cls, value: Any) -> Any:
        return parse_json(value) if isinstance(value, str) else value

    @field_validator("render_workers_config")
    @classmethod
    def _workers_are_distinct(cls, value: list[RenderWorker]) -> list[RenderWorker]:
        if not value:
            raise ValueError("names no Renderer")
        if len({worker.id for worker in value}) < len(value):
            raise ValueError("names one id twice")
        return [RenderWorker(id=worker.id, base_url=http_url(worker.base_url)) for worker in value]

    @field_validator("backend_internal_url", "s3_endpoint_url", "runtime_preview_public_url")
    @classmethod
    def _internal_is_url(cls, value: str | None) -> str | None:
        return None if value is None else http_url(value)

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if replicas.several(self):
            yield from replicas.refusals(self)
        yield from self.agent_contradictions(current_key_too=not replicas.several(self))
        if self.asset_storage_driver == "s3":
            if not self.s3_bucket:
                yield "S3_BUCKET: must be set, because ASSET_STORAGE_DRIVER is s3"
            if bool(self.s3_access_key_id) != (self.s3_secret_access_key is not None):
                yield "S3_ACCESS_KEY_ID: set it together with S3_SECRET_ACCESS_KEY, or neither"
        if self.durable_job_heartbeat_seconds * 2 > self.durable_job_lease_seconds:
            yield "DURABLE_JOB_HEARTBEAT_SECONDS: must be at most half of DURABLE_JOB_LEASE_SECONDS"


class RuntimeSettings(ProcessSettings):
    """`pagegate runtime`."""

    runtime_host: str = "127.0.0.1"
    runtime_port: Port = 8081
    runtime_public_url: str | None = None  # how the Renderer reaches this Runtime's outputs
    runtime_backend_base_urls: Annotated[list[str], NoDecode] = Field(
        default_factory=lambda: ["http://127.0.0.1:8080"]  # it fetches from no other
    )
    runtime_preview_jwks_url: str | None = None  # the keys of preview tokens; else the first Backend's
    runtime_node: Path | None = None  # the Node to use; else the environment's own or the system's
    runtime_vite_task_concurrency: Annotated[PerLane, NoDecode]
    runtime_vite_task_queue_size: Annotated[PerLane, NoDecode] = PerLane(check=16, build=16, light=16)
    runtime_vite_task_queue_wait_timeout_ms: Annotated[PerLane, NoDecode] = PerLane(
        check=45_000, build=45_000, light=45_000
    )
    runtime_diagnostics_worker_max_tasks: Count = 25
    runtime_diagnostics_worker_reuse_enabled: bool = True
    runtime_diagnostics_worker_idle_seconds: Annotated[float, Field(ge=0, le=7 * DAY_S)] = 0  # 0 keeps an idle worker
    runtime_build_worker_max_old_space_mb: Annotated[int, Field(ge=256, le=65_536)]

    @field_validator("runtime_backend_base_urls", mode="before")
    @classmethod
    def _urls_from_text(cls, value: Any) -> Any:
        return url_list(value)

    @field_validator("runtime_backend_base_urls")
    @classmethod
    def _backends_are_urls(cls, value: list[str]) -> list[str]:
        return [http_url(url) for url in value]

    @field_validator("runtime_public_url", "runtime_preview_jwks_url")
    @classmethod
    def _public_is_url(cls, value: str | None) -> str | None:
        return None if value is None else http_url(value)


class BrowserSettings(ProcessSettings):
    """What decides about the browser, with a server or without."""

    renderer_chromium: Path | None = None  # the headless shell to use; else where Debian puts it
    render_cleanup_grace_seconds: Seconds = 2


class RendererSettings(BrowserSettings, _HoldsCredential):
    """`pagegate renderer`."""

    renderer_host: str = "127.0.0.1"
    renderer_port: Port = 8082
    render_worker_id: str = Field(default="renderer-1", min_length=1, max_length=100)
    render_runtime_navigation_base_url: str = "http://127.0.0.1:8081/"
    render_runtime_asset_base_url: str = "http://127.0.0.1:8081/"
    render_platform_asset_base_url: str = "http://127.0.0.1:8080/"
    render_result_ttl_seconds: Seconds = 300

    @field_validator(
        "render_runtime_navigation_base_url", "render_runtime_asset_base_url", "render_platform_asset_base_url"
    )
    @classmethod
    def _bases_are_urls(cls, value: str) -> str:
        return http_url(value) + "/"


PROCESSES: tuple[type[ProcessSettings], ...] = (BackendSettings, RuntimeSettings, RendererSettings)


def setting_names() -> list[str]:
    """Every setting of every process, as environment variables."""
    return sorted({name.upper() for kind in PROCESSES for name in kind.model_fields})


def misspelt(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Warnings about variables that are nearly a setting's name: they would silently have no effect."""
    known = setting_names()
    return [
        f"{name} is no setting; did you mean {close[0]}?"
        for name in sorted(environment)
        if name not in known and "_" in name and (close := difflib.get_close_matches(name, known, n=1, cutoff=0.9))
    ]
