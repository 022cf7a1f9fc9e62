"""`GET /jobs/{lane}/{id}/diagnosis`: what is known of a job of any kind, and what follows from it (Q11, B3, X5)."""

from typing import Any

from sqlalchemy import update

from pagegate.deploy.diagnose import KINDS
from pagegate.http.backend.builds import progress_key
from pagegate.storage import builds, jobs, schema
from pagegate.storage.builds import Artifact, FixedPage, FixedProject
from pagegate.storage.job_diagnosis import _MADE
from pagegate.storage.jobs import COMPONENT_MUTATION, IMAGE_GENERATION, PAGE_MUTATION, ClaimedJob
from pagegate.storage.runs import CallSubmission, StepSubmission, submit_step
from tests.integration.http.conftest import World
from tests.integration.http.test_lanes_and_jobs import claim, submit

BUILD = builds.PROJECT_BUILD
WORKER = "host:1:x"
ERROR = {"code": "PROJECT_BUILD_SOURCE_ERROR", "message": "No such tag.", "hint": "Correct the sources."}


async def a_build(world: World) -> int:
    page = FixedPage("one", "One", "", "vue", "pages/one.vue", 1280, 720, {}, [])
    async with world.db.write() as tx:
        return await builds.submit_build(
            tx,
            workspace_id=world.workspace_id,
            project_id=world.project_id,
            user_id=world.editor.user_id,
            fixed=FixedProject("Q3", None, [page], {}),
            routes="hash",
            deadline_ms=600_000,
            active_jobs_max=9,
        )


async def claim_it(world: World) -> ClaimedJob:
    async with world.db.write() as tx:
        claimed = await builds.claim_build(tx, WORKER, 60_000, "vite-1")
    assert claimed is not None
    return claimed[0]


async def diagnosis(world: World, lane: str, job_id: int) -> dict[str, Any]:
    answer = await world.admin.get(f"/jobs/{lane}/{job_id}/diagnosis")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


async def test_a_build_is_told_from_its_order_to_its_release(world: World) -> None:
    first, second = await a_build(world), await a_build(world)
    waiting = await diagnosis(world, BUILD, second)
    assert (waiting["ahead"], waiting["made"], waiting["facts"]["pages"]) == (1, {}, 1)
    assert "1 pending jobs of its lane are older" in waiting["says"][0]
    assert "Runtimes take builds" in waiting["says"][1]

    job = await claim_it(world)
    await world.parts.state.put({progress_key(first): {"step": b"compiling"}}, 60)
    async with world.db.write() as tx:
        await builds.renew_build(tx, job.lease, 60_000, ["0.1 s  fetching", "0.9 s  compiling"])
    running = await diagnosis(world, BUILD, first)
    assert (running["step"], running["facts"]["runtime_build"], len(running["log"])) == ("compiling", "vite-1", 2)
    assert running["job"]["lease_valid"]
    assert f"Attempt 1 is worked on by {WORKER}; its lease is valid" in running["says"][0]
    member = (await world.viewer.get(f"/jobs/{BUILD}/{first}/diagnosis")).body
    assert WORKER not in str(member), "where it runs is the operators' own"

    async with world.db.write() as tx:
        await builds.promote(tx, job.lease, Artifact("builds/1/1/u/site.zip", "0" * 64, 77, {"index.html": ("0", 5)}))
    for key in ("u/site.zip", "u/files/0", "dead/site.zip"):
        await world.parts.objects.put(f"{builds.build_prefix(world.project_id, first)}{key}", b"zip")
    over = await diagnosis(world, BUILD, first)
    assert over["staged"] == 1
    assert over["says"][-1] == "Of its uploads 1 objects are left; a sweep deletes them."
    assert over["made"] == {"release": 1, "sha256": "0" * 64, "size_bytes": 77, "files": 1}
    assert over["says"][:2] == ["The job is over: succeeded.", f"It made {told(over['made'])}."]


def told(made: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in made.items())


async def test_a_lost_worker_a_cancel_a_pause_and_a_failure_are_told_with_what_follows(world: World) -> None:
    lost, failed = await a_build(world), await a_build(world)
    await claim_it(world)
    async with world.db.write() as tx:
        table = schema.project_build_jobs
        past = {"lease_expires_at": tx.now - 1, "cancel_requested_at": tx.now}
        await tx.execute(update(table).where(table.c.id == lost).values(**past))
    says = (await diagnosis(world, BUILD, lost))["says"]
    assert says[:2] == [
        "Attempt 1 has lost its worker: it ends as PROJECT_BUILD_INTERRUPTED with the next sweep.",
        "It was asked to stop, and ends at its next safe point.",
    ]
    await world.admin.post(f"/lanes/{BUILD}/pause")
    assert "lane is paused" in (await diagnosis(world, BUILD, failed))["says"][0]
    await world.admin.post(f"/lanes/{BUILD}/resume")
    job = await claim_it(world)
    async with world.db.write() as tx:
        await jobs.finish_job(tx, job.lease, "fail", error=ERROR)
    says = (await diagnosis(world, BUILD, failed))["says"]
    assert says == [
        "The job is over: failed (PROJECT_BUILD_SOURCE_ERROR). No such tag.",
        "Next step: Correct the sources.",
    ]


