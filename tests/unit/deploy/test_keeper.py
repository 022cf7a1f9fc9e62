"""The supervisor's children: kept alive, started again, stopped in time, and never left behind. Real processes."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from pagegate.deploy.keeper import EXIT_BUSY, EXIT_REFUSED, Child, Keeper, StartRefused, answers, make_room
from pagegate.deploy.lite import PORT_FILE, LiteOptions, data_folder, free_port, is_taken, kept_port, plan, run
from pagegate.deploy.process_settings import load
from pagegate.deploy.settings import BackendSettings, RendererSettings, RuntimeSettings

Keep = Callable[..., tuple[Keeper, asyncio.Task[None]]]

SERVER = """
import http.server, signal, sys
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.ThreadingHTTPServer.allow_reuse_address = True
class Ok(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ok).serve_forever()
"""


class Told:
    """What the keeper said, and a way to wait for a certain word."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self._news.set()

    async def wait_for(self, word: str, times: int = 1) -> None:
        async with asyncio.timeout(30):
            while sum(word in line for line in self.lines) < times:
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def keep(tmp_path: Path, told: Told) -> AsyncIterator[Keep]:
    """Make keepers of one-line Python children; all are ended after the test."""
    keepers: list[tuple[Keeper, asyncio.Task[None]]] = []

    def start(code: str, *arguments: str) -> tuple[Keeper, asyncio.Task[None]]:
        port = free_port("127.0.0.1")
        command = [sys.executable, "-c", code, str(port), *arguments]
        keeper = Keeper(Child("child", command, {}, "127.0.0.1", port, "/"), tmp_path / "child.log", told)
        keepers.append((keeper, asyncio.create_task(keeper.keep())))
        return keepers[-1]

    yield start
    kill = asyncio.Event()
    kill.set()
    for keeper, task in keepers:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, StartRefused):
            await task
        await keeper.stop(kill)


async def test_a_killed_child_is_started_again(keep: Keep, told: Told) -> None:
    keeper, _keeping = keep(SERVER)
    await told.wait_for("ready")
    assert keeper.process is not None
    first = keeper.process.pid
    os.kill(first, signal.SIGKILL)
    await told.wait_for("ready", times=2)
    assert keeper.process.pid != first
    assert "child: killed by SIGKILL; starting it again in" in told.lines[1]


async def test_a_child_that_refuses_its_settings_is_not_started_again(keep: Keep) -> None:
    _, keeping = keep(f"import sys; print('PORT: is wrong'); sys.exit({EXIT_REFUSED})")
    with pytest.raises(StartRefused, match=r"refuses to start:\n  PORT: is wrong") as caught:
        await keeping
    assert caught.value.exit_code == EXIT_REFUSED


async def test_a_child_that_never_comes_up_is_given_up(keep: Keep, told: Told) -> None:
    _, keeping = keep("raise SystemExit(3)")
    with pytest.raises(StartRefused, match="exit code 3") as caught:
        await keeping
    assert caught.value.exit_code == 3
    assert len(told.lines) == 3


async def test_stop_ends_a_child_and_does_not_start_it_again(keep: Keep, told: Told) -> None:
    keeper, keeping = keep(SERVER)
    await told.wait_for("ready")
    await keeper.stop(asyncio.Event())
    async with asyncio.timeout(10):
        await keeping
    assert keeper.process is not None
    assert keeper.process.returncode == -signal.SIGTERM


async def test_a_second_signal_kills_a_child_that_does_not_end(keep: Keep, told: Told) -> None:
    keeper, _keeping = keep(SERVER, "stubborn")
    await told.wait_for("ready")
    kill = asyncio.Event()
    stopping = asyncio.create_task(keeper.stop(kill))
    kill.set()
    async with asyncio.timeout(10):
        await stopping
    assert keeper.process is not None
    assert keeper.process.returncode == -signal.SIGKILL


async def test_children_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    supervisor = f"""
import asyncio, pathlib, sys
from pagegate.deploy.keeper import Child, Keeper
child = Child("child", [sys.executable, "-c", {SERVER!r}, sys.argv[1]], {{}}, "127.0.0.1", int(sys.argv[1]), "/")
keeper = Keeper(child, pathlib.Path(sys.argv[2]), lambda line: print(keeper.process.pid, flush=True))
asyncio.run(keeper.keep())
"""
    command = [sys.executable, "-c", supervisor, str(free_port("127.0.0.1")), str(tmp_path / "log")]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = psutil.Process(int(await process.stdout.readline()))
    process.kill()
    await process.wait()
    # The child is no child of ours, so its end can only be looked for; `wait` polls with a limit.
    await asyncio.to_thread(child.wait, 10)
    assert not child.is_running()


