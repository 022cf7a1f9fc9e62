"""RenderCoordinator: one a replica. It says which render is next and drives it on a worker until it has ended (R2, R3).

Owns the memory of the rotation, which workers did not answer lately, and who in this process waits for which request.
Hears `RenderWanted`, `AwaitRender`, `CancelRender`, and its timers. Tells nobody; it answers who waits. Order is
decided here, limits are reserved in the database, so they hold over replicas. Survives a crash: requests are rows; the
attempts it drove are given up with it, their leases run out, and any replica converges them. Who waited asks again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pykka
import structlog
from sqlalchemy import Row

from pagegate.actors.kernel import Actor, Asks, ChildEnded, Reply
from pagegate.actors.queues.rotation import Head, Rotation, pick
from pagegate.actors.rendering.collecting import collect_pictures
from pagegate.actors.rendering.drive import Drive, Renderer, wire_id
from pagegate.storage import renders
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.renders import AttemptLease, PendingRequest, ReserveRefusal
from pagegate.storage.transitions import RENDER_REQUEST

log = structlog.get_logger()

_PENDING_ROWS = 500
_PROBE_FIRST_S, _PROBE_MAX_S = 1.0, 10.0  # a worker that did not answer is asked how it is after so long, twice as
# long after each time that it is not well, and used again once it is


@dataclass(frozen=True)
class RenderLimits:
    """`RENDER_GLOBAL_CONCURRENCY`, `RENDER_WORKSPACE_CONCURRENCY`, `RENDER_MAX_ATTEMPTS`, seconds (R3)."""

    global_max: int = 1
    workspace_max: int = 1
    attempts_max: int = 3
    budget_s: float = 120.0
    lease_s: float = 30.0
    picture_ttl_s: float = 600.0  # a temporary picture that nobody fetched (S5)
    collect_s: float = 60.0


@dataclass(frozen=True)
class RenderWanted:
    """A request was enqueued: do not wait for the next tick. Losing it costs one tick."""


@dataclass(frozen=True)
class AwaitRender(Asks[Row[Any]]):
    """Answered with the request's row when it has ended, on whichever replica. Asked twice, both are answered."""

    request_id: int


@dataclass(frozen=True)
class CancelRender:
    """Nobody wants the result any more; the row is cancelled already, now end what runs here."""

    request_id: int


@dataclass(frozen=True)
class _Tick:
    pass


@dataclass(frozen=True)
class _Collect:
    pass


@dataclass(frozen=True)
class _Driven:
    reserved: AttemptLease
    ended: ChildEnded[bool]


@dataclass(frozen=True)
class _Probed:
    worker_id: str
    ended: ChildEnded[bool]


@dataclass(frozen=True)
class Shun:
    """A worker that is left alone. `probe_at_s`: when it is asked how it is, None while it is being asked."""

    pause_s: float
    probe_at_s: float | None


@dataclass(frozen=True)
class State:
    """`driving`: attempt id → worker id, of this replica. `shunned`: by worker id.

    By attempt: one whose lease ran out may still be driven here when its request is tried again.
    """

    rotation: Rotation = field(default_factory=Rotation)
    driving: Mapping[int, str] = field(default_factory=dict)
    shunned: Mapping[str, Shun] = field(default_factory=dict)

    def free_worker(self, workers: Sequence[str]) -> str | None:
        """The first worker that this replica does not use and that answers."""
        used = set(self.driving.values())
        return next((worker for worker in workers if worker not in used and worker not in self.shunned), None)

    def shun(self, worker_id: str, now_s: float) -> "State":
        """Leave the worker alone, longer if it was left alone already."""
        before = self.shunned.get(worker_id)
        pause_s = _PROBE_FIRST_S if before is None else min(2 * before.pause_s, _PROBE_MAX_S)
        return replace(self, shunned={**self.shunned, worker_id: Shun(pause_s, now_s + pause_s)})

    def forgive(self, worker_id: str) -> "State":
        return replace(self, shunned={name: shun for name, shun in self.shunned.items() if name != worker_id})

    def to_probe(self, now_s: float) -> tuple["State", list[str]]:
        """Which of those that are left alone are to be asked now; they are being asked afterwards."""
        due = [name for name, shun in self.shunned.items() if shun.probe_at_s is not None and shun.probe_at_s <= now_s]
        asked = {name: replace(self.shunned[name], probe_at_s=None) for name in due}
        return replace(self, shunned={**self.shunned, **asked}), due


