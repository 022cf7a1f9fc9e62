"""Processes that are killed, paused or cut off in the middle of a job (CASES 3, 4, 6, 7, 15, 53, 55).

Real Backends on real databases; only the leases are short. The Runtime and the Renderer are played, so that a job can
be held in its middle on a signal.
"""

import asyncio
import signal
from collections.abc import Iterator

import aiohttp
import pytest

from pagegate.deploy.client import ApiRefused
from pagegate.storage.engine import Database
from pagegate.storage.jobs import PAGE_MUTATION
from tests.integration.processes.conftest import StartServe
from tests.integration.processes.played import Played
from tests.integration.processes.serving import (
    WAIT_S,
    Project,
    Serve,
    expect_one_of_everything,
    finished,
    gauges,
    job_rows,
)
from tests.services import PostgresServer

RUNNING = f'pagegate_queue_jobs{{lane="{PAGE_MUTATION}",state="running"}}'
PAUSED = f'pagegate_lane_paused{{lane="{PAGE_MUTATION}"}}'
RESCUES = f'pagegate_job_rescues_total{{lane="{PAGE_MUTATION}"}}'
STREAMS = "pagegate_http_streams"


async def a_held_job(serve: Serve, far: Played) -> tuple[int, int]:
    """(project, run) with one job that is in the middle of its compile."""
    far.gate.clear()
    async with serve.api as api:
        project = await Project.create(api)
        run_id = await project.send("a")
    await far.has_begun()
    return project.id, run_id


async def test_a_job_of_a_killed_process_is_done_once_by_the_next_one(
    processes: StartServe, far: Played, database_url: str
) -> None:
    """CASES 3, 15, 55: recovered from its own lease; the running gauge is true again, and no counter has fallen."""
    serve = processes(database_url)
    await serve.start()
    project_id, run_id = await a_held_job(serve, far)
    assert (await gauges(serve))[RUNNING] == 1
    serve.send(signal.SIGKILL)
    await serve.ended()
    far.gate.set()
    await serve.start()
    await serve.logged("job.rescued")
    async with serve.api as api:
        expect_one_of_everything(*await finished(api, run_id))
        assert await Project(api, project_id).versions() == {"a": 1}
        lane, *_others = (await api.call("GET", "/lanes"))["lanes"]
    (row,) = await job_rows(database_url)
    assert (row.status, row.attempt, row.lease_losses) == ("succeeded", 2, 1)
    after = await gauges(serve)
    assert (after[RUNNING], after[RESCUES], lane["rescues"]) == (0, 1, 1)


async def test_a_restarted_process_of_the_same_name_renews_nothing_of_the_old_one(
    processes: StartServe, far: Played, database_url: str
) -> None:
    """CASE 4."""
    serve = processes(database_url, DURABLE_JOB_LEASE_SECONDS="8")
    await serve.start()
    await a_held_job(serve, far)
    serve.send(signal.SIGKILL)
    await serve.ended()
    (killed,) = await job_rows(database_url)
    await serve.start()
    far.gate.set()
    rescued = await serve.logged("job.rescued")
    assert rescued["attempt"] == killed.attempt
    await serve.logged("ai.page_mutation.job.execution_finished")
    (row,) = await job_rows(database_url)
    assert row.worker_id.split(":")[0] == killed.worker_id.split(":")[0], "the same host"
    assert row.worker_id != killed.worker_id
    assert row.heartbeat_at > killed.lease_expires_at, "claimed only after the old lease was over"


async def test_a_process_that_was_paused_past_its_lease_writes_nothing(
    processes: StartServe, far: Played, postgres_url: str
) -> None:
    """SIGSTOP, another replica does the job, SIGCONT: the old attempt ends without a trace."""
    first = processes(postgres_url)
    await first.start()
    project_id, run_id = await a_held_job(first, far)
    first.send(signal.SIGSTOP)
    far.gate.set()
    second = processes(postgres_url)
    await second.start()
    async with second.api as api:
        expect_one_of_everything(*await finished(api, run_id))
    (done,) = await job_rows(postgres_url)
    assert done.attempt == 2
    first.send(signal.SIGCONT)
    await first.logged("ai.page_mutation.job.execution_finished")
    async with first.api as api:
        assert await Project(api, project_id).versions() == {"a": 1}
        next_run = await Project(api, project_id).send("b")
        expect_one_of_everything(*await finished(api, next_run))  # and it works on
    assert (await job_rows(postgres_url))[0] == done, "an end never changes"


