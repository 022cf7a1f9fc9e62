"""What must be true of the database, whatever happens: checked at every commit, from what the commit changes.

Owns the books: every row as it was after the last commit. A trigger on each table writes down what a transaction
touches, so a commit is judged by its few changes, inside of it and just before it is made. The rules look at rows, at
the clock and at which leases the transaction presented; they share no code with the statements that they judge.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace as Row
from typing import Any

from pagegate.storage.lease import Lease
from pagegate.storage.pruning import Retention
from tests.simulation.database import Server, Session
from tests.simulation.edges import mark_of, nature_of, picture_of, sha256
from tests.simulation.moves import (
    ATTEMPTS,
    BATCHES,
    CALLS,
    ENDS,
    JOBS,
    LEASED,
    PAGES,
    PICTURES,
    REQUESTS,
    RUNS,
    SHOTS,
    TABLES,
    TASKS,
    VERSIONS,
    Change,
    Gone,
    Violation,
    judge_move,
    move_of,
    name_of,
)
from tests.simulation.picture_rules import judge_late_picture, judge_picture, judge_shot
from tests.simulation.virtual_loop import EPOCH_MS

_CONTENT_CODES = {
    "PAGE_VALIDATION_FAILED",
    "PAGE_BASE_STALE",
    "PAGE_CODE_TAKEN",
    "PAGE_NOT_FOUND",
    "PAGE_EDIT_NO_MATCH",
}
_OTHER_CODES = {"JOB_CANCELLED", "JOB_LEASE_LOST", "PERMISSION_REVOKED"}


@dataclass(frozen=True)
class Limits:
    """What the world was set up with."""

    renders: int
    workspace_renders: int
    render_attempts: int
    waiting_renders: int
    waiting_renders_of_workspace: int
    active_jobs: int


class Books:
    """See the module. One for each simulation."""

    def __init__(self, server: Server, limits: Limits, retention: Retention | None = None) -> None:
        self._server, self._limits, self._retention = server, limits, retention
        self.rows: dict[str, dict[int, Row]] = {table: {} for table in TABLES}
        self.ends: dict[int, str] = {}  # of each job: its error code, or how it ended without one
        self.pruned_runs: set[int] = set()
        self.photographed = False  # there is a lane of screenshots
        self.commits = 0
        self.broken_by: BaseException | None = None
        raw = server.writer.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        self._raw = raw
        self._columns = {table: [row[1] for row in raw.execute(f"PRAGMA table_info({table})")] for table in TABLES}
        raw.execute("CREATE TEMP TABLE touched (name TEXT, id INTEGER, PRIMARY KEY (name, id)) WITHOUT ROWID")
        for table in TABLES:
            for what in ("INSERT", "UPDATE", "DELETE"):
                row = "OLD" if what == "DELETE" else "NEW"
                raw.execute(
                    f"CREATE TEMP TRIGGER touch_{what}_{table} AFTER {what} ON main.{table} "
                    f"BEGIN INSERT OR IGNORE INTO touched VALUES ('{table}', {row}.id); END"
                )

    # -- called by the server -------------------------------------------------------------------------------------

    def presented(self, session: Session, lease: Lease) -> None:
        """A process acts under a lease, in this moment. Whether the row says so too, is asked here and now."""
        who, fence, active = LEASED[lease.table]
        row = self._read(session.raw, lease.table, lease.id)
        mine = row is not None and (getattr(row, who), getattr(row, fence)) == (lease.worker_id, lease.fence)
        if mine and active(row) and row.lease_expires_at > self._now_ms:
            session.held[lease.table, lease.id] = lease
        elif (lease.table, lease.id) not in session.held:
            session.stale.append(lease)

    def _holder_of(self, table: str, row_id: int) -> str:
        """For a violation: who held a row after the last commit, and until when."""
        row = self.rows[table].get(row_id)
        if row is None:
            return "it is gone"
        who, fence, active = LEASED[table]
        if not active(row):
            return "nobody holds it"
        until_s = (row.lease_expires_at - EPOCH_MS - self._server.clock.skew_ms) / 1000
        return f"attempt {getattr(row, fence)} by {getattr(row, who)}, until {until_s:.3f}"

    def committing(self, session: Session) -> None:
        if self.broken_by is not None or not session.writes:
            return
        touched = list(self._changes())
        if session.stale:
            for said in filter(None, (move_of(one) for one in touched if isinstance(one, Change))):
                self._server.note(session.who, said)
            lease = session.stale[0]
            raise Violation(
                f"{session.who} committed as attempt {lease.fence} of {name_of(lease.table, lease.id)}, and does not"
                f" hold it: {self._holder_of(lease.table, lease.id)}"
            )
        session.touched = {one.table for one in touched}
        gone = [one for one in touched if isinstance(one, Gone)]
        for lost in gone:
            self._judge_deletion(lost)
        for lost in gone:
            del self.rows[lost.table][lost.id]
        changes = [one for one in touched if isinstance(one, Change)]
        for change in changes:
            if said := move_of(change):
                self._server.note(session.who, said)
        for change in changes:
            self.rows[change.table][change.id] = change.new
        for change in changes:
            judge_move(change, session)
        self._judge_all(changes, session)
        self.commits += 1

    def broken(self, error: BaseException) -> None:
        if self.broken_by is None:
            self.broken_by = error

    # -- rules over several rows ----------------------------------------------------------------------------------

    def _judge_all(self, changes: list[Change], session: Session) -> None:
        tables = {change.table for change in changes}
        if {ATTEMPTS, REQUESTS} & tables:
            self._judge_slots()
        if {JOBS, SHOTS, REQUESTS} & tables:
            self._judge_wanted()
        for change in changes:
            match change.table:
                case "ai_page_mutation_jobs":
                    self._judge_job(change, session)
                case "page_versions":
                    self._judge_version(change, session)
                case "render_requests":
                    self._judge_render(change, session)
                case "ai_agent_runs":
                    self._judge_run(change, session)
                case "ai_agent_external_tasks":
                    self._judge_task(change)
                case "page_screenshot_jobs":
                    judge_shot(self, change)
                case "page_screenshot_artifacts":
                    judge_picture(self, change, session)

    def _judge_deletion(self, lost: Gone) -> None:
        """Only what has ended, and long enough ago, and was told to whoever waits for it (Q11)."""
        old, about = lost.old, f"{lost.table} {lost.id}"
        if self._retention is None or lost.table in {PAGES, VERSIONS, PICTURES}:
            raise Violation(f"{about} was deleted")
        state = getattr(old, "state", None) or old.status
        if lost.table not in {CALLS, ATTEMPTS} and state not in ENDS:
            raise Violation(f"{about} was deleted while it was {state}")
        if lost.table in {JOBS, SHOTS, RUNS}:
            kept = self._retention
            kept_ms = {"succeeded": kept.succeeded_ms, "failed": kept.failed_ms}.get(state, kept.cancelled_ms)
            if self._now_ms - old.finished_at_ms < kept_ms:
                raise Violation(f"{about}, {state}, was deleted {self._now_ms - old.finished_at_ms} ms after its end")
        if lost.table == RUNS:
            self.pruned_runs.add(lost.id)

    def _judge_slots(self) -> None:
        unreleased = [row for row in self.rows[ATTEMPTS].values() if row.released_at is None]
        if len(unreleased) > self._limits.renders:
            raise Violation(f"{len(unreleased)} renders hold a slot, {self._limits.renders} may")
        workspaces, workers = defaultdict[int, int](int), defaultdict[str, int](int)
        for attempt in unreleased:
            request = self.rows[REQUESTS][attempt.request_id]
            workspaces[request.workspace_id] += 1
            workers[attempt.worker_id] += 1
            if request.status != "running" or request.attempt != attempt.number:
                raise Violation(f"render attempt {attempt.id} holds a slot for a request that is {request.status}")
        if max(workspaces.values(), default=0) > self._limits.workspace_renders:
            raise Violation(f"a workspace holds {max(workspaces.values())} slots, {self._limits.workspace_renders} may")
        if max(workers.values(), default=0) > 1:
            raise Violation("a Renderer was given two attempts at once")
        running = sum(row.status == "running" for row in self.rows[REQUESTS].values())
        if running != len(unreleased):
            raise Violation(f"{running} render requests run, {len(unreleased)} attempts hold a slot")

    def _judge_wanted(self) -> None:
        """A render that is live is one that an attempt at work waits for: others were cancelled with theirs (Q5)."""
        for request in self.rows[REQUESTS].values():
            if request.finished_at_ms is not None:
                continue
            job = self.rows[request.job_kind][request.job_id]
            if job.status != "running" or job.attempt != request.job_attempt:
                raise Violation(f"render request {request.id} goes on for an attempt of job {job.id} that is over")

    def _judge_render(self, change: Change, session: Session) -> None:
        request, old = change.new, change.old
        if old is None:
            held = session.held.get((request.job_kind, request.job_id))
            if held is None or held.fence != request.job_attempt:
                raise Violation(f"render request {request.id} was made without the lease of its job")
            waiting = [row for row in self.rows[REQUESTS].values() if row.status == "pending"]
            here = sum(row.workspace_id == request.workspace_id for row in waiting)
            if len(waiting) > self._limits.waiting_renders or here > self._limits.waiting_renders_of_workspace:
                raise Violation(f"{len(waiting)} renders wait, {here} of them in one workspace")
        elif old.status == "pending" and request.status == "running":
            if old.available_at > session.now_ms:
                raise Violation(f"render request {request.id} runs before it may be tried again")
            if request.attempt - request.busy_returns > self._limits.render_attempts:
                raise Violation(f"render request {request.id} is tried for the {request.attempt}th time")
        elif request.status == "succeeded" and old.status != "succeeded":
            self._judge_result(request)

    def _judge_result(self, request: Row) -> None:
        """What a render found is about the page that its job had compiled."""
        if request.job_kind == SHOTS:
            return  # it found nothing; whose picture it is, is asked when it is published
        mark = _asked_for(self.rows[CALLS][self.rows[JOBS][request.job_id].tool_call_id])
        diagnosis = json.loads(request.result)["diagnosis"]
        if (
            diagnosis is None
            or {"good": "passed", "warned": "warning"}.get(nature_of(mark), "failed") != (diagnosis["status"])
        ):
            raise Violation(f"render request {request.id} of {mark} ends with the finding {diagnosis}")

    def _judge_job(self, change: Change, session: Session) -> None:
        job = change.new
        if job.error_code == "JOB_CRASHED":
            raise Violation(f"job {job.id} met an error that nobody foresaw: {job.error}")
        if change.old is None:
            live = sum(row.finished_at_ms is None for row in self.rows[JOBS].values())
            if live > self._limits.active_jobs:
                raise Violation(f"{live} jobs are live, {self._limits.active_jobs} may be")
        elif change.old.status == "pending" and job.status == "running":
            if change.old.available_at > session.now_ms:
                raise Violation(f"job {job.id} runs before it may be tried again")
            if self._raw.execute("SELECT 1 FROM lanes WHERE paused_at_ms IS NOT NULL").fetchone() is not None:
                raise Violation(f"job {job.id} was claimed from a paused lane")
            for other in self.rows[JOBS].values():
                same = (other.batch_id, other.page_code) == (job.batch_id, job.page_code)
                if same and other.position < job.position and other.finished_at_ms is None:
                    raise Violation(f"job {job.id} runs before job {other.id}, an earlier call on the same page")
        elif job.status in ENDS and change.old.status not in ENDS:
            self._judge_end(job)

    def _judge_end(self, job: Row) -> None:
        """Content or infrastructure, never confused (R9); and its call is told in the same transaction (A3)."""
        self.ends[job.id] = job.error_code or job.status
        written = [version for version in self.rows[VERSIONS].values() if version.job_id == job.id]
        if len(written) != (job.status == "succeeded"):
            raise Violation(f"job {job.id} ends as {job.status} with {len(written)} page versions")
        told = [task for task in self.rows[TASKS].values() if task.job_id == job.id]
        if [task.state for task in told] != [job.status]:
            raise Violation(f"job {job.id} ends as {job.status}, and its call is told {[task.state for task in told]}")
        call = self.rows[CALLS][job.tool_call_id]
        if call.status != job.status:
            raise Violation(f"job {job.id} ends as {job.status}, and its call is {call.status}")
        if job.status == "failed":
            self._judge_failure(job, _asked_for(call), json.loads(job.result or "{}"))

    def _judge_failure(self, job: Row, mark: str, result: dict[str, Any]) -> None:
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

    def _judge_version(self, change: Change, session: Session) -> None:
        version = change.new
        if change.old is not None:
            judge_late_picture(change)
            return
        of_page = [row for row in self.rows[VERSIONS].values() if row.page_id == version.page_id]
        if sorted(row.number for row in of_page) != list(range(1, len(of_page) + 1)):
            raise Violation(f"page {version.page_id} has the versions {sorted(row.number for row in of_page)}")
        if self.rows[PAGES][version.page_id].deleted_at_ms is not None:
            raise Violation(f"page version {version.id} was saved to a deleted page")
        if self.rows[PAGES][version.page_id].current_version_number != version.number:
            raise Violation(f"page {version.page_id} does not point at its newest version {version.number}")
        if version.job_id is None and session.wire.life is None:
            return  # it was there before the first job
        job = self.rows[JOBS].get(version.job_id)
        if job is None or (JOBS, job.id) not in session.held:
            raise Violation(f"page version {version.id} was written without the lease of its job")
        self._judge_right(job)
        self._judge_content(job, version)

    def _judge_right(self, job: Row) -> None:
        """Nothing is saved after a revocation or a cancel (A6, Q7)."""
        may = self._raw.execute(
            "SELECT 1 FROM members m JOIN users u ON u.id = m.user_id WHERE m.workspace_id = ? AND m.user_id = ?"
            " AND m.role IN ('owner', 'editor') AND u.disabled_at_ms IS NULL",
            (job.workspace_id, job.user_id),
        ).fetchone()
        if may is None:
            raise Violation(f"job {job.id} saved a page although its user may not write any more")
        run = self.rows[RUNS][job.run_id]
        if run.status in ENDS or job.cancel_requested_at is not None:
            raise Violation(f"job {job.id} saved a page although its run was stopped")

    def _judge_content(self, job: Row, version: Row) -> None:
        mark = _asked_for(self.rows[CALLS][job.tool_call_id])
        if mark_of(version.source) != mark:
            raise Violation(f"job {job.id} saved {mark_of(version.source)} and was asked for {mark}")
        unseen = bool(self.rows[RUNS][job.run_id].skip_visual_verification)
        fits = {"good": {"passed"}, "warned": {"warning"}}.get(nature_of(mark), set())
        if unseen and nature_of(mark) != "broken":
            fits = fits | {"unavailable"}
        if version.status not in fits:
            raise Violation(f"job {job.id} saved {mark} as {version.status}")
        if version.picture_key is not None and sha256(picture_of(mark)) not in version.picture_key:
            raise Violation(f"job {job.id} saved {mark} with the picture of another page")

    def _judge_task(self, change: Change) -> None:
        task, old = change.new, change.old
        if old is not None and old.state in ENDS and task.state in ENDS:
            raise Violation(f"call {task.tool_call_id} was told {old.state}, and then {task.state}")
        if old is not None and old.state in ENDS and task.state not in ENDS:
            batch = self.rows[BATCHES][task.batch_id]
            if batch.state != "waiting" or self.rows[RUNS][batch.run_id].status in ENDS:
                raise Violation(f"call {task.tool_call_id} is open again, and its batch is {batch.state}")
        if task.state in ENDS and task.job_id is not None and self.rows[JOBS][task.job_id].status != task.state:
            raise Violation(f"call {task.tool_call_id} is told {task.state} of job {task.job_id}, which is not")

    def _judge_run(self, change: Change, session: Session) -> None:
        run, old = change.new, change.old
        if old is None or run.last_event_index > old.last_event_index:
            self._judge_events(run, 0 if old is None else old.last_event_index, session)
        count, last = self._raw.execute(
            "SELECT count(*), max(event_index) FROM ai_agent_run_events WHERE run_id = ?", (run.id,)
        ).fetchone()
        if not count == (last or 0) == run.last_event_index:
            raise Violation(f"run {run.id} counts {run.last_event_index} events and has {count}, up to {last}")
        if run.status != "succeeded" or (old is not None and old.status == "succeeded"):
            return
        batches = [row for row in self.rows[BATCHES].values() if row.run_id == run.id]
        if any((BATCHES, row.id) not in session.held for row in batches if row.run_step == run.run_step):
            raise Violation(f"run {run.id} was resumed without the lease of its batch")
        told = [task for task in self.rows[TASKS].values() if task.batch_id in {row.id for row in batches}]
        if any(task.state not in ENDS for task in told):
            raise Violation(f"run {run.id} ended before all of its calls had")
        if json.loads(run.result)["all_saved"] != all(task.state == "succeeded" for task in told):
            raise Violation(f"run {run.id} says of its calls what is not true")

    def _judge_events(self, run: Row, after: int, session: Session) -> None:
        """What a run is told of a job comes from who works on it, and its end is told once."""
        news = self._raw.execute(
            "SELECT kind, data FROM ai_agent_run_events WHERE run_id = ? AND event_index > ?", (run.id, after)
        ).fetchall()
        for kind, text in news:
            data = json.loads(text)
            if kind == "tool.progress":
                calls = [row for row in self.rows[CALLS].values() if row.run_id == run.id]
                call = next(row.id for row in calls if row.call_id == data["call_id"])
                of_call = [job.id for job in self.rows[JOBS].values() if job.tool_call_id == call]
                leases = [session.held.get((JOBS, job_id)) for job_id in of_call]
                if data["attempt"] not in [lease.fence for lease in leases if lease is not None]:
                    raise Violation(f"attempt {data['attempt']} of {data['call_id']} tells of itself without its lease")
            elif kind in {"tool.ended", "run.finished"}:
                told = [json.loads(text) for text in self._told(run.id, kind)]
                same = [one for one in told if one.get("job_id") == data.get("job_id")]
                if len(same) > 1:
                    raise Violation(f"run {run.id} is told {kind} twice: {same}")
                if kind == "tool.ended" and self.rows[JOBS][data["job_id"]].status not in ENDS:
                    raise Violation(f"run {run.id} is told the end of job {data['job_id']}, which goes on")

    def _told(self, run_id: int, kind: str) -> list[str]:
        found = self._raw.execute(
            "SELECT data FROM ai_agent_run_events WHERE run_id = ? AND kind = ?", (run_id, kind)
        ).fetchall()
        return [data for (data,) in found]

    # -- at the end -----------------------------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """What has not come to its end."""
        found = [f"{row.status} job {row.id}" for row in self.rows[JOBS].values() if row.status not in ENDS]
        found += [f"{row.status} run {row.id}" for row in self.rows[RUNS].values() if row.status not in ENDS]
        if self.photographed:
            shots = self.rows[SHOTS].values()
            found += [f"{row.status} screenshot {row.id}" for row in shots if row.status not in ENDS]
        found += [f"{row.state} batch {row.id}" for row in self.rows[BATCHES].values() if row.state not in ENDS]
        found += [f"{row.status} render {row.id}" for row in self.rows[REQUESTS].values() if row.status not in ENDS]
        found += [f"held slot {row.id}" for row in self.rows[ATTEMPTS].values() if row.released_at is None]
        return found

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def _now_ms(self) -> int:
        return self._server.clock.now_ms()

    def _changes(self) -> Iterator[Change | Gone]:
        touched = self._raw.execute("SELECT name, id FROM touched ORDER BY name, id").fetchall()
        if touched:
            self._raw.execute("DELETE FROM touched")
        for table, row_id in touched:
            row, old = self._read(self._raw, table, row_id), self.rows[table].get(row_id)
            if row is not None:
                yield Change(table, row_id, old, row)
            elif old is not None:
                yield Gone(table, row_id, old)

    def _read(self, raw: sqlite3.Connection, table: str, row_id: int) -> Row | None:
        values = raw.execute(f"SELECT * FROM {table} WHERE id = ?", (row_id,)).fetchone()
        return None if values is None else Row(**dict(zip(self._columns[table], values, strict=True)))


def _asked_for(call: Row) -> str:
    """The mark of the page as the call would have it."""
    arguments = json.loads(call.arguments)
    return mark_of(arguments["source"] if "source" in arguments else arguments["edits"][0]["replace"])
