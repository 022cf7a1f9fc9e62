"""validation_screenshot_publisher: from a Renderer's temporary PNG to a picture of the page's history (S3, S5).

Owns the way of one picture: it is copied to its final place and held outside any transaction, and published in the
transaction that saves the page or ends the screenshot, after everything it depends on was read anew in there. What no
longer fits drops the picture, never the page.

Survives a kill anywhere: a temporary picture has its time, a hold has its time, and both are collected by the
coordinator; a published picture is known to a row that never goes.
"""

import contextlib
import hashlib
from dataclasses import dataclass, replace

import structlog

from pagegate.storage import screenshot_pictures as pictures
from pagegate.storage.engine import Database, Tx
from pagegate.storage.lease import Lease
from pagegate.storage.objects import ObjectMissing, Objects, ObjectStoreUnavailable
from pagegate.storage.screenshot_context import CaptureContext, difference, reread
from pagegate.storage.screenshot_pictures import (
    HeldPicture,
    HoldLost,
    PictureExpired,
    Publication,
    TemporaryPicture,
)

log = structlog.get_logger()

HOLD_S = 600.0


class PictureLost(Exception):
    """The temporary picture cannot be kept; another attempt may do better."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class ValidationScreenshotPublisher:
    """`profile_digest` as `RENDER_PROFILE_DIGEST`: pictures by another kind of Renderer are not published."""

    db: Database
    objects: Objects
    profile_digest: str = ""
    hold_s: float = HOLD_S

    async def hold(self, job: Lease, project_id: int, picture: TemporaryPicture) -> HeldPicture:
        """Copy a temporary picture to its final place, held for `hold_s`. Raises `PictureLost`, `LeaseLost`.

        The hold is written first: an object that is put and then forgotten is known to the collector.
        """
        try:
            png = await self.objects.get(picture.key)
        except (ObjectStoreUnavailable, ObjectMissing) as error:
            raise PictureLost(f"the temporary picture cannot be read ({type(error).__name__})") from error
        if len(png) != picture.size_bytes or hashlib.sha256(png).hexdigest() != picture.sha256:
            raise PictureLost("the temporary picture is not the one that was taken")
        try:
            async with self.db.write() as tx:
                held = await pictures.hold_picture(tx, job, project_id, picture, int(self.hold_s * 1000))
        except PictureExpired as error:
            raise PictureLost("the temporary picture's time is over") from error
        try:
            await self.objects.put(held.object_key, png)
        except ObjectStoreUnavailable as error:
            raise PictureLost("the picture cannot be written") from error
        with contextlib.suppress(ObjectStoreUnavailable):  # it is collected anyway
            await self.objects.delete(picture.key)
        return held

    async def unfit(self, tx: Tx, project_id: int, taken: CaptureContext, saved: CaptureContext) -> str | None:
        """What of the picture's context is not what is being saved, read in this transaction; None when all is (S5).

        `saved` is what the caller writes: source, components, route, canvas, Runtime build, policy. The live pages and
        assets and the theme are read here.
        """
        if self.profile_digest and not taken.policy.endswith(f" {self.profile_digest}"):
            return "policy"
        now = await reread(tx, project_id, taken)
        return difference(taken, replace(saved, pages=now.pages, assets=now.assets, theme=now.theme))

    async def publish(self, tx: Tx, job: Lease, held: HeldPicture, wanted: Publication) -> str | None:
        """Publish a picture that fits; answers its place, None when its hold was lost."""
        try:
            return await pictures.publish_picture(tx, job, held, wanted)
        except HoldLost:
            log.warning("page.picture.hold_lost", job_id=job.id)
            return None

    async def keep_refused(self, tx: Tx, held: HeldPicture) -> str | None:
        """Keep the picture of a refused page as long as its job; answers its place, None when its hold was lost."""
        return held.object_key if await pictures.keep_with_job(tx, held) else None
