"""Schedules of builds that a seed would seldom meet, played on purpose (B1-B3). `stories.py` tells them.

A project with one good page, a Backend's door on one wire, and a Runtime that is played by hand.
"""

import asyncio
import io
import zipfile
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import fields
from typing import Any, cast

from sqlalchemy import update

from pagegate.actors.jobs import project_build
from pagegate.actors.jobs.build_snapshot import fix_project
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.runtime.build_contract import OFFER_SUBJECT, BuildOffer
from pagegate.storage import builds, pages, projects, schema, users, workspaces
from pagegate.storage.builds import Artifact, BuildOverdue
from pagegate.storage.lease import Lease, LeaseLost
from pagegate.storage.objects import Objects
from pagegate.storage.pages import NewVersion
from pagegate.storage.runtime_state import MemoryState
from tests.simulation.builders import Builder, contents_of
from tests.simulation.database import Server, Wire
from tests.simulation.edges import Surroundings
from tests.simulation.moves import Violation
from tests.simulation.network import Answer, Door, PlayedTickets
from tests.simulation.sources import mark_of, sha256, source_of
from tests.simulation.virtual_loop import Life, VirtualLoop

_TTL_MS = 10_000
_AT = "sim://a/1"
_ERROR = {"code": "PROJECT_BUILD_SOURCE_ERROR", "message": "", "hint": ""}


class BuildScene:
    """See the module. `wire` is the Backend's."""

    def __init__(self, loop: VirtualLoop, server: Server, wire: Wire) -> None:
        self.loop, self.server, self.wire = loop, server, wire
        self.around = Surroundings(loop, lambda *_, **__: None)
        self.around.broken = self._note
        self.objects = cast(Objects, self.around.objects)
        self.said: list[str] = []
        self.place: dict[str, int] = {}

    async def set_up(self) -> None:
        async with self.wire.write() as tx:
            user = await users.create_user(tx, "ada", is_admin=True)
            workspace = await workspaces.create_workspace(tx, "w", user)
            project = await projects.create_project(tx, workspace, "p", canvas_width_px=1280, canvas_height_px=720)
            version = NewVersion(source_of("good", 1), "Home", "", {}, "passed", None, None, None, user)
            await pages.insert_page_with_first_version(tx, project, code="home", framework="vue", version=version)
        self.place = {"workspace_id": workspace, "project_id": project, "user_id": user}
        limits = ApiLimits(build_artifact_bytes_max=10_000, job_lease_s=_TTL_MS / 1000, job_heartbeat_s=2.5)
        tickets = PlayedTickets(self.server.clock)
        known = {"db": self.wire.database, "objects": self.objects, "state": MemoryState(4096), "limits": limits}
        needed = {field.name: None for field in fields(BackendParts) if field.default is field.default_factory}
        parts = BackendParts(**cast(Any, needed | known | {"tickets": tickets}))
        self.tickets = tickets
        self.around.network.doors[_AT] = Door(Life(self.loop, "a1"), parts)

    async def order(self, deadline_ms: int = 60_000) -> int:
        async with self.wire.write() as tx:
            project = await projects.find_project(tx, self.place["project_id"])
            assert project is not None
            fixed = await fix_project(tx, project, None)
            assert fixed is not None
            return await builds.submit_build(
                tx, **self.place, fixed=fixed, routes="hash", deadline_ms=deadline_ms, active_jobs_max=9
            )

    async def claim(self) -> Lease:
        async with self.wire.write() as tx:
            claimed = await builds.claim_build(tx, "r1", _TTL_MS, "played")
        if claimed is None:
            raise Violation("nobody could claim a build that waits")
        return claimed[0].lease

    async def state_of(self, job_id: int) -> tuple[str, str | None]:
        async with self.wire.read() as tx:
            row = await builds.find_build(tx, job_id)
        assert row is not None
        return row.status, row.error_code

    async def upload(self, lease: Lease) -> Answer:
        """The site, as its Runtime sends it."""
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name, content in contents_of([("home", mark_of(source_of("good", 1)))]).items():
                archive.writestr(zipfile.ZipInfo(name), content)

        async def body() -> Any:
            yield made.getvalue()

        token = self.tickets.issue(f"build:{lease.id}:{lease.fence}")
        headers = {"Authorization": f"Bearer {token}", "Content-Length": str(len(made.getvalue()))}
        url = f"{_AT}/internal/runtime/build-jobs/{lease.id}/{lease.fence}/artifact"
        async with self.around.network.session().put(url, data=body(), headers=headers, timeout=_Patient()) as answer:
            return cast(Answer, answer)

    def kept(self) -> list[str]:
        """Objects of builds."""
        return sorted(key for key in self.around.objects.kept if key.startswith("builds/"))

    async def refused(self, what: str, statement: Callable[[Any], Awaitable[object]]) -> None:
        with suppress(LeaseLost, BuildOverdue):
            async with self.wire.write() as tx:
                await statement(tx)
            raise Violation(f"{what}, and was believed")

    async def a_while(self, at_least_s: float = 0.0) -> None:
        await asyncio.sleep(at_least_s + self.loop.chance.uniform(0.01, 2))

    def _note(self, said: str) -> None:
        self.said.append(said)


