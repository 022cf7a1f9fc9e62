"""ProjectBuilds: offers builds to the Runtimes, and ends those that nobody makes any more (B1, B3).

Owns nothing: builds are rows that Runtimes claim through the Backend's door. Hears `JobsSubmitted` and its own beat; at
each it tells every Runtime that there may be work, with a ticket that lets it claim, and ends builds whose lease ran
out (`PROJECT_BUILD_INTERRUPTED`) or whose deadline passed before anybody took them. Survives everything: a lost offer
costs one beat.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

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
    ) -> None:
        super().__init__()
        self._db, self._objects, self._tickets = db, objects, tickets
        self._offer, self._urls, self._internal_url = offer, tuple(runtime_urls), internal_url
        self._period_s = period_s

    async def setup(self) -> None:
        self.every(self._period_s, "beat")

    async def on_receive(self, message: Any) -> Any:
        match message:
            case "beat":
                await self._end_what_is_over()
                await self._offer_all()
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
        for project_id, job_id in interrupted:
            log.warning("project.build.interrupted", job_id=job_id)
            await forget_objects(self._db, self._objects, project_id, job_id)


async def forget_objects(db: Database, objects: Objects, project_id: int, job_id: int) -> None:
    """Delete what a build without a release put into the object store (B2). A release's own files stay."""
    try:
        async with db.read() as tx:
            job = await builds.find_build(tx, job_id)
        if job is not None and job.status == "succeeded":
            return
        await objects.delete_older(builds.build_prefix(project_id, job_id), _FORGET_FUTURE_S)
    except (DatabaseUnavailable, ObjectStoreUnavailable) as error:
        log.warning("project.build.objects_left", job_id=job_id, reason=str(error))


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
