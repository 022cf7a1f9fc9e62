"""Render requests: what a job asked to be looked at, until it is answered (R2, R3).

Owns the statements on `render_requests` that touch no single attempt: enqueue, list, cancel, exhaust. Which request
goes first is the coordinator's to decide. Cancelling releases the attempts that serve a request, in the same
transaction; locks are taken in the order request, attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, and_, case, func, literal, or_, select, update

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, require_held
from pagegate.storage.transitions import RENDER_ATTEMPT, RENDER_REQUEST

_requests = schema.render_requests
_attempts = schema.render_attempts
_used = _requests.c.attempt - _requests.c.busy_returns

Klass = Literal["interactive", "background"]

TIMED_OUT = {
    "code": "RENDER_REQUEST_TIMEOUT",
    "message": "The page could not be rendered within the time of its request.",
    "hint": "This says nothing about the page. It is tried again; look at the render workers if it goes on.",
}
ATTEMPTS_EXHAUSTED = {
    "code": "RENDER_ATTEMPTS_EXHAUSTED",
    "message": "Every attempt to render the page was lost.",
    "hint": "This says nothing about the page. It is tried again; look at the render workers if it goes on.",
}


class RenderQueueFull(Exception):
    """RENDER_QUEUE_FULL: as many requests wait as may wait, in all or in this workspace. Infrastructure (R9)."""

    code = "RENDER_QUEUE_FULL"


class RenderRequestNotFound(LookupError):
    """There is no such render request."""


@dataclass(frozen=True)
class PendingRequest:
    """What the coordinator needs to order a request (R3). It may be dispatched from `available_at` on."""

    id: int
    klass: Klass
    workspace_id: int
    available_at: int
    deadline_at: int | None
    created_at_ms: int


@dataclass(frozen=True)
class EndedAttempt:
    """An attempt that ended without its owner: kill it on `worker_id`. `request_status` is what its request is now."""

    request_id: int
    attempt_id: int
    number: int
    worker_id: str
    owner: str
    request_status: str


async def enqueue_request(
    tx: Tx,
    job: Lease,
    *,
    workspace_id: int,
    klass: Klass,
    operation: str,
    payload: Mapping[str, Any],
    queue_size_max: int,
    workspace_queue_size_max: int,
) -> int:
    """Queue a render for a job, under the job's lease; answers the request's id.

    Raises `RenderQueueFull`, and `LeaseLost` for a job that is no longer the caller's (Q3).
    """
    await require_held(tx, job)
    await tx.serialize("render.queue")
    waiting = select(
        func.count().label("everywhere"),
        func.count(case((_requests.c.workspace_id == workspace_id, 1))).label("here"),
    ).where(schema.live(_requests), _requests.c.status == "pending")
    counted = (await tx.execute(waiting)).one()
    if counted.everywhere >= queue_size_max:
        raise RenderQueueFull(f"{counted.everywhere} renders are waiting")
    if counted.here >= workspace_queue_size_max:
        raise RenderQueueFull(f"{counted.here} renders are waiting in this workspace")
    return await tx.insert(
        _requests,
        workspace_id=workspace_id,
        klass=klass,
        operation=operation,
        job_kind=job.table,
        job_id=job.id,
        job_attempt=job.fence,
        payload=payload,
        available_at=tx.now,
        created_at_ms=tx.now,
    )


async def list_pending(tx: Tx, limit: int) -> list[PendingRequest]:
    """The oldest waiting requests of each class, up to `limit` a class, by id (R3).

    A class must not hide the other: a thousand interactive requests in front of one background request.
    """
    found: list[PendingRequest] = []
    for klass in ("interactive", "background"):
        columns = [_requests.c[name] for name in PendingRequest.__dataclass_fields__]
        oldest = (
            select(*columns)
            .where(schema.live(_requests), _requests.c.status == "pending", _requests.c.klass == klass)
            .order_by(_requests.c.id)
            .limit(limit)
        )
        found += [PendingRequest(**row) for row in (await tx.execute(oldest)).mappings()]
    return sorted(found, key=lambda request: request.id)


async def cancel_request(tx: Tx, request_id: int) -> list[EndedAttempt]:
    """Cancel a request nobody waits for any more; answers the attempts to kill. Harmless when it has ended."""
    return await _cancel(tx, _requests.c.id == request_id)


async def cancel_requests_of_job(tx: Tx, job_kind: str, job_id: int, *, attempt_max: int) -> list[EndedAttempt]:
    """Cancel what the attempts up to `attempt_max` of a job asked for (Q5); answers the attempts to kill."""
    return await _cancel(
        tx,
        and_(
            _requests.c.job_kind == job_kind,
            _requests.c.job_id == job_id,
            _requests.c.job_attempt <= attempt_max,
        ),
    )


async def get_request(tx: Tx, request_id: int) -> Row[Any]:
    """Every column of a request; raises `RenderRequestNotFound`."""
    row = (await tx.execute(select(_requests).where(_requests.c.id == request_id))).first()
    if row is None:
        raise RenderRequestNotFound(f"render request {request_id}")
    return row


async def count_by_class(tx: Tx) -> dict[tuple[str, str], int]:
    """Live requests by (klass, status) for the gauges (O2); what has no request is absent."""
    live = (
        select(_requests.c.klass, _requests.c.status, func.count().label("live"))
        .where(schema.live(_requests))
        .group_by(_requests.c.klass, _requests.c.status)
    )
    return {(row.klass, row.status): row.live for row in await tx.execute(live)}


async def exhaust_requests(tx: Tx, which: ColumnElement[bool], attempts_max: int) -> int:
    """Fail the waiting requests among `which` that have no attempt or no time left; answers how many."""
    out_of_time = _requests.c.deadline_at <= tx.now
    failed = (
        update(_requests)
        .where(which, schema.live(_requests), _requests.c.status == "pending", or_(out_of_time, _used >= attempts_max))
        .values(
            status=RENDER_REQUEST.target("exhaust"),
            finished_at_ms=tx.now,
            error=case(
                (out_of_time, literal(TIMED_OUT, schema.Json)),
                else_=func.coalesce(_requests.c.error, literal(ATTEMPTS_EXHAUSTED, schema.Json)),
            ),
        )
        .returning(_requests.c.id)
    )
    return len((await tx.execute(failed)).all())


def ended_attempt(attempt: Row[Any], request_status: str) -> EndedAttempt:
    """From the row of an attempt that has just ended."""
    return EndedAttempt(
        attempt.request_id, attempt.id, attempt.number, attempt.worker_id, attempt.owner, request_status
    )


async def _cancel(tx: Tx, which: ColumnElement[bool]) -> list[EndedAttempt]:
    cancelled = (
        update(_requests)
        .where(which, _requests.c.status.in_(RENDER_REQUEST.sources("cancel")))
        .values(status=RENDER_REQUEST.target("cancel"), finished_at_ms=tx.now)
        .returning(_requests.c.id)
    )
    ids = sorted((await tx.execute(cancelled)).scalars())
    if not ids:
        return []
    released = (
        update(_attempts)
        .where(_attempts.c.request_id.in_(ids), _attempts.c.released_at.is_(None))
        .values(status=RENDER_ATTEMPT.target("cancel"), released_at=tx.now)
        .returning(_attempts)
    )
    return [ended_attempt(row, RENDER_REQUEST.target("cancel")) for row in (await tx.execute(released)).all()]
