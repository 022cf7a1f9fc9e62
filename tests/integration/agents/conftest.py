"""A Backend's agent side on a real database: real actors, real coordinator, Pydantic AI with a model that a test plays.

Jobs are played by the test: `World.end_jobs` ends them as a worker would, in the fenced transaction that writes their
external tasks through.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from sqlalchemy import select, update

from pagegate.actors.agents import pydantic_brain, scripted  # noqa: F401  imported once, and in no test's time
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.limits import AgentLimits, RunLimits
from pagegate.actors.agents.runs import AgentRuns, CancelRun, RetryRun, RunStarted, StartAgentRun
from pagegate.actors.kernel import Actor, ask, stop
from pagegate.actors.systems.agent_options import AgentOptions
from pagegate.actors.systems.backend_agents import AgentSide
from pagegate.storage import jobs, lease, runs, schema, sessions
from pagegate.storage.engine import Database
from pagegate.storage.jobs import PAGE_MUTATION
from pagegate.storage.objects import Objects
from pagegate.storage.transitions import RUN

Speech = AsyncIterator[Any]
Speak = Callable[[list[ModelMessage], int], Speech]

SOURCE = "<template><h1>{}</h1></template>"


def create(call_id: str, code: str, source: str = SOURCE) -> dict[int, DeltaToolCall]:
    """What a model yields to call `create_project_page`."""
    import json

    arguments = json.dumps({"title": code, "code": code, "source": source})
    return {hash(call_id) % 1000: DeltaToolCall(name="create_project_page", json_args=arguments, tool_call_id=call_id)}


def call(call_id: str, name: str, arguments: str = "{}") -> dict[int, DeltaToolCall]:
    return {hash(call_id) % 1000: DeltaToolCall(name=name, json_args=arguments, tool_call_id=call_id)}


class Played:
    """The model. `speak(messages, answers)` yields what it says; `answers` counts those it gave in this history."""

    def __init__(self) -> None:
        self.speak: Speak = self.says("done")
        self.asked: list[list[ModelMessage]] = []
        self.asked_once = asyncio.Event()

    def model(self) -> FunctionModel:
        return FunctionModel(stream_function=self._speak, model_name="played")

    async def _speak(self, messages: list[ModelMessage], _: AgentInfo) -> Speech:
        self.asked.append(messages)
        self.asked_once.set()
        async for word in self.speak(messages, sum(isinstance(message, ModelResponse) for message in messages)):
            yield word

    @staticmethod
    def says(*words: Any) -> Speak:
        async def speak(_: list[ModelMessage], __: int) -> Speech:
            for word in words:
                yield word

        return speak

    @staticmethod
    def steps(*steps: list[Any]) -> Speak:
        """Answer number n is `steps[n]`, the last one for ever."""

        async def speak(_: list[ModelMessage], answers: int) -> Speech:
            for word in steps[min(answers, len(steps) - 1)]:
                yield word

        return speak

    async def hang(self, _: list[ModelMessage], __: int) -> Speech:
        yield "I think"
        await asyncio.Event().wait()

    def results(self, asked: int = -1) -> dict[str, Any]:
        """The tool results that the model saw when it was asked, by call id."""
        parts = [part for message in self.asked[asked] for part in message.parts]
        return {p.tool_call_id: p.content for p in parts if p.part_kind == "tool-return"}  # type: ignore[union-attr]


class Queue(Actor):
    async def on_receive(self, message: Any) -> None:
        pass


@dataclass
class Replica:
    """One process's agent side."""

    side: AgentSide
    agent_runs: Any
    queue: Any
    owner: str
    feed: RunFeed

    async def close(self) -> None:
        await stop(self.agent_runs)
        await self.side.stop_executing()
        await stop(self.side.external)
        await stop(self.side.background)
        await stop(self.queue)

    async def kill(self) -> None:
        """End as a killed process does: nothing more is written."""
        for ref in (self.side.external, self.side.background):
            actor = ref._actor_weakref()
            assert actor is not None
            actor._execution._db = Dead()
            actor._db = Dead()
        await self.close()


class Dead:
    """The database of a process that is gone."""

    def write(self) -> Any:
        raise asyncio.CancelledError

    read = write


