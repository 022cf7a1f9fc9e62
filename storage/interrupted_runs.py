"""Runs that nobody executes any more, ended (A7).

Owns the two ways: at the start of a process, those of a process of this host that is dead; at any time, those that gave
no sign of life for too long, whoever had them. A run that waits for jobs is neither, and neither is one whose batch is
open: its coordinator's lease ends, and another coordinator takes it over (A4).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, or_, select

from pagegate.storage import runs, schema
from pagegate.storage.engine import Tx

_runs = schema.ai_agent_runs
_prompts = schema.ai_agent_prompts
_batches = schema.ai_agent_external_batches

INTERRUPTED = {
    "code": "AI_RUN_INTERRUPTED",
    "message": "The process that executed the run ended without a word.",
    "hint": "Retry the run in its session; you are told first what it had already written.",
}
IDLE_TIMEOUT = {
    "code": "AI_RUN_IDLE_TIMEOUT",
    "message": "The run gave no sign of life for too long.",
    "hint": "Retry the run in its session; you are told first what it had already written.",
}


@dataclass(frozen=True)
class Owner:
    """`hostname:pid:uuid` of a process; a restarted process is another one."""

    host: str
    pid: int
    life: str

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        host, _, rest = text.rpartition(":")
        host, _, pid = host.rpartition(":")
        return cls(host, int(pid), rest) if host and pid.isascii() and pid.isdigit() else None

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.life}"


async def recover_interrupted_agent_runs_on_startup(
    tx: Tx, me: Owner, is_alive: Callable[[Owner, int], bool]
) -> list[int]:
    """End the runs of dead processes of this host, and those without an owner; answers their ids.

    `is_alive(owner, heartbeat_at_ms)` says whether that process of this host still runs. Another host's are left alone:
    they may be another replica's live ones.
    """
    found = await tx.execute(
        select(_runs.c.id, _runs.c.process_owner, _prompts.c.heartbeat_at)
        .join(_prompts, _prompts.c.run_id == _runs.c.id)
        .where(_executed())
        .order_by(_runs.c.id)
    )
    ended = []
    for row in found.all():
        owner = Owner.parse(row.process_owner or "")
        if owner is not None and (owner.host != me.host or owner == me or is_alive(owner, row.heartbeat_at)):
            continue
        if await end_run(tx, row.id, INTERRUPTED):
            ended.append(row.id)
    return ended


async def end_idle_runs(tx: Tx, idle_ms: int) -> list[int]:
    """End executed runs whose process has not been heard of for `idle_ms`; answers their ids."""
    idle = (
        select(_runs.c.id)
        .join(_prompts, _prompts.c.run_id == _runs.c.id)
        .where(_executed(), _prompts.c.heartbeat_at <= tx.now - idle_ms)
        .order_by(_runs.c.id)
    )
    ids: Sequence[int] = (await tx.execute(idle)).scalars().all()
    return [run_id for run_id in ids if await end_run(tx, run_id, IDLE_TIMEOUT)]


async def end_run(tx: Tx, run_id: int, error: Mapping[str, Any]) -> bool:
    """Fail a run that is not over, and say so in its events."""
    if not await runs.finish_run(tx, run_id, "fail", error=error):
        return False
    await runs.append_event(tx, run_id, "run.failed", error)
    return True


def _executed() -> ColumnElement[bool]:
    """Runs of the built-in agent that some process has, or should have, in hand."""
    open_batch = exists().where(_batches.c.run_id == _runs.c.id, schema.live(_batches))
    return and_(
        _runs.c.finished_at_ms.is_(None),
        _runs.c.source == "agent",
        or_(_runs.c.status == "queued", _runs.c.status == "running"),
        ~open_batch,
    )
