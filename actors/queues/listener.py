"""HintListener: hears from other replicas that there is work, over PostgreSQL's LISTEN (Q8, K6).

Owns the one connection that listens. Hears hints and its own end of a connection; tells the queues `JobsSubmitted`,
the external-task coordinator `BatchesMayBeReady` and the webhooks `DeliveriesMayBeDue`. Survives a lost connection by
making another, with backoff; what was said meanwhile is unknown, so each new connection counts as a hint about
everything. On SQLite there is one process and nothing to listen to.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pykka
import structlog

from pagegate.actors.agents.external_tasks import BatchesMayBeReady
from pagegate.actors.kernel import Actor, Backoff, ChildEnded
from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.actors.webhooks import DeliveriesMayBeDue
from pagegate.storage import hints
from pagegate.storage.engine import Database, DatabaseUnavailable

log = structlog.get_logger()

_RECONNECT = Backoff(first_s=0.5, max_s=30.0)


@dataclass(frozen=True)
class _Connect:
    pass


@dataclass(frozen=True)
class _Listening:
    pass


@dataclass(frozen=True)
class _Broken:
    ended: ChildEnded[None]


class HintListener(Actor):
    """`queues` by kind; `external_tasks` is the coordinator; `webhooks` tells of ended runs."""

    def __init__(
        self,
        db: Database,
        queues: Mapping[str, pykka.ActorRef[Any]],
        external_tasks: pykka.ActorRef[Any],
        webhooks: pykka.ActorRef[Any] | None = None,
    ) -> None:
        super().__init__()
        self._db, self._queues, self._external_tasks, self._webhooks = db, queues, external_tasks, webhooks
        self._failures = 0
        self._rnd = random.Random()  # noqa: S311  jitter, not a secret

    async def setup(self) -> None:
        if self._db.dialect == "postgresql":
            self.actor_ref.tell(_Connect())

    async def on_receive(self, message: Any) -> Any:
        match message:
            case _Connect():
                self.spawn(self._listen(), then=_Broken)
            case _Listening():
                self._failures = 0
                log.info("hints.listening")
                self._wake_all()
            case _Broken(ended):
                self._failures += 1
                known = isinstance(ended.error, DatabaseUnavailable)
                log.warning("hints.lost", reason=str(ended.error), exc_info=None if known else ended.error)
                self.after(_RECONNECT.delay_s(self._failures, self._rnd), _Connect())
            case _:
                return await super().on_receive(message)

    async def _listen(self) -> None:
        await hints.listen(self._db, self._heard, lambda: self.actor_ref.tell(_Listening()))

    def _heard(self, hint: str) -> None:
        """Called by the driver, on the loop. A word of a newer replica that means nothing here is passed over."""
        kind = hints.kind_of(hint)
        if kind is not None and kind in self._queues:
            _tell(self._queues[kind], JobsSubmitted())
        elif hint == hints.BATCHES:
            _tell(self._external_tasks, BatchesMayBeReady())
        elif hint == hints.WEBHOOKS and self._webhooks is not None:
            _tell(self._webhooks, DeliveriesMayBeDue())

    def _wake_all(self) -> None:
        for queue in self._queues.values():
            _tell(queue, JobsSubmitted())
        _tell(self._external_tasks, BatchesMayBeReady())
        if self._webhooks is not None:
            _tell(self._webhooks, DeliveriesMayBeDue())


def _tell(ref: pykka.ActorRef[Any], message: Any) -> None:
    if ref.is_alive():
        ref.tell(message)
