"""A Runtime's process that builds: the real puller and the real client, over a compile that is played (B1, B3, V5).

What is built is what a Backend gave: the zip names each page with the mark of its source, so whoever looks at a release
knows which sources it was made of. A source that is broken is an error of the source; whatever the weather does is not.
"""

import asyncio
import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest import mock

from pagegate.actors.compiling import build_puller
from pagegate.actors.compiling.build_puller import Attempt, BuildPuller
from pagegate.actors.compiling.site_build import Built, SiteBuildTask
from pagegate.actors.jobs import project_build
from pagegate.http.backend import build_uploads
from pagegate.runtime import build_client
from pagegate.runtime.build_client import BuildAttempt, claim_build
from pagegate.runtime.build_contract import BuildClaim, BuildClaimed, BuildOffer, BuildSnapshot
from pagegate.runtime.contract import CompileTimings, LocatedError
from pagegate.runtime.refusals import BuildTimedOut, ViteQueueFull, WorkerLost
from pagegate.runtime.site import Packed
from tests.simulation.sources import mark_of, nature_of
from tests.simulation.virtual_loop import Life

if TYPE_CHECKING:
    from tests.simulation.edges import Surroundings

COMPILE_MAX_S = 20.0
SWEEP_AGE_S = 45  # longer than anybody sleeps


class Builder:
    """One life of a Runtime under its address."""

    def __init__(self, around: "Surroundings", name: str, life: int) -> None:
        self.name, self.url = name, f"sim://{name}"
        self.life = Life(around.loop, f"{name}{life}")
        self._around, self._loop = around, around.loop
        self._session = around.network.session()
        self.puller = BuildPuller(self._claim, self._build, slots=1, runtime_build=self.life.name)
        self.puller._worker_id = self.life.name

    @property
    def idle(self) -> bool:
        return not self.puller._under_way

    def start(self) -> None:
        self._around.network.builders[self.url] = self

    def gone(self) -> None:
        """It was killed: whoever talks with it hears that some time."""
        if self._around.network.builders.get(self.url) is self:
            del self._around.network.builders[self.url]
        self._around.network.lost(self.life)

    async def hear(self, offer: BuildOffer) -> bool:
        """An offer, answered by this process as soon as it runs."""

        async def offered() -> bool:
            return self.puller.offered(offer)

        return await self.life.begin(offered())

    async def close(self) -> None:
        """The orderly end."""
        await self.puller.close()
        self.gone()

    async def _claim(self, offer: BuildOffer, wanted: BuildClaim) -> tuple[BuildClaimed, Attempt] | None:
        claimed = await claim_build(self._session, offer, wanted)
        if claimed is None:
            return None
        return claimed, BuildAttempt(self._session, offer.backend_url, claimed, pauses_s=(0.5, 2.0))

    async def _build(self, task: SiteBuildTask, deadline_s: float) -> Built:
        around, chance = self._around, self._loop.chance
        if around.strikes(around.weather.runtime_refuses):
            raise chance.choice([ViteQueueFull("the lane is full"), WorkerLost("the worker is gone")])
        hangs = around.strikes(around.weather.runtime_hangs)
        try:
            async with asyncio.timeout(min(deadline_s, COMPILE_MAX_S)):
                await task.fetch()
                task.tell("compiling")
                await asyncio.sleep(chance.choice([30.0, 12.0]) if hangs else chance.uniform(0.1, 3))
        except TimeoutError:
            raise BuildTimedOut("the build took too long") from None
        snapshot = task._snapshot
        assert snapshot is not None
        if errors := _errors_of(snapshot):
            return Built(errors, None, len(snapshot.pages), CompileTimings())
        task.tell("packing")
        botches = around.strikes(around.weather.builder_botches)
        packed = _pack(snapshot, task.archive, botches=botches)
        return Built([], packed, len(snapshot.pages), CompileTimings())


def contents_of(pages: list[tuple[str, str]]) -> dict[str, bytes]:
    """The files of a site whose pages are (code, mark), in their order."""
    files = {f"pages/{code}.html": f"page {code} of {mark}".encode() for code, mark in pages}
    return {"index.html": json.dumps(pages).encode(), **files}


def _errors_of(snapshot: BuildSnapshot) -> list[LocatedError]:
    return [
        LocatedError(code="VUE_TEMPLATE_INVALID", message=mark_of(source), file=page.entry, line=1)
        for page in snapshot.pages
        if nature_of(source := snapshot.sources[page.modules[page.entry]]) == "broken"
    ]


def _pack(snapshot: BuildSnapshot, archive: Path, *, botches: bool) -> Packed:
    pages = [(page.code, mark_of(snapshot.sources[page.modules[page.entry]])) for page in snapshot.pages]
    files = contents_of(pages)
    if botches:
        files["../outside.html"] = b"a way out"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in files.items():
            opened.writestr(zipfile.ZipInfo(name), content)
    return Packed(archive.stat().st_size, len(files))


@contextmanager
def small_and_virtual() -> Iterator[None]:
    """For as long as a world is played: time counted by the loop's clock, and blocks so small that a site has many."""
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    with ExitStack() as patched:
        for place, name, instead in (
            (build_puller, "time", clock),
            (build_uploads, "time", clock),
            (build_client, "_CHUNK_BYTES", 150),
            (build_uploads, "_WRITE_BYTES", 300),
            (build_uploads, "_WHOLE_BYTES_MAX", 40),
            (project_build, "_SWEEP_PERIOD_S", 10.0),
            (project_build, "sweep_builds", partial(project_build.sweep_builds, age_ms=SWEEP_AGE_S * 1000)),
        ):
            patched.enter_context(mock.patch.object(place, name, instead))
        yield
