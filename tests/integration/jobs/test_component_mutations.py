"""The lane of component mutations, whole: queue, worker, kind, and the real compiler; bad days are played (A2, D4).

Real are the database, the actors and the Node worker that compiles; between admission and worker there is no wire here
(`tests/integration/lite` has it).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pykka
import pytest
from sqlalchemy import select, update

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.reading import told_to_model
from pagegate.actors.agents.submissions import prepare_calls
from pagegate.actors.agents.tools import parse_tool_call
from pagegate.actors.compiling.admission import RuntimeAdmission
from pagegate.actors.jobs.candidate_compile import CheckLimits
from pagegate.actors.jobs.component_check import ComponentCheck
from pagegate.actors.jobs.component_mutation import ComponentMutation
from pagegate.actors.kernel import ask, stop
from pagegate.actors.queues.control import CancelOneJob, JobControl, RetryLimits
from pagegate.actors.queues.kinds import TryLater
from pagegate.actors.queues.queue import Drain, JobQueue, JobsSubmitted
from pagegate.actors.queues.worker import JobWorker
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.actors.tickets import Tickets
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import CompileOutput, CompileRequest, CompileResult
from pagegate.storage import components, jobs, lease, pages, runs, schema
from pagegate.storage.engine import Database, SystemClock
from pagegate.storage.jobs import COMPONENT_MUTATION
from pagegate.storage.lease import LeaseLost
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.runs import StepSubmission, Submitted
from pagegate.storage.runtime_state import MemoryState
from tests.integration.runtime.conftest import Compiler, compiler
from tests.world import World

__all__ = ["compiler"]

_jobs = schema.component_mutation_jobs

TILE = """<script setup>
defineProps({ label: { type: String, required: true }, unit: String })
</script>
<template><p>{{ label }} {{ unit }} <slot name="foot"/></p></template>
"""
PAGE = """<script setup>
import Tile from '@components/Tile.vue'
</script>
<template><Tile label="Costs" unit="EUR"><template #foot>foot</template></Tile></template>
"""
BROKEN = "<template><div></template>"


@dataclass
class Runtimes:
    """One Runtime with the real compiler. `meanwhile` runs before it answers; `fails` are the next answers."""

    compiler: Compiler
    artifacts: PreviewArtifacts
    meanwhile: Callable[[], Awaitable[None]] | None = None
    fails: list[RuntimeUnavailable] = field(default_factory=list)
    asked: list[tuple[str, bool]] = field(default_factory=list)  # the entry, and whether behind the checks
    kept: set[str] = field(default_factory=set)
    hangs: asyncio.Event = field(default_factory=asyncio.Event)
    is_old: bool = False  # of a version that knows no contracts

    async def compile(self, url: str, request: CompileRequest, *, timeout_s: float) -> CompileResult:
        manifest = await self.artifacts.get_manifest(request.artifact_id)
        modules = await self.artifacts.read_modules(request.artifact_id, manifest["modules"])
        self.asked.append((manifest["entry"], request.background))
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        if self.fails:
            raise self.fails.pop(0)
        asked = {"contract": request.contract, "usesOf": request.uses_of}
        known = {"modules": manifest["known_modules"], "assets": []}
        told = await asyncio.to_thread(
            self.compiler.compile, manifest["entry"], modules, assets=(), known=known, **asked
        )
        if told["errors"]:
            return CompileResult(ok=False, errors=told["errors"], runtime_build="build")
        self.kept.add(request.task_id)
        kept = CompileOutput(output_id=request.task_id, navigation_url="", vendor_url="", size_bytes=1)
        said = {} if self.is_old else told["result"]
        return CompileResult(ok=True, output=kept, runtime_build="build", **said)

    async def light(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is measured here")

    async def delete_output(self, url: str, output_id: str) -> None:
        self.kept.discard(output_id)


@dataclass
class Lane:
    world: World
    state: MemoryState
    runtimes: Runtimes
    kind: ComponentMutation
    queue: pykka.ActorRef[Any]
    control: pykka.ActorRef[Any]
    ended: "asyncio.Queue[None]"

    @property
    def project_id(self) -> int:
        return self.world.projects[0]

    async def submit(self, *calls: tuple[str, dict[str, Any]]) -> Submitted:
        parsed = [parse_tool_call(f"c{number}", tool, said) for number, (tool, said) in enumerate(calls)]
        async with self.world.db.write() as tx:
            step = StepSubmission(
                workspace_id=self.world.workspaces[0],
                project_id=self.project_id,
                user_id=self.world.user_id,
                calls=await prepare_calls(tx, self.project_id, parsed),
            )
            return await runs.submit_step(tx, step)

    async def results(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """What became of the calls of one step about components, in order."""
        submitted = await self.submit(*calls)
        self.queue.tell(JobsSubmitted())
        async with asyncio.timeout(30):
            for _ in calls:
                await self.ended.get()
        told = await self.world.tasks(submitted.run_id)
        return [result | {"state": state} for state, result in told]

    async def result(self, tool: str, **said: Any) -> dict[str, Any]:
        (told,) = await self.results((tool, said))
        return told

    async def create(self, source: str = TILE, name: str = "Tile.vue") -> dict[str, Any]:
        return await self.result("create_component", name=name, source=source)

    async def edit(self, base_version: int, search: str, replace: str, name: str = "Tile.vue") -> dict[str, Any]:
        edits = [{"search": search, "replace": replace}]
        return await self.result("apply_component_edits", component=name, base_version=base_version, edits=edits)

    async def save_page(self, source: str = PAGE, code: str = "home", *names: str) -> None:
        """A page as its check would have saved it: with the current versions of the components pinned."""
        async with self.world.db.write() as tx:
            current = await components.load_component_sources(tx, self.project_id)
            pins = {name: current[name][0] for name in names or ("Tile.vue",)}
            version = pages.NewVersion(source, code, "", pins, "passed", None, None, None, self.world.user_id)
            await pages.insert_page_with_first_version(tx, self.project_id, code=code, framework="vue", version=version)

    async def component(self, name: str = "Tile.vue") -> Any:
        return await self.world.read(components.find_component, self.project_id, name)

    async def job(self) -> Any:
        newest = select(_jobs).order_by(_jobs.c.id.desc()).limit(1)
        return (await self.world.read(lambda tx: tx.execute(newest))).one()

    async def claimed(self, *calls: tuple[str, dict[str, Any]]) -> jobs.ClaimedJob:
        """A job of the kind that nobody but the test works on."""
        await ask(self.queue, Drain(10.0))
        await self.submit(*calls)
        job = await self.world.write(jobs.claim_job, COMPONENT_MUTATION, "by hand", 60_000)
        assert job is not None
        return job


@pytest.fixture
async def lane(sqlite_url: str, compiler: Compiler, tickets: Tickets) -> AsyncIterator[Lane]:
    db = await Database.open(sqlite_url)
    world = World(db)
    await world.settle_in()
    async with db.write() as tx:
        member = {"workspace_id": world.workspaces[0], "user_id": world.user_id, "role": "owner"}
        await tx.execute(schema.members.insert().values(**member, created_at_ms=tx.now))
    state = MemoryState(16 * 1024 * 1024, SystemClock())
    artifacts = PreviewArtifacts(state)
    runtimes = Runtimes(compiler, artifacts)
    admission = RuntimeAdmission.start(runtimes, ["http://runtime.test"], {"check": 8, "light": 1})
    check = ComponentCheck(artifacts, tickets, admission, "http://backend.test", CheckLimits(), pages_max=2)
    ended: asyncio.Queue[None] = asyncio.Queue()
    kind = ComponentMutation(db, check, RunFeed(), lambda: ended.put_nowait(None), source_bytes_max=2000)
    times = LeaseTimes(lease_s=60.0, heartbeat_s=0.05)
    workers = [JobWorker.start(db, kind, times, 2) for _ in range(2)]
    queue = JobQueue.start(db, kind.name, "host:1:x", workers, times)
    queues = dict.fromkeys(schema.JOB_KINDS, queue)
    control = JobControl.start(db, queues, RetryLimits(), on_news=lambda _: None, on_end=lambda: None)
    yield Lane(world, state, runtimes, kind, queue, control, ended)
    for ref in (control, queue, *workers, admission):
        await stop(ref)
    await db.close()


@pytest.fixture(scope="module")
def tickets() -> Tickets:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return Tickets(rsa.generate_private_key(65537, 2048), "key")


async def test_a_component_is_saved_with_its_contract_and_nothing_is_left_behind(lane: Lane) -> None:
    told = await lane.create()
    assert (told["state"], told["success"], told["version"], told["component_name"]) == (
        "succeeded",
        True,
        1,
        "Tile.vue",
    )
    assert told["contract"]["props"][0] == {"name": "label", "required": True, "type": "String"}
    assert told["affected"] == {"pages": [], "components": []}
    saved, job = await lane.component(), await lane.job()
    assert (saved.source, saved.contract) == (TILE, told["contract"])
    assert (job.status, job.attempt, job.result) == ("succeeded", 1, {k: v for k, v in told.items() if k != "state"})
    assert (lane.runtimes.asked, lane.runtimes.kept) == ([("components/Tile.vue", False)], set())
    assert lane.state.bytes_used() == 0


async def test_components_of_one_step_run_in_call_order_and_may_use_each_other(lane: Lane) -> None:
    row = "<script setup>\nimport Tile from './Tile.vue'\n</script>\n<template><Tile label='a'/></template>\n"
    edit = {"search": "String }", "replace": "Number }"}
    told = await lane.results(
        ("create_component", {"name": "Tile.vue", "source": TILE}),
        ("create_component", {"name": "Row.vue", "source": row}),
        ("apply_component_edits", {"component": "Tile.vue", "base_version": 1, "edits": [edit]}),
        (
            "apply_component_edits",
            {
                "component": "Tile.vue",
                "base_version": 1,
                "edits": [{"search": "Number }", "replace": "String, x: String }"}],
            },
        ),
    )
    assert [(one["state"], one["version"]) for one in told] == [("succeeded", n) for n in (1, 1, 2, 3)]
    assert told[2]["affected"]["components"] == ["Row.vue"]


async def test_a_change_tells_which_pages_it_would_break_and_changes_none(lane: Lane) -> None:
    await lane.create()
    await lane.save_page()
    await lane.save_page("<template><p>text</p></template>", "other")
    lane.runtimes.asked.clear()
    told = await lane.edit(1, ", unit: String", "")
    assert (told["state"], told["version"]) == ("succeeded", 2)
    assert told["changes"] == [{"change": "prop_removed", "name": "unit"}]
    home, other = told["affected"]["pages"]
    assert (home["page"], home["keeps_version"], other["breaks"]) == ("home", 1, [])
    (found,) = home["breaks"]
    assert (found["code"], found["file"], found["line"]) == ("COMPONENT_PROP_REMOVED", "pages/home.vue", 4)
    assert "home" in told["next"]
    # The component comes with the checks, the pages behind them.
    assert lane.runtimes.asked == [("components/Tile.vue", False), ("pages/home.vue", True), ("pages/other.vue", True)]
    async with lane.world.db.read() as tx:
        page = await pages.get_page_by_code(tx, lane.project_id, "home")
        assert page.number == 1


async def test_more_pages_than_are_tried_are_named_as_not_tried(lane: Lane) -> None:
    await lane.create()
    for number in range(4):
        await lane.save_page(PAGE, f"page-{number}")
    told = await lane.edit(1, "{{ unit }}", "")
    tried = {page["page"]: page.get("not_tried") for page in told["affected"]["pages"]}
    cut = "COMPONENT_IMPACT_CUT"
    assert tried == {"page-0": None, "page-1": None, "page-2": cut, "page-3": cut}
    assert "2 more use it and were not tried" in told["next"]


async def test_a_page_that_was_broken_before_is_not_this_changes_doing(lane: Lane) -> None:
    await lane.create()
    await lane.save_page(
        PAGE.replace("Tile label", "Gone /><Tile label").replace(
            "import", "import Gone from '@components/Gone.vue'\nimport"
        )
    )
    told = await lane.edit(1, "{{ unit }}", "")
    assert [page["breaks"] for page in told["affected"]["pages"]] == [[]]


async def test_a_runtime_that_goes_away_between_is_told_and_the_component_is_saved(lane: Lane) -> None:
    await lane.create()
    await lane.save_page()

    async def then_gone() -> None:
        async def gone() -> None:
            lane.runtimes.fails.append(RuntimeUnavailable("RUNTIME_UNREACHABLE", "nobody listens"))

        lane.runtimes.meanwhile = gone

    lane.runtimes.meanwhile = then_gone
    told = await lane.edit(1, "{{ unit }}", "")
    assert (told["state"], told["version"]) == ("succeeded", 2)
    assert [page["not_tried"] for page in told["affected"]["pages"]] == ["RUNTIME_UNREACHABLE"]


async def test_the_contract_of_a_version_that_nobody_checked_is_found_for_the_comparison(lane: Lane) -> None:
    await lane.world.write(components.put_component, lane.project_id, "Tile.vue", TILE, lane.world.user_id)
    told = await lane.edit(1, ", unit: String", "")
    assert told["changes"] == [{"change": "prop_removed", "name": "unit"}]


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a name that is taken": ("create_component", {"name": "Tile.vue", "source": TILE}, "COMPONENT_NAME_TAKEN"),
    "a source that does not compile": (
        "create_component",
        {"name": "New.vue", "source": BROKEN},
        "COMPONENT_VALIDATION_FAILED",
    ),
    "a circle": (
        "apply_component_edits",
        {"edits": [{"search": "<script setup>", "replace": "<script setup>\nimport Row from './Row.vue'"}]},
        "COMPONENT_VALIDATION_FAILED",
    ),
    "a component that is not there": ("apply_component_edits", {"component": "No.vue"}, "COMPONENT_NOT_FOUND"),
    "an old base": ("apply_component_edits", {"base_version": 2}, "COMPONENT_BASE_STALE"),
    "text that is not there": (
        "apply_component_edits",
        {"edits": [{"search": "nowhere", "replace": "x"}]},
        "COMPONENT_EDIT_NO_MATCH",
    ),
    "text that is there twice": (
        "apply_component_edits",
        {"edits": [{"search": "label", "replace": "x"}]},
        "COMPONENT_EDIT_AMBIGUOUS",
    ),
    "too large after the edit": (
        "apply_component_edits",
        {"edits": [{"search": "<p>", "replace": "<p>" + "x" * 2000}]},
        "PAGE_SOURCE_TOO_LARGE",
    ),
    "cut short": (
        "apply_component_edits",
        {"edits": [{"search": "<p>", "replace": "<p><!-- rest of the template unchanged -->"}]},
        "PAGE_SOURCE_TRUNCATED",
    ),
}


@pytest.mark.parametrize(("tool", "said", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_cannot_be_done_is_refused_with_its_code_and_saves_nothing(
    lane: Lane, tool: str, said: dict[str, Any], code: str
) -> None:
    row = "<script setup>\nimport Tile from './Tile.vue'\n</script>\n<template><Tile label='a'/></template>\n"
    for name, source in (("Tile.vue", TILE), ("Row.vue", row)):
        await lane.world.write(components.put_component, lane.project_id, name, source, lane.world.user_id)
    defaults: dict[str, Any] = {
        "component": "Tile.vue",
        "base_version": 1,
        "edits": [{"search": "<p>", "replace": "<b>"}],
    }
    told = await lane.result(tool, **(said if tool == "create_component" else defaults | said))
    job = await lane.job()
    assert (told["state"], told["success"], told["code"], job.error_code) == ("failed", False, code, code)
    assert told["next"]
    if code == "COMPONENT_VALIDATION_FAILED":
        assert {one["severity"] for one in told["findings"]} == {"error"}
        assert told["findings"][0]["line"] is not None
    assert (await lane.component()).number == 1
    assert await lane.component("New.vue") is None


async def test_the_same_failing_component_is_compiled_once(lane: Lane) -> None:
    first = await lane.create(BROKEN)
    again = await lane.create(BROKEN)
    assert lane.runtimes.asked == [("components/Tile.vue", False)]
    assert (again["code"], again["repeated"], "repeated" in first) == (first["code"], True, False)


async def test_a_runtime_that_is_away_costs_retries_and_says_nothing_about_the_source(lane: Lane) -> None:
    away = RuntimeUnavailable("RUNTIME_UNREACHABLE", "nobody listens")
    lane.runtimes.fails = [away] * 2
    submitted = await lane.submit(("create_component", {"name": "Tile.vue", "source": TILE}))
    lane.queue.tell(JobsSubmitted())
    table = schema.ai_agent_run_events

    async def tried(times: int) -> bool:
        return (await lane.job()).infra_failures == times

    async with asyncio.timeout(30):
        while not await tried(1):
            await asyncio.sleep(0.01)
        await lane.world.write(lambda tx: tx.execute(update(_jobs).values(infra_failures=2, available_at=tx.now)))
        lane.queue.tell(JobsSubmitted())
        await lane.ended.get()
        while (await lane.job()).status != "failed":
            await asyncio.sleep(0.01)
    ((state, result),) = await lane.world.tasks(submitted.run_id)
    assert (state, result["code"]) == ("failed", "RUNTIME_UNREACHABLE")
    assert "source" in told_to_model(result, state)["next"]  # not to be touched
    assert await lane.component() is None
    assert (await lane.world.read(lambda tx: tx.execute(select(schema.ai_page_verdicts)))).all() == []
    waiting = select(table.c.data).where(table.c.kind == "tool.progress")
    said = [row.data for row in (await lane.world.read(lambda tx: tx.execute(waiting))).all()]
    told = [one for one in said if one["stage"] == "waiting"]
    assert [(one["code"], one["component_name"], one["attempt"]) for one in told] == [
        ("RUNTIME_UNREACHABLE", "Tile.vue", 1)
    ]


async def test_a_runtime_that_knows_no_contracts_yet_is_infrastructure(lane: Lane) -> None:
    job = await lane.claimed(CREATE)
    lane.runtimes.is_old = True
    with pytest.raises(TryLater, match="RUNTIME_ANSWER_UNREADABLE"):
        await lane.kind.execute(job)
    assert lane.runtimes.kept == set()


# --- a bad moment ---------------------------------------------------------------------------------------------------

CREATE = ("create_component", {"name": "Tile.vue", "source": TILE})


async def commit(lane: Lane, job: jobs.ClaimedJob) -> Any:
    """What a worker does with a claimed job, by hand; `LeaseLost` when it comes too late."""
    settle = await lane.kind.execute(job)
    async with lane.world.db.write() as tx:
        await lease.renew(tx, job.lease, 60_000)
        end = await settle(tx)
        await jobs.finish_job(tx, job.lease, end.event, result=end.result, error=end.error)
    return end


async def test_a_lease_that_is_lost_while_it_compiles_saves_nothing_and_the_late_result_is_refused(lane: Lane) -> None:
    job = await lane.claimed(CREATE)
    lane.runtimes.meanwhile = lambda: lane.world.expire(job.lease)
    with pytest.raises(LeaseLost):
        await commit(lane, job)
    assert await lane.component() is None
    assert await lane.world.write(jobs.rescue_job, COMPONENT_MUTATION, job.id, job.lease.fence, 3) == "pending"
    again = await lane.world.write(jobs.claim_job, COMPONENT_MUTATION, "another", 60_000)
    assert again is not None
    assert (await commit(lane, again)).result["version"] == 1
    with pytest.raises(LeaseLost):  # the first worker wakes up, with a component that compiles in its hands
        await commit(lane, job)
    assert (await lane.component()).number == 1


async def test_a_member_who_was_taken_out_while_it_compiled_saves_nothing(lane: Lane) -> None:
    job = await lane.claimed(CREATE)

    async def revoke() -> None:
        await lane.world.write(lambda tx: tx.execute(schema.members.delete()))

    lane.runtimes.meanwhile = revoke
    end = await commit(lane, job)
    assert (end.event, end.result["code"]) == ("fail", "PERMISSION_REVOKED")
    assert await lane.component() is None


async def test_a_name_that_is_taken_while_it_compiles_is_refused(lane: Lane) -> None:
    job = await lane.claimed(CREATE)

    async def take() -> None:
        await lane.world.write(components.put_component, lane.project_id, "Tile.vue", "<p/>", lane.world.user_id)

    lane.runtimes.meanwhile = take
    assert (await commit(lane, job)).result["code"] == "COMPONENT_NAME_TAKEN"
    assert (await lane.component()).source == "<p/>"


async def test_a_version_that_was_saved_while_it_compiles_is_not_overwritten(lane: Lane) -> None:
    await lane.create()
    edit = {"component": "Tile.vue", "base_version": 1, "edits": [{"search": "{{ unit }}", "replace": ""}]}
    job = await lane.claimed(("apply_component_edits", edit))

    async def save() -> None:
        await lane.world.write(components.put_component, lane.project_id, "Tile.vue", "<p/>", lane.world.user_id)

    lane.runtimes.meanwhile = save
    assert (await commit(lane, job)).result["code"] == "COMPONENT_BASE_STALE"
    assert ((await lane.component()).number, (await lane.component()).source) == (2, "<p/>")


async def test_a_cancel_while_it_compiles_ends_the_job_and_drops_the_compile(lane: Lane) -> None:
    compiling = asyncio.Event()

    async def hang() -> None:
        compiling.set()
        await lane.runtimes.hangs.wait()

    lane.runtimes.meanwhile = hang
    submitted = await lane.submit(CREATE)
    lane.queue.tell(JobsSubmitted())
    async with asyncio.timeout(30):
        await compiling.wait()
        assert await ask(lane.control, CancelOneJob(COMPONENT_MUTATION, submitted.job_ids[0], 1)) == "requested"
        await lane.ended.get()
    job = await lane.job()
    assert (job.status, job.error_code) == ("cancelled", "JOB_CANCELLED")
    assert await lane.component() is None
    assert lane.state.bytes_used() == 0


async def test_a_run_that_was_cancelled_saves_no_component(lane: Lane) -> None:
    job = await lane.claimed(CREATE)

    async def cancel() -> None:
        await lane.world.write(runs.cancel_run, job.row.run_id)

    lane.runtimes.meanwhile = cancel
    assert (await commit(lane, job)).event == "cancel"
    assert await lane.component() is None
