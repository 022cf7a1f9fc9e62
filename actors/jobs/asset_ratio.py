"""The asset ratio job: how wide and high one version of one file is shown, asked of a Runtime (V9, Q1).

Owns the decision what an answer of the light tool means: a size, a fault of the file (content: final, and remembered
with its bytes), or trouble on the way (infrastructure: later, R9). Whether the file is still that version is looked at
before the bytes are sent, and again in the transaction that writes; a file that was replaced or deleted ends the job as
skipped. Nobody's permission is asked: what a file measures is a fact about bytes that are saved already.

Survives a kill at any await: nothing is visible before the one fenced transaction, and no runtime state is used.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pykka
import structlog
from pydantic import TypeAdapter, ValidationError

from pagegate.actors.compiling.admission import ForgetCompile, RunLight
from pagegate.actors.kernel import ask
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import LIGHT_DEADLINES_S, LightRequest, LightResult, LightTool
from pagegate.storage import asset_ratios, jobs
from pagegate.storage.assets import AssetSize
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.objects import ObjectMissing, Objects, ObjectStoreUnavailable, StoredAsset

log = structlog.get_logger()

_TOOL: LightTool = "asset-ratio"
_MARGIN_S = 10.0  # the Runtime's deadline ends first, then the wire's, each with its own code
_OF_THE_FILE = "ASSET_"  # every code of the tool that is about the file begins so
_SIZE = TypeAdapter(AssetSize)

MISSING = {
    "code": "ASSET_FILE_MISSING",
    "message": "The file's bytes are not in the object store.",
    "hint": "Upload the file again.",
}


@dataclass(frozen=True)
class Faulty:
    """The file has no size; `error` is an error body that says why."""

    error: Mapping[str, Any]


def read_answer(told: LightResult) -> AssetSize | Faulty:
    """What the tool's answer says of the file; raises `TryLater` when it says nothing of it. Pure."""
    if told.ok:
        try:
            return _SIZE.validate_python(told.result)
        except ValidationError as error:
            raise TryLater("RUNTIME_ANSWER_UNREADABLE", "the Runtime's answer has no size in it") from error
    wrong = told.errors[0] if told.errors else None
    if wrong is None or not wrong.code.startswith(_OF_THE_FILE):
        # A Runtime of another version, for one: it knows nothing of this file.
        raise TryLater(wrong.code if wrong else "RUNTIME_ANSWER_UNREADABLE", "the Runtime did not measure the file")
    return Faulty({"code": wrong.code, "message": wrong.message, "hint": wrong.hint})


class AssetRatio:
    """The kind `asset_ratio_backfill_jobs`. `on_end` hears that a job has ended: a hint."""

    name = asset_ratios.ASSET_RATIO_BACKFILL
    tell = None  # nobody waits for it: who lists the files sees it

    def __init__(
        self, db: Database, objects: Objects, admission: pykka.ActorRef[Any], on_end: Callable[[], None]
    ) -> None:
        self._db, self._objects, self._admission, self._on_end = db, objects, admission, on_end

    def log_event(self, what: str) -> str:
        return f"asset.ratio.job.{what}"

    async def execute(self, job: ClaimedJob) -> Settle:
        async with self._db.read() as tx:
            version = await asset_ratios.find_unmeasured(tx, job.row.asset_id, job.row.asset_version)
        found = await self._measure(version.stored) if version is not None else None

        async def settle(tx: Tx) -> End:
            if await jobs.is_cancel_requested(tx, job.lease.table, job.id):
                return End("cancel", error=jobs.CANCELLED)
            return await _record(tx, job, found)

        return settle

    async def ended(self, job: ClaimedJob) -> None:  # noqa: ARG002 - any end makes room
        self._on_end()

    async def _measure(self, stored: StoredAsset) -> AssetSize | Faulty:
        try:
            opened = await self._objects.open(stored.key)
        except ObjectMissing:
            return Faulty(MISSING)
        except ObjectStoreUnavailable as error:
            raise _store_away() from error
        file = _Reading(opened.chunks)
        request = LightRequest(task_id=uuid4().hex, input={"media_type": stored.media_type})
        try:
            told = await ask(
                self._admission,
                RunLight(_TOOL, request, file.chunks()),
                timeout_s=LIGHT_DEADLINES_S[_TOOL] + _MARGIN_S,
            )
        except RuntimeUnavailable as error:
            if file.broken:  # the Runtime only heard that no more of the file came
                raise _store_away() from error
            raise TryLater(error.code, error.message, counts=not error.full) from error
        except pykka.ActorDeadError as error:
            raise TryLater("RUNTIME_ADMISSION_LOST", "the admission restarted") from error
        except (TimeoutError, asyncio.CancelledError) as error:
            if self._admission.is_alive():
                self._admission.tell(ForgetCompile(request.task_id))
            if isinstance(error, TimeoutError):
                raise TryLater("RUNTIME_REQUEST_TIMEOUT", "the Runtime did not answer in time") from error
            raise
        return read_answer(told)


class _Reading:
    """A file on its way to the Runtime, which remembers whether the store failed under it."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks, self.broken = chunks, False

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except ObjectStoreUnavailable:
            self.broken = True
            raise


async def _record(tx: Tx, job: ClaimedJob, found: AssetSize | Faulty | None) -> End:
    row = job.row
    match found:
        case AssetSize():
            if await asset_ratios.record_size(tx, row.asset_id, row.asset_version, found):
                sides = {"width_px": found.width_px, "height_px": found.height_px, "ratio": found.ratio}
                return End("finish", result={"asset": row.asset_name, "version": row.asset_version, **sides})
        case Faulty(error):
            if await asset_ratios.record_unmeasurable(tx, row.asset_id, row.asset_version, error):
                return End("fail", error=dict(error))
    log.info("asset.ratio.job.stale", job_id=job.id, asset=row.asset_name, version=row.asset_version)
    return End("skip", error=dict(asset_ratios.STALE))


def _store_away() -> TryLater:
    return TryLater("OBJECT_STORE_UNAVAILABLE", "the file's bytes could not be read")
