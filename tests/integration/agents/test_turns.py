"""A run of the built-in agent from its prompt to its end: waiting, results, resuming once (A1-A5, CASES 9, 57, 59)."""

import asyncio
import json
from typing import Any

from pydantic_ai.messages import ModelMessage
from sqlalchemy import update

from pagegate.actors.agents.external_tasks import BatchesMayBeReady
from pagegate.actors.agents.runs import RunLimits
from pagegate.storage import external, runs, schema
from pagegate.storage.jobs import COMPONENT_MUTATION, PAGE_MUTATION
from tests.integration.agents.conftest import SOURCE, Played, Replica, World, call, create

HELLO = [create("c1", "one"), create("c2", "two")]


async def test_several_pages_in_one_step_come_back_together_and_the_run_ends(worlds: World) -> None:
    worlds.model.speak = Played.steps(["I write two. ", *HELLO], ["All saved."])
    replica = worlds.start()
    run_id = await worlds.ask(replica)
    await worlds.step(run_id, 1)
    assert len(worlds.model.asked) == 1
    async with worlds.db.read() as tx:
        batches = await external.list_results(tx, 1)
    assert [(one.call_id, one.state) for one in batches] == [("c1", "pending"), ("c2", "pending")]
    await worlds.end_jobs(run_id, "finish", "fail")  # the later call ends first
    replica.side.external.tell(BatchesMayBeReady())
    ended = await worlds.is_over(run_id)
    assert (ended.status, ended.result["text"]) == ("succeeded", "All saved.")
    assert ended.result["pages"] == [{"page": "two", "version": 1}]
    results = worlds.model.results()
    assert {call_id: result["saved"] for call_id, result in results.items()} == {"c1": False, "c2": True}
    assert results["c1"]["next"] == "Repair it."
    assert await worlds.kinds(run_id) == [
        "run.queued",
        "run.started",
        "model.text",
        "tool.called",
        "tool.called",
        "run.submitted",
        "run.resumed",
        "model.text",
        "run.finished",
    ]


async def test_a_component_and_its_page_in_one_step_come_back_together(worlds: World) -> None:
    tile = call("t1", "create_component", json.dumps({"name": "Tile.vue", "source": SOURCE}))
    bad = call("t2", "create_component", json.dumps({"name": "tile.vue", "source": SOURCE}))
    worlds.model.speak = Played.steps([tile, bad, create("c1", "one")], ["done"])
    replica = worlds.start()
    run_id = await worlds.ask(replica)
    await worlds.step(run_id, 1)
    assert [made.job_kind for made in await worlds.calls(run_id)] == [COMPONENT_MUTATION, PAGE_MUTATION]
    await worlds.end_jobs(run_id, kind=COMPONENT_MUTATION)
    assert (await worlds.run(run_id)).status == "waiting_external"
    await worlds.end_jobs(run_id)
    replica.side.external.tell(BatchesMayBeReady())
    ended = await worlds.is_over(run_id)
    assert ended.result["components"] == [{"component": "Tile.vue", "version": 1}]
    assert ended.result["pages"] == [{"page": "one", "version": 1}]
    results = worlds.model.results()
    assert (results["t1"]["saved"], results["t1"]["component_name"]) == (True, "Tile.vue")
    assert results["c1"]["saved"] is True
    assert "PascalCase" in results["t2"]


async def test_while_it_waits_a_run_holds_nothing_in_its_process(world: World) -> None:
    world.model.speak = Played.steps(HELLO, ["done"])
    first = world.start()
    run_id = await world.ask(first)
    await world.step(run_id, 1)
    await first.close()  # the process is gone; the run is not
    assert (await world.run(run_id)).status == "waiting_external"
    await world.end_jobs(run_id)
    world.start()
    assert (await world.is_over(run_id)).status == "succeeded"
    assert len(world.model.asked) == 2


