"""ProjectBuilds: offers builds to the Runtimes, and ends those that nobody makes any more (B1, B3).

Owns nothing: builds are rows that Runtimes claim through the Backend's door. Hears `JobsSubmitted` and its own beat; at
each it tells every Runtime that there may be work, with a ticket that lets it claim, and ends builds whose lease ran
out (`PROJECT_BUILD_INTERRUPTED`) or whose deadline passed before anybody took them. A slower beat sweeps: what an ended
build has in the object store beside its release is deleted, once, whoever put it there and was killed. Survives
everything: a lost offer costs one beat, and each replica does all of it, or does it again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from pagegate.actors.jobs.build_numbers import BuildNumbers
from pagegate.actors.kernel import Actor
from pagegate.actors.queues.queue import CancelHint, JobsSubmitted
from pagegate.actors.tickets import Tickets
from pagegate.runtime.build_contract import OFFER_SUBJECT, BuildOffer
from pagegate.storage import builds, jobs
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.objects import Objects, ObjectStoreUnavailable

log = structlog.get_logger()

_OFFER_TTL_S = 120.0
_FORGET_FUTURE_S = -3600.0  # whatever the store's clock says: all of it
_SWEEP_PERIOD_S = 60.0
_SWEEP_BUILDS_MAX = 20
# After its end an upload may still be on its way until it hears of it; it stops within seconds, and deletes its own.
_SWEEP_AGE_MS = 10 * 60 * 1000

Offer = Callable[[str, BuildOffer], Coroutine[Any, Any, None]]


class ProjectBuilds(Actor):
    """`offer` tells one Runtime; best effort, and quick. `internal_url` is where Runtimes reach this Backend."""

    def __init__(
        self,
        db: Database,
        objects: Objects,
        tickets: Tickets,
        offer: Offer,
        runtime_urls: Sequence[str],
        internal_url: str,
        period_s: float = 3.0,
        numbers: BuildNumbers | None = None,
    ) -> None:
        super().__init__()
        self._db, self._objects, self._tickets = db, objects, tickets
        self._offer, self._urls, self._internal_url = offer, tuple(runtime_urls), internal_url
        self._period_s, self._numbers = period_s, numbers or BuildNumbers()

    async def setup(self) -> None:
        self.every(self._period_s, "beat")
        self.every(_SWEEP_PERIOD_S, "sweep")

    async def on_receive(self, message: Any) -> Any:
        match message:
            case "beat":
                await self._end_what_is_over()
                await self._offer_all()
            case "sweep":
                await sweep_builds(self._db, self._objects, numbers=self._numbers)
            case JobsSubmitted():
                await self._offer_all()
            case CancelHint():
                return None  # its Runtime hears it at the next heartbeat
            case _:
                return await super().on_receive(message)

    async def _offer_all(self) -> None:
        try:
            async with self._db.read() as tx:
                waiting = await jobs.list_waiting(tx, builds.PROJECT_BUILD)
        except DatabaseUnavailable as error:
            log.warning("project.build.offer_failed", reason=str(error))
            return
        if not waiting:
            return
        offer = BuildOffer(backend_url=self._internal_url, ticket=self._tickets.issue(OFFER_SUBJECT, _OFFER_TTL_S))
        for url in self._urls:
            self.spawn(self._offer(url, offer))

    async def _end_what_is_over(self) -> None:
        try:
            async with self._db.read() as tx:
                counts = await jobs.queue_counts(tx, builds.PROJECT_BUILD)
            if not counts.pending and not counts.running:
                return
            async with self._db.write() as tx:
                interrupted = await builds.interrupt_expired(tx)
                unclaimed = await builds.end_unclaimed(tx)
        except DatabaseUnavailable as error:
            log.warning("project.build.sweep_failed", reason=str(error))
            return
        if unclaimed:
            log.warning("project.build.unclaimed", jobs=unclaimed)
        for _ in range(unclaimed):
            self._numbers.ended(builds.NOBODY["code"])
        for lost in interrupted:
            log.warning("project.build.interrupted", job_id=lost.job_id, code=lost.code)
            self._numbers.ran_out(lost.code)
            await forget_objects(self._db, self._objects, lost.project_id, lost.job_id, self._numbers)


async def sweep_builds(
    db: Database, objects: Objects, age_ms: int = _SWEEP_AGE_MS, numbers: BuildNumbers | None = None
) -> int:
    """Delete what builds that ended longer ago left in the object store; answers how many builds were swept.

    Idempotent on any number of replicas (K6). A release and its files are never touched.
    """
    try:
        async with db.read() as tx:
            ended = await builds.list_unswept(tx, age_ms, _SWEEP_BUILDS_MAX)
        for job in ended:
            await _forget(db, objects, job.project_id, job.id, numbers)
            async with db.write() as tx:
                await builds.mark_swept(tx, job.id)
    except (DatabaseUnavailable, ObjectStoreUnavailable) as error:
        log.warning("project.build.sweep_failed", reason=str(error))
        return 0
    return len(ended)


async def forget_objects(
    db: Database, objects: Objects, project_id: int, job_id: int, numbers: BuildNumbers | None = None
) -> None:
    """Delete what an ended build put into the object store (B2). Its release's own files stay."""
    try:
        await _forget(db, objects, project_id, job_id, numbers)
    except (DatabaseUnavailable, ObjectStoreUnavailable) as error:
        log.warning("project.build.objects_left", job_id=job_id, reason=str(error))


async def _forget(db: Database, objects: Objects, project_id: int, job_id: int, numbers: BuildNumbers | None) -> None:
    async with db.read() as tx:
        released = await builds.find_released(tx, job_id)
    keep = f"{released.rpartition('/')[0]}/" if released else ""
    deleted = await objects.delete_older(builds.build_prefix(project_id, job_id), _FORGET_FUTURE_S, keep=keep)
    if deleted:
        log.info("project.build.objects_deleted", job_id=job_id, objects=deleted)
        if numbers is not None:
            numbers.deleted(deleted)


async def forget_upload(db: Database, objects: Objects, prefix: str, object_key: str) -> None:
    """Delete what one upload put into the store, unless it was promoted; also when who asks is being cancelled.

    An answer to a commit can be lost: only the database knows what became of it, and while it is away nothing goes.
    """

    async def forget() -> None:
        try:
            async with db.read() as tx:
                if await builds.is_released(tx, object_key):
                    return
            await objects.delete_older(prefix, _FORGET_FUTURE_S)
        except (DatabaseUnavailable, ObjectStoreUnavailable) as error:
            log.warning("project.build.objects_left", prefix=prefix, reason=str(error))

    await asyncio.shield(asyncio.ensure_future(forget()))
