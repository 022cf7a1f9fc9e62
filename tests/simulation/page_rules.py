"""What must be true of page writes at every commit: their jobs and the versions that they save (Q2, Q7, Q9, A2, R9).

`books.py` asks. Rules look at the books' rows and at the leases that the transaction presented, and share no code with
what they judge.
"""

import json
from types import SimpleNamespace as Row
from typing import TYPE_CHECKING, Any

from tests.simulation.moves import (
    CALLS,
    COMPONENT_JOBS,
    COMPONENT_VERSIONS,
    COMPONENTS,
    ENDS,
    IMAGE_JOBS,
    JOBS,
    PAGES,
    RUNS,
    TASKS,
    VERSIONS,
    Change,
    Violation,
    name_of,
)
from tests.simulation.picture_rules import judge_late_picture
from tests.simulation.sources import asked_for, mark_of, nature_of, picture_of, sha256

if TYPE_CHECKING:
    from tests.simulation.books import Books
    from tests.simulation.database import Session


_CONTENT_CODES = {
    "PAGE_VALIDATION_FAILED",
    "PAGE_BASE_STALE",
    "PAGE_CODE_TAKEN",
    "PAGE_NOT_FOUND",
    "PAGE_EDIT_NO_MATCH",
}
_OTHER_CODES = {"JOB_CANCELLED", "JOB_LEASE_LOST", "PERMISSION_REVOKED"}


def judge_job(books: "Books", change: Change, session: "Session") -> None:
    job = change.new
    if job.error_code == "JOB_CRASHED":
        raise Violation(f"job {job.id} met an error that nobody foresaw: {job.error}")
    if change.old is None:
        live = sum(row.finished_at_ms is None for row in books.rows[JOBS].values())
        if live > books.limits.active_jobs:
            raise Violation(f"{live} jobs are live, {books.limits.active_jobs} may be")
    elif change.old.status == "pending" and job.status == "running":
        judge_claim(books, JOBS, change, session)
        for other in books.rows[JOBS].values():
            same = (other.batch_id, other.page_code) == (job.batch_id, job.page_code)
            if same and other.position < job.position and other.finished_at_ms is None:
                raise Violation(f"job {job.id} runs before job {other.id}, an earlier call on the same page")
        for table in (COMPONENT_JOBS, IMAGE_JOBS):
            for other in books.rows[table].values():
                before = other.batch_id == job.batch_id and other.position < job.position
                if before and other.finished_at_ms is None:
                    raise Violation(f"job {job.id} runs before {table} {other.id}, an earlier call of its step")
    elif job.status in ENDS and change.old.status not in ENDS:
        _judge_end(books, job)


def judge_claim(books: "Books", table: str, change: Change, session: "Session") -> None:
    """Nobody claims before the time, or from a paused lane (Q2, Q11)."""
    assert change.old is not None
    if change.old.available_at > session.now_ms:
        raise Violation(f"{name_of(table, change.id)} runs before it may be tried again")
    if books.is_paused(table):
        raise Violation(f"{name_of(table, change.id)} was claimed from a paused lane")


def judge_call_end(books: "Books", table: str, job: Row) -> None:
    """The call of a job that ends is told the same, in the same transaction (A3)."""
    told = [task for task in books.rows[TASKS].values() if (task.job_kind, task.job_id) == (table, job.id)]
    about = f"{name_of(table, job.id)} ends as {job.status}"
    if [task.state for task in told] != [job.status]:
        raise Violation(f"{about}, and its call is told {[task.state for task in told]}")
    call = books.rows[CALLS][job.tool_call_id]
    if call.status != job.status:
        raise Violation(f"{about}, and its call is {call.status}")


def _judge_end(books: "Books", job: Row) -> None:
    """Content or infrastructure, never confused (R9); and its call is told in the same transaction (A3)."""
    books.ends[job.id] = job.error_code or job.status
    written = [version for version in books.rows[VERSIONS].values() if version.job_id == job.id]
    if len(written) != (job.status == "succeeded"):
        raise Violation(f"job {job.id} ends as {job.status} with {len(written)} page versions")
    judge_call_end(books, JOBS, job)
    call = books.rows[CALLS][job.tool_call_id]
    if job.status == "failed":
        _judge_failure(books, job, asked_for(call), json.loads(job.result or "{}"))