class _Patient:
    total, sock_read = None, 600.0


def _artifact(key: str = "builds/1/1/u/site.zip") -> Artifact:
    return Artifact(key, sha256(b""), 1, {"index.html": (sha256(b"x"), 1)})


async def late_words_about_a_build(scene: BuildScene) -> None:
    """A Runtime slept past its lease: nothing that it says is believed, whether its build was ended or not yet."""
    await scene.order()
    lost = await scene.claim()
    await scene.a_while(_TTL_MS / 1000)
    words: dict[str, Callable[[Any], Awaitable[object]]] = {
        "renewed": lambda tx: builds.renew_build(tx, lost, _TTL_MS),
        "failed": lambda tx: builds.fail_build(tx, lost, _ERROR, [], cancelled=False),
        "promoted": lambda tx: builds.promote(tx, lost, _artifact()),
        "ended as overdue": lambda tx: builds.end_overdue(tx, lost),
    }
    for word, statement in words.items():
        await scene.refused(f"a Runtime that had lost its build {word}", statement)
    async with scene.wire.write() as tx:
        await builds.interrupt_expired(tx)
    for word, statement in words.items():
        await scene.refused(f"a Runtime whose build was interrupted {word}", statement)


async def build_over_its_time(scene: BuildScene) -> None:
    """It is renewed to its deadline and not beyond; and one that nobody took by then is no longer to be had."""
    await scene.order(deadline_ms=4_000)
    lease = await scene.claim()
    late = await scene.order(deadline_ms=4_000)
    await scene.a_while(5)
    await scene.refused("a build over its deadline was renewed", lambda tx: builds.renew_build(tx, lease, _TTL_MS))
    async with scene.wire.write() as tx:
        if await builds.claim_build(tx, "r2", _TTL_MS, "played") is not None:
            raise Violation("a build was claimed after its deadline")
    if await scene.state_of(late) != ("failed", builds.NOBODY["code"]):
        raise Violation(f"a build that nobody took is {await scene.state_of(late)}")


async def unclaimed_among_others(scene: BuildScene) -> None:
    """One that nobody took before its deadline ends; one behind it that has time goes on."""
    table = schema.project_build_jobs
    soon, later = await scene.order(deadline_ms=3_000), await scene.order()
    async with scene.wire.write() as tx:  # the one with time comes first
        await tx.execute(update(table).where(table.c.id == later).values(priority=-1))
    await scene.a_while(4)
    for _ in range(2):
        async with scene.wire.write() as tx:
            await builds.end_unclaimed(tx)
    if (await scene.state_of(later))[0] != "pending":
        raise Violation(f"a build with time left is {await scene.state_of(later)}")
    if (await scene.state_of(soon))[0] == "failed":
        return
    async with scene.wire.write() as tx:
        await tx.execute(update(table).where(table.c.id == later).values(priority=1))
        await builds.end_unclaimed(tx)
    if (await scene.state_of(soon))[0] != "failed":
        raise Violation("a build that nobody took does not end")


