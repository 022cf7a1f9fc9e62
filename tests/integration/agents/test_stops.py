"""Every way in which a run is stopped or recovered (A6, A7), with real actors on both databases."""

import os
import subprocess
import sys

import psutil
import pytest
from sqlalchemy import update

from pagegate.actors.agents.background import is_alive
from pagegate.actors.agents.external_tasks import BatchesMayBeReady
from pagegate.actors.agents.limits import AgentLimits
from pagegate.actors.agents.runs import AlreadyWrote, RunNotEnded
from pagegate.storage import jobs, schema, sessions
from pagegate.storage.interrupted_runs import Owner
from pagegate.storage.jobs import PAGE_MUTATION
from pagegate.storage.lease import LeaseLost
from pagegate.storage.sessions import SessionBusy
from tests.integration.agents.conftest import Played, World, create

HELLO = [create("c1", "one"), create("c2", "two")]


async def thinking(world: World) -> bool:
    return world.model.asked_once.is_set()


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


async def test_stop_while_the_model_thinks_cancels_at_once(world: World) -> None:
    world.model.speak = world.model.hang
    replica = world.start()
    run_id = await world.ask(replica)
    await world.until(lambda: thinking(world))
    assert await world.cancel(replica, run_id) == "cancelled"
    await world.until(lambda: executes_nothing(replica))
    assert (await world.run(run_id)).status == "cancelled"
    assert (await world.kinds(run_id))[-1] == "run.cancelled"


async def executes_nothing(replica: object) -> bool:
    side = replica.side  # type: ignore[attr-defined]
    return not side.background._actor_weakref()._tasks and not side.external._actor_weakref()._resuming


async def test_stop_while_it_waits_ends_its_jobs_and_no_model_is_asked_again(world: World) -> None:
    world.model.speak = Played.steps(HELLO, ["done"])
    replica = world.start()
    run_id = await world.ask(replica)
    await world.step(run_id, 1)
    assert await world.cancel(replica, run_id) == "cancelled"
    assert {one.status for one in await world.calls(run_id)} == {"cancelled"}
    replica.side.external.tell(BatchesMayBeReady())
    await world.until(lambda: executes_nothing(replica))
    assert len(world.model.asked) == 1


async def test_stop_while_it_is_resumed_ends_the_resume(world: World) -> None:
    world.model.speak = Played.steps(HELLO)
    replica = world.start()
    run_id = await world.ask(replica)
    await world.step(run_id, 1)
    world.model.speak, world.model.asked_once = world.model.hang, type(world.model.asked_once)()
    await world.end_jobs(run_id)
    await world.until(lambda: thinking(world))
    assert await world.cancel(replica, run_id) == "cancelled"
    await world.until(lambda: executes_nothing(replica))
    assert (await world.run(run_id)).status == "cancelled"


async def test_a_stop_in_order_ends_executed_runs_and_spares_waiting_ones(worlds: World) -> None:
    worlds.model.speak = Played.steps(HELLO, ["done"])
    replica = worlds.start()
    waiting = await worlds.ask(replica)
    await worlds.step(waiting, 1)
    worlds.model.speak = worlds.model.hang
    thinking_run = await worlds.ask(replica)
    await worlds.is_in(thinking_run, "running")
    await replica.side.stop_executing()
    assert (await worlds.run(thinking_run)).error["code"] == "AI_RUN_PROCESS_STOPPED"
    assert (await worlds.kinds(thinking_run))[-1] == "run.failed"
    assert (await worlds.run(waiting)).status == "waiting_external"


async def test_a_stop_in_order_ends_what_was_still_queued(world: World) -> None:
    world.limits = AgentLimits(concurrency=1)
    world.model.speak = world.model.hang
    replica = world.start()
    ids = [await world.ask(replica) for _ in range(3)]
    await world.until(lambda: thinking(world))
    await replica.side.stop_executing()
    assert {(await world.run(run_id)).error["code"] for run_id in ids} == {"AI_RUN_PROCESS_STOPPED"}


