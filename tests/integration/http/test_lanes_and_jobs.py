"""Lanes and jobs over HTTP: pause, resume, look, cancel, retry; who may do what (Q10, Q11, X5)."""

from typing import Any

import pytest

from pagegate.actors.queues.queue import CancelHint, JobsSubmitted
from pagegate.storage import external, jobs, runs
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from pagegate.storage.schema import JOB_KINDS
from tests.integration.http.conftest import Answer, Person, World
from tests.integration.http.test_gate import create, step

LANE = f"/lanes/{PAGE_MUTATION}"
ERROR = {"code": "RENDER_SERVICE_UNAVAILABLE", "message": "gone", "hint": "wait"}


async def submit(world: World, *codes: str) -> tuple[int, list[int]]:
    """(run id, job ids) of a step with a call for each code."""
    calls = [create(call_id=code, code=code) for code in codes or ("a",)]
    answer = await world.editor.post(f"{world.project}/tool-calls", step(*calls))
    assert answer.status == 202, answer.body
    run = await world.editor.get(f"/runs/{answer.body['run_id']}")
    world.queue_heard.clear()
    return run.body["id"], [call["job_id"] for call in run.body["calls"]]


async def claim(world: World) -> ClaimedJob | None:
    async with world.db.write() as tx:
        return await jobs.claim_job(tx, PAGE_MUTATION, "host:1:x:0", 60_000)


async def fail_one(world: World) -> int:
    job = await claim(world)
    assert job is not None
    async with world.db.write() as tx:
        await jobs.finish_job(tx, job.lease, "fail", error=ERROR)
    return job.id


async def the_lane(world: World) -> dict[str, Any]:
    answer = await world.admin.get("/lanes")
    assert answer.status == 200, answer.body
    assert [lane["lane"] for lane in answer.body["lanes"]] == list(JOB_KINDS)
    found: dict[str, Any] = answer.body["lanes"][JOB_KINDS.index(PAGE_MUTATION)]
    return found


async def test_an_administrator_pauses_and_resumes_a_lane(world: World) -> None:
    await submit(world)
    paused = await world.admin.post(f"{LANE}/pause")
    assert (paused.status, paused.body["paused"]["user_name"]) == (200, "admin")
    assert await claim(world) is None
    assert (await the_lane(world))["paused"]["user_id"] == world.admin.user_id
    resumed = await world.admin.post(f"{LANE}/resume")
    assert (resumed.status, resumed.body["paused"]) == (200, None)
    assert world.queue_heard == [JobsSubmitted()], "the workers are woken at once"
    assert await claim(world) is not None


async def test_a_lane_shows_depth_lag_and_who_works_on_what(world: World) -> None:
    empty = await the_lane(world)
    assert (empty["lane"], empty["pending"], empty["lag_ms"], empty["running_jobs"]) == (PAGE_MUTATION, 0, None, [])
    _, ids = await submit(world, "a", "b")
    await claim(world)
    lane = await the_lane(world)
    assert (lane["pending"], lane["runnable"], lane["running"], lane["rescues"]) == (1, 1, 1, 0)
    assert lane["lag_ms"] >= 0
    (running,) = lane["running_jobs"]
    assert (running["id"], running["worker_id"], running["lease_valid"]) == (ids[0], "host:1:x:0", True)


@pytest.mark.parametrize(("method", "path"), [("GET", "/lanes"), ("POST", f"{LANE}/pause"), ("POST", f"{LANE}/resume")])
async def test_lanes_are_for_administrators(world: World, method: str, path: str) -> None:
    for person in (world.owner, world.editor, world.stranger):
        answer = await person.ask(method, path)
        assert (answer.status, answer.code) == (403, "ADMIN_REQUIRED")
    assert (await world.nobody.ask(method, path)).code == "TOKEN_MISSING"


async def test_an_unknown_lane_is_not_found(world: World) -> None:
    for answer in (
        await world.admin.post("/lanes/users/pause"),
        await world.admin.get("/jobs?lane=users"),
        await world.admin.get("/jobs/users/1"),
        await world.admin.post("/jobs/users/1/retry"),
    ):
        assert (answer.status, answer.code) == (404, "LANE_NOT_FOUND")


def ids_of(answer: Answer) -> list[int]:
    assert answer.status == 200, answer.body
    return [job["id"] for job in answer.body["jobs"]]


async def test_jobs_are_listed_by_state_in_pages_to_members_and_administrators(world: World) -> None:
    _, (a, b, c) = await submit(world, "a", "b", "c")
    failed = await fail_one(world)
    for person in (world.viewer, world.admin):
        assert ids_of(await person.get("/jobs")) == [c, b, a]
        first = await person.get("/jobs?limit=2")
        assert (ids_of(first), first.body["next_before"]) == ([c, b], b)
        rest = await person.get(f"/jobs?limit=2&before={b}")
        assert (ids_of(rest), rest.body["next_before"]) == ([a], None)
        (shown,) = (await person.get("/jobs?status=failed")).body["jobs"]
        assert (shown["id"], shown["error"]) == (failed, ERROR)
    assert ids_of(await world.stranger.get("/jobs")) == []
    assert (await world.viewer.get("/jobs?status=odd")).code == "REQUEST_INVALID"
    assert (await world.viewer.get("/jobs?limit=0")).code == "REQUEST_INVALID"


