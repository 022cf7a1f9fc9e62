"""Jobs over HTTP: looked at, cancelled, retried (Q10, Q11, X5).

A member sees the jobs of their workspaces and, as an editor, cancels and retries them. An administrator does so for
every workspace, which is what operating needs; no page source and no verdict is shown here.
"""

from typing import Literal

from pydantic import Field

from pagegate.actors.queues.control import CancelOneJob, RetryFailedJob
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.lanes import known
from pagegate.http.backend.models import ID_MAX, Id, Params, Shown, TimeMs
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.storage import lane_views
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import JobNotFound
from pagegate.storage.lanes import kinds
from pagegate.storage.users import Caller
from pagegate.storage.workspaces import ROLE_RANK, find_role, list_workspaces

jobs = Noun("jobs")

JobStatus = Literal["pending", "running", "succeeded", "failed", "cancelled", "skipped"]


class ListParams(Params):
    lane: str = Field(default=kinds()[0], max_length=100)
    status: JobStatus | None = None
    limit: int = Field(default=50, ge=1, le=200)
    before: int | None = Field(default=None, ge=1, le=ID_MAX, description="Only jobs with a smaller id: the next page.")


class JobParams(Params):
    lane: str = Field(max_length=100)
    job_id: Id


class JobErrorView(Shown):
    code: str
    message: str = ""
    hint: str = ""


class JobView(Shown):
    """One job. `worker_id` is shown to administrators only; `lease_valid` is null unless the job runs."""

    id: int
    lane: str
    workspace_id: int
    project_id: int
    created_by: int
    run_id: int | None
    page_code: str | None
    component_name: str | None
    asset_name: str | None
    status: JobStatus
    attempt: int = Field(description="How often it was claimed; the fence.")
    worker_id: str | None
    lease_expires_at_ms: TimeMs | None
    lease_valid: bool | None
    available_at_ms: TimeMs
    deadline_at_ms: TimeMs | None
    infra_failures: int
    lease_losses: int
    cancel_requested_at_ms: TimeMs | None
    error: JobErrorView | None = Field(description="Of a pending job: what it waits for.")
    retry_of: int | None
    retried_as: int | None
    created_at_ms: TimeMs
    started_at_ms: TimeMs | None
    finished_at_ms: TimeMs | None


class JobList(Shown):
    jobs: list[JobView]
    next_before: int | None = Field(description="Send it as `before` for older ones; null at the end.")


@jobs.route("GET", "/jobs", refusals=["LANE_NOT_FOUND"])
async def list_jobs(call: Call[ListParams, Nothing]) -> JobList:
    """Jobs of one lane, newest first."""
    wanted = call.params
    async with call.parts.db.read() as tx:
        found = await lane_views.list_jobs(
            tx,
            known(wanted.lane),
            workspace_ids=await _workspaces(tx, call.user),
            status=wanted.status,
            before_id=wanted.before,
            limit=wanted.limit + 1,
        )
    page = found[: wanted.limit]
    more = len(found) > len(page)
    return JobList(jobs=[view_of(job, call.user) for job in page], next_before=page[-1].id if more else None)


@jobs.route("GET", "/jobs/{lane}/{job_id}", refusals=["LANE_NOT_FOUND", "JOB_NOT_FOUND"])
async def get_job(call: Call[JobParams, Nothing]) -> JobView:
    """One job."""
    async with call.parts.db.read() as tx:
        return view_of(await job_of(tx, call, write=False), call.user)


@jobs.route(
    "POST",
    "/jobs/{lane}/{job_id}/cancel",
    refusals=["LANE_NOT_FOUND", "JOB_NOT_FOUND", "ROLE_REQUIRED", "BACKEND_BUSY"],
)
async def cancel_job(call: Call[JobParams, Nothing]) -> JobView:
    """Cancel a job: a pending one ends now, a running one soon; one that has ended stays as it is."""
    async with call.parts.db.read() as tx:
        job = await job_of(tx, call, write=True)
    await call.ask_jobs(CancelOneJob(job.kind, job.id, call.user.user_id))
    async with call.parts.db.read() as tx:
        return view_of(await lane_views.get_job_view(tx, job.kind, job.id), call.user)


@jobs.route(
    "POST",
    "/jobs/{lane}/{job_id}/retry",
    status=201,
    refusals=[
        "LANE_NOT_FOUND",
        "JOB_NOT_FOUND",
        "ROLE_REQUIRED",
        "JOB_NOT_FAILED",
        "JOB_ALREADY_RETRIED",
        "JOB_RESULT_DELIVERED",
        "AI_PAGE_MUTATION_ACTIVE_JOBS_LIMIT",
        "COMPONENT_MUTATION_ACTIVE_JOBS_LIMIT",
        "IMAGE_GENERATION_ACTIVE_JOBS_LIMIT",
        "BACKEND_BUSY",
    ],
)
async def retry_job(call: Call[JobParams, Nothing]) -> JobView:
    """Retry a failed job as a new one, as long as nobody was told of its failure; answers the new job."""
    async with call.parts.db.read() as tx:
        job = await job_of(tx, call, write=True)
    new_id = await call.ask_jobs(RetryFailedJob(job.kind, job.id, call.user.user_id))
    async with call.parts.db.read() as tx:
        return view_of(await lane_views.get_job_view(tx, job.kind, new_id), call.user)


async def _workspaces(tx: Tx, caller: Caller) -> list[int] | None:
    """Whose jobs the caller may see; None for all."""
    return None if caller.is_admin else [workspace.id for workspace in await list_workspaces(tx, caller.user_id)]


async def job_of(tx: Tx, call: Call[JobParams, Nothing], *, write: bool) -> lane_views.JobView:
    """The job, if the caller may do this with it. Raises 404 for strangers, 403 below the role."""
    try:
        job = await lane_views.get_job_view(tx, known(call.params.lane), call.params.job_id)
    except JobNotFound:
        raise ApiError("JOB_NOT_FOUND") from None
    if call.user.is_admin:
        return job
    role = await find_role(tx, job.workspace_id, call.user.user_id)
    if role is None:
        raise ApiError("JOB_NOT_FOUND")
    if write and ROLE_RANK[role] < ROLE_RANK["editor"]:
        raise ApiError("ROLE_REQUIRED", f"This needs the role editor; yours in this workspace is {role}.")
    return job


def view_of(job: lane_views.JobView, caller: Caller) -> JobView:
    error = None if job.error is None else JobErrorView(**{name: str(job.error.get(name, "")) for name in _ERROR})
    return JobView(
        **{name: getattr(job, name) for name in JobView.model_fields if name not in _MADE_HERE},
        lane=job.kind,
        created_by=job.user_id,
        worker_id=job.worker_id if caller.is_admin else None,
        error=error,
    )


_ERROR = ("code", "message", "hint")
_MADE_HERE = {"lane", "created_by", "worker_id", "error"}
