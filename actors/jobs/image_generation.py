"""The image generation job: one call of `generate_image`, from its arguments to a file of the project (A1, A10).

Owns the order that keeps a picture from being charged twice: the request is noted under the fence before it is sent,
the answer's bytes are stored before the commit, and the next attempt looks for both. Where the provider does not honour
idempotency keys, a request that was sent and not heard of ends the job instead of being sent again. How a provider is
asked is `images/provider.py`'s, what an answer means `images/answers.py`'s. Survives a kill at any await.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol

import structlog

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.submissions import name_taken
from pagegate.actors.agents.tools import GenerateImage, GenerateImageCall
from pagegate.actors.images.answers import LATER, LATER_CHARGED, Declined, Failed, Made
from pagegate.actors.images.pictures import Picture, look_at
from pagegate.actors.images.provider import ImageAccess, ImageProvider, Wanted
from pagegate.actors.jobs.call_job import CallTeller, Refused, about_of, ending, read_call, unreadable, why_stopped
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.storage import images, runs, sessions
from pagegate.storage.asset_names import MEDIA_TYPES
from pagegate.storage.assets import AssetSize, find_asset, put_asset
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import ClaimedJob
from pagegate.storage.objects import (
    ObjectMissing,
    Objects,
    ObjectStoreUnavailable,
    StoredAsset,
    asset_key,
    sha256_of,
)

log = structlog.get_logger()

OUTCOMES = ("made", "refused", "failed")  # of a request to a provider
_KEYS_REMEMBERED_MS = 12 * 3600 * 1000  # those who honour keys do so for a day, as far as is known
_STAGE_TRIES = 4
_STAGE_AGAIN_S = 1.0


class Credentials(Protocol):
    async def choose(self, tx: Tx, user_id: int, run_model: Any) -> ImageAccess | Declined:
        """How to ask for this user's pictures, or why that cannot be."""
        ...


@dataclass(frozen=True)
class Plan:
    """What the job is to ask for. `name_taken`: of the file that was wanted, when somebody else has it now."""

    call_id: str
    wanted: GenerateImage
    request_key: str
    access: ImageAccess | Declined
    name_taken: bool
    now_ms: int


def may_send(sent_to: dict[str, Any] | None, sent_at_ms: int | None, access: ImageAccess, now_ms: int) -> bool:
    """Whether a request may be sent; `sent_to` and `sent_at_ms` are of one that nobody has heard of, if any. Pure."""
    if sent_to is None or sent_at_ms is None:
        return True
    return access.keys_honoured and sent_to == access.sent_to and now_ms - sent_at_ms < _KEYS_REMEMBERED_MS


def perhaps_charged() -> Refused:
    return Refused(
        "IMAGE_MAY_BE_CHARGED",
        "The provider was asked and no answer was heard: the picture may have been made and charged, and it is lost.",
        "Do not change the prompt. It is not asked again by itself, since that may cost a second picture: tell the "
        "user, and call generate_image again if they still want it.",
    )


