"""The door into the gate for agents without a model of ours: one step's calls in one request (A9, Q9).

Everything that a request shows by itself is refused here, as a whole, before anything is written. What depends on the
state at execution is decided by the jobs, call by call. The answer is the run; its verdicts come later.
"""

from typing import Annotated

from pydantic import Field

from pagegate.actors.agents.arguments import OneLine
from pagegate.actors.agents.runs import StartApiRun
from pagegate.actors.agents.tools import ToolCall, refuse_step
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import ProjectParams, Said, Shown
from pagegate.http.backend.routes import Call, Noun
from pagegate.storage.runs import get_run

tool_calls = Noun("tool calls")

IDEMPOTENCY_KEY_HEADER = "Idempotency-Key"
_CALLS_CEILING = 1000  # the real limit is a setting; this one bounds the parsing

IdempotencyKey = Annotated[OneLine, Field(max_length=200)]


class StepOfCalls(Said):
    """The calls of one step. They share nothing but the run: one that is refused does not stop the others."""

    calls: list[ToolCall] = Field(min_length=1, max_length=_CALLS_CEILING)
    idempotency_key: IdempotencyKey | None = Field(
        default=None, description="The same key and request again answer the same run. The header does the same."
    )
    skip_visual_verification: bool = Field(
        default=False,
        description="Save a page that compiles when the Renderer is unavailable. Never overrides a failed check.",
    )


class AcceptedRun(Shown):
    """The run that executes the calls. Follow it at /runs/{run_id}/events, read its verdicts at /runs/{run_id}."""

    run_id: int
    status: str
    created: bool = Field(description="False when the idempotency key had made this run before.")


@tool_calls.route(
    "POST",
    "/projects/{project_id}/tool-calls",
    status=202,
    refusals=[
        "PROJECT_NOT_FOUND",
        "ROLE_REQUIRED",
        "TOOL_UNKNOWN",
        "TOOL_CALL_ID_DUPLICATE",
        "PAGE_CODE_INVALID",
        "COMPONENT_NAME_INVALID",
        "PAGE_SOURCE_EMPTY",
        "PAGE_SOURCE_TOO_LARGE",
        "ASSET_NAME_INVALID",
        "ASSET_TYPE_NOT_ALLOWED",
        "AI_PAGE_MUTATION_BATCH_TOO_LARGE",
        "AI_PAGE_MUTATION_ACTIVE_JOBS_LIMIT",
        "COMPONENT_MUTATION_ACTIVE_JOBS_LIMIT",
        "IMAGE_GENERATION_ACTIVE_JOBS_LIMIT",
        "IDEMPOTENCY_KEY_REUSED",
        "BACKEND_BUSY",
    ],
    headers={IDEMPOTENCY_KEY_HEADER: "Instead of `idempotency_key` in the body."},
    body_bytes_max=lambda limits: limits.step_body_bytes_max(),
)
async def submit_tool_calls(call: Call[ProjectParams, StepOfCalls]) -> AcceptedRun:
    """Send one step's calls through the gate."""
    step, limits = call.body, call.parts.limits
    key = idempotency_key(step.idempotency_key, call.request.headers.get(IDEMPOTENCY_KEY_HEADER))
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
    refuse_step(step.calls, batch_size_max=limits.batch_size_max, source_bytes_max=limits.source_bytes_max)
    started = await call.ask_runs(
        StartApiRun(call.user.user_id, call.params.project_id, tuple(step.calls), key, step.skip_visual_verification)
    )
    async with call.parts.db.read() as tx:
        run = await get_run(tx, started.run_id)
    return AcceptedRun(run_id=started.run_id, status=run.status, created=started.created)


def idempotency_key(said: str | None, header: str | None) -> str | None:
    """The key of the body or of the header. Raises `REQUEST_INVALID` when they differ."""
    if header is None:
        return said
    header = header.strip()
    if not 1 <= len(header) <= 200 or not header.isprintable():
        raise ApiError("REQUEST_INVALID", f"{IDEMPOTENCY_KEY_HEADER}: 1 to 200 printable characters are needed.")
    if said not in {None, header}:
        raise ApiError("REQUEST_INVALID", f"{IDEMPOTENCY_KEY_HEADER} and idempotency_key differ.", "Send one of them.")
    return header
