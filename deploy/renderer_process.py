"""The Renderer as a process: its options from the settings, its door, and its profile in words (R6)."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pagegate.actors.systems.renderer import RendererOptions, RendererSystem, read_profile_here
from pagegate.deploy.keeper import EXIT_REFUSED
from pagegate.deploy.process import Kind, ProcessRefused, Serving
from pagegate.deploy.process_settings import SettingsError, load
from pagegate.deploy.settings import BrowserSettings, RendererSettings
from pagegate.http.renderer import renderer_app
from pagegate.renderer.isolation import NoBrowser
from pagegate.renderer.options import BrowserOptions


def browser_options(settings: BrowserSettings) -> BrowserOptions:
    """What decides about the browser, and with it about the render profile."""
    return BrowserOptions(
        chromium_path=settings.renderer_chromium, cleanup_grace_s=settings.render_cleanup_grace_seconds
    )


def renderer_options(settings: RendererSettings) -> RendererOptions:
    """The Renderer's slice of the settings."""
    return RendererOptions(
        worker_id=settings.render_worker_id,
        credential=settings.credential(),
        navigation_base_urls=(settings.render_runtime_navigation_base_url,),
        runtime_asset_base_urls=(settings.render_runtime_asset_base_url,),
        platform_asset_base_urls=(settings.render_platform_asset_base_url,),
        result_ttl_s=settings.render_result_ttl_seconds,
        browser=browser_options(settings),
    )


@asynccontextmanager
async def serving(settings: RendererSettings) -> AsyncIterator[Serving]:
    """Raises `ProcessRefused` when this machine cannot show a page."""
    system = RendererSystem(renderer_options(settings))
    try:
        try:
            await system.start()
        except NoBrowser as error:
            raise ProcessRefused(str(error)) from error
        yield Serving(renderer_app(system), settings.renderer_host, settings.renderer_port)
    finally:
        await system.stop()


def print_profile(env_file: Path | None) -> int:
    """The render profile of this machine as JSON, with the digest that `RENDER_PROFILE_DIGEST` takes."""
    try:
        settings = load(BrowserSettings, env_file)
        profile, digest = asyncio.run(read_profile_here(browser_options(settings)))
    except (SettingsError, NoBrowser) as error:
        sys.stderr.write(f"pagegate renderer: {error}\n")
        return EXIT_REFUSED
    sys.stdout.write(json.dumps({"digest": digest, "profile": profile}, indent=2, ensure_ascii=False) + "\n")
    return 0


RENDERER = Kind("renderer", RendererSettings, serving)
