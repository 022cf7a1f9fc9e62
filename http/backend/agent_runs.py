"""Runs of the built-in agent over HTTP: start with a prompt, retry, sessions, what is known of a run (A7, A8)."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from sqlalchemy import Row

from pagegate.actors.agents.arguments import OneLine, PageCode, storable_text
from pagegate.actors.agents.models import CREDENTIAL, SCRIPTED
from pagegate.actors.agents.runs import CancelRun, RetryRun, StartAgentRun
from pagegate.actors.agents.tools import subject_of
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Id, Params, ProjectParams, Said, Shown, TimeMs
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.http.backend.runs import RunParams, RunView, run_of, show_run
from pagegate.http.backend.sse import EventView, show_event
from pagegate.http.backend.tool_calls import IDEMPOTENCY_KEY_HEADER, IdempotencyKey, idempotency_key
from pagegate.storage import credentials, sessions
from pagegate.storage.engine import Tx
from pagegate.storage.run_diagnosis import diagnose_ai_run
from pagegate.storage.users import Caller

agent_runs = Noun("agent runs")

PROMPT_CHARS_MAX = 50_000


def _prompt(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("text_empty", "is empty")
    return storable_text(value)


Prompt = Annotated[str, Field(min_length=1, max_length=PROMPT_CHARS_MAX), AfterValidator(_prompt)]


class SessionParams(Params):
    session_id: Id


class LookedAt(Said):
    page: PageCode
    version: int | None = Field(default=None, ge=1)


class Focus(Said):
    """What the person looks at while asking; a later run of the session inherits it."""

    pages: list[LookedAt] = Field(max_length=50)


class ModelChoice(Said):
    """A credential of yours, or `scripted`: a model that follows a script and needs no key."""

    credential_id: Id | Literal["scripted"]
    model: OneLine | None = Field(default=None, description="Another model of the same provider and key.")


class PromptForRun(Said):
    prompt: Prompt
    session_id: Id | None = Field(default=None, description="Continue this session: the run inherits its history.")
    use: ModelChoice | None = Field(default=None, description="Default: your newest credential; without one, scripted.")
    focus: Focus | None = None
    idempotency_key: IdempotencyKey | None = None
    skip_visual_verification: bool = False


class Retry(Said):
    """`written_seen`: that the run had saved pages is known and no reason not to retry it."""

    written_seen: bool = False
    use: ModelChoice | None = None


class AcceptedAgentRun(Shown):
    """Follow it at /runs/{run_id}/events. It goes on whether anybody follows or not."""

    run_id: int
    session_id: int
    created: bool
    model: str = Field(description="`scripted`, or the model that is asked.")


class SessionEntry(Shown):
    id: int
    project_id: int
    title: str
    created_by: int
    created_at_ms: TimeMs
    updated_at_ms: TimeMs


class SessionList(Shown):
    sessions: list[SessionEntry]


class RunOfSession(Shown):
    id: int
    status: str
    prompt: str
    retry_of: int | None
    created_at_ms: TimeMs
    finished_at_ms: TimeMs | None


class SessionView(SessionEntry):
    focus: dict[str, Any] | None
    runs: list[RunOfSession]


class DiagnosisView(Shown):
    """Everything known of a run. `lease_valid` is null where nobody has to hold anything."""

    run: dict[str, Any]
    now_ms: TimeMs
    open_batch: bool
    batches: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    last_progress: EventView | None
    events: list[EventView]
    says: list[str] = Field(description="What follows from it, in words.")


@agent_runs.route(
    "POST",
    "/projects/{project_id}/agent-runs",
    status=202,
    refusals=[
        "PROJECT_NOT_FOUND",
        "ROLE_REQUIRED",
        "AI_SESSION_NOT_FOUND",
        "AI_SESSION_BUSY",
        "AI_CREDENTIAL_NOT_FOUND",
        "AI_AGENT_UNAVAILABLE",
        "IDEMPOTENCY_KEY_REUSED",
        "BACKEND_BUSY",
    ],
    headers={IDEMPOTENCY_KEY_HEADER: "Instead of `idempotency_key` in the body."},
)
async def start_agent_run(call: Call[ProjectParams, PromptForRun]) -> AcceptedAgentRun:
    """Let the built-in agent work on a prompt."""
    asked = call.body
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
        model = await _choice(tx, call.user, asked.use)
    started = await call.ask_runs(
        StartAgentRun(
            user_id=call.user.user_id,
            project_id=call.params.project_id,
            prompt=asked.prompt,
            model=model,
            session_id=asked.session_id,
            focus=asked.focus.model_dump(exclude_none=True) if asked.focus is not None else None,
            idempotency_key=idempotency_key(asked.idempotency_key, call.request.headers.get(IDEMPOTENCY_KEY_HEADER)),
            skip_visual_verification=asked.skip_visual_verification,
        )
    )
    return await _accepted(call, started.run_id, started.created)


@agent_runs.route(
    "POST",
    "/runs/{run_id}/retry",
    status=202,
    refusals=[
        "RUN_NOT_FOUND",
        "ROLE_REQUIRED",
        "AI_RUN_NOT_ENDED",
        "AI_RUN_NOT_RETRYABLE",
        "AI_RUN_ALREADY_WROTE",
        "AI_SESSION_BUSY",
        "AI_CREDENTIAL_NOT_FOUND",
        "AI_AGENT_UNAVAILABLE",
        "BACKEND_BUSY",
    ],
)
async def retry_run(call: Call[RunParams, Retry]) -> AcceptedAgentRun:
    """Try an ended run again in its session; you are told first when it had already written."""
    async with call.parts.db.read() as tx:
        await run_of(tx, call.user, call.params.run_id, write=True)
        model = await _choice(tx, call.user, call.body.use) if call.body.use is not None else None
    started = await call.ask_runs(RetryRun(call.user.user_id, call.params.run_id, call.body.written_seen, model))
    return await _accepted(call, started.run_id, started.created)


@agent_runs.route("POST", "/runs/{run_id}/force-cancel", refusals=["RUN_NOT_FOUND", "ROLE_REQUIRED", "BACKEND_BUSY"])
async def force_cancel_run(call: Call[RunParams, Nothing]) -> RunView:
    """End a run and its jobs at once, whether their workers hear of it or not; what is saved stays."""
    async with call.parts.db.read() as tx:
        await run_of(tx, call.user, call.params.run_id, write=True)
    await call.ask_runs(CancelRun(call.params.run_id, call.user.user_id, force=True))
    async with call.parts.db.read() as tx:
        return await show_run(tx, await run_of(tx, call.user, call.params.run_id))


@agent_runs.route("GET", "/projects/{project_id}/sessions", refusals=["PROJECT_NOT_FOUND"])
async def list_sessions(call: Call[ProjectParams, Nothing]) -> SessionList:
    """The project's sessions, the one used last first."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
        rows = await sessions.list_sessions(tx, call.params.project_id)
    return SessionList(sessions=[SessionEntry(**_entry(row)) for row in rows])


