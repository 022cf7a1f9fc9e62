"""Models and histories that do not do what they should: each run ends with its own code, and nothing else suffers."""

import asyncio
import json
from typing import Any

import pytest
import structlog
from cryptography.fernet import Fernet
from sqlalchemy import select, update

from pagegate.actors.agents import reading
from pagegate.actors.agents.limits import AgentLimits
from pagegate.actors.agents.models import Models
from pagegate.actors.agents.secrets import SecretKeyInvalid, Secrets, SecretUnreadable
from pagegate.storage import credentials, schema
from pagegate.storage.credentials import NewCredential
from tests.integration.agents.conftest import Played, World, call, create


async def ends_with(world: World, code: str, **more: Any) -> None:
    """A run ends failed with the code; another one in the same process is none the worse."""
    replica = world.replicas[0] if world.replicas else world.start()
    run_id = await world.ask(replica, **more)
    ended = await world.is_over(run_id)
    assert (ended.status, ended.error["code"]) == ("failed", code)
    assert ended.error["hint"]
    assert (await world.kinds(run_id))[-1] == "run.failed"
    speak, world.model.speak = world.model.speak, Played.says("fine")
    world.model.speak = Played.says("fine")
    other = await world.ask(replica)
    assert (await world.is_over(other)).status == "succeeded"
    world.model.speak = speak


async def test_a_model_that_only_calls_tools_that_do_not_exist(world: World) -> None:
    world.model.speak = Played.says(call("x", "no_such_tool"))
    await ends_with(world, "AI_MODEL_OUTPUT_INVALID")


async def test_a_model_whose_arguments_never_fit(world: World) -> None:
    world.model.speak = Played.says(call("x", "create_project_page", json.dumps({"title": ""})))
    await ends_with(world, "AI_MODEL_OUTPUT_INVALID")


async def test_a_model_whose_arguments_are_no_json(world: World) -> None:
    world.model.speak = Played.says(call("x", "create_project_page", '{"title": '))
    await ends_with(world, "AI_MODEL_OUTPUT_INVALID")


async def test_a_model_that_gives_two_calls_one_id(world: World) -> None:
    world.model.speak = Played.says(create("x", "one"), {1001: next(iter(create("x", "two").values()))})
    await ends_with(world, "AI_MODEL_OUTPUT_INVALID")


async def test_a_model_that_loops(world: World) -> None:
    world.limits = AgentLimits(requests_max=4)
    world.model.speak = Played.says(call("x", "list_project_pages"))
    await ends_with(world, "AI_RUN_REQUEST_LIMIT")


async def test_a_model_that_falls_silent(world: World) -> None:
    world.model_idle_s = 0.2
    world.model.speak = world.model.hang
    await ends_with(world, "AI_MODEL_IDLE_TIMEOUT")


async def test_a_tool_that_falls_silent_and_one_that_breaks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def break_down(*_: Any) -> Any:
        raise ValueError("/a/path/of/ours")

    world.tools_idle_s = 0.2
    for tool, code in ((hang, "AI_TOOL_IDLE_TIMEOUT"), (break_down, "AI_RUN_FAILED")):
        monkeypatch.setattr(reading, "list_project_pages", tool)
        world.model.speak = Played.says(call("x", "list_project_pages"))
        with structlog.testing.capture_logs():
            await ends_with(world, code)
    async with world.db.read() as tx:
        errors = (await tx.execute(select(schema.ai_agent_runs.c.error))).scalars().all()
    assert "/a/path" not in str(errors)


async def test_a_model_that_says_nothing_at_all(world: World) -> None:
    world.model.speak = Played.says("")
    await ends_with(world, "AI_MODEL_OUTPUT_INVALID")


