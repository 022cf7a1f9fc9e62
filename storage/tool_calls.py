"""The calls of a run, and what became of each (A2). A source is stored once, in its call's arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, select

from pagegate.storage import jobs, schema
from pagegate.storage.engine import Tx

_calls = schema.ai_agent_tool_calls
_tasks = schema.ai_agent_external_tasks


@dataclass(frozen=True)
class ToolCall:
    """One call with what has come of it so far; `job_kind` and `job_id` are None for a call without a job."""

    id: int
    run_step: int
    position: int
    call_id: str
    tool_name: str
    status: str
    result: Mapping[str, Any] | None
    job_kind: str | None
    job_id: int | None
    subject: str | None = None  # what its job is about: a page's code, a component's name

    @property
    def page_code(self) -> str | None:
        """The page that its job is about; None for a job about something else."""
        return self.subject if self.job_kind == jobs.PAGE_MUTATION else None

    @property
    def about(self) -> Mapping[str, str]:
        """What its job is about, under the name that results and events give it."""
        return {} if self.job_kind is None or self.subject is None else {jobs.SUBJECTS[self.job_kind]: self.subject}


async def list_tool_calls(tx: Tx, run_id: int) -> list[ToolCall]:
    """Every call of a run in order, without its arguments (a page source may be a megabyte)."""
    made = jobs.jobs_of_run(run_id)
    calls = (
        select(
            *[_calls.c[name] for name in ("id", "run_step", "position", "call_id", "tool_name", "status")],
            _calls.c.result.label("own_result"),
            _tasks.c.result,
            _tasks.c.job_kind,
            _tasks.c.job_id,
            made.c.subject,
        )
        .outerjoin(_tasks, _tasks.c.tool_call_id == _calls.c.id)
        .outerjoin(made, and_(_tasks.c.job_kind == made.c.kind, _tasks.c.job_id == made.c.id))
        .where(_calls.c.run_id == run_id)
        .order_by(_calls.c.run_step, _calls.c.position)
    )
    found = []
    for row in (await tx.execute(calls)).mappings():
        own, rest = row["own_result"], {key: value for key, value in row.items() if key != "own_result"}
        found.append(ToolCall(**{**rest, "result": rest["result"] or own}))
    return found


async def get_call(tx: Tx, tool_call_id: int) -> Row[Any]:
    """Every column of a call, its arguments among them (A2); `LookupError` for an unknown one."""
    row = (await tx.execute(select(_calls).where(_calls.c.id == tool_call_id))).first()
    if row is None:
        raise LookupError(f"tool call {tool_call_id}")
    return row


async def get_arguments(tx: Tx, tool_call_id: int) -> Mapping[str, Any]:
    """The arguments of a call, where a page's source is stored once (A2); `LookupError` for an unknown call."""
    row = (await tx.execute(select(_calls.c.arguments).where(_calls.c.id == tool_call_id))).first()
    if row is None:
        raise LookupError(f"tool call {tool_call_id}")
    return row.arguments  # type: ignore[no-any-return]  # JSON