@agent_runs.route("GET", "/sessions/{session_id}", refusals=["AI_SESSION_NOT_FOUND"])
async def get_session(call: Call[SessionParams, Nothing]) -> SessionView:
    """A session with its runs."""
    async with call.parts.db.read() as tx:
        row = await sessions.find_session(tx, call.params.session_id)
        if row is None:
            raise ApiError("AI_SESSION_NOT_FOUND")
        await project_of(tx, call.user, row.project_id, not_found="AI_SESSION_NOT_FOUND")
        found = await sessions.list_runs_of_session(tx, row.id)
    return SessionView(**_entry(row), focus=row.focus, runs=[RunOfSession.model_validate(run) for run in found])


@agent_runs.route("GET", "/runs/{run_id}/diagnosis", refusals=["RUN_NOT_FOUND"])
async def get_diagnosis(call: Call[RunParams, Nothing]) -> DiagnosisView:
    """What is known of a run: state, owner, batches and jobs with their leases, last progress, newest events."""
    async with call.parts.db.read() as tx:
        await run_of(tx, call.user, call.params.run_id)
        found = await diagnose_ai_run(tx, call.params.run_id)
    run, prompt = found.run, found.prompt
    shown = {
        "id": run.id,
        "status": run.status,
        "source": run.source,
        "session_id": prompt.session_id if prompt is not None else None,
        "process_owner": run.process_owner,
        "heartbeat_at_ms": prompt.heartbeat_at if prompt is not None else None,
        "cancel_requested_at_ms": run.cancel_requested_at,
        "created_at_ms": run.created_at_ms,
        "finished_at_ms": run.finished_at_ms,
        "error": run.error,
    }
    batches, calls = [asdict(one) for one in found.batches], [asdict(one) for one in found.calls]
    return DiagnosisView(
        run=shown,
        now_ms=found.now_ms,
        open_batch=any(batch["state"] != "completed" for batch in batches),
        batches=batches,
        calls=calls,
        last_progress=None if found.last_progress is None else show_event(found.last_progress),
        events=[show_event(event) for event in found.events],
        says=[*_follows(shown, batches, calls, found.now_ms), *_tells(found.delivery)],
    )


