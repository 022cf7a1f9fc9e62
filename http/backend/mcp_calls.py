"""What an MCP client may call: the tools of the built-in agent, through the same actors and the one queue (A9).

Owns the tools' names and schemas, and the wait. A writing call is a run of its own with a batch of one: it is followed
for a while, then answered with a handle for `get_verdict`; the check goes on whether anybody waits or not. Looking
tools answer what the built-in agent's answer. Knows nothing of MCP itself: `mcp_server.py` speaks it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import ValidationError, model_validator
from pydantic_core import PydanticCustomError

from pagegate.actors.agents import reading
from pagegate.actors.agents.arguments import Arguments, ComponentName, PageCode, PictureName
from pagegate.actors.agents.instructions import DOCS
from pagegate.actors.agents.runs import StartApiRun
from pagegate.actors.agents.tools import (
    ApplyComponentEdits,
    ApplyPageEdits,
    CreateComponent,
    CreateProjectPage,
    GenerateImage,
    parse_tool_call,
    refuse_step,
    subject_of,
)
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError, invalid
from pagegate.http.backend.models import Id, ProjectParams
from pagegate.http.backend.routes import Call, Nothing
from pagegate.http.backend.tool_calls import IdempotencyKey
from pagegate.storage import runs
from pagegate.storage.engine import DatabaseUnavailable, Tx

POLL_S = 1.0  # for what other replicas do, and for wake-ups that were lost
TELL_EVERY_S = 5.0  # many clients give up on a call that says nothing
_CALL_ID = "call"  # a batch of one needs no name, and the same call with the same key must be the same request

R = TypeVar("R")
Ask = Call[ProjectParams, Nothing]
Tell = Callable[[float, str], Awaitable[None]]  # seconds waited so far, and what is being done


class Once(Arguments):
    """A writing call: sent again with its key, it is answered from the first one."""

    idempotency_key: IdempotencyKey | None = None


class CreatePageOnce(CreateProjectPage, Once):
    pass


class EditPageOnce(ApplyPageEdits, Once):
    pass


class CreateComponentOnce(CreateComponent, Once):
    pass


class EditComponentOnce(ApplyComponentEdits, Once):
    pass


class GenerateImageOnce(GenerateImage, Once):
    pass


class NoArguments(Arguments):
    pass


class OfPage(Arguments):
    page: PageCode


class OfVerdict(Arguments):
    """About a page, a component or a picture that is being made."""

    page: PageCode | None = None
    component: ComponentName | None = None
    asset: PictureName | None = None
    run_id: Id | None = None

    @model_validator(mode="after")
    def _about_one(self) -> "OfVerdict":
        if [self.page, self.component, self.asset].count(None) != 2:
            raise PydanticCustomError("verdict_of", "name a page, a component or an asset, one of them")
        return self

    @property
    def about(self) -> dict[str, str]:
        if self.asset is not None:
            return {"asset_name": self.asset}
        return {"page_code": self.page} if self.page is not None else {"component_name": self.component or ""}


@dataclass(frozen=True)
class Tool:
    arguments: type[Arguments]
    kind: Literal["looks", "creates", "edits"]
    more: str = ""

    def description(self, name: str) -> str:
        return f"{DOCS[name]} {self.more}".strip()


_WAITS = (
    "Waits for the verdict; when that takes long you get `status: pending` and a `run_id` to call get_verdict with. "
    "The same `idempotency_key` and arguments again are answered from the first call, not checked twice."
)
TOOLS: Mapping[str, Tool] = {
    "list_project_pages": Tool(NoArguments, "looks"),
    "get_page_content": Tool(OfPage, "looks"),
    "list_workspace_components": Tool(NoArguments, "looks"),
    "create_project_page": Tool(CreatePageOnce, "creates", _WAITS),
    "apply_page_edits": Tool(EditPageOnce, "edits", _WAITS),
    "create_component": Tool(CreateComponentOnce, "creates", _WAITS),
    "apply_component_edits": Tool(EditComponentOnce, "edits", _WAITS),
    "generate_image": Tool(GenerateImageOnce, "creates", _WAITS),
    "get_verdict": Tool(
        OfVerdict,
        "looks",
        "Name a `page`, a `component` or a picture's `asset`. Give the `run_id` of a call to see its verdict, or to "
        "wait for it.",
    ),
}


@dataclass(frozen=True)
class Told:
    """A call's answer: the words, and the picture (PNG) where there is one to see."""

    said: dict[str, Any]
    png: bytes | None = None
    is_error: bool = False