async def test_a_loop_over_steps_is_counted_for_the_whole_run(world: World) -> None:
    world.limits = AgentLimits(requests_max=3)
    replica = world.start()
    world.model.speak = lambda _, answers: Played.says(create(f"c{answers}", f"page-{answers}"))([], 0)
    run_id = await world.ask(replica)
    for step in (1, 2, 3):
        await world.step(run_id, step)
        await world.end_jobs(run_id)
    assert (await world.is_over(run_id)).error["code"] == "AI_RUN_REQUEST_LIMIT"


async def test_the_repair_budget_ends_a_run_that_goes_on_submitting(world: World) -> None:
    """CASES 63: told with the last result, and ended with the next submission."""
    world.limits = AgentLimits(repair_budget=5)
    replica = world.start()
    world.model.speak = lambda _, answers: Played.says(create(f"c{answers}", "stubborn"))([], 0)
    run_id = await world.ask(replica)
    for step in range(1, 6):
        await world.step(run_id, step)
        await world.end_jobs(run_id, "fail")
    ended = await world.is_over(run_id)
    assert ended.error["code"] == "AI_RUN_REPAIR_BUDGET_EXHAUSTED"
    assert len(await world.calls(run_id)) == 5
    last = list(world.model.results().values())[-1]
    assert "repair budget" in last["next"]


@pytest.mark.parametrize("damage", [{"kind": "nonsense"}, "not a message", {"code": "STORED_JSON_UNREADABLE"}])
async def test_a_history_that_cannot_be_read(world: World, damage: Any) -> None:
    replica = world.start()
    world.model.speak = Played.says("hello")
    first = await world.ask(replica)
    await world.is_over(first)
    messages = schema.ai_agent_messages
    async with world.db.write() as tx:
        await tx.execute(update(messages).where(messages.c.position == 1).values(message=damage))
    await ends_with(world, "AI_HISTORY_UNREADABLE", session_id=1)


async def credential(world: World, secrets: Secrets) -> dict[str, Any]:
    async with world.db.write() as tx:
        secret = secrets.encrypt("sk-very-secret")
        row = await credentials.add_credential(tx, NewCredential(world.user_id, "mine", "openai", None, "gpt", secret))
    return {"kind": "credential", "credential_id": row.id, "model": "gpt"}


async def test_a_credential_that_is_gone(world: World) -> None:
    await ends_with(world, "AI_CREDENTIAL_NOT_FOUND", model={"kind": "credential", "credential_id": 99})


async def test_a_new_fernet_key_alone_is_a_clear_error(world: World) -> None:
    """CASES 49."""
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    choice = await credential(world, Secrets([old]))
    replica = world.start()
    replica.side.models._secrets = Secrets([new])
    await ends_with(world, "AI_CREDENTIAL_UNREADABLE", model=choice)
    secret = Secrets([old]).encrypt("x")
    both = Secrets([new, old])
    assert both.decrypt(secret) == "x"
    fresh = both.rewrap(secret)
    assert fresh is not None
    assert Secrets([new]).decrypt(fresh) == "x"
    assert both.rewrap(fresh) is None
    with pytest.raises(SecretUnreadable):
        Secrets([new]).rewrap(secret)


@pytest.mark.parametrize("key", ["", "short", "not base64 at all!", "A" * 43 + "=", "ä" * 44, "changeme" * 5 + "abc="])
def test_a_malformed_key_or_a_placeholder_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(SecretKeyInvalid) as refused:
        Secrets([key])
    assert len(key) < 4 or key not in str(refused.value)


async def test_a_base_url_that_is_not_allowed_any_more_ends_the_run(world: World) -> None:
    secrets = Secrets([Fernet.generate_key().decode()])
    async with world.db.write() as tx:
        new = NewCredential(world.user_id, "m", "openai", "http://169.254.169.254/v1", "gpt", secrets.encrypt("k"))
        row = await credentials.add_credential(tx, new)
    replica = world.start()
    replica.side.models._secrets = secrets
    await ends_with(
        world, "AI_MODEL_BASE_URL_NOT_ALLOWED", model={"kind": "credential", "credential_id": row.id, "model": "gpt"}
    )
    assert "key" not in repr(Models(world.db, secrets))
