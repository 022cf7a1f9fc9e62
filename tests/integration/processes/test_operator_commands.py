"""`pagegate lanes` and `pagegate jobs` as an operator types them, against a real server on SQLite."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import update

from pagegate.storage import schema
from pagegate.storage.engine import Database
from pagegate.storage.jobs import PAGE_MUTATION
from tests.integration.processes.conftest import StartServe
from tests.integration.processes.played import Played
from tests.integration.processes.serving import Project, Serve, expect_one_of_everything, finished, gauges
from tests.services import free_port

LANE = str(PAGE_MUTATION)


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


async def pagegate(*arguments: str, url: str | None, data: Path) -> Said:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PAGEGATE_")}
    if url is not None:
        environment["PAGEGATE_URL"] = url
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "pagegate.deploy.cli", *arguments, "--data", str(data)],
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


async def a_server_with_two_calls(processes: StartServe, far: Played, url: str) -> tuple[Serve, int, list[int]]:
    """(server, run, job ids); the first job is held in its compile."""
    serve = processes(url)
    await serve.start()
    far.gate.clear()
    async with serve.api as api:
        run_id = await (await Project.create(api)).send("a", "b")
        await far.has_begun()
        run = await api.call("GET", f"/runs/{run_id}")
    return serve, run_id, [call["job_id"] for call in run["calls"]]


async def test_lanes_are_shown_paused_and_resumed(
    processes: StartServe, far: Played, sqlite_url: str, tmp_path: Path
) -> None:
    serve, run_id, (running, waiting) = await a_server_with_two_calls(processes, far, sqlite_url)

    async def say(*arguments: str) -> Said:
        return await pagegate(*arguments, url=serve.url, data=tmp_path)

    shown = await say("lanes")
    assert shown.code == 0, shown.err
    assert LANE in shown.out
    assert "open" in shown.out
    paused = await say("lanes", "pause", "page")  # the short name
    assert (paused.code, f"{LANE} is paused" in paused.err) == (0, True)
    assert "paused by operator" in (await say("lanes")).out
    far.gate.set()
    async with serve.api as api:
        async for event in api.events(run_id):
            if event["kind"] == "tool.ended":
                break  # what ran was finished all the same
        assert (await api.call("GET", f"/jobs/{LANE}/{waiting}"))["attempt"] == 0
        lane, *_others = (await say("lanes", "--json")).json["lanes"]
        assert (lane["pending"], lane["running"], lane["paused"]["user_name"]) == (1, 0, "operator")
        assert (await say("lanes", "resume", LANE)).code == 0
        expect_one_of_everything(*await finished(api, run_id))
        for kind in schema.JOB_KINDS:  # each has somebody who works on it
            assert (await api.call("POST", f"/lanes/{kind}/resume"))["paused"] is None
    counted = await gauges(serve)
    assert all(f'pagegate_job_lease_losses_total{{lane="{kind}"}}' in counted for kind in schema.JOB_KINDS)
    waited = counted[f'pagegate_job_wait_seconds_count{{lane="{LANE}"}}']
    assert waited == counted[f'pagegate_job_run_seconds_count{{lane="{LANE}"}}'] == 2
    listed = (await say("jobs", "list", "--json")).json["jobs"]
    assert [(job["id"], job["status"]) for job in listed] == [(waiting, "succeeded"), (running, "succeeded")]


async def test_jobs_are_listed_shown_and_cancelled(
    processes: StartServe, far: Played, sqlite_url: str, tmp_path: Path
) -> None:
    serve, run_id, (running, waiting) = await a_server_with_two_calls(processes, far, sqlite_url)

    async def say(*arguments: str) -> Said:
        return await pagegate(*arguments, url=serve.url, data=tmp_path)

    first_page = await say("jobs", "list", "--limit", "1")
    assert (first_page.code, f"--before {waiting}" in first_page.err) == (0, True)
    assert str(waiting) in first_page.out
    assert "page writes only" in first_page.err
    shown = await say("jobs", "show", LANE, str(running))
    assert (shown.code, "running" in shown.out, "lease_valid" in shown.out) == (0, True, True)
    others = await say("jobs", "list", "--lane", "image")
    assert (others.code, others.err) == (0, "")
    cancelled = await say("jobs", "cancel", "page", str(waiting))
    assert (cancelled.code, cancelled.err) == (0, f"job {waiting} is cancelled\n")
    asked = await say("jobs", "cancel", LANE, str(running))
    assert (asked.code, asked.err) == (0, f"job {running} was asked to stop\n")
    async with serve.api as api:
        run, _ = await finished(api, run_id)
    assert [call["status"] for call in run["calls"]] == ["cancelled", "cancelled"]
    late = await say("jobs", "retry", LANE, str(running))
    assert (late.code, late.err.split(":")[:2]) == (1, ["pagegate jobs", " JOB_NOT_FAILED"])
    told = await say("diagnose", f"page:{running}")
    assert (told.code, "The job is over: cancelled (JOB_CANCELLED)." in told.out) == (0, True)
    assert (await say("diagnose", f"{LANE}:{running}", "--json")).json["job"]["id"] == running
    assert [(await say("diagnose", target)).code for target in ("page:4711", "nothing:1", "page:x")] == [1, 1, 2]
    unknown = await say("jobs", "show", LANE, "4711")
    assert (unknown.code, "JOB_NOT_FOUND" in unknown.err) == (1, True)


async def test_a_job_that_failed_on_infrastructure_is_retried_before_its_agent_hears_of_it(
    processes: StartServe, far: Played, sqlite_url: str, tmp_path: Path
) -> None:
    """One call of two fails for good while the other is still worked on: an operator repairs, and retries it."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    serve = processes(sqlite_url, far_url=nowhere)
    await serve.start()
    async with serve.api as api:
        project = await Project.create(api)
        run_id = await project.send("a", "b")
        run = await api.call("GET", f"/runs/{run_id}")
        first, _ = [call["job_id"] for call in run["calls"]]
    await serve.stop()
    await use_up_the_budget(sqlite_url, first)
    await serve.start()
    async with serve.api as api:
        async for event in api.events(run_id):
            if event["kind"] == "tool.ended":
                break
    await serve.stop()
    repaired = processes(sqlite_url)
    far.gate.clear()
    await repaired.start()
    retried = await pagegate("jobs", "retry", LANE, str(first), url=repaired.url, data=tmp_path)
    assert retried.code == 0, retried.err
    far.gate.set()
    async with repaired.api as api:
        run, kinds = await finished(api, run_id)
        assert [call["status"] for call in run["calls"]] == ["succeeded", "succeeded"]
        assert run["calls"][0]["job_id"] == int(retried.out)
        assert (kinds.count("run.finished"), kinds.count("tool.retried")) == (1, 1)
        assert await Project(api, project.id).versions() == {"a": 1, "b": 1}


async def use_up_the_budget(database_url: str, job_id: int) -> None:
    db = await Database.open(database_url)
    table = schema.ai_page_mutation_jobs
    async with db.write() as tx:
        await tx.execute(update(table).where(table.c.id == job_id).values(infra_failures=10, available_at=tx.now))
    await db.close()


async def test_an_option_before_the_subcommand_is_refused_and_so_is_a_missing_server(tmp_path: Path) -> None:
    misplaced = await pagegate("lanes", "--json", "pause", LANE, url=None, data=tmp_path)
    assert (misplaced.code, "behind" in misplaced.err) == (2, True)
    (tmp_path / "operator_token").write_text("pg_x")
    nobody = await pagegate("lanes", url=f"http://127.0.0.1:{free_port()}", data=tmp_path)
    assert (nobody.code, "nobody answers" in nobody.err) == (1, True)
