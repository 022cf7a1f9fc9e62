"""What must be true of the database, whatever happens: checked at every commit, from what the commit changes.

Owns the books: every row as it was after the last commit. A trigger on each table writes down what a transaction
touches, so a commit is judged by its few changes, inside of it and just before it is made. The rules look at rows, at
the clock and at which leases the transaction presented; they share no code with the statements that they judge.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace as Row

from pagegate.storage.lease import Lease
from pagegate.storage.pruning import Retention
from tests.simulation.build_rules import judge_build, judge_release
from tests.simulation.database import Server, Session
from tests.simulation.maker_rules import (
    judge_asset_version,
    judge_component_job,
    judge_component_version,
    judge_image_job,
    judge_ratio_job,
)
from tests.simulation.moves import (
    ASSET_VERSIONS,
    ASSETS,
    ATTEMPTS,
    BATCHES,
    BUILDS,
    CALLS,
    COMPONENT_JOBS,
    COMPONENT_VERSIONS,
    COMPONENTS,
    ENDS,
    IMAGE_JOBS,
    JOBS,
    LEASED,
    PAGES,
    PICTURES,
    QUEUED,
    RATIO_JOBS,
    RELEASES,
    REQUESTS,
    RUNS,
    SHOTS,
    TABLES,
    VERSIONS,
    Change,
    Gone,
    Violation,
    judge_move,
    move_of,
    name_of,
)
from tests.simulation.page_rules import judge_job, judge_version
from tests.simulation.picture_rules import judge_picture, judge_shot
from tests.simulation.render_rules import judge_render, judge_slots, judge_wanted
from tests.simulation.run_rules import judge_run, judge_task
from tests.simulation.virtual_loop import EPOCH_MS

_KEPT = {PAGES, VERSIONS, PICTURES, RELEASES, COMPONENTS, COMPONENT_VERSIONS, ASSETS, ASSET_VERSIONS}


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
        self._server, self.limits, self.retention = server, limits, retention
        self.rows: dict[str, dict[int, Row]] = {table: {} for table in TABLES}
        self.ends: dict[int, str] = {}  # of each job: its error code, or how it ended without one
        self.pruned_runs: set[int] = set()
        self.photographed = False  # there is a lane of screenshots
        self.ends_of_builds: dict[int, str] = {}
        self.ends_of_makers: dict[tuple[str, int], str] = {}
        self.charges: Mapping[str, int] = {}  # of the provider of pictures, by key
        self.objects: Mapping[str, tuple[bytes, float]] = {}  # the object store, by key
        self.released: dict[str, str] = {}  # of releases: key -> digest
        self.commits = 0
        self.broken_by: BaseException | None = None
        raw = server.writer.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        self.raw = raw
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
        if mine and active(row) and row.lease_expires_at > self.now_ms:
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

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _judge_all(self, changes: list[Change], session: Session) -> None:
        tables = {change.table for change in changes}
        if {ATTEMPTS, REQUESTS} & tables:
            judge_slots(self)
        if {JOBS, SHOTS, REQUESTS} & tables:
            judge_wanted(self)
        for change in changes:
            match change.table:
                case "ai_page_mutation_jobs":
                    judge_job(self, change, session)
                case "page_versions":
                    judge_version(self, change, session)
                case "render_requests":
                    judge_render(self, change, session)
                case "ai_agent_runs":
                    judge_run(self, change, session)
                case "ai_agent_external_tasks":
                    judge_task(self, change)
                case "page_screenshot_jobs":
                    judge_shot(self, change)
                case "page_screenshot_artifacts":
                    judge_picture(self, change, session)
                case "component_mutation_jobs":
                    judge_component_job(self, change, session)
                case "component_versions":
                    judge_component_version(self, change, session)
                case "image_generation_jobs":
                    judge_image_job(self, change, session)
                case "asset_ratio_backfill_jobs":
                    judge_ratio_job(self, change, session)
                case "asset_versions":
                    judge_asset_version(self, change, session)
                case "project_build_jobs":
                    judge_build(self, change, session)
                case "project_releases":
                    judge_release(self, change, session)

    def _judge_deletion(self, lost: Gone) -> None:
        """Only what has ended, and long enough ago, and was told to whoever waits for it (Q11)."""
        old, about = lost.old, f"{lost.table} {lost.id}"
        if self.retention is None or lost.table in _KEPT:
            raise Violation(f"{about} was deleted")
        state = getattr(old, "state", None) or old.status
        if lost.table not in {CALLS, ATTEMPTS} and state not in ENDS:
            raise Violation(f"{about} was deleted while it was {state}")
        if lost.table in {*QUEUED, BUILDS, RUNS}:
            kept = self.retention
            kept_ms = {"succeeded": kept.succeeded_ms, "failed": kept.failed_ms}.get(state, kept.cancelled_ms)
            if self.now_ms - old.finished_at_ms < kept_ms:
                raise Violation(f"{about}, {state}, was deleted {self.now_ms - old.finished_at_ms} ms after its end")
        if lost.table == BUILDS and old.swept_at_ms is None:
            raise Violation(f"{about} was deleted before anybody looked for what it left")
        if lost.table == RUNS:
            self.pruned_runs.add(lost.id)

    # -- at the end -----------------------------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """What has not come to its end."""
        found = [f"{row.status} job {row.id}" for row in self.rows[JOBS].values() if row.status not in ENDS]
        found += [f"{row.status} run {row.id}" for row in self.rows[RUNS].values() if row.status not in ENDS]
        if self.photographed:
            shots = self.rows[SHOTS].values()
            found += [f"{row.status} screenshot {row.id}" for row in shots if row.status not in ENDS]
        for table in (COMPONENT_JOBS, IMAGE_JOBS, RATIO_JOBS):
            live = [row for row in self.rows[table].values() if row.status not in ENDS]
            found += [f"{row.status} {name_of(table, row.id)}" for row in live]
        found += [f"{row.status} build {row.id}" for row in self.rows[BUILDS].values() if row.status not in ENDS]
        found += [f"{row.state} batch {row.id}" for row in self.rows[BATCHES].values() if row.state not in ENDS]
        found += [f"{row.status} render {row.id}" for row in self.rows[REQUESTS].values() if row.status not in ENDS]
        found += [f"held slot {row.id}" for row in self.rows[ATTEMPTS].values() if row.released_at is None]
        return found

    # -- reading --------------------------------------------------------------------------------------------------

    def is_paused(self, kind: str) -> bool:
        """Nobody may claim from the lane (Q11)."""
        asked = "SELECT 1 FROM lanes WHERE kind = ? AND paused_at_ms IS NOT NULL"
        return self.raw.execute(asked, (kind,)).fetchone() is not None

    @property
    def now_ms(self) -> int:
        return self._server.clock.now_ms()

    def _changes(self) -> Iterator[Change | Gone]:
        touched = self.raw.execute("SELECT name, id FROM touched ORDER BY name, id").fetchall()
        if touched:
            self.raw.execute("DELETE FROM touched")
        for table, row_id in touched:
            row, old = self._read(self.raw, table, row_id), self.rows[table].get(row_id)
            if row is not None:
                yield Change(table, row_id, old, row)
            elif old is not None:
                yield Gone(table, row_id, old)

    def _read(self, raw: sqlite3.Connection, table: str, row_id: int) -> Row | None:
        values = raw.execute(f"SELECT * FROM {table} WHERE id = ?", (row_id,)).fetchone()
        return None if values is None else Row(**dict(zip(self._columns[table], values, strict=True)))
