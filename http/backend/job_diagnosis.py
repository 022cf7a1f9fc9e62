"""What is known of one job of any kind, and what follows from it (Q11, B3). Read-only.

Owns the words: what a person would conclude from the rows. Who may see a job is `jobs.py`'s rule.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from pydantic import Field

from pagegate.http.backend.builds import progress_key
from pagegate.http.backend.jobs import JobParams, JobView, job_of, view_of
from pagegate.http.backend.models import Shown, TimeMs
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.storage import builds
from pagegate.storage.job_diagnosis import JobDiagnosis, diagnose_job
from pagegate.storage.objects import ObjectStoreUnavailable
from pagegate.storage.runtime_state import StateUnavailable
from pagegate.storage.transitions import JOB

log = structlog.get_logger()
job_diagnosis = Noun("jobs")


class JobDiagnosisView(Shown):
    """One job, read in one transaction. `says` is what follows from the rest, the most telling first."""

    job: JobView
    now_ms: TimeMs
    says: list[str]
    heartbeat_at_ms: TimeMs | None = Field(description="When its lease was last renewed.")
    lane_paused: bool
    ahead: int | None = Field(description="Pending jobs of the lane that are older; null unless it is pending.")
    step: str | None = Field(description="How far a running build is; for display only, and may be unknown.")
    staged: int | None = Field(
        description="Objects of a build's uploads that no release is made of, if it can be known."
    )
    log: list[str]
    facts: dict[str, Any] = Field(description="What only jobs of its kind have.")
    made: dict[str, Any] = Field(description="What it wrote; empty when that is nothing, or nothing yet.")


@job_diagnosis.route("GET", "/jobs/{lane}/{job_id}/diagnosis", refusals=["LANE_NOT_FOUND", "JOB_NOT_FOUND"])
async def get_job_diagnosis(call: Call[JobParams, Nothing]) -> JobDiagnosisView:
    """What is known of a job: state, lease, worker, heartbeat, steps, error with its next step, what it made."""
    async with call.parts.db.read() as tx:
        job = await job_of(tx, call, write=False)
        found = await diagnose_job(tx, job.kind, job.id)
        released = await builds.find_released(tx, job.id) if job.kind == builds.PROJECT_BUILD else None
    staged = await _staged(call, found, released)
    shown = view_of(found.job, call.user)
    return JobDiagnosisView(
        job=shown,
        now_ms=found.now_ms,
        says=follows(found, shown.worker_id, staged or 0),
        heartbeat_at_ms=found.heartbeat_at_ms,
        lane_paused=found.lane_paused,
        ahead=found.ahead,
        step=await _step(call, found),
        staged=staged,
        log=list(found.log),
        facts=dict(found.facts),
        made=dict(found.made),
    )


async def _step(call: Call[Any, Any], found: JobDiagnosis) -> str | None:
    if found.job.kind != builds.PROJECT_BUILD or found.job.status != "running":
        return None
    try:
        kept = await call.parts.state.read(progress_key(found.job.id), ["step"])
    except StateUnavailable:  # display only (B4)
        log.warning("project.build.progress_unknown", job_id=found.job.id)
        return None
    return kept["step"].decode() if kept and "step" in kept else None


async def _staged(call: Call[Any, Any], found: JobDiagnosis, released: str | None) -> int | None:
    if found.job.kind != builds.PROJECT_BUILD:
        return None
    keep = f"{released.rpartition('/')[0]}/" if released else ""
    try:
        return await call.parts.objects.count(builds.build_prefix(found.job.project_id, found.job.id), keep=keep)
    except ObjectStoreUnavailable as error:
        log.warning("project.build.staged_unknown", job_id=found.job.id, reason=str(error))
        return None


def follows(found: JobDiagnosis, worker_id: str | None, staged: int = 0) -> list[str]:
    """What a person would conclude, the most telling first. `worker_id` None: the reader may not know it. Pure."""
    job = found.job
    if job.status in JOB.terminal:
        return [
            *_over(found),
            *([f"Of its uploads {staged} objects are left; a sweep deletes them."] if staged else []),
        ]
    says = _pending(found) if job.status == "pending" else _running(found, worker_id or "a worker")
    if job.deadline_at_ms is not None:
        left_s = (job.deadline_at_ms - found.now_ms) // 1000
        says.append(f"Its own time ends in {left_s} s." if left_s >= 0 else f"Its own time ended {-left_s} s ago.")
    return says


def _over(found: JobDiagnosis) -> list[str]:
    job = found.job
    code, message, hint = [str((job.error or {}).get(name, "")) for name in ("code", "message", "hint")]
    says = [f"The job is over: {job.status}" + (f" ({code}). {message}".rstrip() if code else ".")]
    if found.made:
        says.append(f"It made {_listed(found.made)}.")
    if hint:
        says.append(f"Next step: {hint}")
    if job.retried_as is not None:
        says.append(f"It was retried as job {job.retried_as}.")
    return says


def _pending(found: JobDiagnosis) -> list[str]:
    job, says = found.job, []
    if found.lane_paused:
        says.append(f"Its lane is paused: `pagegate lanes resume {job.kind}` lets it go on.")
    if job.error is not None:
        why = f"{job.error.get('code')}: {job.error.get('message', '')}".rstrip(": ")
        says.append(f"It is tried again after {job.infra_failures} infrastructure failures, the last one {why}")
    if (wait_ms := job.available_at_ms - found.now_ms) > 0:
        says.append(f"It may be claimed in {-(-wait_ms // 1000)} s.")
    elif found.behind is not None:
        kind, job_id = found.behind
        says.append(f"It waits for job {job_id} of {kind}, which was called before it in the same step.")
    else:
        says.append(f"It waits to be claimed; {found.ahead} pending jobs of its lane are older.")
    if job.kind == builds.PROJECT_BUILD:
        says.append("Runtimes take builds: one must be running, be named in RUNTIME_BASE_URLS and reach this Backend.")
    return says


def _running(found: JobDiagnosis, worker: str) -> list[str]:
    job, says = found.job, []
    if job.lease_valid:
        beat_s = max(0, found.now_ms - (found.heartbeat_at_ms or found.now_ms)) // 1000
        left_s = ((job.lease_expires_at_ms or found.now_ms) - found.now_ms) // 1000
        says.append(
            f"Attempt {job.attempt} is worked on by {worker}; its lease is valid for {left_s} s,"
            f" its last heartbeat was {beat_s} s ago."
        )
    elif job.kind == builds.PROJECT_BUILD:
        says.append(
            f"Attempt {job.attempt} has lost its worker: it ends as PROJECT_BUILD_INTERRUPTED with the next sweep."
        )
    else:
        says.append(f"Attempt {job.attempt} has lost its worker; it is rescued with the next sweep.")
    if job.cancel_requested_at_ms is not None:
        says.append("It was asked to stop, and ends at its next safe point.")
    if found.facts.get("sent_at_ms") is not None:
        says.append("A request to the provider is under way, or was answered and nobody heard it.")
    return says


def _listed(made: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in made.items() if value is not None)