def heads_of(pending: Sequence[PendingRequest], now_ms: int, refused: set[int]) -> list[Head]:
    """Each workspace's oldest request in each class that may run now. `refused`: could not be reserved just now. Pure.

    A workspace at its limit must not hide another one, so its head is skipped and not replaced by its next request.
    """
    heads: dict[tuple[str, int], Head] = {}
    for row in pending:
        if row.available_at > now_ms:
            continue
        heads.setdefault((row.klass, row.workspace_id), Head(row.klass, row.workspace_id, row.id))
    return [head for head in heads.values() if head.entry_id not in refused]


class RenderCoordinator(Actor):
    def __init__(
        self,
        db: Database,
        owner: str,
        workers: Sequence[Renderer],
        drive: Drive,
        limits: RenderLimits,
        *,
        tick_s: float = 1.0,
    ) -> None:
        super().__init__()
        self._db, self._owner, self._drive, self._limits, self._tick_s = db, owner, drive, limits, tick_s
        self._workers = {worker.worker_id: worker for worker in workers}
        self._state = State()
        self._waiting: dict[int, list[Reply[Row[Any]]]] = {}
        self._children: dict[int, tuple[int, asyncio.Task[Any]]] = {}  # attempt id → its request, who drives it

    async def setup(self) -> None:
        self.every(self._tick_s, _Tick())
        self.every(self._limits.collect_s, _Collect())
        self.actor_ref.tell(_Tick())

    async def on_receive(self, message: Any) -> Any:
        match message:
            case RenderWanted():
                await self._dispatch()
            case AwaitRender(request_id):
                self._waiting.setdefault(request_id, []).append(self.defer_reply())
                await self._answer([request_id])
            case CancelRender(request_id):
                for wanted_by, child in self._children.values():
                    if wanted_by == request_id:
                        child.cancel()
            case _Driven(reserved, ended):
                await self._driven(reserved, ended)
            case _Probed(worker_id, ended):
                await self._probed(worker_id, ended)
            case _Tick():
                await self._tick()
            case _Collect():
                self.spawn(collect_pictures(self._db, self._drive.objects, self._limits.picture_ttl_s))
            case _:
                return await super().on_receive(message)

    async def _tick(self) -> None:
        try:
            async with self._db.write() as tx:
                expired = await renders.expire_attempts(tx, attempts_max=self._limits.attempts_max)
        except DatabaseUnavailable as error:
            log.warning("render.coordinator.tick.failed", reason=str(error))
            return
        for attempt in expired:
            log.warning("render.coordinator.attempt_expired", request_id=attempt.request_id, owner=attempt.owner)
            self._end_on_worker(attempt.worker_id, wire_id(attempt.owner, attempt.attempt_id))
        await self._answer(list(self._waiting))
        self._probe()
        await self._dispatch()

    def _probe(self) -> None:
        """Ask those that did not answer how they are: no page's attempt is spent on finding out."""
        self._state, due = self._state.to_probe(self.now_s())
        for worker_id in due:
            self.spawn(self._workers[worker_id].is_well(), then=partial(_Probed, worker_id))

    async def _probed(self, worker_id: str, ended: ChildEnded[bool]) -> None:
        if not ended.value:
            self._state = self._state.shun(worker_id, self.now_s())
            return
        self._state = self._state.forgive(worker_id)
        log.info("render.worker.back", worker_id=worker_id)
        await self._dispatch()

    async def _dispatch(self) -> None:
        """Reserve and start attempts while there is a free worker and an eligible request."""
        refused: set[int] = set()
        while (worker_id := self._state.free_worker(list(self._workers))) is not None:
            try:
                async with self._db.read() as tx:
                    pending, now_ms = await renders.list_pending(tx, limit=_PENDING_ROWS), await tx.now_ms()
                head, rotation = pick(self._state.rotation, heads_of(pending, now_ms, refused))
                if head is None:
                    return
                reserved = await self._reserve(head, worker_id)
            except DatabaseUnavailable as error:
                log.warning("render.dispatch.failed", reason=str(error))
                return
            if isinstance(reserved, ReserveRefusal):
                log.info("render.reserve.conflict", request_id=head.entry_id, worker_id=worker_id, reason=reserved)
                refused.add(head.entry_id)
                continue
            self._start(reserved, rotation)

    async def _reserve(self, head: Head, worker_id: str) -> AttemptLease | ReserveRefusal:
        async with self._db.write() as tx:
            return await renders.reserve_attempt(
                tx,
                head.entry_id,
                worker_id,
                self._owner,
                lease_ttl_ms=int(self._limits.lease_s * 1000),
                global_max=self._limits.global_max,
                workspace_max=self._limits.workspace_max,
                attempts_max=self._limits.attempts_max,
                budget_ms=int(self._limits.budget_s * 1000),
            )

    def _start(self, reserved: AttemptLease, rotation: Rotation) -> None:
        driving = {**self._state.driving, reserved.lease.id: reserved.worker_id}
        self._state = replace(self._state, rotation=rotation, driving=driving)
        log.info("render.dispatch.started", request_id=reserved.request.id, worker_id=reserved.worker_id)
        child = self.spawn(
            self._drive.run(self._workers[reserved.worker_id], reserved),
            then=lambda ended: _Driven(reserved, ended),
        )
        self._children[reserved.lease.id] = (reserved.request.id, child)

    async def _driven(self, reserved: AttemptLease, ended: ChildEnded[bool]) -> None:
        del self._children[reserved.lease.id]
        driving = {attempt: worker for attempt, worker in self._state.driving.items() if attempt != reserved.lease.id}
        self._state = replace(self._state, driving=driving)
        if ended.value is False:
            self._state = self._state.shun(reserved.worker_id, self.now_s())
        if isinstance(ended.error, DatabaseUnavailable):
            log.warning("render.dispatch.failed", request_id=reserved.request.id, reason=str(ended.error))
        elif ended.error is not None and not isinstance(ended.error, asyncio.CancelledError):
            log.error("render.dispatch.crashed", request_id=reserved.request.id, exc_info=ended.error)
        await self._answer([reserved.request.id])
        # Whatever the ending: the worker need not keep the result, or go on with what is no longer wanted (R5).
        self._end_on_worker(reserved.worker_id, wire_id(reserved.lease.worker_id, reserved.lease.id))
        await self._dispatch()

    async def _answer(self, request_ids: Sequence[int]) -> None:
        """Answer who waits for a request that has ended."""
        wanted = [request_id for request_id in request_ids if request_id in self._waiting]
        if not wanted:
            return
        try:
            async with self._db.read() as tx:
                requests = [await renders.get_request(tx, request_id) for request_id in wanted]
        except DatabaseUnavailable as error:
            log.warning("render.coordinator.tick.failed", reason=str(error))
            return
        for request in requests:
            replies = self._waiting.pop(request.id)
            if request.status in RENDER_REQUEST.terminal:
                for reply in replies:
                    reply.give(request)
            elif still := [reply for reply in replies if not reply.abandoned]:
                self._waiting[request.id] = still

    def _end_on_worker(self, worker_id: str, attempt_id: str) -> None:
        if worker_id in self._workers:
            self.spawn(self._workers[worker_id].delete(attempt_id))


CoordinatorRef = pykka.ActorRef[RenderCoordinator]
