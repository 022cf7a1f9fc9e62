"""A real door on a real SQLite file: aiohttp's server on a free port, and people who ask.

Behind it are the real runs; the job queue is played by an actor that executes nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry

from pagegate.actors import kernel
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.runs import AgentRuns, RunLimits
from pagegate.actors.compiling.admission import RuntimeAdmission
from pagegate.actors.previews import Previews
from pagegate.actors.queues.control import JobControl, RetryLimits
from pagegate.actors.tickets import Tickets
from pagegate.http.backend.app import make_app
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import CompileRequest, CompileResult, LightRequest, LightResult, LightTool
from pagegate.storage.engine import Database
from pagegate.storage.objects import Objects
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.runtime_state import MemoryState
from pagegate.storage.schema import JOB_KINDS
from pagegate.storage.users import create_user, issue_token
from pagegate.storage.workspaces import create_workspace, put_member
from tests.integration.runtime.lighting import LightTools


class Queue(kernel.Actor):
    """In the job queue's place: hears that there is work, and executes nothing."""

    def __init__(self, heard: list[Any]) -> None:
        super().__init__()
        self.heard = heard

    async def on_receive(self, message: Any) -> None:
        self.heard.append(message)


class LightRuntimes:
    """In the place of Runtimes: out of reach until a test gives it a worker's light tools."""

    def __init__(self) -> None:
        self.tools: LightTools | None = None
        self.asked: list[LightRequest] = []

    async def light(
        self, url: str, tool: LightTool, request: LightRequest, file: AsyncIterator[bytes] | None, *, timeout_s: float
    ) -> LightResult:
        self.asked.append(request)
        if self.tools is None:
            raise RuntimeUnavailable("RUNTIME_UNREACHABLE", "nobody listens at 10.0.0.9")
        with NamedTemporaryFile() as whole:
            if file is not None:
                async for chunk in file:
                    whole.write(chunk)
                whole.flush()
            answer = await asyncio.to_thread(self.tools.run, tool, request.input, Path(whole.name) if file else None)
        return LightResult(ok=not answer["errors"], errors=answer["errors"], result=answer["result"])

    async def compile(self, url: str, request: CompileRequest, *, timeout_s: float) -> CompileResult:
        raise RuntimeUnavailable("RUNTIME_UNREACHABLE", "nobody listens")

    async def delete_output(self, url: str, output_id: str) -> None:
        return


@dataclass
class Answer:
    status: int
    body: Any
    headers: Any
    raw: bytes

    @property
    def code(self) -> str:
        """The error's code, after checking that it has the one shape of all errors."""
        assert set(self.body) - {"details"} == {"code", "message", "hint", "request_id"}, self.body
        assert self.body["message"]
        assert self.headers["X-Request-Id"] == self.body["request_id"]
        return str(self.body["code"])


