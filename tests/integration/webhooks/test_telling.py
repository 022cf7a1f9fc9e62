"""Runs' ends told to a real HTTP receiver: slow, refusing, redirecting, hanging, and killed between (A9, X1)."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pykka
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.fernet import Fernet

from pagegate.actors import kernel
from pagegate.actors.agents.secrets import Secrets
from pagegate.actors.kernel import Backoff
from pagegate.actors.public_internet import is_public
from pagegate.actors.queues.listener import HintListener
from pagegate.actors.webhook_sender import WebhookAddresses, new_secret, signature_of
from pagegate.actors.webhooks import TRIES_MAX, Webhooks
from pagegate.storage import runs, webhooks
from pagegate.storage.engine import Database
from pagegate.storage.lease import Lease
from tests.world import World

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]
PATIENCE_S = 20.0


def says(status: int, **headers: str) -> Answering:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers=headers)

    return answer


async def hangs(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@dataclass
class Receiver:
    """Answers each request with the next of `answers`, the last of them for ever."""

    answers: list[Answering] = field(default_factory=lambda: [says(200)])
    heard: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    async def receive(self, request: web.Request) -> web.StreamResponse:
        self.heard.append((request.path, dict(request.headers), await request.read()))
        return await (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(request)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, headers, _ in self.heard]


class Telling:
    """A world whose first project has a webhook, and the actor that tells of its runs."""

    def __init__(self, world: World, receiver: Receiver, stack: AsyncExitStack) -> None:
        self.world, self.receiver, self._stack = world, receiver, stack
        self.outcomes: asyncio.Queue[str] = asyncio.Queue()
        self.secrets, self.secret = Secrets([Fernet.generate_key().decode()]), new_secret()

    async def set_webhook(self, url: str) -> None:
        encrypted = self.secrets.encrypt(self.secret)
        await self.world.write(webhooks.put_webhook, self.world.projects[0], url, encrypted)

    def start(self, **changed: Any) -> pykka.ActorRef[Any]:
        options: dict[str, Any] = {"poll_s": 0.02, "retries": Backoff(0.001, 1.0, 0.001)} | changed
        addresses = options.pop("addresses", WebhookAddresses([self.receiver.url]))
        secrets = options.pop("secrets", self.secrets)
        ref = Webhooks.start(self.world.db, secrets, addresses, "here", observe=self.outcomes.put_nowait, **options)
        self._stack.push_async_callback(kernel.stop, ref)
        return ref

    async def end_a_run(self) -> int:
        run_id = (await self.world.submit()).run_id
        await self.world.write(runs.cancel_run, run_id)
        return run_id

    async def outcome(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self.outcomes.get()

    async def delivery(self, run_id: int) -> Any:
        return await self.world.read(webhooks.find_delivery, run_id)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.receive)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0.1)
    receiver.url = str(server.make_url("")).rstrip("/")
    yield receiver
    await server.close()


@pytest.fixture
async def telling(db: Database, receiver: Receiver) -> AsyncIterator[Telling]:
    world = World(db)
    await world.settle_in()
    async with AsyncExitStack() as stack:
        telling = Telling(world, receiver, stack)
        await telling.set_webhook(f"{receiver.url}/hooks?key=1")
        yield telling


async def test_a_runs_end_is_told_once_and_signed(telling: Telling) -> None:
    telling.start()
    run_id = await telling.end_a_run()
    assert await telling.outcome() == "delivered"
    ((path, headers, body),) = telling.receiver.heard
    run = await telling.world.read(runs.get_run, run_id)
    assert path == "/hooks"
    assert json.loads(body) == {
        "type": "run.finished",
        "run_id": run_id,
        "project_id": telling.world.projects[0],
        "status": "cancelled",
        "finished_at_ms": run.finished_at_ms,
    }
    key = base64.b64decode(telling.secret.removeprefix("whsec_"))
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert (await telling.delivery(run_id)).state == "delivered"


async def test_an_error_and_a_hanging_receiver_are_tried_again_under_the_same_id(telling: Telling) -> None:
    telling.receiver.answers = [says(500), hangs, says(200)]
    telling.start(timeout_s=0.3)
    run_id = await telling.end_a_run()
    assert [await telling.outcome() for _ in range(3)] == ["retried", "retried", "delivered"]
    assert len(set(telling.receiver.ids)) == 1
    assert len({body for _, _, body in telling.receiver.heard}) == 1
    row = await telling.delivery(run_id)
    assert (row.state, row.attempt, row.last_status) == ("delivered", 3, 200)


async def test_a_receiver_that_streams_for_ever_is_not_listened_to(telling: Telling) -> None:
    async def talks(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await asyncio.Event().wait()
        return answer

    telling.receiver.answers = [talks]
    telling.start()
    await telling.end_a_run()
    assert await telling.outcome() == "delivered"


async def test_nobody_there_is_tried_to_the_end_and_given_up(telling: Telling) -> None:
    await telling.set_webhook("http://127.0.0.1:9/hooks")  # the discard port: nobody listens
    telling.start(addresses=WebhookAddresses(["*"]))
    run_id = await telling.end_a_run()
    outcomes = [await telling.outcome() for _ in range(TRIES_MAX)]
    assert outcomes == ["retried"] * (TRIES_MAX - 1) + ["failed"]
    assert (await telling.delivery(run_id)).error["code"] == "WEBHOOK_UNREACHABLE"


async def test_a_receiver_without_the_tls_it_should_have_is_not_told(telling: Telling) -> None:
    await telling.set_webhook(telling.receiver.url.replace("http://", "https://"))
    telling.start(addresses=WebhookAddresses(["*"]), retries=Backoff(3600.0, 1.0, 3600.0))
    run_id = await telling.end_a_run()
    assert await telling.outcome() == "retried"
    error = (await telling.delivery(run_id)).error
    assert error["code"] == "WEBHOOK_UNREACHABLE"
    assert "TLS" in error["message"]
    assert telling.receiver.heard == []


async def test_a_name_that_nobody_knows_is_tried_again(telling: Telling) -> None:
    await telling.set_webhook("https://nobody.invalid/")
    telling.start(addresses=WebhookAddresses(), retries=Backoff(3600.0, 1.0, 3600.0))
    run_id = await telling.end_a_run()
    assert await telling.outcome() == "retried"
    assert (await telling.delivery(run_id)).error["code"] in {"WEBHOOK_UNREACHABLE", "WEBHOOK_TIMEOUT"}


class Ear(kernel.Actor):
    """In the coordinator's place: hears that the listener listens."""

    def __init__(self, heard: asyncio.Event) -> None:
        super().__init__()
        self._heard = heard

    async def on_receive(self, message: Any) -> None:
        self._heard.set()


