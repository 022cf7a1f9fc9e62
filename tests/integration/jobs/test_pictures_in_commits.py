"""The picture of a check on its way into the commit: re-checked piece by piece, published or ordered (S3, S4, S5).

The checks are played, so that each thing a picture depends on can change at the worst moment; database and objects are
real.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.jobs.candidate import Candidate, canvas_text, context_of, snapshot_of
from pagegate.actors.jobs.page_check import Captured, Checked
from pagegate.actors.jobs.page_mutation import PageMutation
from pagegate.actors.jobs.page_picture import PagePictures
from pagegate.actors.jobs.page_screenshot import PageScreenshot
from pagegate.actors.jobs.screenshot_order import fix_screenshots
from pagegate.actors.jobs.validation_screenshot_publisher import ValidationScreenshotPublisher
from pagegate.actors.jobs.verdict import Stages, Verdict
from pagegate.actors.queues.kinds import End, JobKind, StartOver, TryLater
from pagegate.actors.rendering.collecting import collect_pictures
from pagegate.renderer.contract import Viewport
from pagegate.storage import assets, components, jobs, lease, pages, runs, schema, screenshots
from pagegate.storage.engine import Database, SystemClock
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from pagegate.storage.objects import ObjectMissing, Objects, StoredAsset
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.projects import find_project
from pagegate.storage.runs import CallSubmission, StepSubmission
from pagegate.storage.runtime_state import MemoryState
from pagegate.storage.screenshot_pictures import TemporaryPicture
from pagegate.storage.screenshots import PAGE_SCREENSHOT
from tests.world import TTL_MS, World

PNG = b"a picture"
PROFILE = "sha256:profile"
SOURCE = """<template><Tile/><img src='@assets/logo.svg'/></template>
<script setup>
import Tile from '@components/Tile.vue'
import Home from '@pages/home.vue'
</script>"""


@dataclass
class PlayedCheck:
    """In the place of compile and render: a picture of what it is given. `meanwhile` runs before it answers."""

    objects: Objects
    status: str = "passed"
    picture: bool = True
    meanwhile: Callable[[], Awaitable[None]] | None = None
    seen: list[Candidate] = field(default_factory=list)

    async def run(self, job: Any, candidate: Candidate, progress: Any) -> Checked:
        picture, context = await self._look(candidate, canvas_text(candidate.canvas))
        success = self.status in {"passed", "warning"}
        render: Any = self.status
        verdict = Verdict(
            status=render,
            success=success,
            stages=Stages(compile="passed", render=render),
            unavailable_code="RENDER_QUEUE_FULL" if self.status == "unavailable" else None,
        )
        return Checked(verdict, frozenset(snapshot_of(candidate).modules), context, picture)

    async def capture(self, job: Any, candidate: Candidate, viewport: Viewport) -> Captured:
        picture, context = await self._look(candidate, f"{viewport.width_px}x{viewport.height_px}")
        return Captured(context, picture, None if picture else "the page is stuck")

    async def _look(self, candidate: Candidate, viewport: str) -> tuple[TemporaryPicture | None, Any]:
        self.seen.append(candidate)
        context = context_of(candidate, snapshot_of(candidate), runtime_build="build", policy=f"{viewport} {PROFILE}")
        picture = None
        if self.picture:
            digest = hashlib.sha256(PNG).hexdigest()
            key = f"renders/{len(self.seen)}/{digest}.png"
            await self.objects.put(key, PNG)
            picture = TemporaryPicture(key, 1, 1, 1, digest, len(PNG), 10**14, 1280, 720, False)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return picture, context


@dataclass
class Gate:
    """A project with a component, an asset and a page; a check to be played; the two kinds of job over them."""

    world: World
    objects: Objects
    check: PlayedCheck
    mutation: PageMutation
    screenshot: PageScreenshot
    pictures: PagePictures
    woken: list[str]

    @property
    def db(self) -> Database:
        return self.world.db

    @property
    def project_id(self) -> int:
        return self.world.projects[0]

    async def submit(self, **arguments: Any) -> None:
        call = CallSubmission("call", "create_project_page", {"title": "Costs", "source": SOURCE, **arguments}, "costs")
        step = StepSubmission(
            workspace_id=self.world.workspaces[0],
            project_id=self.project_id,
            user_id=self.world.user_id,
            calls=[call],
            active_jobs_max=10,
            batch_size_max=10,
        )
        async with self.db.write() as tx:
            await runs.submit_step(tx, step)

    async def work(self, kind: JobKind) -> End | TryLater:
        """Claim one job of the kind and do it, as a worker would."""
        async with self.db.write() as tx:
            job = await jobs.claim_job(tx, kind.name, "worker", TTL_MS)
        assert job is not None
        return await self.do(kind, job)

    async def do(self, kind: JobKind, job: ClaimedJob) -> End | TryLater:
        for _ in range(3):
            try:
                settle = await kind.execute(job)
                async with self.db.write() as tx:
                    await lease.renew(tx, job.lease, TTL_MS)
                    end = await settle(tx)
                    await jobs.finish_job(tx, job.lease, end.event, result=end.result, error=end.error)
            except StartOver:
                continue
            except TryLater as later:
                return later
            await kind.ended(job)
            return end
        raise AssertionError("it starts over for ever")

    async def order(self, viewport: str = "1280x720") -> None:
        """Ask for a screenshot of the page `home` as it is."""
        async with self.db.write() as tx:
            project = await find_project(tx, self.project_id)
            page = await pages.get_page_by_code(tx, self.project_id, "home")
            assert project is not None
            wanted = await fix_screenshots(tx, project, [page], [viewport])
            asker = screenshots.Asker(project.workspace_id, project.id, self.world.user_id)
            await screenshots.submit_group(tx, asker, wanted, active_jobs_max=10, deadline_ms=None)

    async def version(self, code: str) -> Any:
        async with self.db.read() as tx:
            page = await pages.get_page_by_code(tx, self.project_id, code)
            return await pages.find_version(tx, page.id, page.number)

    async def rows(self, table: Any) -> list[Any]:
        async with self.db.read() as tx:
            return list((await tx.execute(select(table).order_by(*table.primary_key))).all())

    # -- what may happen meanwhile ----------------------------------------------------------------------------------

    async def put_asset(self, sha256: str) -> None:
        async with self.db.write() as tx:
            stored = StoredAsset("logo.svg", "image/svg+xml", sha256, 3, f"assets/{sha256}")
            await assets.put_asset(tx, self.project_id, stored, self.world.user_id)

    async def put_component(self, source: str) -> None:
        async with self.db.write() as tx:
            await components.put_component(tx, self.project_id, "Tile.vue", source, self.world.user_id)

    async def save_home(self, source: str) -> None:
        async with self.db.write() as tx:
            page = await pages.get_page_by_code(tx, self.project_id, "home")
            await pages.add_page_version(tx, page.id, page.number, _version(self.world, source))

    async def set_project(self, **values: Any) -> None:
        async with self.db.write() as tx:
            table = schema.projects
            await tx.execute(update(table).where(table.c.id == self.project_id).values(**values))

    async def delete_home(self) -> None:
        async with self.db.write() as tx:
            page = await pages.get_page_by_code(tx, self.project_id, "home")
            await pages.delete_page(tx, page.id)


def _version(world: World, source: str) -> pages.NewVersion:
    return pages.NewVersion(source, "Home", "", {}, "passed", None, None, None, world.user_id)


@pytest.fixture
async def gate(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Gate]:
    db = await Database.open(sqlite_url)
    world = World(db)
    await world.settle_in()
    async with db.write() as tx:
        member = {"workspace_id": world.workspaces[0], "user_id": world.user_id, "role": "owner"}
        await tx.execute(schema.members.insert().values(**member, created_at_ms=tx.now))
        await tx.execute(update(schema.projects).values(canvas_height_px=720))
    objects = Objects.local(tmp_path / "objects")
    woken: list[str] = []
    check = PlayedCheck(objects)
    publisher = ValidationScreenshotPublisher(db, objects, PROFILE)
    pictures = PagePictures(db, publisher, on_ordered=lambda: woken.append("screenshots"))
    played: Any = check
    kind = PageMutation(db, objects, played, RunFeed(), lambda: None, pictures)
    made = Gate(world, objects, check, kind, PageScreenshot(db, played, publisher, lambda _: None), pictures, woken)
    await made.put_asset("a" * 64)
    await made.put_component("<template>tile</template>")
    async with db.write() as tx:
        await pages.insert_page_with_first_version(
            tx, made.project_id, code="home", framework="vue", version=_version(world, "<template>home</template>")
        )
    yield made
    await db.close()


async def test_a_fitting_picture_is_published_together_with_page_and_job(gate: Gate) -> None:
    await gate.submit()
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, end.result["screenshot"]) == ("finish", "published")
    version = await gate.version("costs")
    assert version.picture_key == end.result["picture_key"]
    assert await gate.objects.get(version.picture_key) == PNG
    (artifact,) = await gate.rows(schema.page_screenshot_artifacts)
    assert (artifact.object_key, artifact.page_version, artifact.viewport) == (version.picture_key, 1, "1280x720")
    assert set(artifact.content["components"]) == {"components/Tile.vue"}
    assert set(artifact.content["pages"]) == {"pages/home.vue"}
    assert (artifact.content["assets"], artifact.content["runtime_build"]) == ({"logo.svg": "a" * 64}, "build")
    (pointer,) = await gate.rows(schema.page_screenshots)
    assert pointer.artifact_id == artifact.id
    assert await gate.rows(schema.page_screenshot_jobs) == []
    assert await gate.rows(schema.page_screenshot_holds) == []
    with pytest.raises(ObjectMissing):
        await gate.objects.get(f"renders/1/{artifact.sha256}.png")


MEANWHILE: dict[str, Callable[[Gate], Awaitable[None]]] = {
    "an asset": lambda gate: gate.put_asset("b" * 64),
    "a page that it imports": lambda gate: gate.save_home("<template>another</template>"),
    "a page that it imports is gone": lambda gate: gate.delete_home(),
    "the theme": lambda gate: gate.set_project(theme={"fonts": ["Serif"]}),
    "the canvas": lambda gate: gate.set_project(canvas_width_px=800),
}


@pytest.mark.parametrize("what", MEANWHILE)
async def test_what_changes_during_the_check_drops_the_picture_only_and_orders_a_new_one(gate: Gate, what: str) -> None:
    await gate.submit()
    gate.check.meanwhile = lambda: MEANWHILE[what](gate)
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, end.result["screenshot"], end.result["picture_key"]) == ("finish", "pending", None)
    assert (await gate.version("costs")).picture_key is None
    assert await gate.rows(schema.page_screenshot_artifacts) == []
    (order,) = await gate.rows(schema.page_screenshot_jobs)
    assert (order.id, order.page_code, order.page_version) == (end.result["screenshot_job_id"], "costs", 1)
    assert gate.woken == ["screenshots"]
    # The order is for the world as it is now, so it succeeds.
    taken = await gate.work(gate.screenshot)
    assert isinstance(taken, End)
    assert taken.event == "finish"
    assert (await gate.version("costs")).picture_key == taken.result["picture_key"]


async def test_a_component_that_changes_during_the_check_leaves_the_picture_of_the_pinned_one(gate: Gate) -> None:
    await gate.submit()
    gate.check.meanwhile = lambda: gate.put_component("<template>another tile</template>")
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert end.result["screenshot"] == "published", "the page is saved with the component it was checked with (D4)"


async def test_a_picture_that_failed_leaves_the_screenshot_pending_in_the_same_commit(gate: Gate) -> None:
    gate.check.picture = False
    await gate.submit()
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, end.result["screenshot"]) == ("finish", "pending")
    (order,) = await gate.rows(schema.page_screenshot_jobs)
    assert (order.status, order.viewport) == ("pending", "1280x720")
    gate.check.picture = True
    taken = await gate.work(gate.screenshot)
    assert isinstance(taken, End)
    assert (await gate.version("costs")).picture_key == taken.result["picture_key"]


async def test_a_full_lane_costs_the_picture_and_not_the_page(gate: Gate) -> None:
    gate.check.picture, gate.pictures.active_jobs_max = False, 1
    await gate.order()
    await gate.submit()
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, end.result["screenshot"]) == ("finish", "missing")
    assert len(await gate.rows(schema.page_screenshot_jobs)) == 1


async def test_a_picture_by_another_kind_of_renderer_is_not_published(gate: Gate) -> None:
    gate.pictures.publisher = replace(gate.pictures.publisher, profile_digest="sha256:another")
    await gate.submit()
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert end.result["screenshot"] == "pending"


async def test_a_refused_pages_picture_is_kept_for_its_job_and_nothing_is_ordered(gate: Gate) -> None:
    gate.check.status = "failed"
    await gate.submit()
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, await gate.objects.get(end.result["picture_key"])) == ("fail", PNG)
    (hold,) = await gate.rows(schema.page_screenshot_holds)
    assert (hold.expires_at, hold.job_kind) == (None, PAGE_MUTATION)
    assert await gate.rows(schema.page_screenshot_jobs) == []
    assert await gate.rows(schema.page_screenshot_artifacts) == []


async def test_a_page_saved_unseen_gets_its_picture_later(gate: Gate) -> None:
    gate.check.status, gate.check.picture = "unavailable", False
    await gate.submit()
    async with gate.db.write() as tx:
        await tx.execute(update(schema.ai_agent_runs).values(skip_visual_verification=True))
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, end.result["screenshot"]) == ("finish", "pending")
    assert end.result["skipped_visual_verification"] is True


async def test_a_derived_code_that_was_taken_is_derived_anew_once_and_checked_and_photographed_again(
    gate: Gate,
) -> None:
    async def take_the_code() -> None:
        async with gate.db.write() as tx:
            await pages.insert_page_with_first_version(
                tx, gate.project_id, code="costs", framework="vue", version=_version(gate.world, "<template/>")
            )

    await gate.submit()
    async with gate.db.write() as tx:
        await tx.execute(update(schema.ai_page_mutation_jobs).values(candidate_code="costs"))
    gate.check.meanwhile = take_the_code
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, end.result["page_code"], end.result["screenshot"]) == ("finish", "costs-2", "published")
    assert [candidate.entry_page.code for candidate in gate.check.seen] == ["costs", "costs-2"]
    (artifact,) = await gate.rows(schema.page_screenshot_artifacts)
    assert artifact.content["route"]["code"] == "costs-2"
    (job,) = await gate.rows(schema.ai_page_mutation_jobs)
    assert job.candidate_code == "costs-2"


async def test_a_code_that_the_caller_gave_and_that_was_taken_is_refused(gate: Gate) -> None:
    async def take_the_code() -> None:
        async with gate.db.write() as tx:
            await pages.insert_page_with_first_version(
                tx, gate.project_id, code="costs", framework="vue", version=_version(gate.world, "<template/>")
            )

    await gate.submit(code="costs")
    async with gate.db.write() as tx:
        await tx.execute(update(schema.ai_page_mutation_jobs).values(candidate_code="costs"))
    gate.check.meanwhile = take_the_code
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert (end.event, end.error and end.error["code"]) == ("fail", "PAGE_CODE_TAKEN")
    assert await gate.rows(schema.page_screenshot_artifacts) == []


STALE: dict[str, Callable[[Gate], Awaitable[None]]] = {
    "the page": lambda gate: gate.save_home("<template>newer</template>"),
    "the page is gone": lambda gate: gate.delete_home(),
    "the canvas": lambda gate: gate.set_project(canvas_height_px=None),
    "the theme": lambda gate: gate.set_project(theme={"fonts": ["Serif"]}),
}


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("what", STALE)
async def test_a_capture_that_was_overtaken_is_skipped_and_the_newer_pointer_stays(
    gate: Gate, what: str, when: str
) -> None:
    await gate.order()
    if when == "before":
        await STALE[what](gate)
    else:
        gate.check.meanwhile = lambda: STALE[what](gate)
    end = await gate.work(gate.screenshot)
    assert isinstance(end, End)
    assert (end.event, end.error and end.error["code"]) == ("skip", "PAGE_SCREENSHOT_JOB_STALE")
    assert await gate.rows(schema.page_screenshots) == []
    assert len(gate.check.seen) == (0 if when == "before" else 1)
    (job,) = await gate.rows(schema.page_screenshot_jobs)
    assert (job.status, job.error_code) == ("skipped", "PAGE_SCREENSHOT_JOB_STALE")


async def test_a_stale_capture_of_an_old_version_leaves_the_pointer_of_the_new_one(gate: Gate) -> None:
    async def newer_and_photographed() -> None:
        await gate.save_home("<template>newer</template>")
        await gate.order()
        end = await gate.work(gate.screenshot)
        assert isinstance(end, End)
        assert end.event == "finish"

    await gate.order()
    gate.check.meanwhile = newer_and_photographed
    old = await gate.work(gate.screenshot)
    assert isinstance(old, End)
    assert old.event == "skip"
    (pointer,) = await gate.rows(schema.page_screenshots)
    (artifact,) = await gate.rows(schema.page_screenshot_artifacts)
    assert (pointer.artifact_id, artifact.page_version) == (artifact.id, 2)


async def test_a_page_that_cannot_be_photographed_fails_and_a_lost_picture_is_taken_again(gate: Gate) -> None:
    await gate.order()
    gate.check.picture = False
    end = await gate.work(gate.screenshot)
    assert isinstance(end, End)
    assert (end.event, end.error and end.error["code"]) == ("fail", "PAGE_SCREENSHOT_FAILED")
    gate.check.picture = True
    await gate.order()

    async def lose_it() -> None:
        await gate.objects.delete(f"renders/2/{hashlib.sha256(PNG).hexdigest()}.png")

    gate.check.meanwhile = lose_it
    assert isinstance(await gate.work(gate.screenshot), TryLater)


async def test_a_cancelled_screenshot_publishes_nothing_and_leaves_nothing(gate: Gate) -> None:
    async def cancel() -> None:
        async with gate.db.write() as tx:
            await jobs.request_cancel(tx, PAGE_SCREENSHOT, 1)

    await gate.order()
    gate.check.meanwhile = cancel
    end = await gate.work(gate.screenshot)
    assert isinstance(end, End)
    assert end.event == "cancel"
    assert await gate.rows(schema.page_screenshot_artifacts) == []
    (hold,) = await gate.rows(schema.page_screenshot_holds)
    async with gate.db.write() as tx:
        await tx.execute(update(schema.page_screenshot_holds).values(expires_at=tx.now))
    await collect_pictures(gate.db, gate.objects, 600.0)
    with pytest.raises(ObjectMissing):
        await gate.objects.get(hold.object_key)


async def test_deleting_the_input_of_a_check_never_deletes_an_output_picture(gate: Gate) -> None:
    await gate.submit()
    await gate.work(gate.mutation)
    artifacts = PreviewArtifacts(MemoryState(10**6, SystemClock()))
    artifact_id = await artifacts.create({"entry": "pages/costs.vue"}, {"pages/costs.vue": SOURCE}, {})
    await artifacts.delete(artifact_id)
    await collect_pictures(gate.db, gate.objects, 0.0)
    assert await gate.objects.get((await gate.version("costs")).picture_key) == PNG


async def test_many_screenshots_of_one_page_at_once_leave_one_pointer_a_viewport(gate: Gate) -> None:
    for viewport in ("1280x720", "390x844", "390xauto"):
        await gate.order(viewport)
    async with gate.db.write() as tx:
        claimed = [await jobs.claim_job(tx, PAGE_SCREENSHOT, f"worker{number}", TTL_MS) for number in range(3)]
    ends = await asyncio.gather(*(gate.do(gate.screenshot, job) for job in claimed if job is not None))
    assert [end.event for end in ends if isinstance(end, End)] == ["finish"] * 3
    assert len(await gate.rows(schema.page_screenshots)) == 3
