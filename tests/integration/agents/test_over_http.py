"""Runs of the built-in agent over a real door: prompts, closed streams, retries, diagnosis, credentials (A7-A10)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.secrets import Secrets
from pagegate.actors.kernel import stop
from pagegate.actors.tickets import Tickets
from pagegate.http.backend.app import make_app
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.storage import credentials, schema
from pagegate.storage.credentials import NewCredential
from pagegate.storage.users import create_user, issue_token
from pagegate.storage.workspaces import put_member
from tests.integration.agents.conftest import SOURCE, Played, Replica, World, create
from tests.integration.agents.fake_provider import KEY, Provider

HELLO = [create("c1", "one"), create("c2", "two")]


@dataclass
class Person:
    http: aiohttp.ClientSession
    base: str
    token: str

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.http.request(method, self.base + path, json=body, headers=headers) as answer:
            raw = await answer.read()
            return answer.status, json.loads(raw) if raw else None

    def events(self, run_id: int, after: int | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} | ({"Last-Event-ID": str(after)} if after else {})
        return self.http.get(f"{self.base}/runs/{run_id}/events", headers=headers)


@dataclass
class Door:
    editor: Person
    stranger: Person
    admin: Person
    parts: BackendParts
    replica: Replica


@asynccontextmanager
async def opened(world: World) -> AsyncIterator[Door]:
    replica = world.start()
    # What these routes never touch is None; each part that they need is the real one.
    needed = [one.name for one in fields(BackendParts) if one.default is MISSING and one.default_factory is MISSING]
    unused: Any = dict.fromkeys(needed)
    parts = BackendParts(**unused)
    parts = replace(
        parts,
        db=world.db,
        agent_runs=replica.agent_runs,
        tickets=Tickets(rsa.generate_private_key(public_exponent=65537, key_size=2048), "k"),
        feed=replica.feed,
        screenshot_feed=RunFeed(),
        limits=ApiLimits(),
        registry=CollectorRegistry(),
        render_workers=1,
        models=replica.side.models,
    )
    server = TestServer(make_app(parts))
    await server.start_server()
    base = str(server.make_url("")).rstrip("/")
    async with aiohttp.ClientSession() as http:
        people = {}
        async with world.db.write() as tx:
            for name in ("stranger", "admin"):
                user_id = await create_user(tx, name, is_admin=name == "admin")
                people[name] = Person(http, base, (await issue_token(tx, user_id, "t")).secret)
            await put_member(tx, world.workspace_id, world.user_id, "editor")
            people["editor"] = Person(http, base, (await issue_token(tx, world.user_id, "t")).secret)
        yield Door(parts=parts, replica=replica, **people)
    await server.close()


@pytest.fixture
async def door(world: World) -> AsyncIterator[Door]:
    async with opened(world) as one:
        yield one


async def start(door: Door, world: World, **more: Any) -> int:
    path = f"/projects/{world.project_id}/agent-runs"
    status, body = await door.editor.ask("POST", path, {"prompt": "make two pages", **more})
    assert status == 202, body
    return int(body["run_id"])


async def test_closing_the_stream_in_the_middle_stops_nothing(door: Door, world: World) -> None:
    """CASES 53: the run goes on, and the place is counted right."""
    world.model.speak = Played.steps(HELLO, ["done"])
    run_id = await start(door, world)
    async with door.editor.events(run_id) as stream:
        await stream.content.readuntil(b"event: run.submitted")
        assert door.parts.feed.streams == 1
    await world.until(lambda: no_streams(door))
    await world.step(run_id, 1)
    await world.end_jobs(run_id)
    assert (await world.is_over(run_id)).status == "succeeded"


async def no_streams(door: Door) -> bool:
    return door.parts.feed.streams == 0


async def test_a_stream_that_was_dropped_goes_on_behind_the_last_event(door: Door, world: World) -> None:
    """CASES 54."""
    world.model.speak = Played.says("one thing")
    run_id = await start(door, world)
    await world.is_over(run_id)
    last = (await world.events(run_id))[-1].index
    async with door.editor.events(run_id, after=last - 1) as stream:
        text = (await stream.read()).decode()
    assert text.count("\nid: ") + text.startswith("id: ") == 1
    assert f"id: {last}\nevent: run.finished" in text
    async with door.editor.events(run_id, after=last + 5) as stream:
        assert (stream.status, (await stream.json())["code"]) == (404, "RUN_EVENT_NOT_FOUND")


async def test_a_run_shows_what_it_was_asked_and_what_it_saved(door: Door, world: World) -> None:
    world.model.speak = Played.steps(HELLO, ["done"])
    run_id = await start(door, world, focus={"pages": [{"page": "one", "version": 1}]})
    await world.step(run_id, 1)
    await world.end_jobs(run_id)
    await world.is_over(run_id)
    _, run = await door.editor.ask("GET", f"/runs/{run_id}")
    assert run["agent"] == {"session_id": 1, "prompt": "make two pages", "model": "scripted", "retry_of": None}
    assert {page["page"] for page in run["pages"]} == {"one", "two"}
    _, listed = await door.editor.ask("GET", f"/projects/{world.project_id}/sessions")
    assert [one["title"] for one in listed["sessions"]] == ["make two pages"]
    _, session = await door.editor.ask("GET", "/sessions/1")
    assert ([one["id"] for one in session["runs"]], session["focus"]["pages"][0]["page"]) == ([run_id], "one")


async def test_a_retry_is_refused_until_what_was_written_is_known(door: Door, world: World) -> None:
    world.model.speak = Played.steps(HELLO)
    run_id = await start(door, world)
    status, body = await door.editor.ask("POST", f"/runs/{run_id}/retry", {})
    assert (status, body["code"]) == (409, "AI_RUN_NOT_ENDED")
    await world.step(run_id, 1)
    world.model.speak = world.model.hang
    await world.end_jobs(run_id)
    await world.is_in(run_id, "running")
    status, body = await door.editor.ask("POST", f"/runs/{run_id}/force-cancel")
    assert (status, body["status"]) == (200, "cancelled")
    status, body = await door.editor.ask("POST", f"/runs/{run_id}/retry", {})
    assert (status, body["code"]) == (409, "AI_RUN_ALREADY_WROTE")
    assert "one (version 1)" in body["message"]
    world.model.speak = Played.says("done")
    status, body = await door.editor.ask("POST", f"/runs/{run_id}/retry", {"written_seen": True})
    assert (status, body["session_id"]) == (202, 1)
    assert (await world.is_over(body["run_id"])).status == "succeeded"


async def test_the_same_key_answers_the_same_run(door: Door, world: World) -> None:
    world.model.speak = Played.says("done")
    first = await start(door, world, idempotency_key="k")
    assert await start(door, world, idempotency_key="k") == first
    path = f"/projects/{world.project_id}/agent-runs"
    status, body = await door.editor.ask("POST", path, {"prompt": "something else", "idempotency_key": "k"})
    assert (status, body["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")


async def test_a_prompt_that_says_nothing_and_a_key_that_is_none_are_refused(door: Door, world: World) -> None:
    path = f"/projects/{world.project_id}/agent-runs"
    for body in ({"prompt": " \n "}, {"prompt": "x", "idempotency_key": " "}):
        assert (await door.editor.ask("POST", path, body))[1]["code"] == "REQUEST_INVALID"
    headers = {"Authorization": f"Bearer {door.editor.token}", "Idempotency-Key": "k" * 201}
    async with door.editor.http.post(door.editor.base + path, json={"prompt": "x"}, headers=headers) as answer:
        assert (answer.status, (await answer.json())["code"]) == (422, "REQUEST_INVALID")


async def test_what_cannot_be_begun_is_refused(door: Door, world: World) -> None:
    path = f"/projects/{world.project_id}/agent-runs"
    world.model.speak = world.model.hang
    run_id = await start(door, world)
    session = (await door.editor.ask("GET", f"/runs/{run_id}"))[1]["agent"]["session_id"]
    answers = [
        await door.editor.ask("POST", path, {"prompt": "x", "session_id": session}),
        await door.editor.ask("POST", path, {"prompt": "x", "session_id": 99}),
        await door.editor.ask(
            "POST", "/model-credentials", {"name": "m", "provider": "openai", "model": "g", "key": "k"}
        ),
    ]
    assert [(status, body.get("code", body)) for status, body in answers] == [
        (409, "AI_SESSION_BUSY"),
        (404, "AI_SESSION_NOT_FOUND"),
        (503, "AI_CREDENTIALS_UNAVAILABLE"),
    ]
    page = {"call_id": "c", "tool": "create_project_page", "arguments": {"title": "One", "source": SOURCE}}
    _, outside = await door.editor.ask("POST", f"/projects/{world.project_id}/tool-calls", {"calls": [page]})
    await door.editor.ask("POST", f"/runs/{outside['run_id']}/cancel")
    status, body = await door.editor.ask("POST", f"/runs/{outside['run_id']}/retry", {})
    assert (status, body["code"]) == (409, "AI_RUN_NOT_RETRYABLE")
    await door.replica.side.stop_executing()
    late = await world.is_over(await start(door, world))
    assert late.error["code"] == "AI_RUN_PROCESS_STOPPED", "accepted at the last moment, and not left behind"
    await stop(door.replica.side.background)
    status, body = await door.editor.ask("POST", path, {"prompt": "x"})
    assert (status, body["code"]) == (503, "AI_AGENT_UNAVAILABLE")


async def test_strangers_find_nothing(door: Door, world: World) -> None:
    world.model.speak = Played.says("done")
    run_id = await start(door, world)
    for method, path, body in (
        ("POST", f"/projects/{world.project_id}/agent-runs", {"prompt": "x"}),
        ("GET", f"/projects/{world.project_id}/sessions", None),
        ("GET", "/sessions/1", None),
        ("GET", f"/runs/{run_id}/diagnosis", None),
        ("POST", f"/runs/{run_id}/retry", {}),
        ("POST", f"/runs/{run_id}/force-cancel", None),
    ):
        status, answer = await door.stranger.ask(method, path, body)
        assert (status, answer["code"][-10:]) == (404, "_NOT_FOUND"), path


async def test_a_diagnosis_tells_who_holds_what(door: Door, world: World) -> None:
    world.model.speak = Played.steps(HELLO, ["done"])
    run_id = await start(door, world)
    await world.step(run_id, 1)
    _, found = await door.editor.ask("GET", f"/runs/{run_id}/diagnosis")
    assert (found["run"]["status"], found["open_batch"]) == ("waiting_external", True)
    assert [call["job_status"] for call in found["calls"]] == ["pending", "pending"]
    assert "waits to be claimed" in found["says"][0]
    async with world.db.write() as tx:
        table = schema.ai_page_mutation_jobs
        leased = {"status": "running", "worker_id": "w", "attempt": 1, "lease_expires_at": tx.now - 1}
        await tx.execute(table.update().where(table.c.id == 1).values(**leased))
    before = await world.events(run_id)
    _, found = await door.editor.ask("GET", f"/runs/{run_id}/diagnosis")
    assert found["calls"][0]["lease_valid"] is False
    assert "has lost its worker" in found["says"][0]
    assert await world.events(run_id) == before
    status, body = await door.editor.ask("GET", "/runs/999/diagnosis")
    assert (status, body["code"]) == (404, "RUN_NOT_FOUND")


async def test_credentials_are_tried_saved_and_never_shown(door: Door, world: World) -> None:
    models = door.replica.side.models
    models._secrets = Secrets([Fernet.generate_key().decode()])
    async with Provider().serving() as provider:
        address = provider.base_url + "/v1"
        new = {"name": "mine", "provider": "openai", "model": "gpt", "key": KEY, "base_url": address}
        status, body = await door.editor.ask("POST", "/model-credentials", new)
        assert (status, body["code"]) == (422, "AI_MODEL_BASE_URL_NOT_ALLOWED")
        models._base_urls = {address}
        status, body = await door.editor.ask("POST", "/model-credentials", {**new, "key": "sk-wrong"})
        assert (status, body["code"]) == (422, "AI_CREDENTIAL_REFUSED")
        assert "sk-wrong" not in str(body)
        provider.trouble = "broken"
        status, body = await door.editor.ask("POST", "/model-credentials", new)
        assert (status, body["code"]) == (503, "AI_MODEL_UNREACHABLE")
        provider.trouble = ""
        status, body = await door.editor.ask("POST", "/model-credentials", new)
        assert status == 201, body
        status, again = await door.editor.ask("POST", "/model-credentials", new)
        assert (status, again["code"]) == (409, "AI_CREDENTIAL_NAME_TAKEN")
    status, listed = await door.editor.ask("GET", "/model-credentials")
    assert KEY not in str(body) + str(listed)
    assert [one["name"] for one in listed["credentials"]] == ["mine"]
    _, others = await door.stranger.ask("GET", "/model-credentials")
    assert others["credentials"] == []
    path = f"/projects/{world.project_id}/agent-runs"
    await put_member_of(door, world)
    status, body = await door.stranger.ask("POST", path, {"prompt": "x", "use": {"credential_id": 1}})
    assert (status, body["code"]) == (404, "AI_CREDENTIAL_NOT_FOUND")
    async with world.db.read() as tx:
        (row,) = await credentials.list_credentials(tx, world.user_id)
    assert KEY not in row.secret
    assert (await door.editor.ask("DELETE", "/model-credentials/1"))[0] == 204


async def put_member_of(door: Door, world: World) -> None:
    async with world.db.write() as tx:
        stranger = (await tx.execute(schema.users.select().where(schema.users.c.name == "stranger"))).one()
        await put_member(tx, world.workspace_id, stranger.id, "editor")


async def test_stored_keys_are_encrypted_anew_under_the_current_key(door: Door, world: World) -> None:
    """K7, CASES 49."""
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    async with world.db.write() as tx:
        for name, key in (("a", old), ("b", new), ("c", Fernet.generate_key().decode())):
            secret = Secrets([key]).encrypt(f"sk-{name}")
            await credentials.add_credential(tx, NewCredential(world.user_id, name, "openai", None, "m", secret))
    door.replica.side.models._secrets = Secrets([new, old])
    status, body = await door.editor.ask("POST", "/model-credentials/rewrap")
    assert (status, body["code"]) == (403, "ADMIN_REQUIRED")
    _, done = await door.admin.ask("POST", "/model-credentials/rewrap")
    assert done == {"rewrapped": 1, "current": 1, "unreadable": [3], "unreadable_webhooks": []}
    async with world.db.read() as tx:
        rows = await credentials.list_credentials(tx, world.user_id)
    assert Secrets([new]).decrypt(rows[0].secret) == "sk-a"
