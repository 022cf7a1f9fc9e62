"""Claims: who gets a pending job (Q3), by workspace, as its turn comes (R3).

Owns the look at who waits and the conditional UPDATE that claims. One claim fills many workers: a statement takes up to
as many jobs of a workspace as it is told, each with a fence of its own. Whose turn it is, is the caller's decision.

Survives: any number of claimers at once. On PostgreSQL one passes by what another is just claiming.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import BindParameter, Executable, Exists, Select, Table, bindparam, func, select, update

from pagegate.storage import lanes, schema
from pagegate.storage.engine import Tx
from pagegate.storage.jobs.kinds import ClaimedJob, runnable, table_of
from pagegate.storage.lease import Lease
from pagegate.storage.present import built_once, present_of, word
from pagegate.storage.transitions import JOB

_CLAIMABLE = [word(state) for state in JOB.sources("claim")]


@dataclass(frozen=True)
class Waiting:
    """A workspace with pending jobs, and the one of them that comes first in it."""

    workspace_id: int
    job_id: int
    priority: int


async def list_waiting(tx: Tx, kind: str) -> Sequence[Waiting]:
    """The workspaces that have pending jobs in the lane, whether or not these may run by now.

    It jumps from one workspace to the next in the index, so it costs the same behind a million of somebody's jobs.
    """
    rows = (await tx.execute(_waiting(kind))).all()
    return [Waiting(row.workspace_id, row.id, row.priority) for row in rows]


async def claim_jobs(
    tx: Tx, kind: str, worker_id: str, lease_ttl_ms: int, *, workspace_id: int, count: int, if_alone: bool = False
) -> list[ClaimedJob]:
    """Claim up to `count` jobs of a workspace in one conditional UPDATE, which adds 1 to the fence of each (Q3).

    `if_alone`: nothing unless it is the only workspace that waits; then nobody needs to be asked whose turn it is, and
    this is the last statement of its transaction.

    In order: smallest `priority`, then oldest. Skipped are jobs whose `available_at` lies ahead, and those with an
    earlier live job of the same batch on the same page (A2). A paused lane has none (Q11): that is asked in this very
    statement, since a pause that a replica merely remembers is one that it may not have heard of.
    """
    claimed = await tx.run(
        _claim(kind, tx.dialect, if_alone),
        last=if_alone,
        worker=worker_id,
        ttl_ms=lease_ttl_ms,
        workspace=workspace_id,
        count=count,
    )
    rows = sorted(claimed, key=lambda row: (row.priority, row.id))
    return [ClaimedJob(Lease(kind, row.id, worker_id, row.attempt, row.lease_expires_at), row) for row in rows]


async def claim_job(tx: Tx, kind: str, worker_id: str, lease_ttl_ms: int) -> ClaimedJob | None:
    """Claim the job that comes first of all: for one worker that looks by itself."""
    for first in sorted(await list_waiting(tx, kind), key=lambda waiting: (waiting.priority, waiting.job_id)):
        for job in await claim_jobs(tx, kind, worker_id, lease_ttl_ms, workspace_id=first.workspace_id, count=1):
            return job
    return None


def _others_wait(table: Table, where: Literal["before", "behind"]) -> Exists:
    """Whether a workspace that stands there in the index has a pending job; one look at the index for each side."""
    other = table.alias(where)
    mine: BindParameter[int] = bindparam("workspace")
    elsewhere = other.c.workspace_id < mine if where == "before" else other.c.workspace_id > mine
    return select(other.c.id).where(schema.live(other), other.c.status == word("pending"), elsewhere).exists()


@built_once
def _waiting(kind: str) -> Executable:
    table = table_of(kind)

    def next_workspace(after: Any = None) -> Select[Any]:
        # Sorted and cut rather than `min`, which neither database finds in an index behind a parameter.
        found = select(table.c.workspace_id).where(schema.live(table), table.c.status == word("pending"))
        if after is not None:
            found = found.where(table.c.workspace_id > after)
        return found.order_by(table.c.workspace_id).limit(1)

    first = select(next_workspace().scalar_subquery().label("id"))
    waiting = first.cte("waiting", recursive=True)
    waiting = waiting.union_all(
        select(next_workspace(waiting.c.id).correlate(waiting).scalar_subquery()).where(waiting.c.id.is_not(None))
    )
    of_workspace = (
        select(table.c.id)
        .where(schema.live(table), table.c.status == word("pending"), table.c.workspace_id == waiting.c.id)
        .order_by(table.c.priority, table.c.id)
        .limit(1)
        .correlate(waiting)
        .scalar_subquery()
    )
    return (
        select(table.c.workspace_id, table.c.id, table.c.priority)
        .select_from(waiting)
        .join(table, table.c.id == of_workspace)
        .where(waiting.c.id.is_not(None))
    )


@built_once
def _claim(kind: str, dialect: str, if_alone: bool) -> Executable:
    table, present = table_of(kind), present_of(dialect)
    # Looked for apart from the UPDATE: in a join, SKIP LOCKED could lock more rows than it returns.
    looked_for = (
        select(table.c.id)
        .where(runnable(table, present), table.c.workspace_id == bindparam("workspace"), lanes.is_open(kind))
        .order_by(table.c.priority, table.c.id)
        .limit(bindparam("count"))
        .with_for_update(skip_locked=True, of=table)
    )
    if if_alone:
        looked_for = looked_for.where(~_others_wait(table, "before"), ~_others_wait(table, "behind"))
    following = looked_for.cte("following")
    return (
        update(table)
        .where(table.c.id.in_(select(following.c.id)), table.c.status.in_(_CLAIMABLE))
        .values(
            status=JOB.target("claim"),
            attempt=table.c.attempt + 1,
            worker_id=bindparam("worker"),
            lease_expires_at=present + bindparam("ttl_ms"),
            heartbeat_at=present,
            started_at_ms=func.coalesce(table.c.started_at_ms, present),
        )
        .returning(table)
    )
