"""Webhooks of projects and the deliveries of ended runs (A9). Owns the statements on both tables.

A delivery is written by the transaction that ends its run (`order_delivery`), so it exists if and only if the run has
ended in a project that had a webhook. What it is sent to, and signed with, is the project's webhook at the moment of
the try: a corrected address also helps what waits. `message_id` never changes, so a receiver knows what it had already.

Survives a sender that is killed between the sending and the commit: its lease runs out, another sends the same again.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, delete, exists, insert, literal, or_, select, update

from pagegate.storage import hints, schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, fenced_update
from pagegate.storage.present import word
from pagegate.storage.transitions import WEBHOOK_DELIVERY
from pagegate.storage.upsert import insert_unless_there

_webhooks = schema.project_webhooks
_deliveries = schema.webhook_deliveries
_runs = schema.ai_agent_runs


@dataclass(frozen=True)
class ClaimedDelivery:
    """One try of one delivery. `url` and `secret` (ciphertext) None: the project has no webhook any more."""

    lease: Lease
    message_id: str
    attempt: int
    run_id: int
    project_id: int
    run_status: str
    finished_at_ms: int
    url: str | None
    secret: str | None


async def put_webhook(tx: Tx, project_id: int, url: str, secret: str) -> Row[Any]:
    """Set the project's one webhook; `secret` is already encrypted."""
    values = {"url": url, "secret": secret, "created_at_ms": tx.now}
    if not await insert_unless_there(tx, _webhooks, unique=("project_id",), project_id=project_id, **values):
        await tx.execute(update(_webhooks).where(_webhooks.c.project_id == project_id).values(**values))
    row = await find_webhook(tx, project_id)
    assert row is not None
    return row


async def find_webhook(tx: Tx, project_id: int) -> Row[Any] | None:
    return (await tx.execute(select(_webhooks).where(_webhooks.c.project_id == project_id))).first()


async def delete_webhook(tx: Tx, project_id: int) -> bool:
    """What waits to be delivered ends as failed at its next try."""
    gone = delete(_webhooks).where(_webhooks.c.project_id == project_id).returning(_webhooks.c.project_id)
    return (await tx.execute(gone)).first() is not None


async def list_deliveries(tx: Tx, project_id: int, limit: int) -> Sequence[Row[Any]]:
    """The newest first."""
    mine = select(_deliveries).where(_deliveries.c.project_id == project_id)
    return (await tx.execute(mine.order_by(_deliveries.c.id.desc()).limit(limit))).all()


async def find_delivery(tx: Tx, run_id: int) -> Row[Any] | None:
    return (await tx.execute(select(_deliveries).where(_deliveries.c.run_id == run_id))).first()


async def order_delivery(tx: Tx, run_id: int) -> None:
    """Let a run's end be told, if its project has a webhook. Belongs into the transaction that ends the run."""
    wanted = (
        select(_runs.c.id, _runs.c.project_id, literal(f"msg_{secrets.token_hex(16)}"), tx.now, tx.now)
        .join(_webhooks, _webhooks.c.project_id == _runs.c.project_id)
        .where(_runs.c.id == run_id)
    )
    columns = ["run_id", "project_id", "message_id", "available_at", "created_at_ms"]
    ordered = insert(_deliveries).from_select(columns, wanted).returning(_deliveries.c.id)
    if (await tx.execute(ordered)).first() is not None:
        await hints.send(tx, hints.WEBHOOKS)


async def is_any_due(tx: Tx) -> bool:
    """Whether a claim might find something: a look that takes no lock."""
    return (await tx.execute(select(_deliveries.c.id).where(_is_due(tx)).limit(1))).first() is not None


