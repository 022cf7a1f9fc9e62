"""`pagegate diagnose RUN|KIND:JOB` and `pagegate secrets rewrap`, over HTTP to a running server (A8, Q11, K7, O8).

Owns the words. Nothing is concluded here: what follows from the rows is the server's to say.
"""

import json
import sys
import time
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagegate.actors.agents.tools import subject_of
from pagegate.deploy.client import Api
from pagegate.deploy.report import console_of
from pagegate.deploy.talking import Server, talk

# What a person calls a kind of job; a lane's own name will do too.
KINDS = {
    "page": "ai_page_mutation_jobs",
    "component": "component_mutation_jobs",
    "image": "image_generation_jobs",
    "screenshot": "page_screenshot_jobs",
    "build": "project_build_jobs",
    "ratio": "asset_ratio_backfill_jobs",
}


class BadTarget(Exception):
    """What was named is neither a run nor a job."""


def diagnose(target: str, server: Server, *, as_json: bool) -> int:
    """Everything known of a run (`7`, `run:7`) or of a job (`build:7`); 1 for an unknown one. Raises `BadTarget`."""
    kind, colon, number = target.rpartition(":")
    if not number.isascii() or not number.isdecimal() or int(number) < 1 or (colon and not kind):
        raise BadTarget(f"{target!r}: name a run by its id, or a job as KIND:ID, KIND being one of {', '.join(KINDS)}")
    if kind in {"", "run"}:
        return diagnose_run(int(number), server, as_json=as_json)
    return diagnose_job(KINDS.get(kind, kind), int(number), server, as_json=as_json)


def diagnose_job(lane: str, job_id: int, server: Server, *, as_json: bool) -> int:
    """Everything known of a job of any kind; 1 for an unknown one."""

    async def show(api: Api) -> int:
        found = await api.call("GET", f"/jobs/{quote(lane, safe='')}/{job_id}/diagnosis")
        if as_json:
            sys.stdout.write(json.dumps(found, ensure_ascii=True) + "\n")
        else:
            _show_job(console_of(sys.stdout), found)
        return 0

    return talk("diagnose", server, show)


def diagnose_run(run_id: int, server: Server, *, as_json: bool) -> int:
    """Everything known of a run; 1 for an unknown one."""

    async def show(api: Api) -> int:
        found = await api.call("GET", f"/runs/{run_id}/diagnosis")
        if as_json:
            sys.stdout.write(json.dumps(found, ensure_ascii=True) + "\n")
        else:
            _show(console_of(sys.stdout), found)
        return 0

    return talk("diagnose", server, show)


def rewrap_secrets(server: Server) -> int:
    """1 when some credentials or webhooks' secrets cannot be read with any key of the server."""

    async def ask(api: Api) -> int:
        done = await api.call("POST", "/model-credentials/rewrap")
        sys.stderr.write(f"{done['rewrapped']} re-encrypted, {done['current']} were under the current key already\n")
        if done["unreadable"]:
            ids = ", ".join(map(str, done["unreadable"]))
            sys.stderr.write(
                f"no key of the server decrypts: {ids}. Name the key they were saved under in "
                "AI_SECRET_ENCRYPTION_PREVIOUS_KEYS, or let their users save them again.\n"
            )
        if done["unreadable_webhooks"]:
            ids = ", ".join(map(str, done["unreadable_webhooks"]))
            sys.stderr.write(f"nor the secret of the webhook of these projects: {ids}. Or let it be set anew.\n")
        return 1 if done["unreadable"] or done["unreadable_webhooks"] else 0

    return talk("secrets", server, ask)


