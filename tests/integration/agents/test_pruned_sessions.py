"""Old runs of the built-in agent go; their session goes with the last of them, its history with it (Q11)."""

from sqlalchemy import func, select

from pagegate.storage import pruning, schema
from pagegate.storage.pruning import START, Retention
from tests.integration.agents.conftest import Played, World, create


async def prune(world: World, run_id: int) -> int:
    at_once = Retention(0, 0, 0)
    async with world.db.read() as tx:
        assert run_id in (await pruning.list_prunable_runs(tx, at_once, START, 100)).run_ids
    async with world.db.write() as tx:
        return await pruning.prune_runs(tx, at_once, [run_id])


async def count(world: World, *tables: str) -> list[int]:
    async with world.db.read() as tx:
        return [
            (await tx.execute(select(func.count()).select_from(schema.metadata.tables[table]))).scalar_one()
            for table in tables
        ]


async def test_a_session_keeps_its_history_until_its_last_run_is_pruned(worlds: World) -> None:
    worlds.model.speak = Played.steps([create("c1", "one")], ["done"])
    replica = worlds.start()
    first = await worlds.ask(replica)
    await worlds.step(first, 1)
    await worlds.end_jobs(first)
    await worlds.is_over(first)
    worlds.model.speak = Played.says("more")
    second = await worlds.ask(replica, session_id=1)
    await worlds.is_over(second)
    assert await prune(worlds, first) == 1
    prompts, kept, listed = await count(worlds, "ai_agent_prompts", "ai_agent_messages", "ai_agent_sessions")
    assert (prompts, listed) == (1, 1)
    assert kept == 6  # the pruned run's too: the next run of the session needs them
    assert await prune(worlds, second) == 1
    assert await count(worlds, "ai_agent_prompts", "ai_agent_messages", "ai_agent_sessions") == [0, 0, 0]
