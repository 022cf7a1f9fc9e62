"""`pagegate lanes …` and `pagegate jobs …`: an operator's look at the queues of a running server, over HTTP (Q11, O8).

Owns the words and the tables. Everything that is shown comes from the server; with --json it is shown as it came.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote, urlencode

from rich.table import Table
from rich.text import Text

from pagegate.deploy.client import Api
from pagegate.deploy.diagnose import KINDS
from pagegate.deploy.report import console_of
from pagegate.deploy.talking import Server, talk

_COLOURS = {"failed": "red", "running": "cyan", "succeeded": "green", "pending": "yellow"}
_ABOUT = ("page_code", "component_name", "asset_name")


def show_lanes(server: Server, *, as_json: bool) -> int:
    """A line a lane, and a line for each job that runs."""

    async def show(api: Api) -> int:
        answer = await api.call("GET", "/lanes")
        if as_json:
            return _print_json(answer)
        console = console_of(sys.stdout)
        console.print(_lane_table(answer["lanes"]))
        running = [(lane["lane"], job) for lane in answer["lanes"] for job in lane["running_jobs"]]
        if running:
            console.print()
            console.print(_running_table(running))
        return 0

    return talk("lanes", server, show)


def change_lane(server: Server, lane: str, change: Literal["pause", "resume"]) -> int:
    """Pause or resume; what came of it is told on stderr."""

    async def ask(api: Api) -> int:
        now = await api.call("POST", f"/lanes/{_part(KINDS.get(lane, lane))}/{change}")
        state = "is paused; running jobs go on" if now["paused"] else "is open"
        sys.stderr.write(f"{now['lane']} {state} ({now['pending']} pending, {now['running']} running)\n")
        return 0

    return talk("lanes", server, ask)


def list_jobs(server: Server, wanted: Mapping[str, Any], *, as_json: bool) -> int:
    """A line a job of one lane, newest first."""
    lane = wanted.get("lane")

    async def show(api: Api) -> int:
        asked = {**wanted, "lane": None if lane is None else KINDS.get(lane, lane)}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        answer = await api.call("GET", f"/jobs?{query}")
        if as_json:
            return _print_json(answer)
        console_of(sys.stdout).print(_job_table(answer["jobs"]))
        if lane is None:
            sys.stderr.write(f"page writes only; --lane shows other kinds: {', '.join(KINDS)}\n")
        if answer["next_before"] is not None:
            sys.stderr.write(f"older ones: --before {answer['next_before']}\n")
        return 0

    return talk("jobs", server, show)


def show_job(server: Server, lane: str, job_id: int, *, as_json: bool) -> int:
    """Every field of one job."""

    async def show(api: Api) -> int:
        job = await api.call("GET", _address(lane, job_id))
        if as_json:
            return _print_json(job)
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in job.items():
            shown = _moment(value) if name.endswith("_at_ms") else _said(value)
            table.add_row(Text(name.removesuffix("_ms"), style="bold"), Text(shown))
        console_of(sys.stdout).print(table)
        return 0

    return talk("jobs", server, show)


def change_job(server: Server, lane: str, job_id: int, change: Literal["cancel", "retry"]) -> int:
    """Cancel, or retry and print the new job's id on stdout."""

    async def ask(api: Api) -> int:
        job = await api.call("POST", f"{_address(lane, job_id)}/{change}")
        if change == "retry":
            sys.stderr.write(f"job {job_id} is retried as:\n")
            sys.stdout.write(f"{job['id']}\n")
        elif job["status"] == "running":
            sys.stderr.write(f"job {job_id} was asked to stop\n")
        else:
            sys.stderr.write(f"job {job_id} is {job['status']}\n")
        return 0

    return talk("jobs", server, ask)


def _lane_table(lanes: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("lane", "state"):
        table.add_column(title)
    for title in ("pending", "runnable", "running", "lag", "oldest pending", "oldest running", "rescues"):
        table.add_column(title, justify="right")
    table.add_column("waits for")
    for lane in lanes:
        pause = lane["paused"]
        state = Text("open", style="green")
        if pause is not None:
            state = Text(f"paused by {pause['user_name']} {_ago(pause['paused_at_ms'])}", style="yellow")
        ages = [_span(lane[name]) for name in ("lag_ms", "oldest_pending_age_ms", "oldest_running_age_ms")]
        waits = ", ".join(f"{code} ({count})" for code, count in lane["waiting_for"].items())
        depths = [str(lane[name]) for name in ("pending", "runnable", "running")]
        table.add_row(Text(lane["lane"]), state, *depths, *ages, str(lane["rescues"]), Text(waits))
    return table


def _running_table(running: list[tuple[str, dict[str, Any]]]) -> Table:
    table = Table("lane", "job", "attempt", "for", "worker", "lease", box=None, pad_edge=False, header_style="bold")
    for lane, job in running:
        left_ms = job["lease_expires_at_ms"] - _now_ms()
        lease = Text(f"{_span(max(left_ms, 0))} left") if job["lease_valid"] else Text("run out", style="red")
        if job["cancel_requested"]:
            lease.append(", asked to stop")
        since = _span(_now_ms() - job["started_at_ms"])
        table.add_row(Text(lane), str(job["id"]), str(job["attempt"]), since, Text(job["worker_id"]), lease)
    return table


def _job_table(jobs: list[dict[str, Any]]) -> Table:
    table = Table("job", "status", "about", "run", "attempt", "created", "why", box=None, header_style="bold")
    for job in jobs:
        error = job["error"] or {}
        why = ": ".join(part for part in (error.get("code"), error.get("message")) if part)
        if job["retried_as"] is not None:
            why += f" (retried as {job['retried_as']})"
        status = Text(job["status"], style=_COLOURS.get(job["status"], ""))
        about = next((job[name] for name in _ABOUT if job[name] is not None), None)
        cells = [_said(about), _said(job["run_id"]), str(job["attempt"]), _ago(job["created_at_ms"]), why]
        table.add_row(str(job["id"]), status, *[Text(cell) for cell in cells])
    return table


def _print_json(answer: Any) -> int:
    sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
    return 0


def _address(lane: str, job_id: int) -> str:
    return f"/jobs/{_part(KINDS.get(lane, lane))}/{job_id}"


def _part(name: str) -> str:
    return quote(name, safe="")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _span(ms: int | None) -> str:
    """`340 ms`, `12 s`, `7 min`, `5 h`, `3 d`; a dash for nothing."""
    if ms is None:
        return "-"
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= size * (1 if unit == "s" else 2):
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def _ago(at_ms: int) -> str:
    return f"{_span(max(_now_ms() - at_ms, 0))} ago"


def _moment(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at_ms / 1000)) + f"  ({at_ms})"


def _said(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | bool) else str(value)
