"""A project's webhook over HTTP: set by editors, its secret shown once, its deliveries shown without it (A9)."""

from dataclasses import replace

import pytest
from cryptography.fernet import Fernet

from pagegate.actors.agents.models import Models
from pagegate.actors.agents.secrets import Secrets
from pagegate.actors.webhook_sender import WebhookAddresses
from pagegate.http.backend.parts import BackendParts
from pagegate.storage import webhooks
from tests.integration.http.conftest import Person, World
from tests.integration.http.test_gate import create, step

URL = "https://example.org/hooks"
SECRETS = Secrets([Fernet.generate_key().decode()])


@pytest.fixture
async def parts(parts: BackendParts) -> BackendParts:
    """The door's parts, with a key to encrypt with and one address that the operator allowed."""
    addresses = WebhookAddresses(["http://hooks.internal:9000/in"])
    return replace(parts, models=Models(parts.db, SECRETS), webhook_addresses=addresses)


async def test_the_secret_is_shown_once_and_stored_encrypted(world: World) -> None:
    path = f"{world.project}/webhook"
    assert (await world.editor.get(path)).code == "WEBHOOK_NOT_FOUND"
    made = await world.editor.put(path, {"url": URL})
    assert made.status == 200, made.body
    secret = made.body["secret"]
    async with world.db.read() as tx:
        row = await webhooks.find_webhook(tx, world.project_id)
    assert row is not None
    assert SECRETS.decrypt(row.secret) == secret
    shown = await world.editor.get(path)
    assert (shown.body["url"], shown.body["deliveries"]) == (URL, [])
    assert secret.encode() not in shown.raw
    assert row.secret.encode() not in shown.raw
    again = await world.editor.put(path, {"url": URL})
    assert again.body["secret"] != secret
    assert (await world.editor.delete(path)).status == 204
    assert (await world.editor.delete(path)).code == "WEBHOOK_NOT_FOUND"


async def test_a_runs_delivery_is_shown_and_told_by_its_diagnosis(world: World) -> None:
    await world.editor.put(f"{world.project}/webhook", {"url": URL})
    made = await world.editor.post(f"{world.project}/tool-calls", step(create()))
    assert made.status == 202, made.body
    run_id = made.body["run_id"]
    await world.editor.post(f"/runs/{run_id}/cancel")
    (shown,) = (await world.editor.get(f"{world.project}/webhook")).body["deliveries"]
    assert (shown["run_id"], shown["state"], shown["attempt"], shown["error"]) == (run_id, "pending", 0, None)
    found = await world.editor.get(f"/runs/{run_id}/diagnosis")
    assert "Its webhook waits for try 1." in found.body["says"]


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://user@example.org/",
        "ftp://example.org/",
        "https://",
        "nonsense",
        "http://hooks.internal:9000/other",
        "http://hooks.internal:9000/in/../other",
        "http://hooks.internal/in",
    ],
)
async def test_an_address_inside_or_without_tls_is_refused(world: World, url: str) -> None:
    assert (await world.editor.put(f"{world.project}/webhook", {"url": url})).code == "WEBHOOK_URL_NOT_ALLOWED"


async def test_the_operator_may_allow_an_address_inside(world: World) -> None:
    made = await world.editor.put(f"{world.project}/webhook", {"url": "http://hooks.internal:9000/in/a?b=1"})
    assert made.status == 200, made.body


async def test_only_who_may_change_the_project_sees_its_webhook(world: World) -> None:
    path = f"{world.project}/webhook"

    async def codes(person: Person) -> set[str]:
        answers = [await person.get(path), await person.put(path, {"url": URL}), await person.delete(path)]
        return {answer.code for answer in answers}

    assert await codes(world.viewer) == {"ROLE_REQUIRED"}
    assert await codes(world.stranger) == {"PROJECT_NOT_FOUND"}


async def test_without_a_key_to_encrypt_with_it_is_refused(world: World) -> None:
    async with world.another_door(models=None) as base:
        person = Person(world.http, base, world.editor.user_id, world.editor.token)
        refused = await person.put(f"{world.project}/webhook", {"url": URL})
    assert (refused.status, refused.code) == (503, "AI_CREDENTIALS_UNAVAILABLE")


async def test_a_rewrap_takes_webhooks_along_and_names_those_that_no_key_opens(world: World) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    async with world.db.write() as tx:
        await webhooks.put_webhook(tx, world.project_id, URL, Secrets([old]).encrypt("whsec_x"))

    async def rewrap(keys: list[str]) -> dict[str, object]:
        async with world.another_door(models=Models(world.db, Secrets(keys))) as base:
            admin = Person(world.http, base, world.admin.user_id, world.admin.token)
            return dict((await admin.post("/model-credentials/rewrap")).body)

    nothing = {"rewrapped": 0, "current": 0, "unreadable": [], "unreadable_webhooks": []}
    assert await rewrap([new]) == nothing | {"unreadable_webhooks": [world.project_id]}
    assert await rewrap([new, old]) == nothing | {"rewrapped": 1}
    async with world.db.read() as tx:
        row = await webhooks.find_webhook(tx, world.project_id)
    assert row is not None
    assert Secrets([new]).decrypt(row.secret) == "whsec_x"