@dataclass
class World:
    db: Database
    folder: Path
    model: Played = field(default_factory=Played)
    limits: AgentLimits = field(default_factory=lambda: AgentLimits(queue_wait_s=5.0))
    run_limits: RunLimits = field(default_factory=RunLimits)
    model_idle_s: float = 10.0
    tools_idle_s: float = 5.0
    user_id: int = 0
    project_id: int = 0
    workspace_id: int = 0
    replicas: list[Replica] = field(default_factory=list)

    async def settle_in(self) -> None:
        async with self.db.write() as tx:
            self.user_id = await tx.insert(schema.users, name="ada", created_at_ms=tx.now)
            self.workspace_id = await tx.insert(schema.workspaces, name="w", created_at_ms=tx.now)
            self.project_id = await tx.insert(
                schema.projects, workspace_id=self.workspace_id, name="p", canvas_width_px=1280, created_at_ms=tx.now
            )

    def start(self, *, host: str | None = None, pid: int | None = None, db: Database | None = None) -> Replica:
        owner = f"{host or f'host-{len(self.replicas)}'}:{pid or os.getpid()}:{uuid.uuid4().hex}"
        db = db or self.db
        feed, queue = RunFeed(), Queue.start()
        side = AgentSide(
            db,
            Objects.local(self.folder / "objects"),
            feed,
            owner,
            self.run_limits,
            AgentOptions(limits=self.limits, model_idle_s=self.model_idle_s, tools_idle_s=self.tools_idle_s),
            on_jobs=lambda: None,
        )
        side.models._scripted = self.model.model
        agent_runs = AgentRuns.start(
            db,
            dict.fromkeys(schema.JOB_KINDS, queue),
            feed,
            self.run_limits,
            owner=owner,
            background=side.background,
            external=side.external,
        )
        replica = Replica(side, agent_runs, queue, owner, feed)
        self.replicas.append(replica)
        return replica

    async def ask(self, replica: Replica, prompt: str = "make a page", **more: Any) -> int:
        started: RunStarted = await ask(
            replica.agent_runs,
            StartAgentRun(self.user_id, self.project_id, prompt, more.pop("model", {"kind": "scripted"}), **more),
        )
        return started.run_id

    async def retry(self, replica: Replica, run_id: int, *, written_seen: bool = False) -> int:
        return (await ask(replica.agent_runs, RetryRun(self.user_id, run_id, written_seen))).run_id

    async def cancel(self, replica: Replica, run_id: int, *, force: bool = False) -> str:
        return await ask(replica.agent_runs, CancelRun(run_id, self.user_id, force))

    async def run(self, run_id: int) -> Any:
        async with self.db.read() as tx:
            return await runs.get_run(tx, run_id)

    async def until(self, what: Callable[[], Awaitable[bool]], within_s: float = 15.0) -> None:
        async with asyncio.timeout(within_s):
            while not await what():
                await asyncio.sleep(0.01)

    async def is_in(self, run_id: int, *states: str) -> Any:
        """Wait until the run is in one of the states; its row then."""

        async def there() -> bool:
            return (await self.run(run_id)).status in states

        await self.until(there)
        return await self.run(run_id)

    async def is_over(self, run_id: int) -> Any:
        return await self.is_in(run_id, *RUN.terminal)

    async def events(self, run_id: int) -> list[runs.RunEvent]:
        async with self.db.read() as tx:
            return await runs.list_events(tx, run_id)

    async def kinds(self, run_id: int) -> list[str]:
        return [event.kind for event in await self.events(run_id)]

    async def calls(self, run_id: int) -> list[runs.ToolCall]:
        async with self.db.read() as tx:
            return await runs.list_tool_calls(tx, run_id)

    async def history(self, run_id: int) -> list[Any]:
        async with self.db.read() as tx:
            prompt = await sessions.find_prompt(tx, run_id)
            assert prompt is not None
            return await sessions.list_messages(tx, prompt.session_id)

    async def end_jobs(
        self, run_id: int, *ends: str, result: dict[str, Any] | None = None, kind: str = PAGE_MUTATION
    ) -> list[int]:
        """End the run's pending jobs of a kind, newest first, each by one of `ends` (default: all succeed)."""
        table, name = schema.metadata.tables[kind], jobs.SUBJECTS[kind]
        async with self.db.read() as tx:
            subject = table.c[name].label("subject")
            pending = select(table.c.id, subject).where(table.c.run_id == run_id, table.c.status == "pending")
            rows = (await tx.execute(pending.order_by(table.c.id.desc()))).all()
        for number, row in enumerate(rows):
            end: Any = ends[number] if number < len(ends) else "finish"
            async with self.db.write() as tx:
                leased = {"status": "running", "worker_id": "w", "attempt": 1, "lease_expires_at": tx.now + 60_000}
                await tx.execute(update(table).where(table.c.id == row.id).values(**leased))
                held = lease.Lease(kind, row.id, "w", 1, 0)
                told = {name: row.subject, "status": "passed", "version": 1}
                if end == "fail":
                    told = {
                        name: row.subject,
                        "status": "failed",
                        "code": "PAGE_VALIDATION_FAILED",
                        "next": "Repair it.",
                    }
                await jobs.finish_job(tx, held, end, result=told | (result or {}))
        return [row.id for row in rows]

    async def step(self, run_id: int, number: int) -> None:
        """Wait until the run has submitted its step of this number and waits."""

        async def there() -> bool:
            row = await self.run(run_id)
            return row.run_step >= number and row.status == "waiting_external"

        await self.until(there)


@pytest.fixture
async def world(sqlite_url: str, tmp_path: Path) -> AsyncIterator[World]:
    async for one in _world(sqlite_url, tmp_path):
        yield one


@pytest.fixture
async def worlds(database_url: str, tmp_path: Path) -> AsyncIterator[World]:
    """The same on both databases."""
    async for one in _world(database_url, tmp_path):
        yield one


async def _world(url: str, tmp_path: Path) -> AsyncIterator[World]:
    db = await Database.open(url)
    world = World(db, tmp_path)
    await world.settle_in()
    yield world
    for replica in world.replicas:
        await replica.close()
    await db.close()
