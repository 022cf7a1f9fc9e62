"""What only image generation jobs have: a file's name, a request that may be under way, bytes on their way (A1).

Owns the statements on `image_generation_jobs` that no other kind has, the idempotency key of a call, and where an
answer's bytes wait for the commit. Survives a kill at any moment between the request and the commit: what was sent is
in the job's row, what was answered is in the object store, and both are found by the next attempt.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy import Row, func, select

from pagegate.storage import jobs, schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, fenced_update
from pagegate.storage.upsert import insert_unless_there

IMAGE_GENERATION = jobs.IMAGE_GENERATION
STAGED = "generated/"  # what lies below is deleted by its age
_NUMBERED_MAX = 1000

_jobs = schema.image_generation_jobs
_assets = schema.assets


def request_key(job: Row[Any], call: Row[Any]) -> str:
    """The provider's idempotency key: the same for every attempt and every retry of a call, and for no other call.

    Ids alone would do within one database; the moment and the arguments tell two deployments with one account apart.
    """
    said = [job.workspace_id, job.project_id, call.id, call.call_id, call.created_at_ms, dict(call.arguments)]
    return "pagegate-" + hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:48]


def staged_key(request: str) -> str:
    """Where the bytes of a request's answer are until its job has ended."""
    return STAGED + request


async def note_sent(tx: Tx, lease: Lease, sent_to: Mapping[str, Any]) -> None:
    """A request is about to be sent; raises `LeaseLost`. Comes before it, so that no request is ever unknown.

    The moment of the first one stays: a provider counts from there for how long it remembers the key.
    """
    await fenced_update(tx, lease, sent_at_ms=func.coalesce(_jobs.c.sent_at_ms, tx.now), sent_to=sent_to)


async def note_nothing_made(tx: Tx, lease: Lease) -> None:
    """The provider's answer says that no picture was made; raises `LeaseLost`."""
    await fenced_update(tx, lease, sent_at_ms=None, sent_to=None)


async def list_names_to_come(tx: Tx, project_id: int) -> set[str]:
    """Files that live jobs of a project are going to make."""
    coming = select(_jobs.c.asset_name).where(_jobs.c.project_id == project_id, schema.live(_jobs))
    return set((await tx.execute(coming)).scalars())


async def list_refused_of_step(tx: Tx, batch_id: int, position: int) -> list[str]:
    """The files that earlier calls of the same step were to make and did not, by name."""
    refused = select(_jobs.c.asset_name).where(
        _jobs.c.batch_id == batch_id, _jobs.c.position < position, _jobs.c.status.in_(("failed", "cancelled"))
    )
    return sorted(set((await tx.execute(refused)).scalars()))


async def list_taken_names(tx: Tx, project_id: int) -> set[str]:
    """Files that a project has."""
    there = select(_assets.c.name).where(_assets.c.project_id == project_id, _assets.c.deleted_at_ms.is_(None))
    return set((await tx.execute(there)).scalars())


async def reserve_free_name(tx: Tx, project_id: int, wanted: str, ending: str) -> str:
    """A name that no file has, as near to `wanted` as can be, with this ending; nobody else gets it until the commit.

    A picture that was paid for is not thrown away because its name was taken while it was made: `hero.png`, then
    `hero-2.png` and so on.
    """
    stem = PurePosixPath(wanted).stem
    for number in range(1, _NUMBERED_MAX):
        name = f"{stem}{ending}" if number == 1 else f"{stem}-{number}{ending}"
        if await _reserve(tx, project_id, name):
            return name
    raise AssertionError("a project has a thousand files of one name")


async def _reserve(tx: Tx, project_id: int, name: str) -> bool:
    same = {"project_id": project_id, "name": name}
    if await insert_unless_there(tx, _assets, unique=("project_id", "name"), **same, created_at_ms=tx.now):
        return True
    # Locked, so that an upload at the same moment comes before or after, and is seen or waits.
    mine = _assets.c.project_id == project_id, _assets.c.name == name
    row = (await tx.execute(select(_assets).where(*mine).with_for_update())).one()
    return row.deleted_at_ms is not None or row.current_version_number == 0