async def test_a_stop_in_order_gives_back_the_batch_of_a_resume_for_another_replica(worlds: World) -> None:
    worlds.model.speak = Played.steps(HELLO)
    first = worlds.start()
    run_id = await worlds.ask(first)
    await worlds.step(run_id, 1)
    worlds.model.speak, worlds.model.asked_once = worlds.model.hang, type(worlds.model.asked_once)()
    await worlds.end_jobs(run_id)
    await worlds.until(lambda: thinking(worlds))
    await first.side.stop_executing()
    assert (await worlds.run(run_id)).status == "waiting_external"
    assert (await worlds.kinds(run_id))[-1] == "run.released"
    worlds.model.speak = Played.says("done elsewhere")
    worlds.start()
    assert (await worlds.is_over(run_id)).result["text"] == "done elsewhere"


async def test_a_killed_process_of_this_host_is_recovered_at_the_next_start(worlds: World) -> None:
    worlds.model.speak = worlds.model.hang
    dead = worlds.start(host="box", pid=dead_pid())
    run_id = await worlds.ask(dead)
    await worlds.until(lambda: thinking(worlds))
    await dead.kill()
    assert (await worlds.run(run_id)).status == "running"
    worlds.start(host="box")
    ended = await worlds.is_over(run_id)
    assert (ended.status, ended.error["code"]) == ("failed", "AI_RUN_INTERRUPTED")


async def test_a_container_that_starts_again_has_the_same_number_and_another_life(world: World) -> None:
    world.model.speak = world.model.hang
    dead = world.start(host="box")
    run_id = await world.ask(dead)
    await world.until(lambda: thinking(world))
    await dead.kill()
    world.start(host="box")
    assert (await world.is_over(run_id)).error["code"] == "AI_RUN_INTERRUPTED"


async def test_the_live_runs_of_another_replica_are_left_alone(worlds: World) -> None:
    """On this host (its process lives) and on another one (nobody here can know)."""
    worlds.model.speak = worlds.model.hang
    beside = worlds.start(host="box", pid=os.getppid())
    elsewhere = worlds.start(host="other-box", pid=dead_pid())
    ids = [await worlds.ask(replica) for replica in (beside, elsewhere)]
    await worlds.until(lambda: both_thinking(worlds))
    third = worlds.start(host="box")
    worlds.model.speak = Played.says("mine")
    own = await worlds.ask(third)  # answered after the third's start, and with it the recovery
    assert (await worlds.is_over(own)).status == "succeeded"
    assert [(await worlds.run(run_id)).status for run_id in ids] == ["running", "running"]


async def both_thinking(world: World) -> bool:
    return len(world.model.asked) == 2


async def test_under_another_host_name_the_idle_timeout_ends_what_is_left(worlds: World) -> None:
    worlds.model.speak = worlds.model.hang
    dead = worlds.start(host="old-name")
    run_id = await worlds.ask(dead)
    await worlds.until(lambda: thinking(worlds))
    waiting = await waiting_run(worlds)
    await dead.kill()
    worlds.limits = AgentLimits(idle_timeout_s=60.0, sweep_s=0.02)
    worlds.start(host="new-name")
    async with worlds.db.write() as tx:
        prompts = schema.ai_agent_prompts
        await tx.execute(update(prompts).values(heartbeat_at=prompts.c.heartbeat_at - 61_000))
    ended = await worlds.is_over(run_id)
    assert ended.error["code"] == "AI_RUN_IDLE_TIMEOUT"
    assert (await worlds.run(waiting)).status == "waiting_external"  # exempt, however long it waits


async def waiting_run(world: World) -> int:
    other = world.start()
    speak, world.model.speak = world.model.speak, Played.steps(HELLO, ["done"])
    run_id = await world.ask(other)
    await world.step(run_id, 1)
    world.model.speak = speak
    return run_id


