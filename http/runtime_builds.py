"""The Runtime's door for builds: a Backend says that there may be some, and this Runtime pulls (B1, V5).

Owns the puller and its HTTP session. The answer says nothing about a build: 202 when somebody looks, 429 when every
slot of the build lane has its work.
"""

from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from pagegate.actors.compiling.build_puller import Attempt, BuildPuller
from pagegate.actors.compiling.site_build import Built, SiteBuildTask
from pagegate.actors.systems.runtime import RuntimeSystem
from pagegate.runtime.allowed import may_fetch_from
from pagegate.runtime.build_client import BuildAttempt, claim_build
from pagegate.runtime.build_contract import BuildClaim, BuildClaimed, BuildOffer
from pagegate.runtime.refusals import BackendNotAllowed

_SYSTEM = web.AppKey("build_system", RuntimeSystem)
_PULLER = web.AppKey("build_puller", BuildPuller)
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # while a Backend restarts


def add_build_routes(app: web.Application, system: RuntimeSystem) -> None:
    """Add the door to the Runtime's application."""
    app[_SYSTEM] = system
    app.cleanup_ctx.append(_puller)
    app.add_routes([web.post("/builds/offers", _offered)])


async def _puller(app: web.Application) -> AsyncIterator[None]:
    system = app[_SYSTEM]
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def claim(offer: BuildOffer, wanted: BuildClaim) -> tuple[BuildClaimed, Attempt] | None:
            claimed = await claim_build(session, offer, wanted)
            return None if claimed is None else (claimed, BuildAttempt(session, offer.backend_url, claimed, _PAUSES_S))

        async def build(task: SiteBuildTask, deadline_s: float) -> Built:
            return await system.build(task, deadline_s=deadline_s)

        app[_PULLER] = BuildPuller(claim, build, slots=system.options.build.slots, runtime_build=system.runtime_build)
        yield
        await app[_PULLER].close()


async def _offered(request: web.Request) -> web.Response:
    offer = BuildOffer.model_validate_json(await request.read())
    if not may_fetch_from(offer.backend_url, request.app[_SYSTEM].options.backend_base_urls):
        raise BackendNotAllowed("this Runtime does not know the Backend of the offer")
    return web.Response(status=202 if request.app[_PULLER].offered(offer) else 429)
