"""A run's events: rows with numbers, so that a client that was cut off asks again from the last one it saw (A7).

Owns the statements on `ai_agent_run_events`, and the number, which is counted in the run's own row: whoever appends
holds that row until its transaction ends, so numbers have no gap and their order is that of the commits.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select, update

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.jobs.kinds import SUBJECTS

_runs = schema.ai_agent_runs
_events = schema.ai_agent_run_events
_calls = schema.ai_agent_tool_calls


class RunNotFound(LookupError):
    """There is no such run."""


@dataclass(frozen=True)
class RunEvent:
    """One event of a run; `index` counts from 1 without a gap (A7)."""

    index: int
    kind: str
    data: Mapping[str, Any]
    at_ms: int


async def append_event(tx: Tx, run_id: int, kind: str, data: Mapping[str, Any]) -> int:
    """Add an event and answer its index (A7); raises `RunNotFound`. Locks the run until the transaction ends."""
    counted = (
        update(_runs)
        .where(_runs.c.id == run_id)
        .values(last_event_index=_runs.c.last_event_index + 1)
        .returning(_runs.c.last_event_index)
    )
    index = (await tx.execute(counted)).scalar()
    if index is None:
        raise RunNotFound(f"run {run_id}")
    await tx.execute(_events.insert().values(run_id=run_id, event_index=index, kind=kind, data=data, at_ms=tx.now))
    return int(index)


async def append_call_event(tx: Tx, job_id: int, job: Row[Any], kind: str, data: Mapping[str, Any]) -> None:
    """Add an event about the call of a job: with the call's name, what it is about and the job.

    Nothing happens for a job of no run. A call or a run that is gone (a hand in the database) is nobody to tell.
    """
    if job.run_id is None:
        return
    call_id = (await tx.execute(select(_calls.c.call_id).where(_calls.c.id == job.tool_call_id))).scalar()
    with contextlib.suppress(RunNotFound):
        await append_event(tx, job.run_id, kind, {"call_id": call_id, **_subject(job), "job_id": job_id, **data})


def _subject(job: Row[Any]) -> dict[str, str]:
    """What the job is about, under the name of its column."""
    return {column: job._mapping[column] for column in SUBJECTS.values() if column in job._mapping}


async def list_events(tx: Tx, run_id: int, after: int = 0, limit: int = 200) -> list[RunEvent]:
    """Events with an index above `after`, in order, at most `limit` (A7)."""
    following = (
        select(_events.c.event_index.label("index"), _events.c.kind, _events.c.data, _events.c.at_ms)
        .where(_events.c.run_id == run_id, _events.c.event_index > after)
        .order_by(_events.c.event_index)
        .limit(limit)
    )
    return [RunEvent(**row) for row in (await tx.execute(following)).mappings()]