class ImageGeneration:
    """The kind `image_generation_jobs`. `on_end` is called when a job's end is durable: a hint to the coordinator.

    `observe` hears how each request to a provider ended: `made`, `refused` or `failed`.
    """

    name = images.IMAGE_GENERATION

    def __init__(
        self,
        db: Database,
        objects: Objects,
        provider: ImageProvider,
        credentials: Credentials,
        feed: RunFeed,
        on_end: Callable[[], None],
        observe: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._db, self._objects, self._provider, self._credentials = db, objects, provider, credentials
        self._observe = observe
        self._teller = CallTeller(db, feed, on_end)

    def log_event(self, what: str) -> str:
        return f"image.generation.job.{what}"

    async def execute(self, job: ClaimedJob) -> Settle:
        async with self._db.read() as tx:
            plan = await why_stopped(tx, job) or await self._plan(tx, job)
        if isinstance(plan, Refused):
            return ending(job, plan.end(about_of(job)))
        if isinstance(plan, End):
            return ending(job, plan)
        picture = await self._find_answer(job, plan) or await self._ask(job, plan)
        if isinstance(picture, Refused):
            log.info("image.generation.job.refused", job_id=job.id, attempt=job.lease.fence, code=picture.code)
            return ending(job, picture.end(about_of(job)))
        stored = await self._store(job, picture)
        return ending(job, lambda tx: self._save(tx, job, plan, picture, stored))

    async def tell(self, tx: Tx, job: ClaimedJob, news: End | TryLater) -> None:
        await self._teller.news(tx, job, news)

    async def ended(self, job: ClaimedJob) -> None:
        self._teller.ended(job)

    async def _plan(self, tx: Tx, job: ClaimedJob) -> Plan | Refused:
        stored = await read_call(tx, job)
        if isinstance(stored, Refused):
            return stored
        if not isinstance(stored.call, GenerateImageCall):
            return unreadable("The stored call of this job asks for no picture.")
        call = await runs.get_call(tx, job.row.tool_call_id)
        prompt = await sessions.find_prompt(tx, job.row.run_id)
        access = await self._credentials.choose(tx, job.row.user_id, prompt.model if prompt is not None else None)
        wanted = stored.call.arguments
        taken = await find_asset(tx, job.row.project_id, wanted.name) is not None
        return Plan(stored.call_id, wanted, images.request_key(job.row, call), access, taken, await tx.now_ms())

    # --- the picture ------------------------------------------------------------------------------------------------

    async def _find_answer(self, job: ClaimedJob, plan: Plan) -> Picture | Refused | None:
        """The picture that an earlier attempt was answered with, and did not live to commit."""
        if job.row.sent_at_ms is None and job.row.retry_of is None:
            return None
        try:
            content = await self._objects.get(images.staged_key(plan.request_key))
        except ObjectMissing:
            return None
        except ObjectStoreUnavailable as error:
            raise _store_away(error) from error
        log.info("image.generation.job.answer_found", job_id=job.id, attempt=job.lease.fence)
        return await self._looked_at(content)

    async def _ask(self, job: ClaimedJob, plan: Plan) -> Picture | Refused:
        """Ask the provider, once. Raises `TryLater` when it may be asked again."""
        access = plan.access
        if isinstance(access, Declined):
            return perhaps_charged() if job.row.sent_to is not None else _refused(access)
        if not may_send(job.row.sent_to, job.row.sent_at_ms, access, plan.now_ms):
            return perhaps_charged()
        if plan.name_taken and job.row.sent_to is None:
            taken = name_taken(plan.wanted.name)
            return Refused(taken["code"], taken["summary"], taken["next"])
        await self._teller.progress(job, plan.call_id, about_of(job), "asking")
        async with self._db.write() as tx:
            await images.note_sent(tx, job.lease, access.sent_to)
        wanted = _in_words_of_the_api(plan.wanted)
        log.info(
            "image.generation.job.sent",
            job_id=job.id,
            attempt=job.lease.fence,
            model=access.model,
            size=wanted.size,
            prompt_chars=len(wanted.prompt),
        )
        outcome = await self._provider.make(access, wanted, plan.request_key)
        picture = outcome if not isinstance(outcome, Made) else await asyncio.to_thread(look_at, outcome.content)
        if isinstance(picture, Declined):
            self._observe("refused")
            return _refused(picture)
        if isinstance(picture, Failed):
            self._observe("failed")
            return await self._failed(job, access, picture)
        self._observe("made")
        await self._stage(plan.request_key, picture.content)
        log.info(
            "image.generation.job.answered",
            job_id=job.id,
            attempt=job.lease.fence,
            size_bytes=len(picture.content),
            width_px=picture.width_px,
            height_px=picture.height_px,
        )
        return picture

    async def _failed(self, job: ClaimedJob, access: ImageAccess, failed: Failed) -> Refused:
        """What a failure of the infrastructure means: another try, unless that could be charged twice."""
        log.warning("image.generation.job.not_answered", job_id=job.id, attempt=job.lease.fence, code=failed.code)
        if not failed.perhaps_made and job.row.sent_to is None:  # an earlier attempt's request may still have made one
            async with self._db.write() as tx:
                await images.note_nothing_made(tx, job.lease)
        elif failed.perhaps_made and not access.keys_honoured:
            return perhaps_charged()
        told = {"status": "unavailable", "success": False, **about_of(job), "summary": failed.message}
        hint = LATER_CHARGED if failed.perhaps_made else LATER
        raise TryLater(
            failed.code,
            failed.message,
            result={**told, "code": failed.code, "next": hint},
            hint=hint,
            wait_s=failed.wait_s,
        )

    async def _looked_at(self, content: bytes) -> Picture | Refused:
        picture = await asyncio.to_thread(look_at, content)
        if isinstance(picture, Failed):
            raise TryLater(picture.code, picture.message, hint=LATER)
        return _refused(picture) if isinstance(picture, Declined) else picture

    async def _stage(self, request_key: str, content: bytes) -> None:
        """Keep what was answered where the next attempt finds it: it is paid for, so with some patience."""
        for number in range(1, _STAGE_TRIES + 1):
            try:
                await self._objects.put(images.staged_key(request_key), content)
                return
            except ObjectStoreUnavailable as error:
                if number == _STAGE_TRIES:
                    raise _store_away(error) from error
                await asyncio.sleep(_STAGE_AGAIN_S * number)

    async def _store(self, job: ClaimedJob, picture: Picture) -> StoredAsset:
        """Put the bytes where files have theirs. Its name is chosen at the commit."""
        sha256 = sha256_of(picture.content)
        key = asset_key(job.row.project_id, sha256)
        try:
            await self._objects.put(key, picture.content)
        except ObjectStoreUnavailable as error:
            raise _store_away(error) from error
        return StoredAsset(job.row.asset_name, picture.media_type, sha256, len(picture.content), key)

    async def _save(self, tx: Tx, job: ClaimedJob, plan: Plan, picture: Picture, stored: StoredAsset) -> End:
        row = job.row
        name = await images.reserve_free_name(tx, row.project_id, plan.wanted.name, _ending(plan.wanted.name, picture))
        size = AssetSize(picture.width_px, picture.height_px)
        named = StoredAsset(name, stored.media_type, stored.sha256, stored.size_bytes, stored.key)
        version, _ = await put_asset(tx, row.project_id, named, row.user_id, size)
        return End("finish", result=told(plan.wanted.name, named, version.number, size))


def told(wanted_name: str, saved: StoredAsset, number: int, size: AssetSize) -> dict[str, Any]:
    """What the agent is told of a picture: where it is, how large, and what to do with it (A11). Pure."""
    summary = f"The picture is the file {saved.name!r}: {size.width_px} x {size.height_px} pixels."
    if saved.name != wanted_name:
        same = PurePosixPath(saved.name).suffix == PurePosixPath(wanted_name).suffix
        why = "that name was taken meanwhile" if same else "the provider answered in another format"
        summary += f" It is not called {wanted_name!r}, because {why}."
    return {
        "status": "passed",
        "success": True,
        "asset_name": saved.name,
        "version": number,
        "import": f"@assets/{saved.name}",
        "media_type": saved.media_type,
        "size_bytes": saved.size_bytes,
        "width_px": size.width_px,
        "height_px": size.height_px,
        "ratio": size.ratio,
        "summary": summary,
        "next": f"Import it in a page (`import picture from '@assets/{saved.name}'`), show it in a box of its ratio, "
        "and write an alt text. Do not generate it again.",
    }


def _in_words_of_the_api(wanted: GenerateImage) -> Wanted:
    """PNG is what every provider answers with unasked; saying it could only confuse one."""
    media_type = MEDIA_TYPES[PurePosixPath(wanted.name).suffix.lower()]
    output_format = None if media_type == "image/png" else media_type.removeprefix("image/")
    return Wanted(wanted.prompt, wanted.size, wanted.quality, wanted.background, output_format)


def _ending(wanted_name: str, picture: Picture) -> str:
    """The wanted ending where it says the truth about the picture, else the picture's own."""
    suffix = PurePosixPath(wanted_name).suffix
    return suffix if MEDIA_TYPES.get(suffix.lower()) == picture.media_type else picture.ending


def _refused(declined: Declined) -> Refused:
    return Refused(declined.code, declined.message, declined.hint)


def _store_away(error: ObjectStoreUnavailable) -> TryLater:
    return TryLater("OBJECT_STORE_UNAVAILABLE", str(error), hint=LATER)
