"""What must be true of builds and releases at every commit, and of the object store at each deletion (B1-B3, B5, Q2).

`books.py` asks. Rules look at the books' rows, at the played object store and at the leases that the transaction
presented, and share no code with what they judge.
"""

import json
from types import SimpleNamespace as Row
from typing import TYPE_CHECKING

from tests.simulation.builders import contents_of
from tests.simulation.moves import BUILDS, ENDS, PAGES, RELEASES, VERSIONS, Change, Violation
from tests.simulation.sources import mark_of, nature_of, sha256

if TYPE_CHECKING:
    from tests.simulation.books import Books
    from tests.simulation.database import Session

_FIXED = {"snapshot", "routes", "project_id", "workspace_id", "user_id", "deadline_at", "created_at_ms", "retry_of"}
_INFRASTRUCTURE = {
    "PROJECT_BUILD_RUNTIME_UNAVAILABLE",
    "PROJECT_BUILD_UPLOAD_FAILED",
    "PROJECT_BUILD_ARTIFACT_TOO_LARGE",
    "PROJECT_BUILD_DEADLINE_EXCEEDED",
    "PROJECT_BUILD_INTERRUPTED",
}


def judge_build(books: "Books", change: Change, session: "Session") -> None:
    """Fixed when it was asked for, made by one attempt at most (B3), and ended as what befell it."""
    job, old = change.new, change.old
    if old is None:
        if job.retry_of is None:
            _judge_snapshot(books, job)
        return
    if changed := change.changed & _FIXED:
        raise Violation(f"of build {job.id} changed after it was asked for: {', '.join(sorted(changed))}")
    if old.status == "pending" and job.status == "running":
        if old.available_at > session.now_ms:
            raise Violation(f"build {job.id} runs before it may")
        if books.is_paused(BUILDS):
            raise Violation(f"build {job.id} was claimed from a paused lane")
    if job.status == "running" and job.heartbeat_at != old.heartbeat_at and job.deadline_at <= session.now_ms:
        raise Violation(f"build {job.id} goes on after its deadline")
    if job.status in ENDS and old.status not in ENDS:
        _judge_end(books, job, old)
        if job.worker_id == "deadline" and job.deadline_at > session.now_ms:
            raise Violation(f"build {job.id} was given up before its deadline")


def _judge_snapshot(books: "Books", job: Row) -> None:
    """It names what was there when it was asked for: every page that is not deleted, in its newest version (B1)."""
    named = [number for page in _snapshot(job)["pages"] for _, number in page["modules"].values()]
    pages = [
        page for page in books.rows[PAGES].values() if page.project_id == job.project_id and not page.deleted_at_ms
    ]
    current = [
        version.id
        for version in books.rows[VERSIONS].values()
        if any((page.id, page.current_version_number) == (version.page_id, version.number) for page in pages)
    ]
    if sorted(named) != sorted(current):
        raise Violation(f"build {job.id} fixes the versions {sorted(named)}, and {sorted(current)} are there")


def _judge_end(books: "Books", job: Row, old: Row) -> None:
    books.ends_of_builds[job.id] = job.error_code or job.status
    made = [release for release in books.rows[RELEASES].values() if release.job_id == job.id]
    if len(made) != (job.status == "succeeded"):
        raise Violation(f"build {job.id} ends as {job.status} with {len(made)} releases")
    broken = any(nature == "broken" for nature in natures(books, job))
    if job.status == "succeeded":
        if broken:
            raise Violation(f"build {job.id} succeeded with a page that is broken")
        if old.cancel_requested_at is not None:
            raise Violation(f"build {job.id} was asked to stop, and made a release")
    elif job.status == "failed":
        if job.error_code == "PROJECT_BUILD_INTERRUPTED" and old.cancel_requested_at is not None:
            raise Violation(f"build {job.id} was asked to stop, and is told that its Runtime went away")
        if job.error_code == "PROJECT_BUILD_SOURCE_ERROR" and not broken:
            raise Violation(f"build {job.id} of good pages failed for its sources: {job.error}")
        if job.error_code not in _INFRASTRUCTURE | {"PROJECT_BUILD_SOURCE_ERROR"}:
            raise Violation(f"build {job.id} failed as {job.error_code}")
    elif job.status != "cancelled" or (old.cancel_requested_at is None and old.status != "pending"):
        raise Violation(f"build {job.id} is {job.status}, and nobody asked for that")


def judge_release(books: "Books", change: Change, session: "Session") -> None:
    """A release is made once, by the attempt that holds its job, of what the snapshot fixed (B2, B5)."""
    release = change.new
    if change.old is not None:
        raise Violation(f"release {release.id} was changed")
    of_project = sorted(row.number for row in books.rows[RELEASES].values() if row.project_id == release.project_id)
    if of_project != list(range(1, len(of_project) + 1)):
        raise Violation(f"project {release.project_id} has the releases {of_project}")
    job = books.rows[BUILDS][release.job_id]
    if job.status != "succeeded" or json.loads(job.result)["release"] != release.number:
        raise Violation(f"release {release.number} is of build {job.id}, which is {job.status}: {job.result}")
    held = session.held.get((BUILDS, job.id))
    if held is None or held.fence != job.attempt:
        raise Violation(f"release {release.number} was made without the lease of build {job.id}")
    if release.project_id != job.project_id:
        raise Violation(f"release {release.id} is of another project than its build")
    _judge_files(books, release, job)


def _judge_files(books: "Books", release: Row, job: Row) -> None:
    """All of it is in the object store, and it is the site of the pages that the snapshot fixed."""
    pages = [(page["code"], mark_of(_source(books, page))) for page in _snapshot(job)["pages"]]
    wanted = {path: sha256(content) for path, content in contents_of(pages).items()}
    files = {path: digest for path, (digest, _) in json.loads(release.files).items()}
    if files != wanted:
        raise Violation(f"release {release.number} of build {job.id} is not the site of {pages}")
    for key, digest in objects_of(release).items():
        content = books.objects.get(key)
        if content is None:
            raise Violation(f"release {release.number} of project {release.project_id} has no {key}")
        if sha256(content[0]) != digest:
            raise Violation(f"release {release.number} of project {release.project_id} has another {key}")
        books.released[key] = digest


def judge_lost_object(books: "Books", key: str) -> None:
    """What a release is made of stays for ever."""
    if key in books.released:
        raise Violation(f"{key} was deleted, and it is of a release")


def objects_of(release: Row) -> dict[str, str]:
    """key -> digest of all that a release is made of."""
    beside = release.object_key.rpartition("/")[0]
    files = {digest for digest, _ in json.loads(release.files).values()}
    return {release.object_key: release.sha256, **{f"{beside}/files/{digest}": digest for digest in files}}


def natures(books: "Books", job: Row) -> list[str]:
    """What is to be found in each page of a build."""
    return [nature_of(_source(books, page)) for page in _snapshot(job)["pages"]]


def left_behind(books: "Books") -> list[str]:
    """Objects of builds that no release is made of."""
    return [key for key in books.objects if key.startswith("builds/") and key not in books.released]


def _snapshot(job: Row) -> dict[str, list[dict[str, dict[str, tuple[str, int]]]]]:
    return json.loads(job.snapshot)  # type: ignore[no-any-return]


def _source(books: "Books", page: dict[str, dict[str, tuple[str, int]]]) -> str:
    (number,) = [number for path, (_, number) in page["modules"].items() if path == page["entry"]]
    return str(books.rows[VERSIONS][number].source)