def _judge_failure(books: "Books", job: Row, mark: str, result: dict[str, Any]) -> None:
    nature, about = nature_of(mark), f"job {job.id}, a page that is {nature_of(mark)},"
    if job.error_code == "PAGE_VALIDATION_FAILED":
        stage = {"broken": "compile", "ugly": "render"}.get(nature)
        if stage is None:
            raise Violation(f"{about} was refused as content: {job.error}")
        found = result["findings"][0]
        if (found["stage"], found["message"]) != (stage, mark):
            raise Violation(f"{about} was refused for the finding of another page: {found}")
    elif job.error_code not in _CONTENT_CODES | _OTHER_CODES and result.get("status") not in {None, "unavailable"}:
        raise Violation(f"{about} failed as {job.error_code}, and is told {result['status']}")


def judge_version(books: "Books", change: Change, session: "Session") -> None:
    version = change.new
    if change.old is not None:
        judge_late_picture(change)
        return
    of_page = [row for row in books.rows[VERSIONS].values() if row.page_id == version.page_id]
    if sorted(row.number for row in of_page) != list(range(1, len(of_page) + 1)):
        raise Violation(f"page {version.page_id} has the versions {sorted(row.number for row in of_page)}")
    if books.rows[PAGES][version.page_id].deleted_at_ms is not None:
        raise Violation(f"page version {version.id} was saved to a deleted page")
    if books.rows[PAGES][version.page_id].current_version_number != version.number:
        raise Violation(f"page {version.page_id} does not point at its newest version {version.number}")
    if version.job_id is None and session.wire.life is None:
        return  # it was there before the first job
    job = books.rows[JOBS].get(version.job_id)
    if job is None or (JOBS, job.id) not in session.held:
        raise Violation(f"page version {version.id} was written without the lease of its job")
    judge_right(books, job)
    _judge_content(books, job, version)


def judge_right(books: "Books", job: Row) -> None:
    """Nothing is saved after a revocation or a cancel (A6, Q7)."""
    may = books.raw.execute(
        "SELECT 1 FROM members m JOIN users u ON u.id = m.user_id WHERE m.workspace_id = ? AND m.user_id = ?"
        " AND m.role IN ('owner', 'editor') AND u.disabled_at_ms IS NULL",
        (job.workspace_id, job.user_id),
    ).fetchone()
    if may is None:
        raise Violation(f"job {job.id} saved something although its user may not write any more")
    run = books.rows[RUNS][job.run_id]
    if run.status in ENDS or job.cancel_requested_at is not None:
        raise Violation(f"job {job.id} saved something although its run was stopped")


def _judge_content(books: "Books", job: Row, version: Row) -> None:
    mark = asked_for(books.rows[CALLS][job.tool_call_id])
    if mark_of(version.source) != mark:
        raise Violation(f"job {job.id} saved {mark_of(version.source)} and was asked for {mark}")
    unseen = bool(books.rows[RUNS][job.run_id].skip_visual_verification)
    fits = {"good": {"passed"}, "warned": {"warning"}}.get(nature_of(mark), set())
    if unseen and nature_of(mark) != "broken":
        fits = fits | {"unavailable"}
    if version.status not in fits:
        raise Violation(f"job {job.id} saved {mark} as {version.status}")
    for name, pinned in json.loads(version.component_pins).items():
        component = books.rows[COMPONENT_VERSIONS].get(pinned)
        if component is None or books.rows[COMPONENTS][component.component_id].name != name:
            raise Violation(f"job {job.id} pins {name} to version {pinned}, which is none of it")
    if version.picture_key is not None and sha256(picture_of(mark)) not in version.picture_key:
        raise Violation(f"job {job.id} saved {mark} with the picture of another page")
