"""What must be true of screenshots and pictures at every commit (S1, S2, S5). `books.py` asks them.

They look at the books' rows and at the leases that the transaction presented, and share no code with what they judge.
"""

from typing import TYPE_CHECKING

from tests.simulation.moves import ENDS, PAGES, PICTURES, SHOTS, VERSIONS, Change, Violation
from tests.simulation.sources import mark_of, picture_of, sha256

if TYPE_CHECKING:
    from tests.simulation.books import Books
    from tests.simulation.database import Session


def judge_shot(books: "Books", change: Change) -> None:
    """One live job of each screenshot (S1); one that was overtaken says so (S2)."""
    job = change.new
    if job.error_code == "JOB_CRASHED":
        raise Violation(f"screenshot {job.id} met an error that nobody foresaw: {job.error}")
    twins = [row for row in books.rows[SHOTS].values() if row.capture_key == job.capture_key]
    if sum(row.finished_at_ms is None for row in twins) > 1:
        raise Violation(f"screenshot {job.id} is being taken twice")
    if job.status in ENDS and (job.status == "skipped") != (job.error_code == "PAGE_SCREENSHOT_JOB_STALE"):
        raise Violation(f"screenshot {job.id} is {job.status}, with the code {job.error_code}")
    made = any(row.capture_key == job.capture_key for row in books.rows[PICTURES].values())
    if job.status == "succeeded" and not made:
        raise Violation(f"screenshot {job.id} succeeded without a picture")


def judge_picture(books: "Books", change: Change, session: "Session") -> None:
    """A picture is published by a job that is held, once, and shows the page that it says (S5)."""
    picture = change.new
    if change.old is not None:
        raise Violation(f"picture {picture.id} was changed")
    if (picture.job_kind, picture.job_id) not in session.held:
        raise Violation(f"picture {picture.id} was published without the lease of its job")
    page = books.rows[PAGES][picture.page_id]
    if page.current_version_number != picture.page_version or page.deleted_at_ms is not None:
        raise Violation(f"picture {picture.id} was published of version {picture.page_version}, which is old")
    of_page = [row for row in books.rows[VERSIONS].values() if row.page_id == picture.page_id]
    (shown,) = [row for row in of_page if row.number == picture.page_version]
    if sha256(picture_of(mark_of(shown.source))) != picture.sha256:
        raise Violation(f"picture {picture.id} shows another page than {mark_of(shown.source)}")


def judge_late_picture(change: Change) -> None:
    """A version never changes, but for a picture that was pending when it was saved (S3)."""
    assert change.old is not None
    if change.changed != {"picture_key"} or change.old.picture_key is not None:
        raise Violation(f"page version {change.id} was changed")
