"""Start and stop as a story (Q10): a signal drains, a second one ends at once, and no job is lost or done twice.

The Backends are real processes on SQLite; the Runtime and the Renderer are played.
"""

import signal
from pathlib import Path

import pytest

from pagegate.deploy.client import ApiRefused
from tests.integration.processes.conftest import StartServe
from tests.integration.processes.played import Played
from tests.integration.processes.serving import Project, expect_one_of_everything, finished, job_rows
from tests.services import free_port

signals = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)


@signals
async def test_a_signal_lets_a_running_job_end_in_its_grace_time(
    processes: StartServe, far: Played, sqlite_url: str, number: signal.Signals
) -> None:
    serve = processes(sqlite_url, DURABLE_JOB_DRAIN_GRACE_SECONDS="50")
    await serve.start()
    far.gate.clear()
    async with serve.api as api:
        await (await Project.create(api)).send("a", "b")
    await far.has_begun()
    serve.send(number)
    await serve.logged("process.stopping")
    far.gate.set()
    assert await serve.ended() == 0
    done, waiting = await job_rows(sqlite_url)
    assert (done.status, done.attempt) == ("succeeded", 1)
    assert (waiting.status, waiting.attempt) == ("pending", 0), "a draining queue claims nothing"
    assert serve.events()[-2] == "backend.stopped"


@signals
async def test_what_is_left_after_the_grace_time_goes_back_and_is_done_once_by_the_next_process(
    processes: StartServe, far: Played, sqlite_url: str, number: signal.Signals
) -> None:
    serve = processes(sqlite_url, DURABLE_JOB_DRAIN_GRACE_SECONDS="0.2")
    await serve.start()
    far.gate.clear()
    async with serve.api as api:
        project = await Project.create(api)
        run_id = await project.send("a")
    await far.has_begun()
    serve.send(number)
    assert await serve.ended() == 0
    (row,) = await job_rows(sqlite_url)
    assert (row.status, row.worker_id, row.attempt) == ("pending", None, 1)
    assert (row.lease_losses, row.infra_failures) == (0, 0), "a shutdown costs a job nothing"
    far.gate.set()
    await serve.start()
    async with serve.api as api:
        expect_one_of_everything(*await finished(api, run_id))
        assert await Project(api, project.id).versions() == {"a": 1}
    (row,) = await job_rows(sqlite_url)
    assert (row.status, row.attempt) == ("succeeded", 2)


@signals
async def test_a_second_signal_ends_the_process_at_once(
    processes: StartServe, far: Played, sqlite_url: str, number: signal.Signals
) -> None:
    serve = processes(sqlite_url, DURABLE_JOB_DRAIN_GRACE_SECONDS="3600")
    await serve.start()
    far.gate.clear()
    async with serve.api as api:
        await (await Project.create(api)).send("a")
    await far.has_begun()
    serve.send(number)
    await serve.logged("process.stopping")
    serve.send(number)
    assert await serve.ended() == 128 + number
    assert serve.events()[-2] == "process.ended_at_once"
    (row,) = await job_rows(sqlite_url)
    assert (row.status, row.attempt) == ("running", 1), "its lease will run out, and then it is rescued"


async def test_a_process_that_stops_says_so_while_its_jobs_end(
    processes: StartServe, far: Played, sqlite_url: str
) -> None:
    serve = processes(sqlite_url, DURABLE_JOB_DRAIN_GRACE_SECONDS="50")
    await serve.start()
    far.gate.clear()
    async with serve.api as api:
        run_id = await (await Project.create(api)).send("a")
        await far.has_begun()
        serve.send(signal.SIGTERM)
        await serve.logged("process.stopping")
        with pytest.raises(ApiRefused, match="NOT_READY"):
            await api.call("GET", "/readyz")
        assert (await api.call("GET", f"/runs/{run_id}"))["status"] == "waiting_external", "the door is still open"
    far.gate.set()
    assert await serve.ended() == 0


async def test_a_backend_without_runtime_and_renderer_starts_waits_and_stops(
    processes: StartServe, far: Played, sqlite_url: str, tmp_path: Path
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    serve = processes(sqlite_url, far_url=nobody)
    await serve.start()
    async with serve.api as api:
        project = await Project.create(api)
        run_id = await project.send("a")
        async for event in api.events(run_id):
            if event["kind"] == "tool.progress" and event["data"]["stage"] == "waiting":
                assert event["data"]["code"] == "RUNTIME_UNREACHABLE"
                break
        lane, *_others = (await api.call("GET", "/lanes"))["lanes"]
        assert lane["waiting_for"] == {"RUNTIME_UNREACHABLE": 1}
    serve.send(signal.SIGTERM)
    assert await serve.ended() == 0
    (row,) = await job_rows(sqlite_url)
    assert (row.status, row.error_code) == ("pending", "RUNTIME_UNREACHABLE")
    again = processes(sqlite_url)
    await again.start()
    async with again.api as api:
        expect_one_of_everything(*await finished(api, run_id))