async def test_a_page_job_that_waits_for_infrastructure_says_for_what(world: World) -> None:
    _, (job_id,) = await submit(world)
    job = await claim(world)
    assert job is not None
    away = {"code": "RENDER_SERVICE_UNAVAILABLE", "message": "No Renderer answers.", "hint": ""}
    async with world.db.write() as tx:
        await jobs.retry_job(tx, job.lease, 30_000, counts="infra", error=away)
    found = await diagnosis(world, PAGE_MUTATION, job_id)
    assert "RENDER_SERVICE_UNAVAILABLE: No Renderer answers." in found["says"][0]
    assert "may be claimed in" in found["says"][1]
    assert found["facts"]["page_code"] == "a"


async def test_a_diagnosis_changes_nothing_and_is_for_members(world: World) -> None:
    job_id = await a_build(world)
    path = f"/jobs/{BUILD}/{job_id}"
    before = (await world.admin.get(path)).body
    await diagnosis(world, BUILD, job_id)
    assert (await world.admin.get(path)).body == before
    for answer in (await world.stranger.get(f"{path}/diagnosis"), await world.admin.get(f"/jobs/{BUILD}/99/diagnosis")):
        assert (answer.status, answer.code) == (404, "JOB_NOT_FOUND")
    unknown = await world.admin.get("/jobs/users/1/diagnosis")
    assert (unknown.status, unknown.code) == (404, "LANE_NOT_FOUND")


def test_every_kind_of_job_can_be_diagnosed_by_a_short_name() -> None:
    assert set(KINDS.values()) == set(_MADE) == set(schema.JOB_KINDS)


async def test_a_picture_that_was_refused_made_nothing_and_one_that_was_made_is_told_by_its_file(world: World) -> None:
    calls = [CallSubmission(name, "generate_image", {}, f"{name}.png", kind=IMAGE_GENERATION) for name in "ab"]
    step = StepSubmission(
        workspace_id=world.workspace_id, project_id=world.project_id, user_id=world.editor.user_id, calls=calls
    )
    async with world.db.write() as tx:
        made, refused = (await submit_step(tx, step)).job_ids
        first = await jobs.claim_job(tx, IMAGE_GENERATION, WORKER, 60_000)
        assert first is not None
        told = {"status": "passed", "asset_name": "a.png", "version": 1, "width_px": 3, "next": "Import it in a page."}
        await jobs.finish_job(tx, first.lease, "finish", result=told)
        second = await jobs.claim_job(tx, IMAGE_GENERATION, WORKER, 60_000)
        assert second is not None
        no = {"status": "refused", "asset_name": "b.png", "code": "IMAGE_PROMPT_REFUSED", "next": "Change the prompt."}
        await jobs.finish_job(tx, second.lease, "fail", result=no, error={**ERROR, "code": "IMAGE_PROMPT_REFUSED"})
    assert (await diagnosis(world, IMAGE_GENERATION, made))["says"] == [
        "The job is over: succeeded.",
        "It made asset_name a.png, version 1, width_px 3.",
    ]
    failed = await diagnosis(world, IMAGE_GENERATION, refused)
    assert failed["made"] == {}
    assert not [line for line in failed["says"] if "It made" in line]


async def test_a_page_that_waits_for_a_component_of_its_step_says_for_which(world: World) -> None:
    calls = [
        CallSubmission("a", "create_component", {}, "Tile.vue", kind=COMPONENT_MUTATION),
        CallSubmission("b", "create_project_page", {}, "page", "page"),
    ]
    step = StepSubmission(
        workspace_id=world.workspace_id, project_id=world.project_id, user_id=world.editor.user_id, calls=calls
    )
    async with world.db.write() as tx:
        component, page = (await submit_step(tx, step)).job_ids
    says = (await diagnosis(world, PAGE_MUTATION, page))["says"]
    assert f"It waits for job {component} of {COMPONENT_MUTATION}, which was called before it in the same step." in says
    assert "waits to be claimed" in (await diagnosis(world, COMPONENT_MUTATION, component))["says"][0]
