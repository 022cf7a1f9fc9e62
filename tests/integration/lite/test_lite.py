"""`pagegate lite` and `pagegate user` as a person meets them."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pagegate.deploy.client import Api, ApiRefused
from pagegate.deploy.demo import create_administrator, lite
from pagegate.deploy.keeper import EXIT_BUSY, EXIT_REFUSED
from pagegate.deploy.lite import ADDRESS_FILE, free_port

CLI = [sys.executable, "-m", "pagegate.deploy.cli"]


def pagegate(*arguments: str | Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(environment or {})},
    )


async def test_the_first_administrator_comes_from_the_command_line(tmp_path: Path) -> None:
    async with lite(tmp_path) as server:
        token = await create_administrator(server, "ada")
        async with Api(server.url, token) as api:
            assert (await api.call("GET", "/me"))["is_admin"] is True
        assert stat.S_IMODE((tmp_path / "operator_token").stat().st_mode) == 0o600
        again = await asyncio.to_thread(pagegate, "user", "create", "ada", "--data", tmp_path)
        assert (again.returncode, again.stdout) == (1, "")
        assert "LOGIN_TAKEN" in again.stderr
        listed = await asyncio.to_thread(pagegate, "user", "list", "--data", tmp_path)
        assert "ada" in listed.stdout
        assert token not in listed.stdout
        revoked = await asyncio.to_thread(pagegate, "user", "revoke", "2", "--data", tmp_path)
        assert revoked.returncode == 0, revoked.stderr
        async with Api(server.url, token) as api:
            with pytest.raises(ApiRefused, match="TOKEN_INVALID"):
                await api.call("GET", "/me")


async def test_a_second_server_on_the_same_folder_refuses_to_start(tmp_path: Path) -> None:
    async with lite(tmp_path) as server:
        second = await asyncio.to_thread(pagegate, "lite", "--data", tmp_path, "--port", "0")
        assert second.returncode == EXIT_BUSY
        assert "sqlite_single_process=true" in second.stderr
        environment = {
            "DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path}/pagegate.db",
            "RUNTIME_BASE_URLS": "http://127.0.0.1:1",
            "RENDER_WORKERS_CONFIG": '[{"id": "r", "base_url": "http://127.0.0.1:1"}]',
            "RENDER_SERVICE_CREDENTIAL": "0123456789abcdef",
            "BACKEND_PORT": "0",
        }
        alone = await asyncio.to_thread(pagegate, "serve", environment=environment)
        assert alone.returncode == EXIT_BUSY
        assert "sqlite_single_process=true" in alone.stderr
        assert (tmp_path / ADDRESS_FILE).read_text().strip() == server.url, "the first one is untouched"


async def test_a_wrong_setting_stops_the_start_and_is_named(tmp_path: Path) -> None:
    environment = {"RENDER_QUEUE_SIZE": "many", "RENDER_MAX_ATTEMPTS": "0"}
    done = await asyncio.to_thread(pagegate, "lite", "--data", tmp_path, "--port", "0", environment=environment)
    assert done.returncode == EXIT_REFUSED
    assert "RENDER_QUEUE_SIZE" in done.stderr
    assert "RENDER_MAX_ATTEMPTS" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    environment = {"RUNTIME_PORT": str(free_port("127.0.0.1"))}
    async with lite(tmp_path):
        taken = (tmp_path / ADDRESS_FILE).read_text().strip().rsplit(":", 1)[1]
        done = await asyncio.to_thread(pagegate, "runtime", "--port", taken, environment=environment)
    assert done.returncode == EXIT_BUSY
    assert f"cannot listen on 127.0.0.1:{taken}" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_everything_with_exit_code_0(tmp_path: Path, number: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        *CLI, "lite", "--data", str(tmp_path), "--port", "0", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(90):
        while b"pagegate is at" not in await process.stderr.readline():
            pass
    tree = psutil.Process(process.pid).children(recursive=True)
    assert len(tree) >= 3
    process.send_signal(number)
    _, told = await process.communicate()
    assert process.returncode == 0, told
    _, alive = await asyncio.to_thread(psutil.wait_procs, tree, 10)
    assert alive == []
    assert not (tmp_path / ADDRESS_FILE).exists()


def test_user_without_a_server_says_what_is_missing(tmp_path: Path) -> None:
    done = pagegate("user", "create", "ada", "--data", tmp_path, "--url", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no token" in done.stderr
    done = pagegate("user", "create", "ada", "--token", "pg_x", "--url", f"http://127.0.0.1:{free_port('127.0.0.1')}")
    assert "nobody answers" in done.stderr
