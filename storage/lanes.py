"""Lanes: whether a kind of job may be claimed, and what an operator sees of it (Q11, O2).

Owns the table `lanes` and the view of a lane. A pause is a row that every claim reads in its own statement: it holds on
every replica from the moment its transaction has committed, and it survives any restart. A paused lane still renews,
finishes, rescues and cancels. A kind without a row is open.

`rescues` counts jobs that were taken from a lost worker, in the rescue's own transaction; unlike what can be counted in
the jobs themselves it does not fall when they are pruned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, exists, select, update

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.upsert import insert_unless_there

_lanes = schema.lanes


@dataclass(frozen=True)
class Pause:
    """Since when, and by whom. ms of the clock that decides (Q6)."""

    paused_at_ms: int
    user_id: int
    user_name: str


@dataclass(frozen=True)
class LaneState:
    """What is remembered about a lane. `pause` None: it is open."""

    pause: Pause | None
    rescues: int


def is_open(kind: str) -> ColumnElement[bool]:
    """True while the lane is not paused: a condition for the claim's own statement."""
    return ~exists().where(_lanes.c.kind == kind, _lanes.c.paused_at_ms.is_not(None))


async def pause_lane(tx: Tx, kind: str, user_id: int) -> None:
    """Let nobody claim from the lane any more. Paused again, it stays as it is."""
    await _ensure(tx, kind)
    paused = update(_lanes).where(_lanes.c.kind == kind, _lanes.c.paused_at_ms.is_(None))
    await tx.execute(paused.values(paused_at_ms=tx.now, paused_by=user_id))


async def resume_lane(tx: Tx, kind: str) -> None:
    """Let the lane be claimed from again. Harmless when it is open."""
    await tx.execute(update(_lanes).where(_lanes.c.kind == kind).values(paused_at_ms=None, paused_by=None))


async def count_rescue(tx: Tx, kind: str) -> None:
    """Count one job that was taken from a lost worker. Last in its transaction: the row is everybody's."""
    await _ensure(tx, kind)
    await tx.execute(update(_lanes).where(_lanes.c.kind == kind).values(rescues=_lanes.c.rescues + 1))


async def get_lane_state(tx: Tx, kind: str) -> LaneState:
    """What is remembered about a lane; an open one when nothing is."""
    found = (
        select(_lanes, schema.users.c.name)
        .outerjoin(schema.users, schema.users.c.id == _lanes.c.paused_by)
        .where(_lanes.c.kind == kind)
    )
    row = (await tx.execute(found)).first()
    if row is None:
        return LaneState(None, 0)
    pause = Pause(row.paused_at_ms, row.paused_by, row.name) if row.paused_at_ms is not None else None
    return LaneState(pause, row.rescues)


def kinds() -> Sequence[str]:
    """Every lane, by name."""
    return schema.JOB_KINDS


async def _ensure(tx: Tx, kind: str) -> None:
    await insert_unless_there(tx, _lanes, unique=("kind",), kind=kind)
