"""One attempt, driven from the Backend's side: start it on its worker, keep its lease, bring its result home (R2, R5).

Owns nothing but the attempt in hand. Every write carries the attempt's fence; when the lease is lost the result is
dropped. What is left on the worker afterwards is the coordinator's to tidy, so that nobody waits for that. Survives a
cancel (then the worker is told at once to end the attempt) and a worker that says nothing: then the lease is not
renewed either, so nothing unknown holds a slot for longer than the lease.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from pagegate.actors.kernel import Backoff
from pagegate.renderer.client import AttemptUnknown, WorkerBusy, WorkerUnavailable, WorkerUnreachable
from pagegate.renderer.contract import RenderResult, RenderTask
from pagegate.storage import lease, renders
from pagegate.storage.engine import Database
from pagegate.storage.lease import LeaseLost
from pagegate.storage.objects import Objects, ObjectStoreUnavailable
from pagegate.storage.renders import AttemptLease
from pagegate.storage.screenshot_pictures import TEMPORARY

log = structlog.get_logger()

T = TypeVar("T")


class Renderer(Protocol):
    """The wire to one Renderer; `renderer.client.RenderWorker` says what each call does and raises."""

    @property
    def worker_id(self) -> str: ...

    async def start(self, task: RenderTask) -> None: ...

    async def wait(self, attempt_id: str, wait_s: float) -> RenderResult | None: ...

    async def picture(self, attempt_id: str) -> bytes: ...

    async def delete(self, attempt_id: str) -> None: ...

    async def is_well(self) -> bool: ...


def wire_id(owner: str, attempt_id: int) -> str:
    """What a worker knows an attempt by. Ids count up in each database; the owner makes them unique among databases."""
    return f"{owner.rsplit(':', 1)[-1][:12]}-{attempt_id}"


_WAIT_S = 5.0
_ATTEMPT_S = 60.0
_BUSY_RETRY_MS = 1_000
_UNHEARD_PAUSES_S = (0.1, 0.5)
_RETRY = Backoff(first_s=1.0, max_s=10.0)


@dataclass(frozen=True)
class Drive:
    """`run` drives one attempt. `lease_s` is what a renewal extends its lease to."""

    db: Database
    objects: Objects
    lease_s: float = 30.0

    async def run(self, worker: Renderer, reserved: AttemptLease) -> bool:
        """True when the worker answered (with whatever), False when it did not and should be left alone for a while."""
        try:
            return await self._run(worker, reserved)
        except LeaseLost:
            log.warning("render.dispatch.lease_lost", request_id=reserved.request.id, worker_id=worker.worker_id)
            return True
        except asyncio.CancelledError:
            # Shielded: the slot on the worker is worth more than the milliseconds that the cancel waits for.
            await asyncio.shield(worker.delete(wire_id(reserved.lease.worker_id, reserved.lease.id)))
            raise

    async def _run(self, worker: Renderer, reserved: AttemptLease) -> bool:
        attempt_id = wire_id(reserved.lease.worker_id, reserved.lease.id)
        task = RenderTask.model_validate(
            {
                **reserved.request.payload,
                "attempt_id": attempt_id,
                "request_id": str(reserved.request.id),
                "operation": reserved.request.operation,
                "deadline_s": max(1.0, min(_ATTEMPT_S, reserved.remaining_ms / 1000)),
            }
        )
        try:
            await _heard(lambda: worker.start(task))
            result = await self._await_result(worker, reserved, attempt_id)
            picture = await self._picture(worker, result)
        except WorkerBusy:
            log.info("render.worker.busy", worker_id=worker.worker_id)
            async with self.db.write() as tx:
                await renders.return_busy(tx, reserved.lease, delay_ms=_BUSY_RETRY_MS)
            return True
        except (WorkerUnavailable, ObjectStoreUnavailable) as error:
            code = error.code if isinstance(error, WorkerUnavailable) else "OBJECT_STORE_UNAVAILABLE"
            log.warning("render.worker.unavailable", worker_id=worker.worker_id, code=code, reason=str(error))
            await self._fail(reserved, code, str(error))
            return isinstance(error, ObjectStoreUnavailable)
        if result.error is not None:
            log.warning("render.worker.attempt_failed", worker_id=worker.worker_id, code=result.error.code)
            await self._fail(reserved, result.error.code, result.error.message)
        else:
            async with self.db.write() as tx:
                await renders.finish_attempt(tx, reserved.lease, result.model_dump(), picture_key=picture)
        return True

    async def _await_result(self, worker: Renderer, reserved: AttemptLease, attempt_id: str) -> RenderResult:
        while True:
            result = await _heard(lambda: worker.wait(attempt_id, _WAIT_S))
            if result is not None:
                return result
            # The worker answered, so the attempt lives: only now is its lease renewed.
            async with self.db.write() as tx:
                await lease.renew(tx, reserved.lease, int(self.lease_s * 1000))

    async def _picture(self, worker: Renderer, result: RenderResult) -> str | None:
        """Put the PNG where every replica sees it; a page's commit copies it to its own place (S5)."""
        if result.picture is None:
            return None
        png = await _heard(lambda: worker.picture(result.attempt_id))
        if hashlib.sha256(png).hexdigest() != result.picture.sha256:
            raise AttemptUnknown
        key = f"{TEMPORARY}{result.attempt_id}/{result.picture.sha256}.png"
        await self.objects.put(key, png)
        return key

    async def _fail(self, reserved: AttemptLease, code: str, message: str) -> None:
        delay_s = _RETRY.first_s * _RETRY.factor ** (reserved.attempts_used - 1)
        async with self.db.write() as tx:
            await renders.fail_attempt(
                tx,
                reserved.lease,
                error={"code": code, "message": message},
                retry_delay_ms=int(min(delay_s, _RETRY.max_s) * 1000),
            )


async def _heard(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call until an answer is heard, a few times: each call of the wire may be made again without harm.

    A worker that is really gone costs the pauses; what a lost answer would cost is the whole attempt.
    """
    for pause_s in _UNHEARD_PAUSES_S:
        try:
            return await call()
        except WorkerUnreachable:
            await asyncio.sleep(pause_s)
    return await call()
