"""`pagegate serve` as a real process, its log as signals, and a client that speaks to it."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import select

from pagegate.deploy.client import Api
from pagegate.storage import schema
from pagegate.storage.engine import Database
from tests.integration.processes.played import WORKER_ID
from tests.services import dies_with_parent, free_port

SOURCE = "<template><h1>Costs</h1></template>\n"
QUICK_LEASES = {"DURABLE_JOB_LEASE_SECONDS": "6", "DURABLE_JOB_HEARTBEAT_SECONDS": "1"}
WAIT_S = 60


class Serve:
    """One Backend process. `logged(event)` waits for a line of its log, from the last one that was waited for on."""

    def __init__(self, folder: Path, database_url: str, far_url: str, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token_file = folder / "operator_token"
        self._environment = {
            **os.environ,
            "LOG_FORMAT": "json",
            "BACKEND_PORT": str(self.port),
            "DATABASE_URL": database_url,
            "REDIS_URL": "memory://lite",
            "ASSET_STORAGE_LOCAL_DIR": str(folder / "objects"),
            "RUNTIME_RSA_PRIVATE_KEY_FILE": str(folder / f"key-{self.port}.pem"),
            "OPERATOR_TOKEN_FILE": str(self.token_file),
            "RUNTIME_BASE_URLS": far_url,
            "RENDER_WORKERS_CONFIG": json.dumps([{"id": WORKER_ID, "base_url": far_url}]),
            "RENDER_SERVICE_CREDENTIAL": "a-credential-of-thirty-two-chars",
            **QUICK_LEASES,
            **settings,
        }
        self.process: asyncio.subprocess.Process
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start, and wait until its door is open. May be called again after an end."""
        self._lines: list[dict[str, Any]] = []
        self._seen, self._news = 0, asyncio.Event()
        self.process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "pagegate.deploy.process", "serve"],
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            preexec_fn=dies_with_parent(signal.SIGKILL),
            limit=1024 * 1024,
        )
        self._reading = asyncio.create_task(self._read())
        await self.logged("process.ready")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                said = {"event": "text", "text": line.decode(errors="replace")}
            self._lines.append(said)
            self._news.set()
        self._lines.append({"event": "the end"})
        self._news.set()

    async def logged(self, event: str) -> dict[str, Any]:
        """The next line with this event; an error with the whole log when the process ends without it."""
        async with asyncio.timeout(WAIT_S):
            while True:
                while self._seen < len(self._lines):
                    line = self._lines[self._seen]
                    self._seen += 1
                    if line["event"] == event:
                        return line
                    if line["event"] == "the end":
                        raise AssertionError(f"no {event!r} in\n" + "\n".join(map(str, self._lines)))
                self._news.clear()
                await self._news.wait()

    def events(self) -> list[str]:
        return [line["event"] for line in self._lines]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """The exit code, once the process is gone and its log is read."""
        async with asyncio.timeout(WAIT_S):
            code = await self.process.wait()
            assert self._reading is not None
            await self._reading
        return code

    async def stop(self) -> None:
        """Whatever state it is in."""
        if self._reading is not None and self.process.returncode is None:
            self.process.kill()
            await self.ended()

    @property
    def api(self) -> Api:
        """A client with the operator's token; use it as a context manager."""
        return Api(self.url, self.token_file.read_text().strip())

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


class Project:
    """A project on a server, and what comes of the calls that are sent to it."""

    def __init__(self, api: Api, project_id: int) -> None:
        self.api, self.id = api, project_id

    @classmethod
    async def create(cls, api: Api) -> "Project":
        workspace = await api.call("POST", "/workspaces", {"name": "Fernpost"})
        project = await api.call("POST", f"/workspaces/{workspace['id']}/projects", {"name": "Q3"})
        return cls(api, project["id"])

    async def send(self, *codes: str) -> int:
        """A step with a creating call for each code; the run's id."""
        calls = [
            {
                "call_id": code,
                "tool": "create_project_page",
                "arguments": {"title": code, "code": code, "source": SOURCE},
            }
            for code in codes
        ]
        made = await self.api.call("POST", f"/projects/{self.id}/tool-calls", {"calls": calls})
        return int(made["run_id"])

    async def versions(self) -> dict[str, int]:
        """How many versions each page has."""
        pages = (await self.api.call("GET", f"/projects/{self.id}/pages"))["pages"]
        return {
            page["code"]: len((await self.api.call("GET", f"/pages/{page['id']}/versions"))["versions"])
            for page in pages
        }


async def finished(api: Api, run_id: int) -> tuple[dict[str, Any], list[str]]:
    """(the run, the kinds of its events) once it has ended."""
    async with asyncio.timeout(WAIT_S):
        kinds = [event["kind"] async for event in api.events(run_id)]
    return await api.call("GET", f"/runs/{run_id}"), kinds


def expect_one_of_everything(run: dict[str, Any], kinds: list[str]) -> None:
    """The run succeeded, each call ended once, and it was resumed once."""
    assert (run["status"], {call["status"] for call in run["calls"]}) == ("succeeded", {"succeeded"})
    assert kinds.count("run.finished") == 1
    assert kinds.count("tool.ended") == len(run["calls"])


async def job_rows(database_url: str) -> list[Any]:
    """The jobs as they are in the database, by id; looked at from outside."""
    db = await Database.open(database_url)
    try:
        async with db.read() as tx:
            table = schema.ai_page_mutation_jobs
            return list((await tx.execute(select(table).order_by(table.c.id))).all())
    finally:
        await db.close()


async def gauges(serve: Serve) -> dict[str, float]:
    """Every series of /metrics by its name with labels."""
    async with serve.api as api:
        text = (await api.download("/metrics")).decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}