async def test_answers_is_false_where_nothing_listens() -> None:
    assert not await answers("127.0.0.1", free_port("127.0.0.1"), "/")


def test_the_data_folder_is_for_one_supervisor(tmp_path: Path) -> None:
    with data_folder(tmp_path), pytest.raises(StartRefused, match="sqlite_single_process=true"), data_folder(tmp_path):
        pytest.fail("two supervisors hold one folder")
    with data_folder(tmp_path):
        pass


def test_a_large_log_is_set_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagegate.deploy.keeper.LOG_BYTES_MAX", 3)
    log = tmp_path / "backend.log"
    make_room(log)
    log.write_text("1234")
    make_room(log)
    assert not log.exists()
    assert (tmp_path / "backend.log.1").read_text() == "1234"


def test_the_three_processes_accept_what_the_supervisor_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = plan(LiteOptions(data=tmp_path, port=0))
    for name, value in children[0].environment.items():
        monkeypatch.setenv(name, value)
    backend, runtime, renderer = load(BackendSettings), load(RuntimeSettings), load(RendererSettings)
    assert [child.name for child in children] == ["runtime", "renderer", "backend"]
    assert backend.runtime_base_urls == [children[0].url] == [runtime.runtime_public_url]
    assert backend.render_workers_config[0].base_url == children[1].url
    assert backend.render_workers_config[0].id == renderer.render_worker_id
    assert backend.credential() == renderer.credential()
    assert len(backend.credential()) == 64
    assert renderer.render_platform_asset_base_url == f"{backend.backend_internal_url}/"


def test_no_child_takes_modules_from_the_folder_that_it_is_started_in(tmp_path: Path) -> None:
    (tmp_path / "aiohttp.py").write_text("raise SystemExit(3)")
    (tmp_path / "pydantic.py").write_text("raise SystemExit(3)")
    backend = plan(LiteOptions(data=tmp_path, port=0))[-1]
    environment = {name: value for name, value in os.environ.items() if "RENDER" not in name}
    started = subprocess.run(
        backend.command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert started.returncode == EXIT_REFUSED, started.stderr
    assert "RENDER_SERVICE_CREDENTIAL" in started.stdout + started.stderr


def test_the_runtime_has_the_same_port_at_each_start_since_addresses_of_sites_begin_with_it(tmp_path: Path) -> None:
    said: list[str] = []
    first = kept_port(tmp_path, said.append)
    assert (kept_port(tmp_path, said.append), said) == (first, [])
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()
        assert kept_port(tmp_path, said.append) != first
    assert [line.startswith(f"port {first} is taken") for line in said] == [True]
    assert kept_port(tmp_path, said.append) == first
    (tmp_path / PORT_FILE).write_text("99999")
    assert kept_port(tmp_path, said.append) == int((tmp_path / PORT_FILE).read_text()) < 65536


async def test_a_port_that_another_program_has_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StartRefused, match=f"port {port} is taken") as refused:
            await run(LiteOptions(data=tmp_path, port=port), lambda line: None, lambda children: None)
    assert refused.value.exit_code == EXIT_BUSY
    assert not list((tmp_path / "logs").iterdir())
    assert not is_taken("127.0.0.1", port)


def test_what_the_operator_sets_wins_except_how_the_three_find_each_other(tmp_path: Path) -> None:
    given = {"RENDER_QUEUE_SIZE": "7", "RENDER_SERVICE_CREDENTIAL": "x" * 20, "RUNTIME_BASE_URLS": "http://elsewhere"}
    environment = plan(LiteOptions(data=tmp_path, environment=given))[0].environment
    assert environment["RENDER_QUEUE_SIZE"] == "7"
    assert environment["RENDER_SERVICE_CREDENTIAL"] == "x" * 20
    assert environment["RUNTIME_BASE_URLS"] != "http://elsewhere"


@pytest.mark.parametrize(("grace", "waits_s"), [(None, 45.0), ("5", 45.0), ("300", 325.0), ("soon", 45.0)])
def test_the_backend_is_given_longer_than_its_own_grace_time(tmp_path: Path, grace: str | None, waits_s: float) -> None:
    given = {} if grace is None else {"DURABLE_JOB_DRAIN_GRACE_SECONDS": grace}
    *others, backend = plan(LiteOptions(data=tmp_path, environment=given))
    assert backend.stop_wait_s == waits_s
    assert {child.stop_wait_s for child in others} == {45.0}
