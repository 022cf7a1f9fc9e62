"""The Backend as a process: its options from the settings, its door, and the order of its end (Q10, S6).

At the stop the streams end first, then the queue drains while the door is still open, because compiles in hand read
their sources through it; then the door closes and the system stops.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pagegate.actors.agents.limits import AgentLimits, RunLimits
from pagegate.actors.jobs.asset_ratio_scan import AssetsChanged, ScanLimits
from pagegate.actors.jobs.candidate_compile import CheckLimits
from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.actors.rendering.coordinator import RenderLimits
from pagegate.actors.systems.agent_options import AgentOptions
from pagegate.actors.systems.backend import BackendOptions, BackendSystem, RenderWorkerOptions
from pagegate.deploy import event_loop, replicas
from pagegate.deploy.agent_settings import listed
from pagegate.deploy.keeper import EXIT_BUSY
from pagegate.deploy.operator_token import ensure_operator
from pagegate.deploy.process import Kind, ProcessRefused, Serving
from pagegate.deploy.settings import BackendSettings
from pagegate.http.backend.app import make_app
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.jobs import COMPONENT_MUTATION, IMAGE_GENERATION
from pagegate.storage.migrations import SchemaTooNew
from pagegate.storage.objects import S3Options
from pagegate.storage.pruning import Retention
from pagegate.storage.runtime_state import StateUnavailable
from pagegate.storage.single_process import SingleProcessLockHeld


def backend_options(settings: BackendSettings) -> BackendOptions:
    """The Backend's slice of the settings."""
    return BackendOptions(
        database_url=settings.database_url,
        objects_dir=settings.asset_storage_local_dir,
        s3=_s3(settings),
        preview_url=settings.runtime_preview_public_url or settings.runtime_base_urls[0],
        keys=settings.key_sources(may_generate=_may_generate_key(settings)),
        internal_url=settings.backend_internal_url or f"http://127.0.0.1:{settings.backend_port}",
        runtime_urls=settings.runtime_base_urls,
        render_workers=[RenderWorkerOptions(worker.id, worker.base_url) for worker in settings.render_workers_config],
        render_credential=settings.credential(),
        render_profile_digest=settings.render_profile_digest,
        mutation_concurrency=settings.ai_page_mutation_concurrency,
        screenshot_concurrency=settings.page_screenshot_concurrency,
        screenshot_active_jobs_max=settings.page_screenshot_max_active_jobs,
        ratio_concurrency=settings.asset_ratio_backfill_concurrency,
        ratio_scan=ScanLimits(
            active_jobs_max=settings.asset_ratio_backfill_max_active_jobs,
            period_s=settings.asset_ratio_backfill_scan_seconds,
        ),
        component_concurrency=settings.component_mutation_concurrency,
        image_concurrency=settings.image_generation_concurrency,
        image_timeout_s=settings.image_generation_timeout_seconds,
        lease=LeaseTimes(settings.durable_job_lease_seconds, settings.durable_job_heartbeat_seconds),
        run_limits=RunLimits(
            active_jobs_max=settings.ai_page_mutation_max_active_jobs,
            batch_size_max=settings.ai_page_mutation_max_batch_size,
            source_bytes_max=settings.page_source_max_bytes,
            active_jobs_max_of={
                COMPONENT_MUTATION: settings.component_mutation_max_active_jobs,
                IMAGE_GENERATION: settings.image_generation_max_active_jobs,
            },
        ),
        agents=_agents(settings),
        check_limits=CheckLimits(
            compile_request_timeout_s=settings.runtime_diagnostics_request_timeout_seconds,
            render_queue_max=settings.render_queue_size,
            render_workspace_queue_max=settings.render_workspace_queue_size,
        ),
        render_limits=RenderLimits(
            global_max=settings.render_global_concurrency,
            workspace_max=settings.render_workspace_concurrency,
            attempts_max=settings.render_max_attempts,
            budget_s=settings.render_request_timeout_seconds,
        ),
        check_inflight_max=settings.runtime_check_max_inflight,
        light_inflight_max=settings.runtime_light_max_inflight,
        state_url=settings.redis_url,
        state_bytes_max=settings.runtime_state_memory_max_bytes,
        state_sweep_s=settings.runtime_artifact_sweep_interval_seconds,
        retention=Retention(
            succeeded_ms=int(settings.durable_job_retention_succeeded_seconds * 1000),
            cancelled_ms=int(settings.durable_job_retention_cancelled_seconds * 1000),
            failed_ms=int(settings.durable_job_retention_failed_seconds * 1000),
        ),
        prune_s=settings.durable_job_prune_interval_seconds,
        drain_grace_s=settings.durable_job_drain_grace_seconds,
        webhook_allowed_urls=listed(settings.webhook_allowed_urls),
    )


