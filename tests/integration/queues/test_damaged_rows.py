"""Rows that a hand or a disk has damaged: the job fails alone, with its own code, and the queue goes on ("Bad input").

The kind is the real page mutation; the check of the page is played, since no damaged job may get that far.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from sqlalchemy import update
from sqlalchemy.engine import make_url

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.jobs.page_check import Checked, PageCheck
from pagegate.actors.jobs.page_mutation import PageMutation
from pagegate.actors.jobs.verdict import Stages, Verdict
from pagegate.actors.kernel import stop
from pagegate.actors.queues.queue import JobQueue
from pagegate.actors.queues.worker import JobWorker
from pagegate.storage import external, jobs, runs, schema
from pagegate.storage.engine import dialect_of, sqlite_path
from pagegate.storage.jobs import PAGE_MUTATION
from pagegate.storage.objects import Objects
from pagegate.storage.runs import CallSubmission, StepSubmission
from pagegate.storage.screenshot_context import CaptureContext
from tests.integration.queues.lane import TIMES
from tests.world import World

FIRST = schema.ai_page_mutation_jobs.c.id == 1
ARGUMENTS = {"title": "Costs", "source": "<template><p>Costs</p></template>"}


class PlayedCheck:
    """Every page passes."""

    async def run(self, *_: Any) -> Checked:
        verdict = Verdict(status="passed", success=True, stages=Stages(compile="passed", render="passed"))
        nothing = CaptureContext(source="", components={}, pages={}, assets={}, theme="", route={}, canvas="")
        return Checked(verdict, frozenset(), nothing)


async def damage(url: str, statement: str) -> None:
    """Run a statement past everything that guards the tables: foreign keys and triggers."""
    if dialect_of(url) == "sqlite":
        by_hand = sqlite3.connect(sqlite_path(url), isolation_level=None)
        by_hand.execute(statement)
        by_hand.close()
        return
    to = make_url(url)
    conn = await asyncpg.connect(host=to.host, port=to.port, user=to.username, database=to.database)
    try:
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(statement)
    finally:
        await conn.close()


@pytest.fixture
async def member(world: World) -> World:
    """The world, with its user an editor of the first workspace."""
    async with world.db.write() as tx:
        await tx.execute(
            schema.members.insert().values(
                workspace_id=world.workspaces[0], user_id=world.user_id, role="editor", created_at_ms=tx.now
            )
        )
    return world


@pytest.fixture
async def steps(member: World) -> tuple[runs.Submitted, runs.Submitted]:
    """Two runs with a call each: the first is for the hand, the second for its neighbour."""

    def step(code: str) -> StepSubmission:
        call = CallSubmission(f"call-{code}", "create_project_page", ARGUMENTS, code, code)
        return StepSubmission(member.workspaces[0], member.projects[0], member.user_id, [call])

    return await member.write(runs.submit_step, step("damaged")), await member.write(runs.submit_step, step("good"))


@pytest.fixture
async def work(member: World, tmp_path: Path) -> AsyncIterator[Callable[[], None]]:
    """Call it to let a queue with one worker begin."""
    started: list[Any] = []

    def begin() -> None:
        check = cast(PageCheck, PlayedCheck())
        kind = PageMutation(member.db, Objects.local(tmp_path / "objects"), check, RunFeed(), on_end=lambda: None)
        workers = [JobWorker.start(member.db, kind, TIMES, 10)]
        started.extend(
            [
                JobQueue.start(member.db, PAGE_MUTATION, "host:1:abc", workers, TIMES, poll_s=0.05, sweep_s=0.05),
                *workers,
            ]
        )

    yield begin
    for actor in started:
        await stop(actor)


async def ended(world: World, job_id: int) -> Any:
    async with asyncio.timeout(20):
        while (row := await world.job(job_id)).finished_at_ms is None:
            await asyncio.sleep(0.01)
    return row


CALL = "UPDATE ai_agent_tool_calls SET {} WHERE call_id = 'call-damaged'"
DAMAGES: dict[str, str] = {
    "a text": CALL.format("arguments = '\"just a text\"'"),
    "a list": CALL.format("arguments = '[1, 2]'"),
    "a null": CALL.format("arguments = 'null'"),
    "an empty object": CALL.format("arguments = '{}'"),
    "a wrong type": CALL.format("""arguments = '{"title": 5, "source": []}'"""),
    "an unknown tool": CALL.format("tool_name = 'drop_project'"),
}
HOLES = {
    "a missing call": "DELETE FROM ai_agent_tool_calls WHERE call_id = 'call-damaged'",
    "a missing run": "DELETE FROM ai_agent_runs WHERE id = 1",
    "a missing project": "UPDATE ai_page_mutation_jobs SET project_id = 4711 WHERE id = 1",
}


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_job_whose_call_cannot_be_read_fails_alone_at_once_with_its_own_code(
    member: World, database_url: str, steps: tuple[runs.Submitted, runs.Submitted], work: Callable[[], None], what: str
) -> None:
    await damage(database_url, DAMAGES[what])
    work()
    (damaged,), (good,) = steps[0].job_ids, steps[1].job_ids
    row = await ended(member, damaged)
    assert (row.status, row.error_code, row.attempt) == ("failed", "TOOL_CALL_UNREADABLE", 1)
    assert (await ended(member, good)).status == "succeeded"


@pytest.mark.parametrize("what", HOLES)
async def test_a_job_that_points_at_nothing_fails_alone_too(
    member: World, database_url: str, steps: tuple[runs.Submitted, runs.Submitted], work: Callable[[], None], what: str
) -> None:
    """PostgreSQL then refuses to change the row twice in one transaction, so the job uses up its budget first."""
    await damage(database_url, HOLES[what])
    await member.write(
        lambda tx: tx.execute(update(schema.ai_page_mutation_jobs).where(FIRST).values(infra_failures=10))
    )
    work()
    row = await ended(member, steps[0].job_ids[0])
    code = "TOOL_CALL_UNREADABLE" if dialect_of(database_url) == "sqlite" else "JOB_CRASHED"
    assert (row.status, row.error_code, row.attempt) == ("failed", code, 1)
    assert (await ended(member, steps[1].job_ids[0])).status == "succeeded"


async def test_text_that_is_no_json_is_as_unreadable_as_any(
    member: World, database_url: str, steps: tuple[runs.Submitted, runs.Submitted], work: Callable[[], None]
) -> None:
    """PostgreSQL keeps such text out by itself."""
    if dialect_of(database_url) == "postgresql":
        with pytest.raises(asyncpg.InvalidTextRepresentationError):
            await damage(database_url, CALL.format("arguments = '{\"title\": '"))
        return
    await damage(database_url, CALL.format("arguments = '{\"title\": '"))
    work()
    row = await ended(member, steps[0].job_ids[0])
    assert (row.status, row.error_code, row.attempt) == ("failed", "TOOL_CALL_UNREADABLE", 1)
    assert (await ended(member, steps[1].job_ids[0])).status == "succeeded"


@pytest.mark.parametrize("column", ["error", "result"])
@pytest.mark.parametrize("value", ["{broken", "[[[[", "5", "'text'"])
async def test_damage_in_what_a_job_said_before_stops_neither_its_claim_nor_its_end(
    member: World,
    database_url: str,
    steps: tuple[runs.Submitted, runs.Submitted],
    work: Callable[[], None],
    column: str,
    value: str,
) -> None:
    if dialect_of(database_url) == "postgresql":
        value = "5"
    text = value.replace("'", "''")
    await damage(database_url, f"UPDATE ai_page_mutation_jobs SET {column} = '{text}' WHERE id = 1")
    work()
    for submitted in steps:
        assert (await ended(member, submitted.job_ids[0])).status == "succeeded"


async def test_a_damaged_job_that_was_lost_is_rescued_like_any_other(
    member: World, database_url: str, steps: tuple[runs.Submitted, runs.Submitted], work: Callable[[], None]
) -> None:
    job = await member.claim()
    assert job is not None
    await member.write(jobs.request_cancel, PAGE_MUTATION, job.id)
    await member.expire(job.lease)
    broken = "{broken" if dialect_of(database_url) == "sqlite" else "5"
    await damage(database_url, f"UPDATE ai_page_mutation_jobs SET error = '{broken}' WHERE id = {job.id}")
    work()
    assert (await ended(member, job.id)).status == "cancelled"


async def test_a_new_page_whose_code_was_lost_gets_one_from_its_title(
    member: World, database_url: str, steps: tuple[runs.Submitted, runs.Submitted], work: Callable[[], None]
) -> None:
    await damage(database_url, "UPDATE ai_page_mutation_jobs SET candidate_code = NULL WHERE id = 1")
    work()
    row = await ended(member, steps[0].job_ids[0])
    assert (row.status, row.result["page_code"]) == ("succeeded", "costs")


async def test_the_run_of_a_damaged_call_still_ends_with_the_rest_of_its_results(
    member: World, database_url: str, steps: tuple[runs.Submitted, runs.Submitted], work: Callable[[], None]
) -> None:
    await damage(database_url, DAMAGES["a text"])
    work()
    await ended(member, steps[0].job_ids[0])
    batch = await member.claim_batch()
    assert batch is not None
    (result,) = await member.read(external.list_results, batch.batch_id)
    assert result.state == "failed"
    assert result.result is not None
    assert result.result["code"] == "TOOL_CALL_UNREADABLE"
