"""`pagegate agent PROMPT`: one run of the built-in agent of a running server, followed from the terminal (A7).

Owns the words. The run is the server's: it goes on when this command is ended, and the last line says how to look.
"""

import asyncio
import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from pagegate.actors.agents.tools import TOOLS, subject_of
from pagegate.deploy.client import Api
from pagegate.deploy.report import COLOURS, console_of
from pagegate.deploy.talking import Server, talk

PATIENCE_S = 1800.0
_CANVAS = {"width_px": 1280, "height_px": 720}


class NoCredential(Exception):
    """The user has no credential of this name."""


def run_agent(
    prompt: str, server: Server, *, project: int | None, session: int | None, use: str | None, as_json: bool
) -> int:
    """The exit code: 0 when the run succeeded and its last word on each page is a saved one."""
    if not prompt.strip():
        sys.stderr.write('pagegate agent: the prompt is empty; say what to make, like "a page about our winter"\n')
        return 1

    async def follow(api: Api) -> int:
        console = console_of(sys.stdout)
        try:
            body: dict[str, Any] = {"prompt": prompt, "session_id": session, "use": await _choice(api, use)}
        except NoCredential as error:
            sys.stderr.write(f"pagegate agent: {error}\n")
            return 1
        project_id = project or await _new_project(api, prompt, session)
        started = await api.call("POST", f"/projects/{project_id}/agent-runs", body)
        run_id = started["run_id"]
        if not as_json:
            _introduce(console, started, project_id)
        try:
            async for event in api.events(run_id, PATIENCE_S):
                if as_json:
                    sys.stdout.write(json.dumps(event, ensure_ascii=True) + "\n")
                    sys.stdout.flush()
                elif (line := line_of(event)) is not None:
                    console.print(line, soft_wrap=True)
        except asyncio.CancelledError:
            sys.stderr.write(f"\nrun {run_id} goes on at the server: pagegate diagnose {run_id}\n")
            raise
        run = await api.call("GET", f"/runs/{run_id}")
        if as_json:
            sys.stdout.write(json.dumps(run, ensure_ascii=True) + "\n")
        else:
            _conclude(console, run)
        return 0 if run["status"] == "succeeded" and not left_unsaved(run) else 1

    return talk("agent", server, follow)


def line_of(event: dict[str, Any]) -> Text | None:
    """What one event looks like in the terminal; None for one that says nothing new to a person. Pure."""
    said = event["data"]
    match event["kind"]:
        case "model.text":
            return _line("model", said["text"].strip(), "")
        case "tool.called" if said["tool_name"] not in TOOLS:
            return _line("looks", said["tool_name"], "dim")
        case "run.submitted":
            subjects = ", ".join(subject_of(call) or call["tool_name"] for call in said["calls"])
            return _line("submits", subjects, "")
        case "tool.progress" if said["stage"] == "waiting":
            return _line("waits", f"{subject_of(said)}: {said['code']}, attempt {said['attempt']}", "magenta")
        case "tool.progress" if said["attempt"] == 1:
            return _line("checks", f"{subject_of(said)}: {said['stage']}", "dim")
        case "tool.ended":
            status = said.get("status", said["end"])
            saved = f"saved as version {said['version']}" if "version" in said else "not saved"
            why = said.get("summary") or said.get("code", "") if status != "passed" else ""
            words = f"{subject_of(said)}: {status}, {saved}. {why}".strip()
            return _line("verdict", words, COLOURS.get(status, ""))
        case "run.resumed":
            return _line("resumes", f"with all verdicts (generation {said['generation']})", "dim")
        case "run.failed":
            return _line("failed", f"{said['code']}: {said['message']} {said['hint']}", "red")
        case "run.cancelled":
            return _line("stopped", "the run was cancelled", "yellow")
    return None


def left_unsaved(run: dict[str, Any]) -> list[str]:
    """The pages, components and the like whose last submission was not saved. Pure."""
    last = {}
    for call in run["calls"]:
        last[subject_of(call["result"] or {}) or call["call_id"]] = call["status"]
    return [subject for subject, status in last.items() if status != "succeeded"]


def _introduce(console: Console, started: dict[str, Any], project_id: int) -> None:
    ids = f"run {started['run_id']}, session {started['session_id']}, project {project_id}"
    console.print(Text(f"{ids}, model {started['model']}", style="bold"))
    if started["model"] == "scripted":
        console.print(
            "No credential is set up, so a model that follows a script answers; it writes a small sample deck. "
            "POST /model-credentials adds yours.",
            style="yellow",
            markup=False,
        )


def _conclude(console: Console, run: dict[str, Any]) -> None:
    console.print()
    saved = [(page["page"], page["version"]) for page in run["pages"]]
    saved += [(component["component"], component["version"]) for component in run["components"]]
    saved += [(asset["asset"], asset["version"]) for asset in run["assets"]]
    for subject, version in saved:
        console.print(f"saved  {subject} (version {version})", style="green", markup=False)
    for page in left_unsaved(run):
        console.print(f"not saved  {page}", style="red", markup=False)
    session = run["agent"]["session_id"]
    console.print(f'go on with: pagegate agent --project {run["project_id"]} --session {session} "…"', markup=False)


def _line(what: str, said: str, style: str) -> Text:
    return Text.assemble((f"{what:>8}  ", "bold"), (said, style))


async def _choice(api: Api, use: str | None) -> dict[str, Any] | None:
    if use is None:
        return None
    if use == "scripted":
        return {"credential_id": "scripted"}
    listed = await api.call("GET", "/model-credentials")
    found = [one["id"] for one in listed["credentials"] if one["name"] == use]
    if not found:
        names = ", ".join(one["name"] for one in listed["credentials"]) or "none"
        raise NoCredential(f"you have no credential called {use!r} (yours: {names})")
    return {"credential_id": found[0]}


async def _new_project(api: Api, prompt: str, session: int | None) -> int:
    """A project of its own for the prompt, or the one of the session."""
    if session is not None:
        return int((await api.call("GET", f"/sessions/{session}"))["project_id"])
    workspaces = (await api.call("GET", "/workspaces"))["workspaces"]
    workspace = workspaces[0] if workspaces else await api.call("POST", "/workspaces", {"name": "agent"})
    name = " ".join(prompt.split())[:80]
    made = await api.call("POST", f"/workspaces/{workspace['id']}/projects", {"name": name, "canvas": _CANVAS})
    return int(made["id"])