def _agents(settings: BackendSettings) -> AgentOptions:
    """Without a key in the environment, a single instance keeps one in a file."""
    return AgentOptions(
        limits=AgentLimits(
            concurrency=settings.ai_run_concurrency,
            requests_max=settings.ai_run_request_limit,
            repair_budget=settings.ai_run_repair_budget,
            resume_lease_s=settings.durable_job_lease_seconds,
            idle_timeout_s=settings.ai_run_idle_timeout_seconds,
        ),
        model_idle_s=settings.ai_model_stream_idle_timeout_seconds,
        tools_idle_s=settings.ai_tool_stream_idle_timeout_seconds,
        base_urls=listed(settings.ai_model_base_urls),
        secret_keys=listed(settings.ai_secret_encryption_key),
        secret_previous_keys=listed(settings.ai_secret_encryption_previous_keys),
        secret_key_file=None if replicas.several(settings) else settings.ai_secret_encryption_key_file,
    )


def _may_generate_key(settings: BackendSettings) -> bool:
    """For a single instance, unless it was forbidden (K1)."""
    allowed = settings.runtime_rsa_allow_auto_generate
    return not replicas.several(settings) if allowed is None else allowed


def _s3(settings: BackendSettings) -> S3Options | None:
    if settings.asset_storage_driver != "s3":
        return None
    return S3Options(
        bucket=settings.s3_bucket,
        endpoint_url=settings.s3_endpoint_url or "",
        region=settings.s3_region,
        access_key_id=settings.s3_access_key_id,
        secret_access_key=settings.s3_secret_access_key.get_secret_value() if settings.s3_secret_access_key else "",
        prefix=settings.s3_prefix,
        virtual_hosted_style=not settings.s3_force_path_style,
    )


@asynccontextmanager
async def serving(settings: BackendSettings) -> AsyncIterator[Serving]:
    """Raises `ProcessRefused` when the database is locked or away, or the signing key cannot be used."""
    options = backend_options(settings)
    system = BackendSystem(options)
    try:
        await system.__aenter__()
    except (SingleProcessLockHeld, DatabaseUnavailable) as error:
        raise ProcessRefused(str(error), EXIT_BUSY) from error
    except StateUnavailable as error:
        raise ProcessRefused(f"REDIS_URL: {error}", EXIT_BUSY) from error
    except (SchemaTooNew, ValueError) as error:
        raise ProcessRefused(str(error)) from error
    try:
        await ensure_operator(system.db, settings.operator_token_file)
        parts = BackendParts(
            db=system.db,
            objects=system.objects,
            artifacts=system.artifacts,
            agent_runs=system.agent_runs,
            job_control=system.job_control,
            admission=system.admission,
            tickets=system.tickets,
            models=system.agents.models,
            webhook_addresses=system.webhook_addresses,
            feed=system.feed,
            screenshot_feed=system.screenshot_feed,
            wake_screenshots=lambda: system.screenshot_queue.tell(JobsSubmitted()),
            wake_builds=lambda: system.builds.tell(JobsSubmitted()),
            build_numbers=system.metrics.builds,
            wake_ratios=lambda: system.ratio_scan.tell(AssetsChanged()),
            sites_url=options.preview_url,
            limits=ApiLimits(
                batch_size_max=settings.ai_page_mutation_max_batch_size,
                source_bytes_max=settings.page_source_max_bytes,
                screenshot_active_jobs_max=settings.page_screenshot_max_active_jobs,
                screenshot_group_max=settings.page_screenshot_max_group_size,
                build_artifact_bytes_max=settings.project_build_artifact_max_bytes,
                build_deadline_s=settings.project_build_total_deadline_seconds,
                job_lease_s=settings.durable_job_lease_seconds,
                job_heartbeat_s=settings.durable_job_heartbeat_seconds,
            ),
            registry=system.registry,
            render_workers=len(options.render_workers),
            state=system.state,
            previews=system.previews,
            refresh_numbers=system.refresh_numbers,
            unready=system.pulse.troubles,
        )

        async def drain() -> None:
            system.feed.close()
            system.screenshot_feed.close()
            await system.agents.stop_executing()
            await system.drain()

        yield Serving(make_app(parts), settings.backend_host, settings.backend_port, drain)
    finally:
        await system.__aexit__()


BACKEND = Kind("backend", BackendSettings, serving, event_loop.run)