async def test_where_a_job_runs_is_shown_to_administrators_only(world: World) -> None:
    _, (job_id,) = await submit(world)
    await claim(world)
    path = f"/jobs/{PAGE_MUTATION}/{job_id}"
    member, admin = await world.viewer.get(path), await world.admin.get(path)
    assert (member.body["status"], member.body["worker_id"], member.body["lease_valid"]) == ("running", None, True)
    assert admin.body["worker_id"] == "host:1:x:0"
    assert {**admin.body, "worker_id": None} == member.body
    assert "result" not in admin.body


async def test_jobs_of_another_workspace_do_not_exist(world: World) -> None:
    _, (job_id,) = await submit(world)
    path = f"/jobs/{PAGE_MUTATION}/{job_id}"
    for answer in (
        await world.stranger.get(path),
        await world.stranger.post(f"{path}/cancel"),
        await world.stranger.post(f"{path}/retry"),
        await world.viewer.get(f"/jobs/{PAGE_MUTATION}/4711"),
    ):
        assert (answer.status, answer.code) == (404, "JOB_NOT_FOUND")
    for change in ("cancel", "retry"):
        refused = await world.viewer.post(f"{path}/{change}")
        assert (refused.status, refused.code) == (403, "ROLE_REQUIRED")
    assert (await world.viewer.get(f"/jobs/{PAGE_MUTATION}/x")).code == "ROUTE_NOT_FOUND"


@pytest.mark.parametrize("who", ["editor", "admin"])
async def test_a_pending_job_is_cancelled_and_its_run_hears_of_it(world: World, who: str) -> None:
    run_id, (first, _) = await submit(world, "a", "b")
    person: Person = getattr(world, who)
    for _ in range(2):
        answer = await person.post(f"/jobs/{PAGE_MUTATION}/{first}/cancel")
        assert (answer.status, answer.body["status"]) == (200, "cancelled")
    events = (await world.viewer.get(f"/runs/{run_id}/events?format=json")).body["events"]
    told = [(event["data"]["call_id"], event["data"]["end"]) for event in events if event["kind"] == "tool.ended"]
    assert told == [("a", "cancel")]
    run = await world.viewer.get(f"/runs/{run_id}")
    assert [call["status"] for call in run.body["calls"]] == ["cancelled", "pending"]


async def test_a_running_job_is_asked_to_stop(world: World) -> None:
    _, (job_id,) = await submit(world)
    await claim(world)
    answer = await world.editor.post(f"/jobs/{PAGE_MUTATION}/{job_id}/cancel")
    assert (answer.status, answer.body["status"]) == (200, "running")
    assert answer.body["cancel_requested_at_ms"] is not None
    assert world.queue_heard == [CancelHint(job_id)]


async def test_a_failed_job_is_retried_as_a_new_one(world: World) -> None:
    run_id, _ = await submit(world, "a", "b")
    failed = await fail_one(world)
    made = await world.editor.post(f"/jobs/{PAGE_MUTATION}/{failed}/retry")
    assert (made.status, made.body["status"], made.body["retry_of"]) == (201, "pending", failed)
    assert world.queue_heard == [JobsSubmitted()]
    old = await world.viewer.get(f"/jobs/{PAGE_MUTATION}/{failed}")
    assert (old.body["status"], old.body["retried_as"]) == ("failed", made.body["id"])
    run = (await world.viewer.get(f"/runs/{run_id}")).body
    assert [run["calls"][0][name] for name in ("status", "job_id")] == ["pending", made.body["id"]]
    again = await world.editor.post(f"/jobs/{PAGE_MUTATION}/{failed}/retry")
    assert (again.status, again.code) == (409, "JOB_ALREADY_RETRIED")
    assert str(made.body["id"]) in again.body["message"]
    pending = await world.editor.post(f"/jobs/{PAGE_MUTATION}/{made.body['id']}/retry")
    assert (pending.status, pending.code) == (409, "JOB_NOT_FAILED")


async def test_a_failure_that_was_delivered_is_not_retried(world: World) -> None:
    await submit(world)
    failed = await fail_one(world)
    async with world.db.write() as tx:
        batch = await external.claim_ready_batch(tx, "c", 60_000)
        assert batch is not None
        await external.finish_batch(tx, batch.lease)
        await runs.finish_run(tx, batch.run_id, "finish")
    answer = await world.admin.post(f"/jobs/{PAGE_MUTATION}/{failed}/retry")
    assert (answer.status, answer.code) == (409, "JOB_RESULT_DELIVERED")


async def test_a_retry_over_the_limit_of_live_jobs_is_refused(world: World) -> None:
    await submit(world, "a", "b")
    failed = await fail_one(world)
    await submit(world, "c", "d", "e", "f")
    await submit(world, "g", "h", "i")
    answer = await world.editor.post(f"/jobs/{PAGE_MUTATION}/{failed}/retry")
    assert (answer.status, answer.code) == (429, "AI_PAGE_MUTATION_ACTIVE_JOBS_LIMIT")
