"""The brain behind runs: Pydantic AI, with the gate's tools (A1, A2, A11).

Owns the tools' words for a model, what is deferred, and how an answer's stream becomes events. Reading tools answer at
once; writing ones are checked here for what they show by themselves and then deferred: the answer ends with them, and a
job carries each out. Import it late: the library is large. Keeps nothing between two answers.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError
from pydantic_ai import (
    Agent,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    Tool,
    ToolReturn,
)
from pydantic_ai.agent import AgentRunResult
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    PartEndEvent,
    TextPart,
)
from pydantic_ai.run import AgentRunResultEvent
from pydantic_ai.usage import UsageLimits
from pydantic_core import to_jsonable_python

from pagegate.actors.agents import reading
from pagegate.actors.agents.brain import Answer, Asked, DeferredCall, RunEnds, Tell
from pagegate.actors.agents.instructions import DOCS, instructions
from pagegate.actors.agents.models import Models
from pagegate.actors.agents.providers import end_of, sees, unwrapped
from pagegate.actors.agents.tools import TOOLS
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.lease import LeaseLost
from pagegate.storage.objects import Objects

log = structlog.get_logger()

TOOL_RETRIES = 3
_TEXT_MAX = 8000


@dataclass(frozen=True)
class Place:
    """Where the tools of one answer look."""

    db: Database
    objects: Objects
    asked: Asked
    sees: bool


class PydanticBrain:
    """`model_idle_s` and `tools_idle_s`: how long the stream of either may be silent."""

    def __init__(
        self, db: Database, objects: Objects, models: Models, *, model_idle_s: float, tools_idle_s: float
    ) -> None:
        self._db, self._objects, self._models = db, objects, models
        self._model_idle_s, self._tools_idle_s = model_idle_s, tools_idle_s

    async def answer(self, asked: Asked, tell: Tell) -> Answer:
        """See `brain.Brain`."""
        history = _history(asked)
        if asked.requests_left < 1:
            hint = "Ask for less at a time, or raise AI_RUN_REQUEST_LIMIT."
            raise RunEnds("AI_RUN_REQUEST_LIMIT", "The run asked the model as often as it may.", hint)
        try:
            async with self._models.open(asked.model, asked.user_id) as model:
                place = Place(self._db, self._objects, asked, sees(model))
                return await self._stream(model, place, history, tell)
        except (RunEnds, LeaseLost, DatabaseUnavailable, asyncio.CancelledError):
            raise
        except BaseException as raised:
            error = unwrapped(raised)
            if error is None or isinstance(error, RunEnds | LeaseLost | DatabaseUnavailable):
                raise (error or raised) from None
            end = end_of(error)
            if end is None:
                raise
            log.warning("agent.model_failed", run_id=asked.run_id, code=end.code, kind=type(error).__name__)
            raise end from None

    async def _stream(self, model: Any, place: Place, history: list[ModelMessage], tell: Tell) -> Answer:
        asked = place.asked
        agent: Agent[Place, str | DeferredToolRequests] = Agent(
            model,
            output_type=[str, DeferredToolRequests],
            deps_type=Place,
            instructions=instructions(asked.focus),
            tools=_tools(),
            retries=TOOL_RETRIES,
        )
        results = DeferredToolResults(calls=dict(asked.results)) if asked.results else None
        async with agent.run_stream_events(
            message_history=history,
            deferred_tool_results=results,
            deps=place,
            usage_limits=UsageLimits(request_limit=asked.requests_left),
        ) as events:
            async for event in self._patiently(events):
                if isinstance(event, AgentRunResultEvent):
                    return _answer(event.result)
                await _tell(event, asked, tell)
        raise RunEnds("AI_MODEL_OUTPUT_INVALID", "The model's stream ended without an answer.", "Retry the run.")

    async def _patiently(self, events: Any) -> AsyncIterator[Any]:
        """The events; raises `RunEnds` when the stream is silent for too long, model and tools each by their own."""
        in_hand: set[str] = set()
        while True:
            wait_s = self._tools_idle_s if in_hand else self._model_idle_s
            try:
                async with asyncio.timeout(wait_s) as patience:
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not patience.expired():
                    raise
                code, who = ("AI_TOOL_IDLE_TIMEOUT", "A tool") if in_hand else ("AI_MODEL_IDLE_TIMEOUT", "The model")
                message = f"{who} said nothing for {wait_s:.0f} s."
                raise RunEnds(code, message, "Retry the run in its session.") from None
            if isinstance(event, FunctionToolCallEvent):
                in_hand.add(event.part.tool_call_id)
            elif isinstance(event, FunctionToolResultEvent):
                in_hand.discard(event.part.tool_call_id)
            elif isinstance(event, PartEndEvent):
                in_hand.clear()  # the model speaks again
            yield event


async def _tell(event: Any, asked: Asked, tell: Tell) -> None:
    match event:
        case PartEndEvent(part=TextPart(content=text)) if text.strip():
            await tell("model.text", {"text": text[:_TEXT_MAX]})
        case FunctionToolCallEvent(part=part) if part.tool_call_id not in asked.results:
            await tell("tool.called", {"call_id": part.tool_call_id, "tool_name": part.tool_name})
        case FunctionToolResultEvent(part=part) if part.tool_call_id not in asked.results:
            told = {"call_id": part.tool_call_id, "tool_name": part.tool_name, "outcome": part.outcome}
            await tell("tool.answered", told)


def _history(asked: Asked) -> list[ModelMessage]:
    try:
        return ModelMessagesTypeAdapter.validate_python(list(asked.history))
    except ValidationError:
        hint = "Begin a new session; what this one had written stays."
        raise RunEnds("AI_HISTORY_UNREADABLE", "The history of this session cannot be read.", hint) from None


def _answer(result: AgentRunResult[str | DeferredToolRequests]) -> Answer:
    messages = to_jsonable_python(result.new_messages())
    if isinstance(result.output, DeferredToolRequests):
        calls = [DeferredCall(c.tool_call_id, c.tool_name, c.args_as_dict()) for c in result.output.calls]
        if len({call.call_id for call in calls}) < len(calls):
            message = "The model gave two calls of one step the same id."
            raise RunEnds("AI_MODEL_OUTPUT_INVALID", message, "Retry the run, or choose another model.")
        return Answer(messages, calls=calls)
    return Answer(messages, text=result.output)


# --- the tools ------------------------------------------------------------------------------------------------------


def _tools() -> list[Tool[Place]]:
    return [
        Tool(list_project_pages, description=DOCS["list_project_pages"]),
        Tool(get_page_content, description=DOCS["get_page_content"]),
        Tool(list_workspace_components, description=DOCS["list_workspace_components"]),
        Tool(get_verdict, description=DOCS["get_verdict"]),
        *[_deferred(name, arguments) for name, arguments in TOOLS.items()],
    ]


def _deferred(name: str, arguments: type[BaseModel]) -> Tool[Place]:
    """A writing tool: sequential, and carried out by a job (A1, A2). It takes the arguments that every door takes."""

    async def call(_: RunContext[Place], **given: Any) -> Any:
        try:
            arguments.model_validate(given)
        except ValidationError as error:
            raise ModelRetry(_wrong(error)) from None
        raise CallDeferred

    return Tool.from_schema(
        call,
        name=name,
        description=DOCS[name],
        json_schema=arguments.model_json_schema(),
        takes_ctx=True,
        sequential=True,
    )


def _wrong(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in found[:10])


async def list_project_pages(ctx: RunContext[Place]) -> dict[str, Any]:
    async with ctx.deps.db.read() as tx:
        return await reading.list_project_pages(tx, ctx.deps.asked.project_id)


async def get_page_content(ctx: RunContext[Place], page: str) -> dict[str, Any]:
    async with ctx.deps.db.read() as tx:
        return await reading.get_page_content(tx, ctx.deps.asked.project_id, page)


async def list_workspace_components(ctx: RunContext[Place]) -> dict[str, Any]:
    async with ctx.deps.db.read() as tx:
        return await reading.list_workspace_components(tx, ctx.deps.asked.project_id)


async def get_verdict(ctx: RunContext[Place], page: str) -> Any:
    place = ctx.deps
    async with place.db.read() as tx:
        verdict = await reading.get_verdict(tx, place.asked.project_id, place.asked.run_id, page)
    png = await reading.picture_of(place.objects, verdict)
    verdict = reading.without_keys(verdict)
    if png is None or not place.sees:
        return verdict
    return ToolReturn(
        return_value=verdict,
        content=[f"What the page {page} looked like when it was checked:", BinaryContent(png, media_type="image/png")],
    )
