"""Runs over HTTP: what became of each call, the events, and the stop (A7, A9, Q10)."""

from typing import Any, Literal

from aiohttp import web
from pydantic import Field

from pagegate.actors.agents.arguments import CallId
from pagegate.actors.agents.execution import summary_of_calls
from pagegate.actors.agents.models import SCRIPTED
from pagegate.actors.agents.runs import CancelRun
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Id, Params, Shown, TimeMs
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.http.backend.sse import EventView, follow, show_event
from pagegate.storage import runs as storage
from pagegate.storage.engine import Tx
from pagegate.storage.objects import ObjectMissing
from pagegate.storage.sessions import find_prompt
from pagegate.storage.transitions import RUN
from pagegate.storage.users import Caller

runs = Noun("runs")

EVENTS_LIMIT = 500


class RunParams(Params):
    run_id: Id


class CallParams(RunParams):
    call_id: CallId


class EventsParams(RunParams):
    after: int | None = Field(
        default=None, ge=0, le=2**31 - 1, description="The last index already seen; 0 or nothing: from the beginning."
    )
    format: Literal["stream", "json"] = Field(default="stream", description="`json` answers what there is, at once.")
    limit: int = Field(default=EVENTS_LIMIT, ge=1, le=EVENTS_LIMIT, description="Of `json` only.")


class CallView(Shown):
    """One call. `result` is null while it is pending, and then what an agent is told: verdict, findings, next step.

    `result.picture`, where there is one, is the address of the page's picture.
    """

    call_id: str
    tool: str
    status: Literal["pending", "succeeded", "failed", "cancelled", "skipped", "refused"]
    result: dict[str, Any] | None
    job_kind: str | None
    job_id: int | None


class SavedPage(Shown):
    page: str
    version: int | None


class SavedComponentView(Shown):
    component: str
    version: int | None


class SavedAssetView(Shown):
    """A picture that was made for the project; `GET /projects/{id}/assets/{name}` answers with it."""

    asset: str
    version: int | None


class AgentView(Shown):
    """What a run of the built-in agent was asked for. `model`: `scripted`, or the one that is asked."""

    session_id: int
    prompt: str
    model: str
    retry_of: int | None


class RunView(Shown):
    """`pages`, `components`, `assets`: what the run has saved, whatever becomes of it.

    `agent` is null for an outside agent's.
    """

    id: int
    project_id: int
    source: Literal["api", "agent"]
    status: Literal["queued", "running", "waiting_external", "succeeded", "failed", "cancelled"]
    finished: bool
    calls: list[CallView]
    pages: list[SavedPage]
    components: list[SavedComponentView]
    assets: list[SavedAssetView]
    agent: AgentView | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    skip_visual_verification: bool
    last_event_index: int
    created_by: int
    created_at_ms: TimeMs
    started_at_ms: TimeMs | None
    finished_at_ms: TimeMs | None
    cancel_requested_at_ms: TimeMs | None


class EventList(Shown):
    events: list[EventView]
    last_event_index: int = Field(description="The newest event there is; ask for the rest with `after`.")
    finished: bool


@runs.route("GET", "/runs/{run_id}", refusals=["RUN_NOT_FOUND"])
async def get_run(call: Call[RunParams, Nothing]) -> RunView:
    """A run with its calls and their verdicts."""
    async with call.parts.db.read() as tx:
        return await show_run(tx, await run_of(tx, call.user, call.params.run_id))


@runs.route(
    "GET",
    "/runs/{run_id}/calls/{call_id}/picture",
    answer=Bytes("image/png", "What the page of the call looked like when it was checked."),
    refusals=["RUN_NOT_FOUND", "PICTURE_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
)
async def get_call_picture(call: Call[CallParams, Nothing]) -> web.StreamResponse:
    """The picture of one call's page, of a refused one too: what an agent should look at before it repairs."""
    async with call.parts.db.read() as tx:
        run = await run_of(tx, call.user, call.params.run_id)
        made = {one.call_id: one for one in await storage.list_tool_calls(tx, run.id)}.get(call.params.call_id)
    key = (made.result or {}).get("picture_key") if made is not None else None
    if key is None:
        raise ApiError("PICTURE_NOT_FOUND")
    sha256 = key.rpartition("/")[2].removesuffix(".png")
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            key,
            media_type="image/png",
            sha256=sha256,
            name=f"run-{run.id}-{call.params.call_id}.png",
            inline=True,
        )
    except ObjectMissing:
        raise ApiError("PICTURE_NOT_FOUND", "The picture's bytes are missing.", "Check the page again.") from None