async def test_a_lone_process_that_was_paused_past_its_lease_starts_its_job_again(
    processes: StartServe, far: Played, sqlite_url: str
) -> None:
    serve = processes(sqlite_url)
    await serve.start()
    project_id, run_id = await a_held_job(serve, far)
    (row,) = await job_rows(sqlite_url)
    serve.send(signal.SIGSTOP)
    async with asyncio.timeout(WAIT_S):
        while (await job_rows(sqlite_url))[0].lease_expires_at > await now_ms(sqlite_url):
            await asyncio.sleep(0.2)  # a lease ends by the clock and by nothing else
    serve.send(signal.SIGCONT)
    await serve.logged("job.rescued")
    far.gate.set()
    async with serve.api as api:
        expect_one_of_everything(*await finished(api, run_id))
        assert await Project(api, project_id).versions() == {"a": 1}
    (row,) = await job_rows(sqlite_url)
    assert (row.status, row.lease_losses) == ("succeeded", 1)


async def now_ms(database_url: str) -> int:
    db = await Database.open(database_url)
    try:
        async with db.read() as tx:
            return await tx.now_ms()
    finally:
        await db.close()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that this test may stop."""
    with PostgresServer(durable=True) as server:
        yield server


async def test_postgresql_restarts_in_the_middle_of_a_job(
    processes: StartServe, far: Played, own_postgres: PostgresServer
) -> None:
    """CASES 6, 7: not ready while it is away, ready again by itself; one run, one commit."""
    url = own_postgres.create_database()
    serve = processes(url, DURABLE_JOB_LEASE_SECONDS="60", DURABLE_JOB_HEARTBEAT_SECONDS="1")
    await serve.start()
    project_id, run_id = await a_held_job(serve, far)
    await asyncio.to_thread(own_postgres.stop)
    async with aiohttp.ClientSession() as http:
        await until_ready_is(http, serve, False)
        far.gate.set()
        await asyncio.to_thread(own_postgres.start)
        await until_ready_is(http, serve, True)
    async with serve.api as api:
        expect_one_of_everything(*await finished(api, run_id))
        assert await Project(api, project_id).versions() == {"a": 1}
    (row,) = await job_rows(url)
    assert (row.status, row.lease_losses) == ("succeeded", 0)


async def until_ready_is(http: aiohttp.ClientSession, serve: Serve, wanted: bool) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            async with http.get(f"{serve.url}/readyz") as answer:
                if (answer.status == 200) is wanted:
                    return
            await asyncio.sleep(0.1)


async def test_a_browser_that_closes_in_the_middle_of_a_run_stops_nothing(
    processes: StartServe, far: Played, database_url: str
) -> None:
    """CASE 53: the run goes on, and what it occupies is counted right all the while."""
    serve = processes(database_url)
    await serve.start()
    far.gate.clear()
    async with serve.api as api:
        run_id = await (await Project.create(api)).send("a", "b")
    watching = serve.api
    async with watching as api:
        async for _ in api.events(run_id):
            break
        await far.has_begun()
        assert (await gauges(serve))[RUNNING] == 1
    # The session is closed with its stream open, as a closed browser does.
    async with asyncio.timeout(WAIT_S):
        while (seen := await gauges(serve))[STREAMS]:
            await asyncio.sleep(0.1)
    assert seen[RUNNING] == 1
    far.gate.set()
    async with serve.api as api:
        expect_one_of_everything(*await finished(api, run_id))
    assert (await gauges(serve))[RUNNING] == 0


async def test_two_replicas_share_a_lane_and_a_pause_holds_on_both(
    processes: StartServe, far: Played, postgres_url: str
) -> None:
    first, second = processes(postgres_url), processes(postgres_url)
    await first.start()
    await second.start()
    async with first.api as api, second.api as other:
        await api.call("POST", f"/lanes/{PAGE_MUTATION}/pause")
        project = await Project.create(api)
        runs = [await project.send(f"a{number}", f"b{number}") for number in range(3)]
        assert (await other.call("GET", "/lanes"))["lanes"][0]["paused"]["user_name"] == "operator"
        for serve in (first, second):
            await serve.stop()
            await serve.start()
        assert {row.attempt for row in await job_rows(postgres_url)} == {0}, "a pause survives a restart"
        assert [(await gauges(serve))[PAUSED] for serve in (first, second)] == [1, 1]
        await other.call("POST", f"/lanes/{PAGE_MUTATION}/resume")
        for run_id in runs:
            expect_one_of_everything(*await finished(other, run_id))
    rows = await job_rows(postgres_url)
    assert {row.attempt for row in rows} == {1}, "no job was claimed by both"
    with pytest.raises(ApiRefused, match="LANE_NOT_FOUND"):
        async with first.api as api:
            await api.call("POST", "/lanes/none/pause")