def _follows(run: dict[str, Any], batches: list[dict[str, Any]], calls: list[dict[str, Any]], now_ms: int) -> list[str]:
    """What a person would conclude from the rows, the most telling first. Pure."""
    if run["finished_at_ms"] is not None:
        code = (run["error"] or {}).get("code")
        return [f"The run is over: {run['status']}" + (f" ({code})." if code else ".")]
    says = []
    for call in calls:
        job = f"Job {call['job_id']} ({subject_of(call)})"
        if call["job_status"] == "running" and call["lease_valid"]:
            says.append(f"{job} is worked on by {call['worker_id']}; its lease is valid.")
        elif call["job_status"] == "running":
            says.append(f"{job} has lost its worker; it is rescued with the next sweep.")
        elif call["job_status"] == "pending":
            says.append(f"{job} waits to be claimed: look at `pagegate lanes`.")
    for batch in batches:
        if batch["state"] == "ready":
            says.append(f"Step {batch['run_step']} is done and waits for a coordinator to resume the run.")
        elif batch["state"] == "resuming":
            holds = "its lease is valid" if batch["lease_valid"] else "its lease ran out: another will take it over"
            says.append(f"Step {batch['run_step']} is being resumed (generation {batch['generation']}); {holds}.")
    if run["status"] in {"queued", "running"} and run["heartbeat_at_ms"] is not None:
        silent_s = max(0, now_ms - run["heartbeat_at_ms"]) // 1000
        says.append(f"{run['process_owner']} executes the run; its last sign of life was {silent_s} s ago.")
    return says or ["Nothing is under way: if this stays so, cancel the run with force-cancel."]


def _tells(delivery: Row[Any] | None) -> list[str]:
    """What became of telling the project's webhook. Pure."""
    if delivery is None:
        return []
    code = f" ({delivery.error['code']})" if delivery.error else ""
    said = {
        "pending": f"Its webhook waits for try {delivery.attempt + 1}{code}.",
        "delivering": f"Its webhook is being told, try {delivery.attempt}{code}.",
        "delivered": f"Its webhook was told, by try {delivery.attempt}.",
        "failed": f"Its webhook was not told: given up after try {delivery.attempt}{code}.",
    }
    return [said[delivery.state]]


async def _choice(tx: Tx, user: Caller, use: ModelChoice | None) -> dict[str, Any]:
    """What the run keeps of its model. Raises `CredentialNotFound`."""
    if use is not None and use.credential_id != SCRIPTED:
        row = await credentials.get_credential(tx, user.user_id, int(use.credential_id))
    elif use is None and (own := [one for one in await credentials.list_credentials(tx, user.user_id) if one.model]):
        row = own[-1]
    else:
        return {"kind": SCRIPTED}
    model = use.model if use is not None and use.model else row.model
    if not model:
        hint = "Name a `model` of its provider too, or another credential."
        raise ApiError("AI_CREDENTIAL_NOT_FOUND", "This credential makes pictures only.", hint)
    return {"kind": CREDENTIAL, "credential_id": row.id, "provider": row.provider, "model": model}


async def _accepted(call: Call[Any, Any], run_id: int, created: bool) -> AcceptedAgentRun:
    async with call.parts.db.read() as tx:
        prompt = await sessions.find_prompt(tx, run_id)
    if prompt is None:  # the key had made an outside agent's run
        raise ApiError("IDEMPOTENCY_KEY_REUSED")
    model = prompt.model.get("model", SCRIPTED)
    return AcceptedAgentRun(run_id=run_id, session_id=prompt.session_id, created=created, model=model)


def _entry(row: Any) -> dict[str, Any]:
    names = ("id", "project_id", "title", "created_at_ms", "updated_at_ms")
    return {**{name: getattr(row, name) for name in names}, "created_by": row.user_id}
