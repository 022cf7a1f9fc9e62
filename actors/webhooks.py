"""Webhooks: tells projects' webhooks of runs that ended (A9).

Owns the deliveries in hand, which are rows that it leased. Hears `DeliveriesMayBeDue` (a hint) and its timer. Each try
is a child beside the mailbox, so a receiver that hangs holds up one hand for ten seconds; what came of it is written
under the try's fence.

Survives a crash or a kill: the lease runs out, and any replica sends the same once more, under the same id. At least
once is the promise; the receiver tells repetitions by `webhook-id`.
"""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from pagegate.actors import webhook_sender
from pagegate.actors.agents.secrets import Secrets, SecretUnreadable
from pagegate.actors.kernel import Actor, Backoff, ChildEnded
from pagegate.actors.webhook_sender import TIMEOUT_S, Tried, WebhookAddresses
from pagegate.storage import webhooks as storage
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.lease import LeaseLost
from pagegate.storage.webhooks import ClaimedDelivery

log = structlog.get_logger()

TRIES_MAX = 8
RETRIES = Backoff(first_s=10.0, factor=5.0, max_s=4 * 3600.0)  # the eighth try is some ten hours after the first
_LASTING = {"WEBHOOK_URL_NOT_ALLOWED", "WEBHOOK_ADDRESS_NOT_ALLOWED", "WEBHOOK_REMOVED", "WEBHOOK_GONE"}


@dataclass(frozen=True)
class DeliveriesMayBeDue:
    """A run ended: do not wait for the next poll. Losing it costs one poll interval."""


@dataclass(frozen=True)
class _Poll:
    pass


@dataclass(frozen=True)
class _Ended:
    ended: ChildEnded[None]


@dataclass(frozen=True)
class Verdict:
    """What becomes of a delivery after a try. `delay_s` only with `retried`; `error` not with `delivered`."""

    outcome: str  # delivered | retried | failed
    delay_s: float = 0.0
    error: dict[str, str] | None = None


def decide(tried: Tried, attempt: int, retries: Backoff, rnd: random.Random) -> Verdict:
    """Pure. Any 2xx is a success and 410 is a goodbye; everything else that may change is tried again."""
    if tried.status is not None and 200 <= tried.status < 300:
        return Verdict("delivered")
    code, message = tried.code, tried.message
    if tried.status == 410:
        code, message = "WEBHOOK_GONE", "The receiver answered 410: it wants no more of this."
    elif tried.status is not None:
        redirects = " Redirects are not followed." if 300 <= tried.status < 400 else ""
        code, message = "WEBHOOK_STATUS", f"The receiver answered {tried.status}.{redirects}"
    error = {"code": code, "message": message}
    if code in _LASTING or attempt >= TRIES_MAX:
        return Verdict("failed", error=error)
    return Verdict("retried", retries.delay_s(attempt, rnd), error)


def body_of(delivery: ClaimedDelivery) -> bytes:
    """The same bytes for every try."""
    told = {
        "type": "run.finished",
        "run_id": delivery.run_id,
        "project_id": delivery.project_id,
        "status": delivery.run_status,
        "finished_at_ms": delivery.finished_at_ms,
    }
    return json.dumps(told, separators=(",", ":")).encode()


def _nobody(_: str) -> None:
    return


class Webhooks(Actor):
    """`owner` names this process; `hands` deliveries at once; `observe` hears each try's outcome. Times are seconds.

    `secrets` None: nothing can be signed, so what was ordered under another configuration fails by its tries.
    """

    def __init__(
        self,
        db: Database,
        secrets: Secrets | None,
        addresses: WebhookAddresses,
        owner: str,
        *,
        observe: Callable[[str], None] = _nobody,
        poll_s: float = 2.0,
        lease_s: float = 30.0,
        timeout_s: float = TIMEOUT_S,
        hands: int = 8,
        retries: Backoff = RETRIES,
    ) -> None:
        super().__init__()
        self._db, self._secrets, self._addresses, self._owner = db, secrets, addresses, owner
        self._observe, self._poll_s, self._lease_ms, self._timeout_s = observe, poll_s, int(lease_s * 1000), timeout_s
        self._hands, self._retries, self._busy = hands, retries, 0
        self._rnd = random.Random()  # noqa: S311  jitter, not a secret

    async def setup(self) -> None:
        self.every(self._poll_s, _Poll())

    async def on_receive(self, message: Any) -> Any:
        match message:
            case _Poll() | DeliveriesMayBeDue():
                await self._fill()
            case _Ended(ended):
                self._busy -= 1
                if isinstance(ended.error, LeaseLost | DatabaseUnavailable):
                    log.warning("webhook.unsettled", reason=str(ended.error))  # it will be sent again
                elif ended.error is not None:
                    log.error("webhook.unsettled", exc_info=ended.error)
                await self._fill()
            case _:
                return await super().on_receive(message)

    async def _fill(self) -> None:
        """Claim as long as there is a free hand and something due."""
        try:
            while self._busy < self._hands:
                async with self._db.read() as tx:  # on SQLite a claim would hold up every other writer
                    if not await storage.is_any_due(tx):
                        return
                async with self._db.write() as tx:
                    delivery = await storage.claim_delivery(tx, self._owner, self._lease_ms)
                if delivery is None:
                    return
                self._busy += 1
                self.spawn(self._deliver(delivery), then=_Ended)
        except DatabaseUnavailable as error:
            log.warning("webhook.poll_failed", reason=str(error))

    async def _deliver(self, delivery: ClaimedDelivery) -> None:
        tried = await self._try(delivery)
        verdict = decide(tried, delivery.attempt, self._retries, self._rnd)
        async with self._db.write() as tx:
            if verdict.outcome == "delivered":
                assert tried.status is not None
                await storage.finish_delivery(tx, delivery.lease, tried.status)
            elif verdict.outcome == "retried":
                delay_ms = int(verdict.delay_s * 1000)
                await storage.retry_delivery(tx, delivery.lease, delay_ms, tried.status, verdict.error or {})
            else:
                await storage.fail_delivery(tx, delivery.lease, tried.status, verdict.error or {})
        self._observe(verdict.outcome)
        tell = log.info if verdict.outcome == "delivered" else log.warning
        tell(
            f"webhook.{verdict.outcome}",
            run_id=delivery.run_id,
            project_id=delivery.project_id,
            message_id=delivery.message_id,
            attempt=delivery.attempt,
            status=tried.status,
            code=(verdict.error or {}).get("code"),
        )

    async def _try(self, delivery: ClaimedDelivery) -> Tried:
        if delivery.attempt > TRIES_MAX:  # its senders were killed each time; it must not go on for ever
            return Tried(None, "WEBHOOK_SENDER_LOST", "Its sender ended before it could say what came of it.")
        if delivery.url is None or delivery.secret is None:
            return Tried(None, "WEBHOOK_REMOVED", "The project has no webhook any more.")
        unreadable = Tried(None, "WEBHOOK_SECRET_UNREADABLE", "The webhook's secret cannot be decrypted; set it anew.")
        if self._secrets is None:
            return unreadable
        try:
            secret = self._secrets.decrypt(delivery.secret)
        except SecretUnreadable:
            return unreadable
        return await webhook_sender.send(
            self._addresses,
            delivery.url,
            secret,
            delivery.message_id,
            int(time.time()),
            body_of(delivery),
            self._timeout_s,
        )