async def test_ordinary_and_deferred_calls_in_one_step_leave_a_valid_history(world: World) -> None:
    """CASES 57: and a call that does not exist, and one whose arguments are wrong, in the same step."""
    bad = call("c4", "create_project_page", json.dumps({"title": "x"}))
    world.model.speak = Played.steps(
        [call("c0", "list_project_pages"), *HELLO, call("c3", "no_such_tool"), bad], ["done"]
    )
    replica = world.start()
    run_id = await world.ask(replica)
    await world.step(run_id, 1)
    await world.end_jobs(run_id)
    assert (await world.is_over(run_id)).status == "succeeded"
    results = world.model.results()
    assert set(results) == {"c0", "c1", "c2", "c3", "c4"}
    assert results["c0"] == {"pages": []}
    assert "no_such_tool" in results["c3"]
    assert "source" in results["c4"]
    assert [one.call_id for one in await world.calls(run_id)] == ["c1", "c2"]


async def test_calls_refused_before_a_job_exists_are_told_and_the_run_goes_on(world: World) -> None:
    cut = "<template><h1>A</h1>\n<!-- ... rest of the page ... -->\n</template>"
    world.model.speak = Played.steps([create("c1", "cut", cut)], ["I give up."])
    replica = world.start()
    run_id = await world.ask(replica)
    ended = await world.is_over(run_id)  # no job: nobody has to end one
    assert ended.status == "succeeded"
    (told,) = world.model.results().values()
    assert (told["saved"], told["code"]) == (False, "PAGE_SOURCE_TRUNCATED")
    assert "pages/cut.vue:2" in told["summary"]
    assert [(one.status, one.job_id) for one in await world.calls(run_id)] == [("refused", None)]


async def test_more_calls_than_a_step_may_have_are_refused_call_by_call(world: World) -> None:
    world.run_limits = RunLimits(batch_size_max=1)
    world.model.speak = Played.steps(HELLO, ["Too many, I see."])
    run_id = await world.ask(world.start())
    assert (await world.is_over(run_id)).status == "succeeded"
    assert {one["code"] for one in world.model.results().values()} == {"AI_PAGE_MUTATION_BATCH_TOO_LARGE"}


async def test_a_model_that_uses_an_id_again_gets_each_result_under_its_own_call(world: World) -> None:
    world.model.speak = Played.steps([create("same", "one")], [create("same", "two")], ["done"])
    replica = world.start()
    run_id = await world.ask(replica)
    await world.step(run_id, 1)
    await world.end_jobs(run_id, "fail")
    await world.step(run_id, 2)
    await world.end_jobs(run_id)
    assert (await world.is_over(run_id)).status == "succeeded"
    assert [one.call_id for one in await world.calls(run_id)] == ["same", "s2.same"]
    assert world.model.results()["same"]["page_code"] == "two"


async def test_of_two_coordinators_that_see_a_ready_batch_one_asks_the_model(worlds: World) -> None:
    """CASES 9."""
    worlds.model.speak = Played.steps(HELLO, ["done"])
    first, second = worlds.start(), worlds.start()
    run_id = await worlds.ask(first)
    await worlds.step(run_id, 1)
    await worlds.end_jobs(run_id)
    for replica in (first, second):
        replica.side.external.tell(BatchesMayBeReady())
    assert (await worlds.is_over(run_id)).status == "succeeded"
    assert len(worlds.model.asked) == 2
    assert (await worlds.kinds(run_id)).count("run.resumed") == 1


async def test_a_crash_before_the_model_answers_asks_it_once_more_and_runs_no_tool_again(worlds: World) -> None:
    """CASES 59: the results are stored, the process dies while the model thinks."""
    hung = asyncio.Event()

    async def speak(messages: list[ModelMessage], answers: int) -> Any:
        if answers == 0:
            for word in (call("c0", "list_project_pages"), *HELLO):
                yield word
        elif not hung.is_set():
            hung.set()
            yield "let me"
            await asyncio.Event().wait()
        else:
            yield "done"

    worlds.model.speak = speak
    first = worlds.start()
    run_id = await worlds.ask(first)
    await worlds.step(run_id, 1)
    await worlds.end_jobs(run_id)
    await asyncio.wait_for(hung.wait(), 10)
    await first.kill()
    assert (await worlds.run(run_id)).status == "running"
    await expire_batch(worlds, run_id)
    worlds.start()
    assert (await worlds.is_over(run_id)).status == "succeeded"
    assert len(worlds.model.asked) == 3  # the step, the lost answer, the answer
    tools = [event.data["tool_name"] for event in await worlds.events(run_id) if event.kind == "tool.called"]
    assert tools.count("list_project_pages") == 1
    assert len(await worlds.calls(run_id)) == 2
    generations = [event.data["generation"] for event in await worlds.events(run_id) if event.kind == "run.resumed"]
    assert generations == [1, 2]


