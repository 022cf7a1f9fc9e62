"""OpenAI-compatible and Anthropic models over their real wire formats, through Pydantic AI, bad days too (A10)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.fernet import Fernet

from pagegate.actors.agents.models import BaseUrlNotAllowed, CredentialRefused, ModelAccess
from pagegate.actors.agents.secrets import Secrets
from pagegate.storage import credentials
from pagegate.storage.credentials import NewCredential
from tests.integration.agents.conftest import SOURCE, Replica, World
from tests.integration.agents.fake_provider import KEY, Provider

PROVIDERS = ["openai", "anthropic"]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with Provider().serving() as served:
        yield served


def address(provider: Provider, kind: str) -> str:
    return provider.base_url + ("/v1" if kind == "openai" else "")


def replica_of(world: World, provider: Provider, kind: str) -> Replica:
    replica = world.start()
    models = replica.side.models
    models._scripted, models._base_urls = None, {address(provider, kind)}
    models._secrets = Secrets([Fernet.generate_key().decode()])
    return replica


async def choice(world: World, replica: Replica, provider: Provider, kind: str, key: str = KEY) -> dict[str, Any]:
    secrets = replica.side.models.secrets
    assert secrets is not None
    async with world.db.write() as tx:
        new = NewCredential(world.user_id, "mine", kind, address(provider, kind), "a-model", secrets.encrypt(key))
        row = await credentials.add_credential(tx, new)
    return {"kind": "credential", "credential_id": row.id, "provider": kind, "model": "a-model"}


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_a_run_writes_pages_and_is_resumed_over_the_wire(world: World, provider: Provider, kind: str) -> None:
    arguments = {"title": "One", "code": "one", "source": SOURCE}
    step = [("call_1", "list_project_pages", {}), ("call_2", "create_project_page", arguments)]
    provider.answers = [step, "All is saved."]
    replica = replica_of(world, provider, kind)
    run_id = await world.ask(replica, model=await choice(world, replica, provider, kind))
    await world.step(run_id, 1)
    await world.end_jobs(run_id)
    ended = await world.is_over(run_id)
    assert (ended.status, ended.error, ended.result["text"]) == ("succeeded", None, "All is saved.")
    assert len(provider.asked) == 2
    told = str(provider.asked[1]["messages"])
    for word in ("call_1", "call_2", "'saved': True" if "'saved'" in told else "saved"):
        assert word in told
    assert {tool.get("name") or tool["function"]["name"] for tool in provider.asked[0]["tools"]} >= {
        "list_project_pages",
        "get_page_content",
        "create_project_page",
        "apply_page_edits",
        "list_workspace_components",
        "get_verdict",
    }


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize(
    ("trouble", "codes"),
    [
        ("limited", {"AI_MODEL_RATE_LIMITED"}),
        ("broken", {"AI_MODEL_UNAVAILABLE"}),
        ("cut", {"AI_MODEL_UNAVAILABLE"}),
        ("silent", {"AI_MODEL_IDLE_TIMEOUT", "AI_MODEL_TIMEOUT"}),
        ("refusing", {"AI_CREDENTIAL_REFUSED"}),
        ("garbage", {"AI_MODEL_UNAVAILABLE", "AI_MODEL_OUTPUT_INVALID"}),
    ],
)
async def test_a_provider_in_trouble_ends_the_run_with_its_code(
    world: World, provider: Provider, kind: str, trouble: Any, codes: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    world.model_idle_s = 0.5 if trouble == "silent" else 10.0
    provider.trouble = trouble
    replica = replica_of(world, provider, kind)
    run_id = await world.ask(replica, model=await choice(world, replica, provider, kind))
    ended = await world.is_over(run_id)
    assert ended.error["code"] in codes
    assert KEY not in str([event.data for event in await world.events(run_id)]) + str(ended.error) + caplog.text


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ("spent", "AI_MODEL_QUOTA_EXCEEDED"),
        ("unknown", "AI_MODEL_NOT_FOUND"),
        ("long", "AI_MODEL_CONTEXT_FULL"),
        ("odd", "AI_MODEL_REQUEST_REFUSED"),
    ],
)
async def test_what_a_provider_refuses_is_told_apart(world: World, provider: Provider, trouble: Any, code: str) -> None:
    provider.trouble = trouble
    replica = replica_of(world, provider, "openai")
    run_id = await world.ask(replica, model=await choice(world, replica, provider, "openai"))
    assert (await world.is_over(run_id)).error["code"] == code


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_a_key_is_tried_before_it_is_saved(world: World, provider: Provider, kind: str) -> None:
    models = replica_of(world, provider, kind).side.models
    await models.check(ModelAccess(kind, "a-model", address(provider, kind), KEY))
    with pytest.raises(CredentialRefused) as refused:
        await models.check(ModelAccess(kind, "a-model", address(provider, kind), "sk-wrong"))
    assert refused.value.code == "AI_CREDENTIAL_REFUSED"
    assert "sk-wrong" not in str(refused.value)
    with pytest.raises(BaseUrlNotAllowed):
        await models.check(ModelAccess(kind, "a-model", "http://127.0.0.1:1/v1", KEY))


async def test_a_run_that_is_stopped_lets_go_of_its_connection(world: World, provider: Provider) -> None:
    provider.trouble = "silent"
    world.model_idle_s = 60.0
    replica = replica_of(world, provider, "openai")
    run_id = await world.ask(replica, model=await choice(world, replica, provider, "openai"))
    async with asyncio.timeout(10):
        while not provider.asked:
            await asyncio.sleep(0.01)
    assert await world.cancel(replica, run_id) == "cancelled"
    async with asyncio.timeout(5):
        while replica.side.background._actor_weakref()._tasks:
            await asyncio.sleep(0.01)
