"""Runs of the built-in agent in virtual time: processes that are killed, frozen and stopped before, during and after
the model's answer, several coordinators, answers that come after the lease was lost (A4, A7).

Coordinator, run manager, execution and SQL are the real ones. The model is played: it takes its time, says what it does
under its own mark, and writes a few steps. Jobs are ended by a hand that is not part of any process.
"""

import asyncio
import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy import select, update

from pagegate.actors.agents import background
from pagegate.actors.agents.background import AgentBackgroundRunManager, StopExecuting
from pagegate.actors.agents.brain import Answer, Asked, DeferredCall, Tell
from pagegate.actors.agents.execution import Execution
from pagegate.actors.agents.external_tasks import BatchesMayBeReady, ExternalTasks, StopResuming
from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.history import count_answers, pending_calls
from pagegate.actors.agents.limits import AgentLimits, RunLimits
from pagegate.actors.agents.runs import AgentRuns, StartAgentRun
from pagegate.actors.kernel import Actor, ask, stop
from pagegate.storage import jobs, lease, runs, schema, sessions
from pagegate.storage.interrupted_runs import Owner
from pagegate.storage.transitions import RUN
from tests.simulation.database import Server, Wire
from tests.simulation.people import People
from tests.simulation.virtual_loop import Life, VirtualLoop, simulate
from tests.simulation.world import workshop

LIMITS = AgentLimits(
    concurrency=2, queue_wait_s=20.0, resume_lease_s=10.0, heartbeat_s=3.0, idle_timeout_s=40.0, sweep_s=5.0
)
STORM_S = 60.0
CALM_S = 240.0


class Model:
    """The brain of one process; `mark` says which one spoke."""

    def __init__(self, chance: random.Random, mark: str, steps: int) -> None:
        self._chance, self._mark, self._steps = chance, mark, steps

    async def answer(self, asked: Asked, tell: Tell) -> Answer:
        await asyncio.sleep(self._chance.uniform(0, 8))
        await tell("model.text", {"by": self._mark})
        await asyncio.sleep(self._chance.choice([0.0, 1.0, 12.0]))
        await tell("model.text", {"by": self._mark})
        answers = count_answers(asked.history)
        told = [{"part_kind": "tool-return", "tool_call_id": c, "content": r} for c, r in asked.results.items()]
        before = [{"kind": "request", "parts": told}] if told else []
        if answers >= self._steps:
            return Answer([*before, {"kind": "response", "parts": [{"part_kind": "text", "content": "done"}]}], "done")
        made = [
            DeferredCall(f"r{asked.run_id}-{answers}-{n}", "create_project_page", {"title": "T", "source": "<p/>"})
            for n in range(2)
        ]
        parts = [{"part_kind": "tool-call", "tool_call_id": one.call_id, "tool_name": one.tool} for one in made]
        return Answer([*before, {"kind": "response", "parts": parts}], calls=made)


class Nobody(Actor):
    async def on_receive(self, message: Any) -> None:
        pass


class Process:
    """One Backend's agent side."""

    def __init__(self, world: "Agents", host: str, number: int) -> None:
        self.life = Life(world.loop, f"{host}{number}")
        self.wire, self.host = Wire(world.server, self.life), host
        self.owner = f"{host}:{100 + number}:{uuid.uuid4().hex}"
        self.life.context.run(self._compose, world)

    def _compose(self, world: "Agents") -> None:
        db, feed = self.wire.database, RunFeed()
        model = Model(world.loop.chance, self.owner, world.steps)
        limits = RunLimits(active_jobs_max=6)

        def submitted() -> None:
            self.external.tell(BatchesMayBeReady())

        execution = Execution(db, model, feed, limits, LIMITS, self.owner, submitted)
        self.background: Any = AgentBackgroundRunManager.start(db, execution, feed, self.owner, LIMITS)
        self.external: Any = ExternalTasks.start(
            db, self.owner, feed, execution, resumes_max=2, lease_s=LIMITS.resume_lease_s, poll_s=2.0, reconcile_s=15.0
        )
        self.runs: Any = AgentRuns.start(
            db,
            dict.fromkeys(schema.JOB_KINDS, Nobody.start()),
            feed,
            limits,
            owner=self.owner,
            background=self.background,
            external=self.external,
        )

    async def stop(self) -> None:
        """In order, as the composition does it."""
        await ask(self.background, StopExecuting())
        await ask(self.external, StopResuming())
        for actor in (self.runs, self.external, self.background):
            await stop(actor)


