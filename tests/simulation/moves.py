"""What one row may do from one commit to the next, and how a trace tells it.

Owns the names of the tables that are watched, and which of them are leased. An end is an end; a leased row moves by its
holder's hand, or when its lease is over.
"""

from dataclasses import dataclass
from types import SimpleNamespace as Row
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.database import Session

JOBS, RUNS, CALLS = "ai_page_mutation_jobs", "ai_agent_runs", "ai_agent_tool_calls"
BATCHES, TASKS = "ai_agent_external_batches", "ai_agent_external_tasks"
REQUESTS, ATTEMPTS = "render_requests", "render_attempts"
PAGES, VERSIONS = "pages", "page_versions"
SHOTS, PICTURES = "page_screenshot_jobs", "page_screenshot_artifacts"
BUILDS, RELEASES = "project_build_jobs", "project_releases"
COMPONENT_JOBS, IMAGE_JOBS, RATIO_JOBS = (
    "component_mutation_jobs",
    "image_generation_jobs",
    "asset_ratio_backfill_jobs",
)
COMPONENTS, COMPONENT_VERSIONS, ASSETS, ASSET_VERSIONS = "components", "component_versions", "assets", "asset_versions"
TABLES = (
    *(JOBS, RUNS, CALLS, BATCHES, TASKS, REQUESTS, ATTEMPTS, PAGES, VERSIONS, SHOTS, PICTURES),
    *(BUILDS, RELEASES),
    *(COMPONENT_JOBS, IMAGE_JOBS, RATIO_JOBS, COMPONENTS, COMPONENT_VERSIONS, ASSETS, ASSET_VERSIONS),
)
CALL_JOBS = (JOBS, COMPONENT_JOBS, IMAGE_JOBS)  # the kinds that carry out calls of agents
QUEUED = (*CALL_JOBS, SHOTS, RATIO_JOBS)  # the kinds that a Backend's own workers have

# (the column that says who, the fence, what a row looks like that somebody works on)
LEASED = {
    **dict.fromkeys((*QUEUED, BUILDS), ("worker_id", "attempt", lambda row: row.status == "running")),
    ATTEMPTS: ("owner", "number", lambda row: row.released_at is None),
    BATCHES: ("worker_id", "lease_generation", lambda row: row.state == "resuming"),
}
ENDS = {"succeeded", "failed", "cancelled", "skipped", "refused", "completed", "busy", "lapsed"}


class Violation(AssertionError):
    """A rule was broken. Its text says which, in words, and by what."""


@dataclass(frozen=True)
class Change:
    """One row that a transaction touched. `old` None: it was inserted."""

    table: str
    id: int
    old: Row | None
    new: Row

    @property
    def changed(self) -> set[str]:
        old = vars(self.old) if self.old is not None else {}
        return {name for name, value in vars(self.new).items() if name not in old or old[name] != value}


@dataclass(frozen=True)
class Gone:
    """One row that a transaction deleted."""

    table: str
    id: int
    old: Row


_CALLED = {
    JOBS: "job",
    RUNS: "run",
    BATCHES: "batch",
    TASKS: "call",
    REQUESTS: "render",
    ATTEMPTS: "render attempt",
    VERSIONS: "page version",
    SHOTS: "screenshot",
    BUILDS: "build",
    COMPONENT_JOBS: "component job",
    IMAGE_JOBS: "picture",
    RATIO_JOBS: "size job",
}


def name_of(table: str, row_id: int) -> str:
    return f"{_CALLED.get(table, table)} {row_id}"


def move_of(change: Change) -> str | None:
    """For the trace: what became of a row, when that is worth a line."""
    if change.table not in _CALLED:
        return None
    state = "state" if hasattr(change.new, "state") else "status"
    was, is_now = getattr(change.old, state, None), getattr(change.new, state)
    fence = LEASED[change.table][1] if change.table in LEASED else None
    if was == is_now and (fence is None or getattr(change.old, fence) == getattr(change.new, fence)):
        return None
    said = (
        f"{_CALLED[change.table]} {change.id}: {is_now}"
        if was is None
        else (f"{_CALLED[change.table]} {change.id}: {was} -> {is_now}")
    )
    return said if fence is None else f"{said}, {fence} {getattr(change.new, fence)}"


def judge_move(change: Change, session: "Session") -> None:
    """What one row may do: an end is an end, and a leased row moves by its holder's hand or when its lease is over."""
    old, new = change.old, change.new
    if old is None:
        return
    state = "state" if hasattr(new, "state") else "status"
    if not hasattr(new, state) or change.table == VERSIONS:
        return
    was, is_now = getattr(old, state), getattr(new, state)
    about = name_of(change.table, change.id)
    retried = change.table in {TASKS, CALLS} and (was, is_now) == ("failed", "pending")
    if was in ENDS and not retried and change.changed - {"last_event_index", "swept_at_ms"}:
        raise Violation(f"{about} had ended as {was}, and {', '.join(sorted(change.changed))} changed after that")
    if change.table in LEASED:
        _judge_leased(change, was, is_now, session)


def _judge_leased(change: Change, was: str, is_now: str, session: "Session") -> None:
    who, fence, active = LEASED[change.table]
    old, new = change.old, change.new
    assert old is not None
    about = name_of(change.table, change.id)
    if getattr(new, fence) < getattr(old, fence):
        raise Violation(f"the fence of {about} went back")
    if active(new) and (not active(old) or getattr(new, fence) != getattr(old, fence)):
        if getattr(new, fence) != getattr(old, fence) + 1:
            raise Violation(f"{about} was claimed without a new fence")
        if new.lease_expires_at <= session.now_ms:
            raise Violation(f"{about} was claimed with a lease that is over")
    if not active(old) or (change.table, change.id) in session.held:
        return
    over = old.lease_expires_at <= session.now_ms
    if active(new) and change.changed <= {"cancel_requested_at"}:
        return
    if change.table in QUEUED and over and new.lease_losses == old.lease_losses + 1:
        return
    if change.table == BUILDS and over and is_now in {"failed", "cancelled"}:
        return  # who lost it is never waited for (B3)
    if change.table == ATTEMPTS and (is_now == "cancelled" or (is_now == "lapsed" and over)):
        return
    if change.table == BATCHES and (is_now == "completed" or (is_now == "resuming" and over)):
        return  # `completed` without its lease: the run was cancelled
    held_by = f"attempt {getattr(old, fence)} by {getattr(old, who)}"
    raise Violation(f"{session.who} took {about} from {was} to {is_now}, and {held_by} still holds it")
