"""What must be true of components, pictures and sizes of files at every commit (A1-A3, D4, Q1, Q7, R9, V9).

`books.py` asks. Rules look at the books' rows, at the played provider and object store, and at the leases that the
transaction presented, and share no code with what they judge.
"""

import json
from types import SimpleNamespace as Row
from typing import TYPE_CHECKING

from tests.simulation.maker_edges import png_of, size_of
from tests.simulation.moves import (
    ASSET_VERSIONS,
    ASSETS,
    CALLS,
    COMPONENT_JOBS,
    COMPONENT_VERSIONS,
    COMPONENTS,
    ENDS,
    IMAGE_JOBS,
    RATIO_JOBS,
    Change,
    Violation,
)
from tests.simulation.page_rules import judge_call_end, judge_claim, judge_right
from tests.simulation.sources import asked_for, mark_of, nature_of, sha256

if TYPE_CHECKING:
    from tests.simulation.books import Books
    from tests.simulation.database import Session


def judge_component_job(books: "Books", change: Change, session: "Session") -> None:
    """Calls of a step in their order, one version a job, content never confused with infrastructure."""
    job, old = change.new, change.old
    _judge_common(books, COMPONENT_JOBS, change, session)
    if old is not None and old.status == "pending" and job.status == "running":
        for other in books.rows[COMPONENT_JOBS].values():
            if other.batch_id == job.batch_id and other.position < job.position and other.finished_at_ms is None:
                raise Violation(f"component job {job.id} runs before job {other.id}, an earlier call of its step")
    if old is None or job.status not in ENDS or old.status in ENDS:
        return
    made = [row for row in books.rows[COMPONENT_VERSIONS].values() if row.job_id == job.id]
    if len(made) != (job.status == "succeeded"):
        raise Violation(f"component job {job.id} ends as {job.status} with {len(made)} versions")
    mark = asked_for(books.rows[CALLS][job.tool_call_id])
    if job.error_code == "COMPONENT_VALIDATION_FAILED":
        found = json.loads(job.result)["findings"][0]["message"]
        if nature_of(mark) != "broken" or found != mark:
            raise Violation(f"component job {job.id} of {mark} was refused for {found}")
    elif job.error_code is not None and job.error_code.startswith("RUNTIME_"):
        status = json.loads(job.result or "{}").get("status")
        if status not in {None, "unavailable"}:
            raise Violation(f"component job {job.id} failed as {job.error_code}, and is told {status}")


def judge_component_version(books: "Books", change: Change, session: "Session") -> None:
    """Written once, by who holds its job, without gaps; what pages pinned stays what it was (D2, D4)."""
    version = change.new
    if change.old is not None:
        raise Violation(f"component version {version.id} was changed")
    of_component = sorted(
        row.number for row in books.rows[COMPONENT_VERSIONS].values() if row.component_id == version.component_id
    )
    if of_component != list(range(1, len(of_component) + 1)):
        raise Violation(f"component {version.component_id} has the versions {of_component}")
    if books.rows[COMPONENTS][version.component_id].current_version_number != version.number:
        raise Violation(f"component {version.component_id} does not point at its newest version {version.number}")
    if version.job_id is None and session.wire.life is None:
        return  # put by hand
    job = books.rows[COMPONENT_JOBS].get(version.job_id)
    if job is None or (COMPONENT_JOBS, job.id) not in session.held:
        raise Violation(f"component version {version.id} was written without the lease of its job")
    judge_right(books, job)
    mark = asked_for(books.rows[CALLS][job.tool_call_id])
    if mark_of(version.source) != mark or nature_of(mark) == "broken":
        raise Violation(f"component job {job.id} saved {mark_of(version.source)} and was asked for {mark}")
    _judge_base(books, job, version)
    if version.contract is None:
        raise Violation(f"component version {version.id} was saved without the contract that its check found")


def _judge_base(books: "Books", job: Row, version: Row) -> None:
    """It follows the version that its call names, or one that an earlier call of its step wrote; a new one is new."""
    arguments = json.loads(books.rows[CALLS][job.tool_call_id].arguments)
    wanted = arguments.get("base_version", 0)
    place = (version.component_id, version.number - 1)
    before = [row for row in books.rows[COMPONENT_VERSIONS].values() if (row.component_id, row.number) == place]
    of_step = [row for row in books.rows[COMPONENT_JOBS].values() if row.batch_id == job.batch_id]
    if version.number - 1 != wanted and not any(row.job_id in {one.id for one in of_step} for row in before):
        raise Violation(f"component job {job.id} follows version {version.number - 1}, and was to follow {wanted}")


