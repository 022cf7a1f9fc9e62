"""Everything that is known of one job of any kind, read in one transaction (Q11). Nothing here changes a row.

Owns the reading: the job with its lease, what stands before it in its lane, the columns that only its kind has, and
what was made by it. A kind without an entry in `_MADE` fails a test, so none can be forgotten.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Row, Select, Table, and_, func, or_, select

from pagegate.storage import lanes, schema
from pagegate.storage.engine import Tx
from pagegate.storage.jobs.kinds import goes_behind
from pagegate.storage.lane_views import JobView, get_job_view
from pagegate.storage.schema.jobs import job_columns

_SHARED = {column.name for column in job_columns("any") if hasattr(column, "name")} | {"id"}
_INNER = {"tool_call_id", "capture_key", "config_fingerprint"}  # say nothing to a person

Made = Callable[[Tx, Row[Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class JobDiagnosis:
    """`ahead`: how many pending jobs of the lane are older; None unless it is pending itself.

    `facts`: what only its kind has. `made`: what it wrote; empty when that is nothing, or nothing yet. `log`: its own
    summary, where its kind keeps one.
    """

    job: JobView
    now_ms: int
    heartbeat_at_ms: int | None
    lane_paused: bool
    ahead: int | None
    behind: tuple[str, int] | None  # kind and id of a live job of its step that comes first (A2)
    facts: Mapping[str, Any]
    made: Mapping[str, Any]
    log: Sequence[str]


async def diagnose_job(tx: Tx, kind: str, job_id: int) -> JobDiagnosis:
    """Raises `JobNotFound`; `KeyError` for an unknown kind."""
    table = schema.metadata.tables[kind]
    job = await get_job_view(tx, kind, job_id)
    row = (await tx.execute(select(table).where(table.c.id == job_id))).one()
    return JobDiagnosis(
        job=job,
        now_ms=await tx.now_ms(),
        heartbeat_at_ms=row.heartbeat_at,
        lane_paused=(await lanes.get_lane_state(tx, kind)).pause is not None,
        ahead=await _ahead(tx, table, row) if row.status == "pending" else None,
        behind=await _behind(tx, kind, row) if row.status == "pending" else None,
        facts=_facts(table, row),
        made=await _MADE[kind](tx, row),
        log=list(row._mapping.get("log") or ()),
    )


async def _ahead(tx: Tx, table: Table, row: Row[Any]) -> int:
    before = or_(table.c.priority < row.priority, and_(table.c.priority == row.priority, table.c.id < row.id))
    counted = select(func.count()).select_from(table).where(schema.live(table), table.c.status == "pending", before)
    return int((await tx.execute(counted)).scalar_one())


async def _behind(tx: Tx, kind: str, row: Row[Any]) -> tuple[str, int] | None:
    for table, columns in goes_behind(kind):
        same = [table.c[name] == row._mapping[name] for name in columns]
        earlier = select(table.c.id).where(*same, table.c.position < row.position, schema.live(table))
        first = (await tx.execute(earlier.order_by(table.c.position).limit(1))).scalar()
        if first is not None:
            return table.name, first
    return None


def _facts(table: Table, row: Row[Any]) -> dict[str, Any]:
    """Its own columns; what is stored as JSON is large, or not for everybody."""
    own = [column for column in table.c if column.name not in _SHARED | _INNER]
    facts = {column.name: row._mapping[column.name] for column in own if not isinstance(column.type, JSON)}
    if table is schema.project_build_jobs:
        facts["pages"] = len(row.snapshot["pages"])
    return facts


async def _first(tx: Tx, found: Select[Any]) -> dict[str, Any]:
    row = (await tx.execute(found.limit(1))).mappings().first()
    return {} if row is None else dict(row)


async def _page_version(tx: Tx, job: Row[Any]) -> dict[str, Any]:
    versions, pages = schema.page_versions, schema.pages
    named = select(pages.c.code.label("page"), versions.c.number.label("version")).join(pages)
    return await _first(tx, named.where(versions.c.job_id == job.id))


async def _component_version(tx: Tx, job: Row[Any]) -> dict[str, Any]:
    versions, components = schema.component_versions, schema.components
    named = select(components.c.name.label("component"), versions.c.number.label("version")).join(components)
    return await _first(tx, named.where(versions.c.job_id == job.id))


async def _picture(tx: Tx, job: Row[Any]) -> dict[str, Any]:
    made = schema.page_screenshot_artifacts
    sized = select(made.c.id.label("picture"), made.c.width_px, made.c.height_px, made.c.size_bytes)
    return await _first(tx, sized.where(made.c.job_kind == schema.page_screenshot_jobs.name, made.c.job_id == job.id))


async def _release(tx: Tx, job: Row[Any]) -> dict[str, Any]:
    made = schema.project_releases
    numbered = select(made.c.number.label("release"), made.c.sha256, made.c.size_bytes, made.c.files)
    found = await _first(tx, numbered.where(made.c.job_id == job.id))
    return found | {"files": len(found["files"])} if found else {}


async def _result(_: Tx, job: Row[Any]) -> dict[str, Any]:
    """What the job itself says of a file; what it says to an agent, or why it made nothing, is no thing made."""
    said = job.result if job.status == "succeeded" and isinstance(job.result, Mapping) else {}
    return {name: said[name] for name in _OF_FILES if said.get(name) is not None}


_OF_FILES = ("asset", "asset_name", "version", "media_type", "size_bytes", "width_px", "height_px", "ratio")
_MADE: dict[str, Made] = {
    "ai_page_mutation_jobs": _page_version,
    "component_mutation_jobs": _component_version,
    "image_generation_jobs": _result,
    "page_screenshot_jobs": _picture,
    "project_build_jobs": _release,
    "asset_ratio_backfill_jobs": _result,
}
