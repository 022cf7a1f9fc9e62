"""What the last check said of a candidate, remembered (A11).

Owns the statements on `ai_page_verdicts`. A digest stands for page, source, closure, Runtime build and render profile;
whoever computes it decides what it covers. Only refusals for the page's own sake are kept: what an infrastructure said
is not about the page. A row is a shortcut and nothing else: losing all of them costs a few checks.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.upsert import insert_unless_there

_verdicts = schema.ai_page_verdicts

KEPT_MS = 24 * 3600 * 1000


async def find_verdict(tx: Tx, project_id: int, digest: str) -> Mapping[str, Any] | None:
    found = select(_verdicts.c.result).where(_verdicts.c.project_id == project_id, _verdicts.c.digest == digest)
    fresh = found.where(_verdicts.c.created_at_ms > tx.now - KEPT_MS)
    return (await tx.execute(fresh)).scalar()


async def keep_verdict(tx: Tx, project_id: int, digest: str, result: Mapping[str, Any]) -> None:
    """Remember a refusal, and forget what is too old to be asked for."""
    await tx.execute(delete(_verdicts).where(_verdicts.c.created_at_ms <= tx.now - KEPT_MS))
    await insert_unless_there(
        tx,
        _verdicts,
        unique=("project_id", "digest"),
        project_id=project_id,
        digest=digest,
        result=result,
        created_at_ms=tx.now,
    )