def judge_image_job(books: "Books", change: Change, session: "Session") -> None:
    """A picture that succeeded is a file of the project, charged once; one that failed is told why."""
    job, old = change.new, change.old
    _judge_common(books, IMAGE_JOBS, change, session)
    if old is None or job.status not in ENDS or old.status in ENDS:
        return
    if job.status != "succeeded":
        return
    judge_right(books, job)
    told = json.loads(job.result)
    named, saved = (job.project_id, told["asset_name"]), books.rows[ASSET_VERSIONS].values()
    ids = [row.id for row in books.rows[ASSETS].values() if (row.project_id, row.name) == named]
    versions = [row for row in saved if [row.asset_id] == ids and row.number == told["version"]]
    if not versions:
        raise Violation(f"picture {job.id} succeeded without its file {told['asset_name']}")
    content = books.objects.get(versions[0].object_key, (b"", 0.0))[0]
    if sha256(content) != versions[0].sha256:
        raise Violation(f"the file of picture {job.id} is not in the object store")
    if content not in {png_of(key) for key in books.charges}:
        raise Violation(f"the file of picture {job.id} is none that was ever charged")


def judge_asset_version(books: "Books", change: Change, session: "Session") -> None:
    """A file's bytes never change; what it measures is written once, by who holds the job of that version (V9)."""
    version, old = change.new, change.old
    if old is None:
        return
    if changed := change.changed - {"width_px", "height_px", "ratio", "unmeasured", "measure_at_ms", "measure_jobs"}:
        raise Violation(f"of file version {version.id} changed: {', '.join(sorted(changed))}")
    known = old.ratio is not None or old.unmeasured is not None
    if known and (old.ratio, old.unmeasured) != (version.ratio, version.unmeasured):
        raise Violation(f"file version {version.id} was measured twice")
    if (version.ratio, version.unmeasured) == (old.ratio, old.unmeasured):
        return
    asset = books.rows[ASSETS][version.asset_id]
    jobs = [books.rows[RATIO_JOBS][row_id] for table, row_id in session.held if table == RATIO_JOBS]
    if not any((job.asset_id, job.asset_version) == (version.asset_id, version.number) for job in jobs):
        raise Violation(f"file version {version.id} was measured without the lease of its job")
    if asset.current_version_number != version.number or asset.deleted_at_ms is not None:
        raise Violation(f"file version {version.id} was measured late: it was replaced or deleted")
    size = size_of(books.objects.get(version.object_key, (b"broken", 0.0))[0])
    if (version.width_px, version.height_px) != (size or (None, None)):
        raise Violation(f"file version {version.id} measures {size}, and was written as {version.width_px}")


def judge_ratio_job(books: "Books", change: Change, session: "Session") -> None:
    """One live job of a file; a late one says so; a fault of a file is told only of a file that has one."""
    job, old = change.new, change.old
    if job.error_code == "JOB_CRASHED":
        raise Violation(f"size job {job.id} met an error that nobody foresaw: {job.error}")
    if old is not None and old.status == "pending" and job.status == "running":
        judge_claim(books, RATIO_JOBS, change, session)
    of_file = [row for row in books.rows[RATIO_JOBS].values() if row.asset_id == job.asset_id]
    twins = [row for row in of_file if row.finished_at_ms is None]
    if len(twins) > 1:
        raise Violation(f"file {job.asset_id} is being measured twice")
    if job.status not in ENDS or old is None or old.status in ENDS:
        return
    books.ends_of_makers[RATIO_JOBS, job.id] = job.error_code or job.status
    if (job.status == "skipped") != (job.error_code == "ASSET_RATIO_JOB_STALE"):
        raise Violation(f"size job {job.id} is {job.status}, with the code {job.error_code}")
    wanted = (job.asset_id, job.asset_version)
    (version,) = [row for row in books.rows[ASSET_VERSIONS].values() if (row.asset_id, row.number) == wanted]
    if job.status == "succeeded" and version.ratio is None:
        raise Violation(f"size job {job.id} succeeded, and nothing was measured")
    if job.error_code == "ASSET_UNREADABLE" and size_of(books.objects[version.object_key][0]) is not None:
        raise Violation(f"size job {job.id} says of a good file that it is broken")


def _judge_common(books: "Books", table: str, change: Change, session: "Session") -> None:
    """What holds for every job of a call."""
    job, old = change.new, change.old
    if job.error_code == "JOB_CRASHED":
        raise Violation(f"{table} {job.id} met an error that nobody foresaw: {job.error}")
    if old is None:
        live = sum(row.finished_at_ms is None for row in books.rows[table].values())
        if live > books.limits.active_jobs:
            raise Violation(f"{live} jobs of {table} are live, {books.limits.active_jobs} may be")
    elif old.status == "pending" and job.status == "running":
        judge_claim(books, table, change, session)
    elif job.status in ENDS and old.status not in ENDS:
        books.ends_of_makers[table, job.id] = job.error_code or job.status
        judge_call_end(books, table, job)
