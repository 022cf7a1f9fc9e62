"""Whether the bytes of a page's assets can be had: lost ones are no fault of the page (R9).

Owns the look into the object store that a check takes beside its compile, and again when the browser missed something.
Asks for no bytes: one HEAD an asset, all at once. Survives a store that does not answer: that is an answer too.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pagegate.renderer.contract import Finding
from pagegate.storage.objects import ObjectMissing, Objects, ObjectStoreUnavailable, StoredAsset

# What the browser says of an asset that did not arrive; whose fault that is, only the object store knows.
_NOT_ARRIVED = frozenset({"IMAGE_BROKEN", "MEDIA_BROKEN", "FONT_BROKEN", "REQUEST_FAILED", "RESOURCE_HANGING"})
_NAMED_MAX = 4


@dataclass(frozen=True)
class Lost:
    """Why the assets of a page cannot be shown: an infrastructure code, its cause, and the next step."""

    code: Literal["OBJECT_STORE_ASSET_MISSING", "OBJECT_STORE_UNAVAILABLE"]
    message: str
    hint: str


async def find_lost(objects: Objects, assets: Iterable[StoredAsset]) -> Lost | None:
    """Look at the object of each asset; None when all are there."""
    wanted = list(assets)
    looks = await asyncio.gather(*(objects.size_bytes(asset.key) for asset in wanted), return_exceptions=True)
    missing = sorted(asset.name for asset, look in zip(wanted, looks, strict=True) if isinstance(look, ObjectMissing))
    if missing:
        more = f" and of {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
        named = ", ".join(missing[:_NAMED_MAX])
        return Lost(
            "OBJECT_STORE_ASSET_MISSING",
            f"the project has the asset {named}{more}, and its bytes are missing",
            "Do not change the source for that. Upload the file again under the same name, then send the call again "
            "as it is.",
        )
    for look in looks:
        if isinstance(look, ObjectStoreUnavailable):
            return Lost(
                "OBJECT_STORE_UNAVAILABLE",
                "the object store with the assets does not answer",
                "Do not change the source for that. Send the call again as it is later.",
            )
        if isinstance(look, BaseException):
            raise look
    return None


@contextlib.asynccontextmanager
async def looking(
    objects: Objects, assets: Iterable[StoredAsset]
) -> AsyncIterator[Callable[[], Awaitable[Lost | None]]]:
    """Look at them beside other work; what this gives is called for the answer, which nobody has to wait for."""
    wanted = list(assets)
    if not wanted:
        yield _all_there
        return
    look = asyncio.create_task(find_lost(objects, wanted))

    async def answer() -> Lost | None:
        return await look

    try:
        yield answer
    finally:
        look.cancel()


async def _all_there() -> None:
    return


def something_missing(findings: Iterable[Finding]) -> bool:
    """Whether the browser may have missed an asset. Pure."""
    return any(finding.code in _NOT_ARRIVED for finding in findings)
