"""A small world to run statements in: one user, two workspaces with a project each, and jobs in any state.

Leases are ended by moving them into the past, never by waiting: on PostgreSQL the clock is the server's own.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Row, select, update

from pagegate.storage import external, jobs, renders, runs, schema
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import PAGE_MUTATION, ClaimedJob
from pagegate.storage.lease import Lease
from pagegate.storage.renders import AttemptLease, ReserveRefusal
from pagegate.storage.runs import CallSubmission, StepSubmission, Submitted

T = TypeVar("T")

TTL_MS = 60_000


@dataclass
class World:
    """The test's database and the few ids that every statement needs."""

    db: Database
    user_id: int = 0
    workspaces: list[int] = field(default_factory=list)
    projects: list[int] = field(default_factory=list)
    _calls: int = 0

    async def settle_in(self) -> None:
        async with self.db.write() as tx:
            self.user_id = await tx.insert(schema.users, name="ada", created_at_ms=tx.now)
            for name in ("A", "B"):
                workspace = await tx.insert(schema.workspaces, name=name, created_at_ms=tx.now)
                project = await tx.insert(
                    schema.projects, workspace_id=workspace, name=name, canvas_width_px=1280, created_at_ms=tx.now
                )
                self.workspaces.append(workspace)
                self.projects.append(project)

    async def write(self, statement: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """One statement in a transaction of its own."""
        async with self.db.write() as tx:
            return await statement(tx, *args, **kwargs)

    async def read(self, statement: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        async with self.db.read() as tx:
            return await statement(tx, *args, **kwargs)

    def step(self, *codes: str, workspace: int = 0, **options: Any) -> StepSubmission:
        """A step with a creating call for each code; a code may come more than once."""
        calls = []
        for code in codes or ("page",):
            self._calls += 1
            calls.append(CallSubmission(f"call-{self._calls}", "create_project_page", {"source": "<p/>"}, code))
        return StepSubmission(
            workspace_id=self.workspaces[workspace],
            project_id=self.projects[workspace],
            user_id=self.user_id,
            calls=calls,
            **{"active_jobs_max": 10_000, "batch_size_max": 1_000} | options,
        )

    async def submit(self, *codes: str, **options: Any) -> Submitted:
        return await self.write(runs.submit_step, self.step(*codes, **options))

    async def claim(self, worker_id: str = "worker", ttl_ms: int = TTL_MS) -> ClaimedJob | None:
        return await self.write(jobs.claim_job, PAGE_MUTATION, worker_id, ttl_ms)

    async def claimed(self, worker_id: str = "worker") -> ClaimedJob:
        """A job that `worker_id` has just claimed: one that waits, or a new one."""
        job = await self.claim(worker_id)
        if job is None:
            await self.submit()
            job = await self.claim(worker_id)
        assert job is not None
        return job

    async def job(self, job_id: int) -> Row[Any]:
        return await self.read(jobs.get_job, PAGE_MUTATION, job_id)

    async def expire(self, lease: Lease) -> None:
        """Let the lease end without waiting for it."""
        table = schema.metadata.tables[lease.table]
        async with self.db.write() as tx:
            await tx.execute(update(table).where(table.c.id == lease.id).values(lease_expires_at=tx.now - 1))

    async def rescue(self, job: ClaimedJob, lease_losses_max: int = 3) -> str | None:
        return await self.write(jobs.rescue_job, PAGE_MUTATION, job.id, job.lease.fence, lease_losses_max)

    async def tasks(self, run_id: int) -> list[tuple[str, Any]]:
        """(state, result) of each external task of a run."""
        tasks, batches = schema.ai_agent_external_tasks, schema.ai_agent_external_batches
        query = select(tasks.c.state, tasks.c.result).join(batches, batches.c.id == tasks.c.batch_id)
        async with self.db.read() as tx:
            rows = await tx.execute(query.where(batches.c.run_id == run_id).order_by(tasks.c.id))
            return [(row.state, row.result) for row in rows]

    async def batch_state(self, run_id: int) -> str:
        batches = schema.ai_agent_external_batches
        async with self.db.read() as tx:
            return str((await tx.execute(select(batches.c.state).where(batches.c.run_id == run_id))).scalar_one())

    async def enqueue(self, job: ClaimedJob, workspace: int = 0, **options: Any) -> int:
        limits = {"queue_size_max": 1_000, "workspace_queue_size_max": 1_000}
        return await self.write(
            renders.enqueue_request,
            job.lease,
            workspace_id=self.workspaces[workspace],
            **{"klass": "interactive", "operation": "page.diagnose", "payload": {}} | limits | options,
        )

    async def reserve(
        self, request_id: int, worker_id: str = "renderer-1", owner: str = "replica", **limits: int
    ) -> AttemptLease | ReserveRefusal:
        async with self.db.write() as tx:
            return await reserve(tx, request_id, worker_id, owner, **limits)

    async def reserved(self, request_id: int, worker_id: str = "renderer-1", **limits: int) -> AttemptLease:
        attempt = await self.reserve(request_id, worker_id, **limits)
        assert isinstance(attempt, AttemptLease), attempt
        return attempt

    async def request(self, request_id: int) -> Row[Any]:
        return await self.read(renders.get_request, request_id)

    async def claim_batch(self, worker_id: str = "coordinator") -> external.ClaimedBatch | None:
        return await self.write(external.claim_ready_batch, worker_id, TTL_MS)


async def reserve(tx: Tx, request_id: int, worker_id: str, owner: str, **limits: int) -> AttemptLease | ReserveRefusal:
    generous = {
        "lease_ttl_ms": TTL_MS,
        "global_max": 100,
        "workspace_max": 100,
        "attempts_max": 3,
        "budget_ms": 120_000,
    }
    return await renders.reserve_attempt(tx, request_id, worker_id, owner, **generous | limits)
