"""Lanes over HTTP: what each has to do and who does it, pause and resume (Q11, O2). For administrators."""

from typing import Literal

from pydantic import Field

from pagegate.actors.queues.control import PauseLane, ResumeLane
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Params, Shown, TimeMs
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.storage import lane_views
from pagegate.storage import lanes as storage

lanes = Noun("operating")


class LaneParams(Params):
    lane: str = Field(max_length=100, description="A kind of job, as `GET /lanes` names it.")


class PausedView(Shown):
    paused_at_ms: TimeMs
    user_id: int
    user_name: str


class RunningJobView(Shown):
    id: int
    workspace_id: int
    worker_id: str = Field(description="`hostname:pid:uuid` of the process that claimed it.")
    attempt: int
    started_at_ms: TimeMs
    lease_expires_at_ms: TimeMs
    lease_valid: bool = Field(description="False: its worker was lost; the next sweep takes the job from it.")
    cancel_requested: bool


class LaneView(Shown):
    """One lane. Ages and lag in milliseconds, null when there is nothing to be old."""

    lane: str
    paused: PausedView | None
    pending: int
    runnable: int = Field(description="Pending jobs whose time has come.")
    running: int
    oldest_pending_age_ms: int | None
    oldest_running_age_ms: int | None
    lag_ms: int | None = Field(description="How long the job that has waited longest could have been running.")
    rescues: int = Field(description="Jobs taken from lost workers, since the database was made.")
    waiting_for: dict[str, int] = Field(description="Pending jobs that infrastructure put back, by its code.")
    running_jobs: list[RunningJobView]


class LaneList(Shown):
    lanes: list[LaneView]


@lanes.route("GET", "/lanes", access="admin")
async def list_lanes(call: Call[Nothing, Nothing]) -> LaneList:
    """Every lane: depths, ages, lag, rescues, and what runs where."""
    async with call.parts.db.read() as tx:
        return LaneList(lanes=[_view(await lane_views.look_at_lane(tx, kind)) for kind in storage.kinds()])


@lanes.route("POST", "/lanes/{lane}/pause", access="admin", refusals=["LANE_NOT_FOUND", "BACKEND_BUSY"])
async def pause_lane(call: Call[LaneParams, Nothing]) -> LaneView:
    """Pause a lane: no replica claims from it any more, through restarts too; running jobs go on."""
    return await _change(call, "pause")


@lanes.route("POST", "/lanes/{lane}/resume", access="admin", refusals=["LANE_NOT_FOUND", "BACKEND_BUSY"])
async def resume_lane(call: Call[LaneParams, Nothing]) -> LaneView:
    """Resume a paused lane."""
    return await _change(call, "resume")


async def _change(call: Call[LaneParams, Nothing], change: Literal["pause", "resume"]) -> LaneView:
    lane = known(call.params.lane)
    message = PauseLane if change == "pause" else ResumeLane
    await call.ask_jobs(message(lane, call.user.user_id))
    async with call.parts.db.read() as tx:
        return _view(await lane_views.look_at_lane(tx, lane))


def known(lane: str) -> str:
    """The lane itself; raises `LANE_NOT_FOUND`."""
    if lane not in storage.kinds():
        raise ApiError("LANE_NOT_FOUND", f"There is no lane {lane!r}.")
    return lane


def _view(lane: lane_views.LaneView) -> LaneView:
    pause, counts = lane.state.pause, lane.counts
    return LaneView(
        lane=lane.kind,
        paused=None if pause is None else PausedView.model_validate(pause),
        pending=counts.pending,
        runnable=counts.runnable,
        running=counts.running,
        oldest_pending_age_ms=counts.oldest_pending_age_ms,
        oldest_running_age_ms=counts.oldest_running_age_ms,
        lag_ms=lane.lag_ms,
        rescues=lane.state.rescues,
        waiting_for=dict(lane.waiting_for),
        running_jobs=[RunningJobView.model_validate(job) for job in lane.running],
    )