@runs.route("POST", "/runs/{run_id}/cancel", refusals=["RUN_NOT_FOUND", "ROLE_REQUIRED", "BACKEND_BUSY"])
async def cancel_run(call: Call[RunParams, Nothing]) -> RunView:
    """Stop a run: pages already saved stay, nothing more is saved; a run that has ended stays as it is."""
    async with call.parts.db.read() as tx:
        await run_of(tx, call.user, call.params.run_id, write=True)
    await call.ask_runs(CancelRun(call.params.run_id, call.user.user_id))
    async with call.parts.db.read() as tx:
        return await show_run(tx, await run_of(tx, call.user, call.params.run_id))


@runs.route(
    "GET",
    "/runs/{run_id}/events",
    answer=Bytes("text/event-stream", "Events from the one after `after`, followed until the run's last one."),
    answer_too=[Bytes("application/json", "with `format=json`, the events there are (`EventList`).")],
    refusals=["RUN_NOT_FOUND", "RUN_EVENT_NOT_FOUND", "TOO_MANY_STREAMS"],
    headers={"Last-Event-ID": "What a browser sends when it comes back; `after` wins."},
)
async def get_run_events(call: Call[EventsParams, Nothing]) -> EventList | web.StreamResponse:
    """A run's events: replayed from any index, then followed. 204 when a finished run has nothing after that index."""
    after = _after(call)
    async with call.parts.db.read() as tx:
        run = await run_of(tx, call.user, call.params.run_id)
        events = await storage.list_events(tx, run.id, after, call.params.limit)
    finished = run.status in RUN.terminal
    if after > run.last_event_index:
        raise ApiError(
            "RUN_EVENT_NOT_FOUND",
            f"The run's last event is {run.last_event_index}; there is no event {after}.",
            f"Follow from {run.last_event_index} or an earlier index.",
        )
    if call.params.format == "json":
        shown = [show_event(event) for event in events]
        return EventList(events=shown, last_event_index=run.last_event_index, finished=finished)
    if finished and after == run.last_event_index:
        return web.Response(status=204)  # tells a browser's EventSource not to come back
    return await follow(call.request, call.parts, call.user, run.id, after)


async def run_of(tx: Tx, caller: Caller, run_id: int, *, write: bool = False) -> Any:
    """The row of a run that the caller may see. Raises `RUN_NOT_FOUND` for strangers, `ROLE_REQUIRED`."""
    try:
        run = await storage.get_run(tx, run_id)
    except storage.RunNotFound:
        raise ApiError("RUN_NOT_FOUND") from None
    await project_of(tx, caller, run.project_id, "editor" if write else "viewer", not_found="RUN_NOT_FOUND")
    return run


def _after(call: Call[EventsParams, Nothing]) -> int:
    if call.params.after is not None:
        return call.params.after
    seen = call.request.headers.get("Last-Event-ID", "").strip()
    if not seen:
        return 0
    if not seen.isascii() or not seen.isdigit() or len(seen) > 10:
        raise ApiError("RUN_EVENT_NOT_FOUND", "Last-Event-ID is not an index of this run's events.")
    return int(seen)


async def show_run(tx: Tx, run: Any) -> RunView:
    """A run's row with its calls."""
    calls = await storage.list_tool_calls(tx, run.id)
    saved = summary_of_calls(calls)
    prompt = await find_prompt(tx, run.id)
    return RunView(
        id=run.id,
        project_id=run.project_id,
        source=run.source,
        status=run.status,
        finished=run.status in RUN.terminal,
        calls=[_call_view(run.id, one) for one in calls],
        pages=[SavedPage.model_validate(page) for page in saved["pages"]],
        components=[SavedComponentView.model_validate(component) for component in saved["components"]],
        assets=[SavedAssetView.model_validate(asset) for asset in saved["assets"]],
        agent=None if prompt is None else _agent_view(prompt),
        result=run.result,
        error=run.error,
        skip_visual_verification=run.skip_visual_verification,
        last_event_index=run.last_event_index,
        created_by=run.user_id,
        created_at_ms=run.created_at_ms,
        started_at_ms=run.started_at_ms,
        finished_at_ms=run.finished_at_ms,
        cancel_requested_at_ms=run.cancel_requested_at,
    )


def _agent_view(prompt: Any) -> AgentView:
    return AgentView(
        session_id=prompt.session_id,
        prompt=prompt.prompt,
        model=prompt.model.get("model", SCRIPTED),
        retry_of=prompt.retry_of,
    )


def _call_view(run_id: int, call: storage.ToolCall) -> CallView:
    return CallView.model_validate(
        {
            "call_id": call.call_id,
            "tool": call.tool_name,
            "status": call.status,
            "result": _told(run_id, call),
            "job_kind": call.job_kind,
            "job_id": call.job_id,
        }
    )


def _told(run_id: int, call: storage.ToolCall) -> dict[str, Any] | None:
    """The result as clients see it: where bytes are stored is ours to know."""
    if call.result is None:
        return None
    told = dict(call.result)
    if told.pop("picture_key", None) is not None:
        told["picture"] = f"/runs/{run_id}/calls/{call.call_id}/picture"
    return told
