"""The Runtime as a process: its options from the settings, and its door."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pagegate.actors.systems.runtime import LaneSize, RuntimeOptions, RuntimeSystem
from pagegate.deploy.process import Kind, ProcessRefused, Serving
from pagegate.deploy.settings import RuntimeSettings
from pagegate.http.runtime import runtime_app
from pagegate.runtime.contract import Lane
from pagegate.runtime.node_worker import NodeMissing


def runtime_options(settings: RuntimeSettings) -> RuntimeOptions:
    """The Runtime's slice of the settings."""
    return RuntimeOptions(
        public_base_url=settings.runtime_public_url or f"http://127.0.0.1:{settings.runtime_port}",
        backend_base_urls=tuple(settings.runtime_backend_base_urls),
        jwks_urls=_jwks_urls(settings),
        check=_lane_size(settings, "check"),
        build=_lane_size(settings, "build"),
        light=_lane_size(settings, "light"),
        worker_tasks_max=settings.runtime_diagnostics_worker_max_tasks,
        worker_reuse=settings.runtime_diagnostics_worker_reuse_enabled,
        worker_idle_s=settings.runtime_diagnostics_worker_idle_seconds or None,
        build_heap_mb=settings.runtime_build_worker_max_old_space_mb,
        node=settings.runtime_node,
    )


def _lane_size(settings: RuntimeSettings, lane: Lane) -> LaneSize:
    return LaneSize(
        slots=getattr(settings.runtime_vite_task_concurrency, lane),
        queue_size_max=getattr(settings.runtime_vite_task_queue_size, lane),
        wait_timeout_s=getattr(settings.runtime_vite_task_queue_wait_timeout_ms, lane) / 1000,
    )


def _jwks_urls(settings: RuntimeSettings) -> tuple[str, ...]:
    """The address that was set, or those of all Backends: they publish the same keys."""
    if settings.runtime_preview_jwks_url is not None:
        return (settings.runtime_preview_jwks_url,)
    return tuple(f"{url}/.well-known/jwks.json" for url in settings.runtime_backend_base_urls)


@asynccontextmanager
async def serving(settings: RuntimeSettings) -> AsyncIterator[Serving]:
    """Raises `ProcessRefused` when this machine cannot compile."""
    system = RuntimeSystem(runtime_options(settings))
    try:
        try:
            await system.start()
        except NodeMissing as error:
            raise ProcessRefused(str(error)) from error
        yield Serving(runtime_app(system), settings.runtime_host, settings.runtime_port)
    finally:
        await system.stop()


RUNTIME = Kind("runtime", RuntimeSettings, serving)