async def release_that_lands_late(scene: BuildScene) -> None:
    """A promotion's answer is lost while its commit is still under way: the release comes, with all of its files."""
    job_id = await scene.order()
    lease = await scene.claim()
    scene.wire.lands_late = 1.0
    answer = await scene.upload(lease)
    scene.wire.heal()
    if answer.status != 503:
        raise Violation(f"a Backend that does not know answers {answer}")
    await scene.a_while(3)
    await _released(scene, job_id)


async def release_nobody_heard_of(scene: BuildScene) -> None:
    """The promotion is made, and the upload is given up all the same: it asks, and leaves what was released."""
    job_id = await scene.order()
    lease = await scene.claim()
    await scene.upload(lease)
    (zipped,) = [key for key in scene.kept() if key.endswith(".zip")]
    await project_build.forget_upload(scene.wire.database, scene.objects, zipped.rpartition("/")[0] + "/", zipped)
    await _released(scene, job_id)


async def leftovers_of_killed_backends(scene: BuildScene) -> None:
    """Backends died in uploads, of a build that failed and of one with a release: one sweep, and only that is left."""
    good, bad = await scene.order(), await scene.order()
    await scene.upload(await scene.claim())
    lost = await scene.claim()
    for job_id in (good, bad):
        await scene.objects.put(f"{builds.build_prefix(scene.place['project_id'], job_id)}dead/site.zip", b"half")
    async with scene.wire.write() as tx:
        await builds.fail_build(tx, lost, _ERROR, [], cancelled=False)
    await scene.a_while(1)
    await project_build.sweep_builds(scene.wire.database, scene.objects, age_ms=0)
    if left := [key for key in scene.kept() if "/dead/" in key]:
        raise Violation(f"after a sweep there is still {left}")
    await _released(scene, good)


async def faults_of_a_runtime(scene: BuildScene) -> None:
    """A Runtime that is full, and one whose worker dies, say nothing about the sources (R9)."""
    for fault in ("refused", "lost"):
        job_id = await scene.order()
        builder = Builder(scene.around, f"r{fault}-", 1)
        scene.around.weather.runtime_refuses = 1.0
        await builder.puller._pull(_offer(scene))
        status, code = await scene.state_of(job_id)
        if (status, code) != ("failed", "PROJECT_BUILD_RUNTIME_UNAVAILABLE"):
            raise Violation(f"a Runtime's own fault is told as {status}, {code}")


def _offer(scene: BuildScene) -> BuildOffer:
    return BuildOffer(backend_url=_AT, ticket=scene.tickets.issue(OFFER_SUBJECT))


async def _released(scene: BuildScene, job_id: int) -> None:
    """The build has its release, and all files of that are there."""
    if (await scene.state_of(job_id))[0] != "succeeded" or scene.said:
        raise Violation(f"the build is {await scene.state_of(job_id)}; {scene.said}")
    async with scene.wire.read() as tx:
        release = await builds.get_release(tx, scene.place["project_id"], 1)
    wanted = {release.object_key, *[builds.file_key(release.object_key, sha) for sha, _ in release.files.values()]}
    if missing := wanted - set(scene.kept()):
        raise Violation(f"the release has no {sorted(missing)}")


BUILD_STORIES: dict[str, Callable[[BuildScene], Coroutine[Any, Any, None]]] = {
    "late words about a build": late_words_about_a_build,
    "build over its time": build_over_its_time,
    "unclaimed among others": unclaimed_among_others,
    "release that lands late": release_that_lands_late,
    "release nobody heard of": release_nobody_heard_of,
    "leftovers of killed backends": leftovers_of_killed_backends,
    "faults of a runtime": faults_of_a_runtime,
}
