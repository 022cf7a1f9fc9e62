"""The same failing source again, and sources cut short: answered without a check (A11, CASES 63)."""

from typing import Any

from pagegate.actors.agents.tools import ApplyPageEdits
from pagegate.actors.queues.kinds import End, TryLater
from pagegate.storage import schema
from pagegate.storage.runs import CallSubmission, StepSubmission, submit_step
from tests.integration.jobs.test_pictures_in_commits import Gate, gate

__all__ = ["gate"]


async def refused(gate: Gate, **arguments: Any) -> End:
    await gate.submit(**arguments)
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert end.event == "fail"
    return end


async def test_the_same_failing_source_five_times_is_checked_once(gate: Gate) -> None:
    gate.check.status = "failed"
    first = await refused(gate)
    ends = [await refused(gate) for _ in range(4)]
    assert len(gate.check.seen) == 1
    assert "repeated" not in first.result
    for end in ends:
        assert (end.result["repeated"], end.result["code"]) == (True, "PAGE_VALIDATION_FAILED")
        assert end.result["status"] == first.result["status"]
        assert "was not checked again" in end.result["next"]
        assert end.error is not None


async def test_another_source_is_checked(gate: Gate) -> None:
    gate.check.status = "failed"
    await refused(gate)
    await refused(gate, source="<template>another</template>")
    assert len(gate.check.seen) == 2


async def test_a_change_of_what_it_imports_is_a_reason_to_check_again(gate: Gate) -> None:
    gate.check.status = "failed"
    await refused(gate)
    await gate.put_component("<template>another tile</template>")
    await refused(gate)
    await gate.put_asset("c" * 64)
    await refused(gate)
    await gate.set_project(canvas_width_px=800)
    await refused(gate)
    assert len(gate.check.seen) == 4


async def test_what_the_infrastructure_said_is_never_kept(gate: Gate) -> None:
    gate.check.status = "unavailable"
    await gate.submit()
    assert isinstance(await gate.work(gate.mutation), TryLater)
    await gate.submit()
    assert isinstance(await gate.work(gate.mutation), TryLater)
    assert len(gate.check.seen) == 2
    assert await gate.rows(schema.ai_page_verdicts) == []


async def test_a_source_that_passed_is_not_kept_either(gate: Gate) -> None:
    await gate.submit()
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert end.event == "finish"
    assert len(gate.check.seen) == 1


async def test_an_edit_that_leaves_a_placeholder_is_refused_and_located(gate: Gate) -> None:
    edits = [{"search": "home", "replace": "<p>hello</p>\n<!-- rest of the template unchanged -->"}]
    arguments = {"page": "home", "base_version": 1, "edits": edits}
    ApplyPageEdits.model_validate(arguments)
    async with gate.db.write() as tx:
        call = CallSubmission("call", "apply_page_edits", arguments, "home")
        step = StepSubmission(
            workspace_id=gate.world.workspaces[0],
            project_id=gate.project_id,
            user_id=gate.world.user_id,
            calls=[call],
            active_jobs_max=10,
            batch_size_max=10,
        )
        await submit_step(tx, step)
    end = await gate.work(gate.mutation)
    assert isinstance(end, End)
    assert end.result["code"] == "PAGE_SOURCE_TRUNCATED"
    (finding,) = end.result["findings"]
    assert (finding["file"], finding["line"], finding["column"]) == ("pages/home.vue", 2, 1)
    assert gate.check.seen == []