async def test_on_postgresql_an_end_is_told_without_waiting_for_a_poll(postgres_url: str, receiver: Receiver) -> None:
    db = await Database.open(postgres_url)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(db.close)
        world = World(db)
        await world.settle_in()
        telling, listening = Telling(world, receiver, stack), asyncio.Event()
        await telling.set_webhook(receiver.url)
        webhooks_actor, ear = telling.start(poll_s=3600.0), Ear.start(listening)
        stack.push_async_callback(kernel.stop, ear)
        listener = HintListener.start(db, {}, ear, webhooks_actor)
        stack.push_async_callback(kernel.stop, listener)
        async with asyncio.timeout(PATIENCE_S):
            await listening.wait()
        await telling.end_a_run()
        assert await telling.outcome() == "delivered"


async def test_gone_ends_it_and_a_redirect_is_not_followed(telling: Telling) -> None:
    telling.receiver.answers = [says(307, Location=f"{telling.receiver.url}/inside"), says(410)]
    telling.start()
    run_id = await telling.end_a_run()
    assert [await telling.outcome(), await telling.outcome()] == ["retried", "failed"]
    assert [path for path, _, _ in telling.receiver.heard] == ["/hooks", "/hooks"]
    assert (await telling.delivery(run_id)).error["code"] == "WEBHOOK_GONE"


@pytest.mark.parametrize(
    ("host", "code"), [("localhost", "WEBHOOK_ADDRESS_NOT_ALLOWED"), ("127.0.0.1", "WEBHOOK_URL_NOT_ALLOWED")]
)
async def test_a_name_that_leads_inside_is_refused_before_a_connection(telling: Telling, host: str, code: str) -> None:
    connected = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        await telling.set_webhook(f"https://{host}:{port}/")
        telling.start(addresses=WebhookAddresses())
        run_id = await telling.end_a_run()
        assert await telling.outcome() == "failed"
        assert not connected.is_set()
    assert (await telling.delivery(run_id)).error["code"] == code


async def test_killed_between_the_sending_and_the_commit_it_is_sent_again_under_the_same_id(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()

    async def never(_: Any, lease: Lease, status: int) -> None:
        sent.set_result(lease)
        await asyncio.Event().wait()

    with monkeypatch.context() as killed:
        killed.setattr(webhooks, "finish_delivery", never)
        first = telling.start()
        run_id = await telling.end_a_run()
        async with asyncio.timeout(PATIENCE_S):
            lease = await sent
        await kernel.stop(first)
    assert (await telling.delivery(run_id)).state == "delivering"
    await telling.world.expire(lease)
    telling.start()
    assert await telling.outcome() == "delivered"
    assert len(telling.receiver.ids) == 2
    assert len(set(telling.receiver.ids)) == 1


async def test_a_removed_webhook_and_a_lost_key_are_told_apart(telling: Telling) -> None:
    other = Secrets([Fernet.generate_key().decode()])
    telling.start(secrets=other, retries=Backoff(3600.0, 1.0, 3600.0))
    unreadable = await telling.end_a_run()
    assert await telling.outcome() == "retried"
    assert (await telling.delivery(unreadable)).error["code"] == "WEBHOOK_SECRET_UNREADABLE"
    async with telling.world.db.write() as tx:  # ordered, and removed before anybody sends
        run_id = (await runs.submit_step(tx, telling.world.step())).run_id
        await runs.cancel_run(tx, run_id)
        await webhooks.delete_webhook(tx, telling.world.projects[0])
    assert await telling.outcome() == "failed"
    assert (await telling.delivery(run_id)).error["code"] == "WEBHOOK_REMOVED"
    assert telling.receiver.heard == []


def test_the_signature_is_that_of_the_published_example() -> None:
    """The values of the Standard Webhooks reference tests."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    signed = signature_of(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_addresses_of_the_public_internet_are_known(address: str) -> None:
    assert is_public(address)


INSIDE = """0.0.0.0 127.0.0.1 10.1.1.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 198.18.0.1 224.0.0.1
255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 fe80::1%eth0 fd00::1
2002:7f00:1:: 2001:0:1::1 2001:db8::1 ff02::1"""


@pytest.mark.parametrize("address", INSIDE.split())
def test_addresses_of_inside_are_known_in_every_disguise(address: str) -> None:
    assert not is_public(address)
