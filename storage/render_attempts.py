"""Render attempts: one use of one Renderer's only slot, held while `released_at IS NULL` (R2, R3).

Owns the statements on `render_attempts`: reserve, the ends by its owner, the end by its lease. Limits are counted here,
in the database, so they hold over replicas. Survives a Renderer or a Backend that is gone (the lease runs out and
`expire_attempts` gives the slot back), and a result that comes late (`LeaseLost`). Locks are taken in the order
request, attempt; keep to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, and_, case, exists, func, literal, select, update

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, LeaseLost, fenced_update, held
from pagegate.storage.render_requests import EndedAttempt, ended_attempt, exhaust_requests, get_request
from pagegate.storage.transitions import RENDER_ATTEMPT, RENDER_REQUEST

_requests = schema.render_requests
_attempts = schema.render_attempts


class ReserveRefusal(StrEnum):
    """Why no attempt was reserved (`render.reserve.conflict`)."""

    GLOBAL_LIMIT = "global_limit"
    WORKSPACE_LIMIT = "workspace_limit"
    WORKER_TAKEN = "worker_taken"
    NOT_PENDING = "not_pending"  # taken by another replica, cancelled, or not to be tried yet
    EXHAUSTED = "exhausted"  # no attempt or no time is left: it has now failed


@dataclass(frozen=True)
class AttemptLease:
    """One reserved attempt. `request` is the whole request; `remaining_ms` is left of its total budget (R3).

    `attempts_used` counts this one too, and no busy answers.
    """

    lease: Lease
    request: Row[Any]
    worker_id: str
    attempts_used: int
    remaining_ms: int


async def reserve_attempt(
    tx: Tx,
    request_id: int,
    worker_id: str,
    owner: str,
    *,
    lease_ttl_ms: int,
    global_max: int,
    workspace_max: int,
    attempts_max: int,
    budget_ms: int,
) -> AttemptLease | ReserveRefusal:
    """Reserve a Renderer's slot for a waiting request, or say why not (R3).

    Limits count unreleased attempts, expired ones too until `expire_attempts` has converged them. The first dispatch
    starts the budget of `budget_ms` for all attempts together.
    """
    await tx.serialize("render.slots")
    request = (await tx.execute(select(_requests).where(_requests.c.id == request_id).with_for_update())).first()
    if request is None or request.status != "pending":
        return ReserveRefusal.NOT_PENDING
    if refusal := await _limit_reached(tx, request.workspace_id, worker_id, global_max, workspace_max):
        return refusal
    if await exhaust_requests(tx, _requests.c.id == request_id, attempts_max):
        return ReserveRefusal.EXHAUSTED
    reserved = (
        update(_requests)
        .where(_requests.c.id == request_id, _requests.c.status == "pending", _requests.c.available_at <= tx.now)
        .values(
            status=RENDER_REQUEST.target("reserve"),
            attempt=_requests.c.attempt + 1,
            first_dispatched_at=func.coalesce(_requests.c.first_dispatched_at, tx.now),
            deadline_at=func.coalesce(_requests.c.deadline_at, tx.now + budget_ms),
        )
        .returning(_requests, (_requests.c.deadline_at - tx.now).label("remaining_ms"))
    )
    row = (await tx.execute(reserved)).first()
    if row is None:
        return ReserveRefusal.NOT_PENDING
    attempt = (
        _attempts.insert()
        .values(
            request_id=request_id,
            number=row.attempt,
            worker_id=worker_id,
            owner=owner,
            lease_expires_at=tx.now + lease_ttl_ms,
            heartbeat_at=tx.now,
            created_at_ms=tx.now,
        )
        .returning(_attempts.c.id, _attempts.c.lease_expires_at)
    )
    made = (await tx.execute(attempt)).one()
    lease = Lease(_attempts.name, made.id, owner, row.attempt, made.lease_expires_at)
    return AttemptLease(lease, row, worker_id, row.attempt - row.busy_returns, row.remaining_ms)


async def finish_attempt(tx: Tx, lease: Lease, result: Mapping[str, Any], *, picture_key: str | None = None) -> None:
    """Keep the result, end the request and release the slot (R2); raises `LeaseLost` for a late one."""
    await _end_attempt(
        tx, lease, "finish", "finish", None, result=result, picture_key=picture_key, finished_at_ms=tx.now
    )


async def fail_attempt(tx: Tx, lease: Lease, error: Mapping[str, Any], retry_delay_ms: int | None) -> None:
    """Release the slot after an infrastructure error; raises `LeaseLost`.

    The request waits `retry_delay_ms` for its next attempt, or fails for good when that is None.
    """
    if retry_delay_ms is None:
        await _end_attempt(tx, lease, "fail", "fail", error, finished_at_ms=tx.now)
    else:
        await _end_attempt(tx, lease, "fail", "retry", error, available_at=tx.now + retry_delay_ms)


async def return_busy(tx: Tx, lease: Lease, delay_ms: int) -> None:
    """The worker answered busy: release the slot, wait `delay_ms`; no attempt was made (R3). Raises `LeaseLost`."""
    busy_returns = _requests.c.busy_returns + 1
    await _end_attempt(tx, lease, "busy", "busy", None, available_at=tx.now + delay_ms, busy_returns=busy_returns)


async def expire_attempts(tx: Tx, *, attempts_max: int) -> list[EndedAttempt]:
    """Converge what nobody drives any more (R2); answers the attempts that lost their slot: kill them on their workers.

    Attempts whose lease ran out are released; their requests wait again, or fail when no attempt or time is left.
    Requests that ran out of time while waiting fail.
    """
    expired = (
        select(_attempts)
        .where(_attempts.c.released_at.is_(None), _attempts.c.lease_expires_at <= tx.now)
        .order_by(_attempts.c.request_id)
    )
    ended: list[EndedAttempt] = []
    for attempt in (await tx.execute(expired)).all():
        moved = await _lapse(tx, attempt, attempts_max)
        if moved is not None:
            ended.append(moved)
    await exhaust_requests(tx, _requests.c.deadline_at <= tx.now, attempts_max)
    return ended


async def list_unreleased(tx: Tx, owner: str | None = None) -> list[Row[Any]]:
    """Attempts that hold a slot, those of one owner or all, by id."""
    mine = _attempts.c.owner == owner if owner is not None else literal(True)
    holding = select(_attempts).where(_attempts.c.released_at.is_(None), mine).order_by(_attempts.c.id)
    return list((await tx.execute(holding)).all())


async def _limit_reached(
    tx: Tx, workspace_id: int, worker_id: str, global_max: int, workspace_max: int
) -> ReserveRefusal | None:
    counted = (
        select(
            func.count().label("everywhere"),
            func.count(case((_requests.c.workspace_id == workspace_id, 1))).label("here"),
            func.count(case((_attempts.c.worker_id == worker_id, 1))).label("on_worker"),
        )
        .select_from(_attempts.join(_requests, _requests.c.id == _attempts.c.request_id))
        .where(_attempts.c.released_at.is_(None))
    )
    used = (await tx.execute(counted)).one()
    if used.everywhere >= global_max:
        return ReserveRefusal.GLOBAL_LIMIT
    if used.here >= workspace_max:
        return ReserveRefusal.WORKSPACE_LIMIT
    return ReserveRefusal.WORKER_TAKEN if used.on_worker else None


async def _end_attempt(
    tx: Tx,
    lease: Lease,
    attempt_event: str,
    request_event: str,
    error: Mapping[str, Any] | None,
    **request_values: Any,
) -> None:
    """End an attempt by its owner: the request first, while this attempt holds it, then the slot."""
    mine = select(_attempts.c.request_id).where(held(tx, lease)).scalar_subquery()
    moved = (
        update(_requests)
        .where(
            _requests.c.id == mine,
            _requests.c.attempt == lease.fence,
            _requests.c.status.in_(RENDER_REQUEST.sources(request_event)),
        )
        .values(status=RENDER_REQUEST.target(request_event), error=error, **request_values)
        .returning(_requests.c.id)
    )
    if (await tx.execute(moved)).first() is None:
        raise LeaseLost(f"{lease.table} {lease.id}, attempt {lease.fence}")
    await fenced_update(tx, lease, status=RENDER_ATTEMPT.target(attempt_event), released_at=tx.now, error=error)


async def _lapse(tx: Tx, attempt: Row[Any], attempts_max: int) -> EndedAttempt | None:
    """Take an expired attempt's slot, if it is still the one that was seen; its request goes where it must."""
    still_expired = and_(
        _attempts.c.id == attempt.id, _attempts.c.released_at.is_(None), _attempts.c.lease_expires_at <= tx.now
    )
    request = (
        await tx.execute(
            update(_requests)
            .where(
                _requests.c.id == attempt.request_id,
                _requests.c.status == "running",
                _requests.c.attempt == attempt.number,
                exists().where(still_expired),
            )
            .values(status=RENDER_REQUEST.target("lapse"), available_at=tx.now)
            .returning(_requests.c.id)
        )
    ).first()
    released = (
        update(_attempts)
        .where(still_expired)
        .values(status=RENDER_ATTEMPT.target("lapse"), released_at=tx.now)
        .returning(_attempts)
    )
    row = (await tx.execute(released)).first()
    if row is None:
        return None
    if request is not None:
        await exhaust_requests(tx, _requests.c.id == request.id, attempts_max)
    return ended_attempt(row, (await get_request(tx, row.request_id)).status)