async def carry_out(call: Ask, name: str, given: Mapping[str, Any], tell: Tell) -> Told:
    """One call of a tool. Raises `ApiError` and what is in the table of refusals (`errors.py`)."""
    tool = TOOLS.get(name)
    if tool is None:
        raise ApiError("TOOL_UNKNOWN", f"There is no tool {name!r}.", f"The tools are {', '.join(TOOLS)}.")
    try:
        asked = tool.arguments.model_validate(given)
    except ValidationError as error:
        wrong = invalid(error)
        wrong.hint = f"Correct what `details` names; the schema of {name} says what it takes."
        raise wrong from None
    project_id = call.params.project_id
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, project_id, need="viewer" if tool.kind == "looks" else "editor")
    match asked:
        case Once():
            return await _write(call, name, asked, tell)
        case OfVerdict():
            return await _verdict(call, asked, tell)
    async with call.parts.db.read() as tx:
        match asked:
            case OfPage():
                said = await reading.get_page_content(tx, project_id, asked.page)
            case _ if name == "list_project_pages":
                said = await reading.list_project_pages(tx, project_id)
            case _:
                said = await reading.list_workspace_components(tx, project_id)
    return Told(said, is_error="error" in said)


async def _write(call: Ask, name: str, asked: Once, tell: Tell) -> Told:
    limits = call.parts.limits
    arguments = asked.model_dump(exclude={"idempotency_key"})
    step = (parse_tool_call(_CALL_ID, name, arguments),)
    refuse_step(step, batch_size_max=1, source_bytes_max=limits.source_bytes_max)
    started = await call.ask_runs(StartApiRun(call.user.user_id, call.params.project_id, step, asked.idempotency_key))
    run_id, about = started.run_id, dict[str, str]()

    async def look(tx: Tx) -> runs.ToolCall | None:
        made = (await runs.list_tool_calls(tx, run_id))[0]
        about.update(made.about)
        return made if made.status != "pending" else None

    ended = await _wait(call, run_id, look, tell)
    if ended is None:
        return Told(_handle(run_id, about))
    told = reading.told_to_model(ended.result, ended.status)
    return Told({**told, "run_id": run_id})


async def _verdict(call: Ask, asked: OfVerdict, tell: Tell) -> Told:
    project_id, run_id = call.params.project_id, asked.run_id

    async def look(tx: Tx) -> dict[str, Any] | None:
        if asked.asset is not None:
            verdict = await reading.get_picture(tx, project_id, run_id, asked.asset)
        elif asked.component is not None:
            verdict = await reading.get_component_verdict(tx, project_id, run_id, asked.component)
        else:
            verdict = await reading.get_verdict(tx, project_id, run_id, asked.page or "")
        return verdict if verdict.get("status") != "pending" or run_id is None else None

    if run_id is not None:
        async with call.parts.db.read() as tx:
            try:
                run = await runs.get_run(tx, run_id)
            except runs.RunNotFound:
                run = None
        if run is None or run.project_id != project_id:
            raise ApiError("RUN_NOT_FOUND", f"The project has no run {run_id}.", "Leave run_id out for what is saved.")
        verdict = await _wait(call, run_id, look, tell)
    else:
        async with call.parts.db.read() as tx:
            verdict = await look(tx)
    if verdict is None:
        return Told(_handle(run_id, asked.about))
    png = await reading.picture_of(call.parts.objects, verdict)
    return Told(reading.without_keys(verdict), png, is_error="error" in verdict)


async def _wait(call: Ask, run_id: int, look: Callable[[Tx], Awaitable[R | None]], tell: Tell) -> R | None:
    """What `look` finds, as soon as it does; None when it takes too long or this process stops."""
    feed, loop = call.parts.feed, asyncio.get_running_loop()
    began_s, told_s, doing, after = loop.time(), -TELL_EVERY_S, "", 0
    # Where too many are waiting already, nobody is refused: the handle comes at once.
    wait_s = call.parts.limits.mcp_wait_s if feed.streams < call.parts.limits.streams_max else 0.0
    with feed.subscribe(run_id) as subscription:
        while True:
            subscription.quiet()
            try:
                async with call.parts.db.read() as tx:
                    if (found := await look(tx)) is not None:
                        return found
                    events = await runs.list_events(tx, run_id, after, 200)
            except DatabaseUnavailable:
                events = []  # the job goes on with its own patience; so does who waits for it
            waited_s = loop.time() - began_s
            if waited_s >= wait_s or feed.closed:
                return None
            before = doing
            for event in events:
                doing, after = _doing(event) or doing, event.index
            if doing != before or waited_s - told_s >= TELL_EVERY_S:
                told_s = waited_s
                await tell(waited_s, doing or "waits for its turn")
            await subscription.news(min(POLL_S, wait_s - waited_s))


def _doing(event: runs.RunEvent) -> str:
    if event.kind != "tool.progress":
        return ""
    said = event.data
    subject = subject_of(said)
    if said.get("stage") == "waiting":
        return f"{subject}: waits ({said.get('code')}), attempt {said.get('attempt')}"
    return f"{subject}: {said.get('stage')}"


def _handle(run_id: int | None, about: Mapping[str, str]) -> dict[str, Any]:
    noun = "component" if "component_name" in about else "asset" if "asset_name" in about else "page"
    subject = subject_of(about)
    return {
        "status": "pending",
        **about,
        "run_id": run_id,
        "next": f"The work goes on: call get_verdict with {noun} {subject!r}, run_id {run_id}; do not submit again.",
    }