class Person:
    """Someone with a token (or without) who sends requests."""

    def __init__(self, http: aiohttp.ClientSession, base: str, user_id: int, token: str | None) -> None:
        self.http, self.base, self.user_id, self.token = http, base, user_id, token

    def headers(self, more: dict[str, str] | None = None) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        return {**own, **(more or {})}

    async def ask(
        self, method: str, path: str, *, json: Any = None, data: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        async with self.http.request(
            method, self.base + path, json=json, data=data, headers=self.headers(headers)
        ) as answer:
            raw = await answer.read()
            body = await answer.json() if answer.content_type == "application/json" and raw else None
            return Answer(answer.status, body, answer.headers, raw)

    async def get(self, path: str, **how: Any) -> Answer:
        return await self.ask("GET", path, **how)

    async def post(self, path: str, json: Any = None, **how: Any) -> Answer:
        return await self.ask("POST", path, json=json, **how)

    async def put(self, path: str, json: Any = None, **how: Any) -> Answer:
        return await self.ask("PUT", path, json=json, **how)

    async def delete(self, path: str) -> Answer:
        return await self.ask("DELETE", path)


@dataclass
class World:
    """The door, what is behind it, and a workspace with one project and four people."""

    parts: BackendParts
    queue_heard: list[Any]
    runtimes: LightRuntimes
    server: TestServer
    http: aiohttp.ClientSession
    admin: Person
    owner: Person
    editor: Person
    viewer: Person
    stranger: Person
    nobody: Person
    workspace_id: int
    project_id: int

    @property
    def db(self) -> Database:
        return self.parts.db

    @property
    def project(self) -> str:
        return f"/projects/{self.project_id}"

    @asynccontextmanager
    async def another_door(self, **changed: Any) -> AsyncIterator[str]:
        """A second door on the same parts but for those `changed`; its address."""
        server = TestServer(make_app(replace(self.parts, registry=CollectorRegistry(), **changed)))
        await server.start_server()
        yield str(server.make_url("")).rstrip("/")
        await server.close()


RUN_LIMITS = RunLimits(active_jobs_max=8, batch_size_max=4, source_bytes_max=64 * 1024)
LIMITS = ApiLimits(
    batch_size_max=4,
    source_bytes_max=64 * 1024,
    asset_bytes_max=512 * 1024,
    streams_max=6,
    screenshot_active_jobs_max=6,
    screenshot_group_max=8,
)


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def queue_heard() -> list[Any]:
    """What the job queue was told."""
    return []


@pytest.fixture
def runtimes() -> LightRuntimes:
    return LightRuntimes()


@pytest.fixture
async def parts(
    sqlite_url: str, tmp_path: Path, rsa_key: rsa.RSAPrivateKey, queue_heard: list[Any], runtimes: LightRuntimes
) -> AsyncIterator[BackendParts]:
    db = await Database.open(sqlite_url)
    feed = RunFeed()
    queue = Queue.start(queue_heard)
    agent_runs = AgentRuns.start(db, dict.fromkeys(JOB_KINDS, queue), feed, RUN_LIMITS)
    job_control = JobControl.start(
        db,
        dict.fromkeys(JOB_KINDS, queue),
        RetryLimits(active_jobs_max=RUN_LIMITS.active_jobs_max),
        on_news=feed.publish,
        on_end=lambda: queue.tell("a job ended"),
    )
    state = MemoryState(max_bytes=1024 * 1024)
    artifacts, tickets = PreviewArtifacts(state), Tickets(rsa_key, "test-key")
    admission = RuntimeAdmission.start(runtimes, ["http://10.0.0.9"], {"check": 1, "light": 1})
    yield BackendParts(
        db=db,
        objects=Objects.local(tmp_path / "objects"),
        artifacts=artifacts,
        previews=Previews(db, artifacts, tickets, "http://runtime.test"),
        state=state,
        agent_runs=agent_runs,
        job_control=job_control,
        admission=admission,
        tickets=tickets,
        feed=feed,
        limits=LIMITS,
        registry=CollectorRegistry(),
        render_workers=1,
    )
    await kernel.stop(admission)
    await kernel.stop(job_control)
    await kernel.stop(agent_runs)
    await kernel.stop(queue)
    await db.close()


@pytest.fixture
async def world(parts: BackendParts, queue_heard: list[Any], runtimes: LightRuntimes) -> AsyncIterator[World]:
    server = TestServer(make_app(parts))
    await server.start_server()
    base = str(server.make_url("")).rstrip("/")
    async with aiohttp.ClientSession() as http:
        people: dict[str, Person] = {}
        for name in ("admin", "owner", "editor", "viewer", "stranger"):
            async with parts.db.write() as tx:
                user_id = await create_user(tx, name, is_admin=name == "admin")
                token = await issue_token(tx, user_id, "test")
            people[name] = Person(http, base, user_id, token.secret)
        async with parts.db.write() as tx:
            workspace_id = await create_workspace(tx, "Fernpost", people["owner"].user_id)
            await put_member(tx, workspace_id, people["editor"].user_id, "editor")
            await put_member(tx, workspace_id, people["viewer"].user_id, "viewer")
        made = await people["editor"].post(f"/workspaces/{workspace_id}/projects", {"name": "Q3 review"})
        assert made.status == 201, made.body
        yield World(
            parts=parts,
            queue_heard=queue_heard,
            runtimes=runtimes,
            server=server,
            http=http,
            nobody=Person(http, base, 0, None),
            workspace_id=workspace_id,
            project_id=made.body["id"],
            **people,
        )
    await server.close()