async def test_an_answer_after_a_lost_lease_changes_nothing(worlds: World) -> None:
    go_on, first_asked = asyncio.Event(), asyncio.Event()

    async def speak(_: list[ModelMessage], answers: int) -> Any:
        if answers == 0:
            for word in HELLO:
                yield word
        elif not first_asked.is_set():
            first_asked.set()
            await go_on.wait()
            yield "late"
        else:
            yield "in time"

    worlds.model.speak = speak
    first = worlds.start()
    run_id = await worlds.ask(first)
    await worlds.step(run_id, 1)
    await worlds.end_jobs(run_id)
    await asyncio.wait_for(first_asked.wait(), 10)
    await expire_batch(worlds, run_id)
    worlds.start()
    ended = await worlds.is_over(run_id)
    before = (await worlds.events(run_id), await worlds.history(run_id))
    go_on.set()
    await worlds.until(lambda: _resumes_nothing(first))
    assert ended.result["text"] == "in time"
    assert (await worlds.events(run_id), await worlds.history(run_id)) == before
    assert [event.data.get("text") for event in before[0] if event.kind == "model.text"] == ["in time"]


async def _resumes_nothing(replica: Replica) -> bool:
    return not replica.side.external._actor_weakref()._resuming


async def expire_batch(world: World, run_id: int) -> None:
    batches = schema.ai_agent_external_batches
    async with world.db.write() as tx:
        mine = update(batches).where(batches.c.run_id == run_id, batches.c.state == "resuming")
        await tx.execute(mine.values(lease_expires_at=tx.now - 1))


async def test_old_batches_of_runs_that_are_over_are_completed_at_the_start(world: World) -> None:
    """A5."""
    world.model.speak = Played.steps(HELLO, ["done"])
    first = world.start()
    run_id = await world.ask(first)
    await world.step(run_id, 1)
    await first.close()
    batches = schema.ai_agent_external_batches
    async with world.db.write() as tx:
        await tx.execute(update(batches).values(state="ready"))
        await tx.execute(
            update(batches).values(state="resuming", worker_id="old", lease_generation=1, lease_expires_at=tx.now)
        )
        await runs.finish_run(tx, run_id, "fail", error={"code": "X"})
    world.start()

    async def completed() -> bool:
        async with world.db.read() as tx:
            return (await tx.execute(batches.select())).one().state == "completed"

    await world.until(completed)
    assert len(world.model.asked) == 1


async def test_a_full_queue_is_waited_for(world: World) -> None:
    world.run_limits = RunLimits(active_jobs_max=2)
    world.model.speak = Played.steps(HELLO, ["done"])
    replica = world.start()
    one = await world.ask(replica)
    await world.step(one, 1)
    two = await world.ask(replica)
    await world.until(lambda: _asked(world, 2))
    assert (await world.run(two)).status == "running"
    await world.end_jobs(one)
    await world.step(two, 1)
    await world.end_jobs(two)
    assert (await world.is_over(two)).status == "succeeded"


async def _asked(world: World, times: int) -> bool:
    return len(world.model.asked) >= times


async def test_the_next_run_of_a_session_inherits_history_and_focus(world: World) -> None:
    world.model.speak = Played.steps(HELLO, ["done"])
    replica = world.start()
    focus = {"pages": [{"page": "one", "version": 3}]}
    first = await world.ask(replica, "the first words", focus=focus)
    await world.step(first, 1)
    await world.cancel(replica, first)  # its calls stay without an answer
    world.model.speak = Played.says("I remember.")
    second = await world.ask(replica, "the second words", session_id=1)
    assert (await world.is_over(second)).result["text"] == "I remember."
    seen = world.model.asked[-1]
    text = json.dumps([str(part) for message in seen for part in message.parts])
    assert "the first words" in text
    assert "the second words" in text
    assert set(world.model.results()) == {"c1", "c2"}
    assert "JOB_CANCELLED" in text
    assert "version" in (seen[-1].instructions or "")  # type: ignore[union-attr]
    assert SOURCE in text
