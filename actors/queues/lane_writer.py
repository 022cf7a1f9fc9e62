"""LaneWriter: what the workers of a lane write about their jobs, in as few transactions as there can be (Q3, Q4).

Owns the two things that happen to every job: its lease is renewed, and it ends. Leases that are due together are
renewed by one statement. Ends that are ready together share a transaction: first the fences of all, then what each
kind's `Settle` writes, then all ends in one statement. Whose lease was lost is left out and told so; anything else that
goes wrong in a group undoes the group, and each job is settled by itself.

Survives whatever `Together` survives: it has no memory.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pagegate.actors.queues.kinds import End, JobKind, Settle
from pagegate.actors.queues.together import Together
from pagegate.actors.queues.worker_state import LeaseTimes
from pagegate.storage import jobs
from pagegate.storage.engine import Database, DatabaseUnavailable, Tx
from pagegate.storage.jobs import ClaimedJob, Ending, Renewal
from pagegate.storage.lease import LeaseLost


@dataclass(frozen=True)
class _Settlement:
    job: ClaimedJob
    settle: Settle


class LaneWriter:
    """One for the workers of a lane in this process."""

    def __init__(self, db: Database, kind: JobKind, times: LeaseTimes) -> None:
        self._db, self._kind, self._times = db, kind, times
        self._renewals = Together(self._renew)
        self._settlements = Together(self._settle)

    async def renew(self, job: ClaimedJob) -> bool:
        """Extend the job's lease; answers whether it was asked to stop. Raises `LeaseLost`, `DatabaseUnavailable`."""
        return await self._renewals.ask(job)

    async def settle(self, job: ClaimedJob, settle: Settle) -> None:
        """End the job as `settle` says. Raises what that raised, `LeaseLost`, `DatabaseUnavailable`."""
        await self._settlements.ask(_Settlement(job, settle))

    async def _renew(self, claimed: Sequence[ClaimedJob], check: Callable[[], None]) -> Sequence[bool | Exception]:
        try:
            # A connection that hangs must not cost all of them their leases: the next heartbeat takes another one.
            async with asyncio.timeout(self._times.renewal_timeout_s), self._db.write() as tx:
                renewed = await jobs.renew_jobs(tx, [job.lease for job in claimed], self._lease_ttl_ms)
                check()
        except TimeoutError as error:
            raise DatabaseUnavailable("a renewal was not answered in time") from error
        return [renewed[job.id].cancel_requested if _is_held(job, renewed) else _lost(job) for job in claimed]

    async def _settle(
        self, settlements: Sequence[_Settlement], check: Callable[[], None]
    ) -> Sequence[Exception | None]:
        async with self._db.write() as tx:
            leases = [one.job.lease for one in settlements]
            renewed = await jobs.renew_jobs(tx, leases, self._lease_ttl_ms)
            ours = sorted((one for one in settlements if _is_held(one.job, renewed)), key=_turn)
            if ours:
                ends = [await one.settle(tx) for one in ours]
                check()
                await self._end(tx, ours, ends)
            if not tx.ended:
                check()
        return [None if _is_held(one.job, renewed) else _lost(one.job) for one in settlements]

    async def _end(self, tx: Tx, settlements: Sequence[_Settlement], ends: Sequence[End]) -> None:
        pairs = list(zip(settlements, ends, strict=True))
        endings = [Ending(one.job.lease, end.event, end.result, end.error) for one, end in pairs]
        tell = self._kind.tell
        await jobs.finish_jobs(tx, endings, last=tell is None)
        if tell is not None:
            for one, end in pairs:
                await tell(tx, one.job, end)

    @property
    def _lease_ttl_ms(self) -> int:
        return int(self._times.lease_s * 1000)


def _turn(settlement: _Settlement) -> tuple[int, int]:
    """By run: batches and runs are then locked in the same order by every group of every replica."""
    return settlement.job.row.run_id or 0, settlement.job.id


def _is_held(job: ClaimedJob, renewed: Mapping[int, Renewal]) -> bool:
    """Of two claims of one job in a group, which a process that slept past a lease may have, the later one alone."""
    return job.id in renewed and renewed[job.id].is_of(job.lease)


def _lost(job: ClaimedJob) -> LeaseLost:
    return LeaseLost(f"{job.lease.table} {job.id}, fence {job.lease.fence}")