async def test_a_living_process_is_never_idle(world: World) -> None:
    world.limits = AgentLimits(idle_timeout_s=0.3, sweep_s=0.05, heartbeat_s=0.02)
    world.model.speak = world.model.hang
    replica = world.start()
    run_id = await world.ask(replica)
    await world.until(lambda: thinking(world))
    async with world.db.read() as tx:
        begun = (await sessions.find_prompt(tx, run_id)).heartbeat_at  # type: ignore[union-attr]

    async def long_after() -> bool:
        async with world.db.read() as tx:
            return (await sessions.find_prompt(tx, run_id)).heartbeat_at > begun + 500  # type: ignore[union-attr]

    await world.until(long_after)
    assert (await world.run(run_id)).status == "running"


async def test_a_process_lets_go_of_a_run_that_was_ended_elsewhere(world: World) -> None:
    world.limits = AgentLimits(heartbeat_s=0.02)
    world.model.speak = world.model.hang
    first, second = world.start(), world.start()
    run_id = await world.ask(first)
    await world.until(lambda: thinking(world))
    await world.cancel(second, run_id)
    await world.until(lambda: executes_nothing(first))
    assert (await world.run(run_id)).status == "cancelled"


async def test_force_cancel_ends_running_jobs_and_their_worker_finds_no_lease(worlds: World) -> None:
    worlds.model.speak = Played.steps(HELLO, ["done"])
    replica = worlds.start()
    run_id = await worlds.ask(replica)
    await worlds.step(run_id, 1)
    async with worlds.db.write() as tx:
        job = await jobs.claim_job(tx, PAGE_MUTATION, "hung worker", 60_000)
    assert job is not None
    assert await worlds.cancel(replica, run_id) == "cancelled"
    assert (await read_job(worlds, job.id)).status == "running"  # asked to stop, and it does not hear
    assert await worlds.cancel(replica, run_id, force=True) == "cancelled"
    assert (await read_job(worlds, job.id)).status == "cancelled"
    with pytest.raises(LeaseLost):
        async with worlds.db.write() as tx:
            await jobs.finish_job(tx, job.lease, "finish")


async def read_job(world: World, job_id: int) -> object:
    async with world.db.read() as tx:
        return await jobs.get_job(tx, PAGE_MUTATION, job_id)


async def test_a_retry_is_told_first_what_was_written(world: World) -> None:
    world.model.speak = Played.steps(HELLO)
    replica = world.start()
    run_id = await world.ask(replica, "make two pages")
    with pytest.raises(RunNotEnded):
        await world.retry(replica, run_id)
    await world.step(run_id, 1)
    world.model.speak = world.model.hang
    await world.end_jobs(run_id)
    await world.is_in(run_id, "running")
    await world.cancel(replica, run_id)
    with pytest.raises(AlreadyWrote, match="two"):
        await world.retry(replica, run_id)
    world.model.speak = Played.says("carried on")
    again = await world.retry(replica, run_id, written_seen=True)
    assert (await world.is_over(again)).result["text"] == "carried on"
    said = str(world.model.asked[-1][-1].parts[-1].content)  # type: ignore[union-attr]
    assert said.startswith("make two pages")
    assert "two (version 1)" in said
    assert set(world.model.results()) == {"c1", "c2"}  # what became of the last round's calls


async def test_a_session_has_one_live_run(world: World) -> None:
    world.model.speak = world.model.hang
    replica = world.start()
    await world.ask(replica)
    with pytest.raises(SessionBusy):
        await world.ask(replica, session_id=1)


def test_whether_a_process_lives_is_not_a_matter_of_its_number_alone() -> None:
    parent = psutil.Process(os.getppid())
    born_ms = int(parent.create_time() * 1000)
    assert is_alive(Owner("h", parent.pid, "x"), born_ms + 60_000)
    assert not is_alive(Owner("h", parent.pid, "x"), born_ms - 60_000)  # heard of before this process was born
    assert not is_alive(Owner("h", os.getpid(), "x"), born_ms + 60_000)
    assert not is_alive(Owner("h", dead_pid(), "x"), born_ms + 60_000)
    assert Owner.parse("a:b:12:ff") == Owner("a:b", 12, "ff")
    assert Owner.parse("nonsense") is None