@dataclass
class Agents:
    loop: VirtualLoop
    server: Server
    steps: int
    wire: Wire = field(init=False)
    processes: list[Process] = field(default_factory=list)
    gone: list[Process] = field(default_factory=list)
    asked: int = 0
    born: int = 0

    def start(self, host: str) -> Process:
        self.born += 1
        return Process(self, host, self.born)

    def is_alive(self, owner: Owner, _: int) -> bool:
        return any(process.owner == str(owner) for process in self.processes)

    async def trouble(self) -> None:
        chance = self.loop.chance
        while self.loop.time() < STORM_S:
            await asyncio.sleep(chance.uniform(0.5, 6))
            place = chance.randrange(len(self.processes))
            process = self.processes[place]
            match chance.choice(["kill", "freeze", "stop", "lose", "heal", "nothing"]):
                case "kill":
                    process.life.stop()
                    self.server.lose_touch(process.life)
                    self.gone.append(process)
                    self.processes[place] = self.start(process.host)
                case "freeze":  # its leases end meanwhile; it comes back and goes on as if nothing had been
                    process.life.stop()
                    await asyncio.sleep(chance.uniform(1, 25))
                    process.life.go_on()
                case "stop":
                    await process.life.begin(process.stop())
                    self.processes[place] = self.start(process.host)
                case "lose":
                    process.wire.loses = 0.1
                case "heal":
                    process.wire.heal()
        for process in self.processes:
            process.wire.heal()

    async def people(self, user_id: int, project_id: int) -> None:
        for _ in range(4):
            await asyncio.sleep(self.loop.chance.uniform(0, 12))
            process = self.loop.chance.choice(self.processes)
            message = StartAgentRun(
                user_id, project_id, "write", {"kind": "scripted"}, idempotency_key=f"k{self.asked}"
            )
            self.asked += 1
            asking = process.life.begin(ask(process.runs, message, timeout_s=20.0))
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def hand(self) -> None:
        """Ends every job after a while."""
        table = schema.ai_page_mutation_jobs
        while True:
            await asyncio.sleep(self.loop.chance.uniform(0.2, 3))
            async with self.wire.write() as tx:
                pending = select(table.c.id).where(table.c.status == "pending").order_by(table.c.id).limit(1)
                job_id = (await tx.execute(pending)).scalar()
                if job_id is None:
                    continue
                leased = {"status": "running", "worker_id": "hand", "attempt": 1, "lease_expires_at": tx.now + 60_000}
                await tx.execute(update(table).where(table.c.id == job_id).values(**leased))
                held = lease.Lease(jobs.PAGE_MUTATION, job_id, "hand", 1, 0)
                await jobs.finish_job(tx, held, "finish", result={"page_code": "p", "version": 1})

    async def all_over(self) -> bool:
        async with self.wire.read() as tx:
            rows = (await tx.execute(select(schema.ai_agent_runs.c.status))).scalars().all()
        return all(status in RUN.terminal for status in rows)

    async def judge(self) -> list[str]:
        """What is wrong with what is left; also the ends, to see that the worlds differ."""
        async with self.wire.read() as tx:
            rows = (await tx.execute(select(schema.ai_agent_runs).order_by(schema.ai_agent_runs.c.id))).all()
            ends = []
            for run in rows:
                ends.append((run.error or {}).get("code", run.status))
                events = await runs.list_events(tx, run.id, limit=10_000)
                prompt = await sessions.find_prompt(tx, run.id)
                assert prompt is not None
                stored = await sessions.list_messages(tx, prompt.session_id)
                messages = [one.message for one in stored if one.run_id == run.id]
                calls = await runs.list_tool_calls(tx, run.id)
                self._judge(run, [(event.kind, dict(event.data)) for event in events], messages, calls)
            batches = (await tx.execute(select(schema.ai_agent_external_batches.c.state))).scalars().all()
            assert set(batches) <= {"completed"}, batches
        return ends

    def _judge(self, run: Any, events: list[tuple[str, dict[str, Any]]], messages: list[Any], calls: list[Any]) -> None:
        kinds = [kind for kind, _ in events]
        last = [kind for kind in kinds if kind in {"run.finished", "run.failed", "run.cancelled"}]
        assert len(last) == 1, (run.id, kinds)
        assert kinds[-1] == last[0], f"run {run.id} goes on after its end: {kinds}"
        assert kinds.count("run.submitted") == run.run_step
        assert len({call.call_id for call in calls}) == len(calls) == 2 * run.run_step, "each step was made once"
        answers = count_answers(messages)
        assert answers == run.run_step + (run.status == "succeeded"), "one answer is kept for each step, and one to end"
        if run.status == "succeeded":
            assert run.run_step == self.steps
            assert pending_calls(messages) == [], "every call has its answer"
        speaks = None
        for kind, data in events:
            if kind in {"run.started", "run.resumed"}:
                speaks = data["owner"]
            if kind == "run.released":
                speaks = None
            if kind == "model.text":
                assert data["by"] == speaks, f"run {run.id}: {data['by']} speaks, and {speaks} has the turn"
        generations = [data["generation"] for kind, data in events if kind == "run.resumed"]
        assert all(one >= 1 for one in generations)


def play(seed: int, path: Path) -> list[str]:
    async def story(loop: VirtualLoop) -> list[str]:
        chance = loop.chance
        world = Agents(loop, Server(loop, path, lambda *_, **__: None), steps=chance.choice([1, 2, 3]))
        world.wire = Wire(world.server)
        people = People(world)  # type: ignore[arg-type]  # it needs the wire only
        await people.settle_in(1)
        place = people.places[0]
        with mock.patch.object(background, "is_alive", world.is_alive):
            world.processes = [world.start(host) for host in "abc"[: chance.choice([1, 2, 3])]]
            hand = asyncio.create_task(world.hand())
            asking = asyncio.create_task(world.people(place.user_id, place.project_id))
            await world.trouble()
            await asking
            until_s = loop.time() + CALM_S
            while not await world.all_over():
                assert loop.time() < until_s, "a run never ends"
                await asyncio.sleep(1)
            hand.cancel()
            for process in world.gone:  # those that were killed come back for a last word, which nobody heeds
                process.wire.cut = False
                process.life.go_on()
            await asyncio.sleep(30)
            ends = await world.judge()
            for process in world.processes + world.gone:
                process.wire.cut = True
            world.server.close()
        return ends

    names = random.Random(seed)
    made_up = lambda: uuid.UUID(int=names.getrandbits(128), version=4)  # noqa: E731  another one each time
    with mock.patch.object(uuid, "uuid4", made_up):
        return simulate(seed, story)


def test_runs_end_once_and_only_who_has_the_turn_writes(seed: int, tmp_path: Path) -> None:
    with workshop() as (folder, template):
        path = Path(folder) / "agents.db"
        path.write_bytes(template.read_bytes())
        assert play(seed, path)
