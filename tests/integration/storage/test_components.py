"""Components: versions that checks write, who pins them, and their jobs in a step (D4, A2); on both databases."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from pagegate.storage import component_pins, components, jobs, pages, runs, schema
from pagegate.storage.components import CheckedComponent, ComponentChanged, ComponentNameTaken
from pagegate.storage.jobs import COMPONENT_MUTATION, PAGE_MUTATION, ClaimedJob
from pagegate.storage.runs import CallSubmission, JobQueueFull, StepSubmission
from tests.world import TTL_MS, World

NAME = "Tile.vue"


def checked(world: World, job_id: int = 1, source: str = "<p/>") -> CheckedComponent:
    return CheckedComponent(source, {"props": []}, job_id, world.user_id)


def step(world: World, *calls: tuple[str, str], **options: Any) -> StepSubmission:
    """A step of calls: (kind, what it is about)."""
    made = [
        CallSubmission(f"c{number}", "tool", {}, subject, kind=kind) for number, (kind, subject) in enumerate(calls)
    ]
    return StepSubmission(
        workspace_id=world.workspaces[0], project_id=world.projects[0], user_id=world.user_id, calls=made, **options
    )


async def claim(world: World, kind: str) -> ClaimedJob | None:
    return await world.write(jobs.claim_job, kind, "worker", TTL_MS)


async def finish(world: World, job: ClaimedJob) -> None:
    await world.write(jobs.finish_job, job.lease, "finish", result={"component_name": NAME})


async def test_a_checked_version_keeps_its_contract_and_its_job(world: World) -> None:
    project = world.projects[0]
    assert await world.write(components.create_component, project, NAME, checked(world)) == 1
    found = await world.read(components.find_component, project, NAME)
    assert found is not None
    assert (found.number, found.source, found.contract) == (1, "<p/>", {"props": []})
    assert await world.write(components.add_component_version, project, NAME, 1, checked(world, 2, "<b/>")) == 2
    assert await world.read(components.list_version_numbers, project, NAME) == [1, 2]
    _, added = await world.write(components.put_component, project, NAME, "<i/>", world.user_id)
    unchecked = await world.read(components.find_component, project, NAME)
    assert (added, unchecked.number, unchecked.contract) == (True, 3, None)  # type: ignore[union-attr]  # it is there


async def test_a_name_that_is_taken_and_a_base_that_is_old_are_refused_and_write_nothing(world: World) -> None:
    project = world.projects[0]
    await world.write(components.create_component, project, NAME, checked(world))
    with pytest.raises(ComponentNameTaken):
        await world.write(components.create_component, project, NAME, checked(world, 2))
    for base in (0, 2):
        with pytest.raises(ComponentChanged):
            await world.write(components.add_component_version, project, NAME, base, checked(world, 2))
    with pytest.raises(ComponentChanged):
        await world.write(components.add_component_version, project, "No.vue", 1, checked(world, 2))
    assert await world.read(components.list_version_numbers, project, NAME) == [1]


async def test_a_deleted_components_name_is_free_and_its_versions_go_on_counting(world: World) -> None:
    project = world.projects[0]
    await world.write(components.create_component, project, NAME, checked(world))
    assert await world.write(components.delete_component, project, NAME)
    with pytest.raises(ComponentChanged):
        await world.write(components.add_component_version, project, NAME, 1, checked(world, 2))
    assert await world.write(components.create_component, project, NAME, checked(world, 2)) == 2


async def test_of_two_that_create_one_component_at_once_one_is_refused(world: World) -> None:
    made = [world.write(components.create_component, world.projects[0], NAME, checked(world, job)) for job in (1, 2)]
    ends = await asyncio.gather(*made, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["ComponentNameTaken", "int"]


async def test_a_job_writes_at_most_one_version(world: World) -> None:
    project = world.projects[0]
    await world.write(components.create_component, project, NAME, checked(world, 7))
    with pytest.raises(IntegrityError):
        await world.write(components.add_component_version, project, NAME, 1, checked(world, 7))


async def test_the_pages_that_pin_a_component_are_those_whose_current_version_does(world: World) -> None:
    project = world.projects[0]
    for number in (1, 2):
        await world.write(components.put_component, project, NAME, f"<p>{number}</p>", world.user_id)
    ids = [version.id for version in await world.read(components.list_component_versions, project, NAME)]

    def version(pins: dict[str, int]) -> pages.NewVersion:
        return pages.NewVersion("<p/>", "t", "", pins, "passed", None, None, None, world.user_id)

    made = {
        "b-old": {NAME: ids[0]},
        "a-new": {NAME: ids[1]},
        "none": {},
        "gone": {NAME: ids[1]},
        "left": {NAME: ids[0]},
    }
    page_ids = {
        code: await world.write(
            pages.insert_page_with_first_version, project, code=code, framework="vue", version=version(pins)
        )
        for code, pins in made.items()
    }
    await world.write(pages.delete_page, page_ids["gone"])
    await world.write(pages.add_page_version, page_ids["left"], 1, version({}))
    found = await world.read(component_pins.list_pinning_pages, project, NAME)
    assert [(one.code, one.version, one.component_version) for one in found] == [("a-new", 1, 2), ("b-old", 1, 1)]
    assert await world.read(component_pins.list_pinning_pages, project, "Other.vue") == []


async def test_components_of_a_step_run_in_call_order_and_its_pages_wait_for_those_before_them(world: World) -> None:
    calls = [
        (PAGE_MUTATION, "early"),
        (COMPONENT_MUTATION, "A.vue"),
        (COMPONENT_MUTATION, "B.vue"),
        (PAGE_MUTATION, "late"),
    ]
    await world.write(runs.submit_step, step(world, *calls))
    await world.write(runs.submit_step, step(world, (PAGE_MUTATION, "elsewhere")))
    early, elsewhere = await claim(world, PAGE_MUTATION), await claim(world, PAGE_MUTATION)
    assert early is not None
    assert elsewhere is not None
    assert (early.row.page_code, elsewhere.row.page_code) == ("early", "elsewhere")
    first = await claim(world, COMPONENT_MUTATION)
    assert first is not None
    assert first.row.component_name == "A.vue"
    assert await claim(world, COMPONENT_MUTATION) is None
    await finish(world, first)
    second = await claim(world, COMPONENT_MUTATION)
    assert second is not None
    assert await claim(world, PAGE_MUTATION) is None
    await world.write(jobs.finish_job, second.lease, "fail", error={"code": "X"})  # whatever became of it
    batch = second.row.batch_id
    assert await world.read(components.list_refused_of_step, batch, 3) == ["B.vue"]
    assert await world.read(components.list_refused_of_step, batch, 2) == []
    late = await claim(world, PAGE_MUTATION)
    assert late is not None
    assert late.row.page_code == "late"


async def test_the_version_of_an_earlier_call_of_the_step_is_found(world: World) -> None:
    calls = [(COMPONENT_MUTATION, NAME), (COMPONENT_MUTATION, "Other.vue"), (COMPONENT_MUTATION, NAME)]
    await world.write(runs.submit_step, step(world, *calls))
    first = await claim(world, COMPONENT_MUTATION)
    assert first is not None
    batch = first.row.batch_id
    assert await world.read(components.find_version_of_step, batch, NAME, 2) is None
    await world.write(components.create_component, world.projects[0], NAME, checked(world, first.id))
    assert await world.read(components.find_version_of_step, batch, NAME, 2) == 1
    assert await world.read(components.find_version_of_step, batch, NAME, 0) is None
    assert await world.read(components.find_version_of_step, batch, "Other.vue", 2) is None


async def test_each_kind_of_a_step_has_its_own_limit_and_a_full_one_refuses_all(world: World) -> None:
    limits = {"active_jobs_max": 3, "active_jobs_max_of": {COMPONENT_MUTATION: 1}}
    calls = [(COMPONENT_MUTATION, "A.vue"), (PAGE_MUTATION, "a")]
    await world.write(runs.submit_step, step(world, *calls, **limits))
    with pytest.raises(JobQueueFull) as full:
        await world.write(runs.submit_step, step(world, (PAGE_MUTATION, "b"), (COMPONENT_MUTATION, "B.vue"), **limits))
    assert full.value.code == "COMPONENT_MUTATION_ACTIVE_JOBS_LIMIT"
    assert await world.read(jobs.count_active, PAGE_MUTATION) == 1
    await world.write(runs.submit_step, step(world, (PAGE_MUTATION, "b"), **limits))


@pytest.mark.parametrize("force", [False, True])
async def test_a_stopped_run_stops_its_jobs_of_every_kind(world: World, force: bool) -> None:
    calls = [(COMPONENT_MUTATION, "A.vue"), (COMPONENT_MUTATION, "B.vue"), (PAGE_MUTATION, "a")]
    submitted = await world.write(runs.submit_step, step(world, *calls))
    running = await claim(world, COMPONENT_MUTATION)
    assert running is not None
    await world.write(runs.force_cancel_run if force else runs.cancel_run, submitted.run_id)
    table = schema.component_mutation_jobs
    rows = (await world.read(lambda tx: tx.execute(select(table).order_by(table.c.id)))).all()
    assert [row.status for row in rows] == ["cancelled" if force else "running", "cancelled"]
    assert rows[0].cancel_requested_at is not None
    assert (await world.job(submitted.job_ids[2])).status == "cancelled"


async def test_a_run_shows_what_its_calls_are_about_and_their_jobs_are_told_apart_by_kind(world: World) -> None:
    submitted = await world.write(runs.submit_step, step(world, (COMPONENT_MUTATION, NAME), (PAGE_MUTATION, "a")))
    assert submitted.job_ids == [1, 1], "each kind counts for itself"
    job = await claim(world, COMPONENT_MUTATION)
    assert job is not None
    await finish(world, job)
    component, page = await world.read(runs.list_tool_calls, submitted.run_id)
    assert (component.about, component.page_code, component.status) == ({"component_name": NAME}, None, "succeeded")
    assert (page.about, page.page_code, page.status) == ({"page_code": "a"}, "a", "pending")


async def test_a_rescued_job_that_had_written_nothing_is_claimed_again(world: World) -> None:
    await world.write(runs.submit_step, step(world, (COMPONENT_MUTATION, NAME)))
    job = await claim(world, COMPONENT_MUTATION)
    assert job is not None
    await world.expire(job.lease)
    assert await world.write(jobs.rescue_job, COMPONENT_MUTATION, job.id, job.lease.fence, 3) == "pending"
    await world.write(lambda tx: tx.execute(update(schema.component_mutation_jobs).values(available_at=tx.now)))
    again = await claim(world, COMPONENT_MUTATION)
    assert again is not None
    assert again.lease.fence == 2