def _show(console: Console, found: dict[str, Any]) -> None:
    run, now_ms = found["run"], found["now_ms"]
    console.print(Text(f"run {run['id']}: {run['status']} ({run['source']})", style="bold"))
    for line in found["says"]:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    facts = {
        "session": run["session_id"],
        "owner": run["process_owner"],
        "last heartbeat": _ago(now_ms, run["heartbeat_at_ms"]),
        "error": None if run["error"] is None else f"{run['error'].get('code')}: {run['error'].get('message')}",
    }
    for name, value in facts.items():
        if value not in {None, "-"}:
            console.print(f"  {name}: {value}", markup=False, soft_wrap=True)
    _table(console, ["step", "state", "generation", "worker", "lease"], [_batch(now_ms, b) for b in found["batches"]])
    titles = ["step", "call", "tool", "task", "page", "job", "attempt", "lease", "code"]
    _table(console, titles, [_call(now_ms, call) for call in found["calls"]])
    progress = found["last_progress"]
    if progress is not None:
        said = progress["data"]
        ago = _ago(now_ms, progress["at_ms"])
        console.print(f"\nlast tool.progress: {subject_of(said)} {said.get('stage')}, {ago}", markup=False)
    console.print("\nnewest events", style="bold")
    for event in found["events"]:
        data = json.dumps(event["data"], ensure_ascii=False)
        shown = data if len(data) <= 160 else data[:160] + " …"
        console.print(f"  {event['index']:>4}  {event['kind']:<14} {shown}", markup=False, soft_wrap=True)


def _show_job(console: Console, found: dict[str, Any]) -> None:
    job, now_ms = found["job"], found["now_ms"]
    console.print(Text(f"{job['lane']} {job['id']}: {job['status']}, attempt {job['attempt']}", style="bold"))
    for line in found["says"]:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    facts = {
        "project": job["project_id"],
        "run": job["run_id"],
        "retry of": job["retry_of"],
        "worker": job["worker_id"],
        "lease": _lease(now_ms, job),
        "last heartbeat": _ago(now_ms, found["heartbeat_at_ms"]),
        "lost leases": job["lease_losses"] or None,
        "infrastructure failures": job["infra_failures"] or None,
        "step": found["step"],
        "staged objects": found["staged"] or None,
        **{_title(name): _fact(now_ms, name, value) for name, value in found["facts"].items()},
        "made": ", ".join(f"{name} {value}" for name, value in found["made"].items()) or None,
        "created": _ago(now_ms, job["created_at_ms"]),
        "started": _ago(now_ms, job["started_at_ms"]),
        "ended": _ago(now_ms, job["finished_at_ms"]),
    }
    for name, value in facts.items():
        if value not in {None, "-"}:
            console.print(f"  {name}: {value}", markup=False, soft_wrap=True)
    if found["log"]:
        console.print("\nlog", style="bold")
        for line in found["log"]:
            console.print(f"  {line}", markup=False, soft_wrap=True)


def _title(name: str) -> str:
    return name.removesuffix("_at_ms").replace("_", " ")


def _fact(now_ms: int, name: str, value: Any) -> Any:
    return _ago(now_ms, value) if name.endswith("_at_ms") else value


def _batch(now_ms: int, batch: dict[str, Any]) -> list[str]:
    return [str(batch[name] or "-") for name in ("run_step", "state", "generation", "worker_id")] + [
        _lease(now_ms, batch)
    ]


def _call(now_ms: int, call: dict[str, Any]) -> list[str]:
    job = "-" if call["job_id"] is None else f"{call['job_id']} {call['job_status']}"
    said = [call["call_id"], call["tool_name"], call["task_state"], subject_of(call), job, call["attempt"]]
    code = call["error_code"] or call["result_code"]
    return [str(call["run_step"]), *[str(one or "-") for one in said], _lease(now_ms, call), str(code or "-")]


def _lease(now_ms: int, row: dict[str, Any]) -> str:
    if row["lease_valid"] is None:
        return "-"
    left_s = (row["lease_expires_at_ms"] - now_ms) / 1000
    return f"valid, {left_s:.0f} s left" if row["lease_valid"] else "run out"


def _table(console: Console, titles: list[str], rows: list[list[str]]) -> None:
    if not rows:
        return
    table = Table(*titles, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    console.print()
    console.print(table)


def _ago(now_ms: int, at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    seconds = max(0, now_ms - at_ms) // 1000
    return f"{seconds} s ago ({time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime(at_ms / 1000))})"