async def claim_delivery(tx: Tx, worker_id: str, ttl_ms: int) -> ClaimedDelivery | None:
    """Claim what is due longest, or whose sender's lease ran out; adds 1 to its attempt, which is its fence.

    A project with a delivery under way waits, so a receiver that hangs holds up nobody else. (Two replicas may pass
    that by at once; it costs nothing but a second hand.)
    """
    other = _deliveries.alias("other")
    under_way = exists().where(
        other.c.project_id == _deliveries.c.project_id,
        other.c.finished_at_ms.is_(None),
        other.c.state == word("delivering"),
        other.c.lease_expires_at > tx.now,
    )
    due = _is_due(tx)
    oldest = (
        select(_deliveries.c.id)
        .where(due, ~under_way)
        .order_by(_deliveries.c.available_at, _deliveries.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    claimed = (
        update(_deliveries)
        .where(_deliveries.c.id == oldest.scalar_subquery(), due)
        .values(
            state=WEBHOOK_DELIVERY.target("claim"),
            attempt=_deliveries.c.attempt + 1,
            worker_id=worker_id,
            lease_expires_at=tx.now + ttl_ms,
        )
        .returning(_deliveries)
    )
    row = (await tx.execute(claimed)).first()
    if row is None:
        return None
    told = (
        select(_runs.c.status, _runs.c.finished_at_ms, _webhooks.c.url, _webhooks.c.secret)
        .outerjoin(_webhooks, _webhooks.c.project_id == _runs.c.project_id)
        .where(_runs.c.id == row.run_id)
    )
    run = (await tx.execute(told)).one()
    return ClaimedDelivery(
        Lease(_deliveries.name, row.id, worker_id, row.attempt, row.lease_expires_at),
        row.message_id,
        row.attempt,
        row.run_id,
        row.project_id,
        run.status,
        run.finished_at_ms,
        run.url,
        run.secret,
    )


async def finish_delivery(tx: Tx, lease: Lease, status: int) -> None:
    """It was accepted. Raises `LeaseLost`."""
    await fenced_update(
        tx,
        lease,
        state=WEBHOOK_DELIVERY.target("finish"),
        finished_at_ms=tx.now,
        lease_expires_at=None,
        last_status=status,
        error=None,
    )


async def retry_delivery(tx: Tx, lease: Lease, delay_ms: int, status: int | None, error: Mapping[str, Any]) -> None:
    """Try again, `delay_ms` from now at the earliest. Raises `LeaseLost`."""
    await fenced_update(
        tx,
        lease,
        state=WEBHOOK_DELIVERY.target("retry"),
        available_at=tx.now + delay_ms,
        worker_id=None,
        lease_expires_at=None,
        last_status=status,
        error=error,
    )


async def fail_delivery(tx: Tx, lease: Lease, status: int | None, error: Mapping[str, Any]) -> None:
    """Give it up. Raises `LeaseLost`."""
    await fenced_update(
        tx,
        lease,
        state=WEBHOOK_DELIVERY.target("fail"),
        finished_at_ms=tx.now,
        lease_expires_at=None,
        last_status=status,
        error=error,
    )


async def list_secrets(tx: Tx, after_project_id: int, limit: int) -> Sequence[Row[Any]]:
    """id (the project's) and secret of all webhooks, by id: for the re-encryption (K7)."""
    following = select(_webhooks.c.project_id.label("id"), _webhooks.c.secret)
    page = following.where(_webhooks.c.project_id > after_project_id).order_by(_webhooks.c.project_id).limit(limit)
    return (await tx.execute(page)).all()


async def replace_secret(tx: Tx, project_id: int, was: str, secret: str) -> bool:
    """Put another ciphertext in the place of `was`; False when somebody has changed it meanwhile."""
    changed = update(_webhooks).where(_webhooks.c.project_id == project_id, _webhooks.c.secret == was)
    return (await tx.execute(changed.values(secret=secret).returning(_webhooks.c.project_id))).first() is not None


def _is_due(tx: Tx) -> Any:
    waiting = and_(_deliveries.c.state == word("pending"), _deliveries.c.available_at <= tx.now)
    abandoned = and_(_deliveries.c.state == word("delivering"), _deliveries.c.lease_expires_at <= tx.now)
    return and_(schema.live(_deliveries), or_(waiting, abandoned))
