"""Both ends of a build's wire: the Backend's offer, and all that a Runtime asks of a Backend (B1, B2).

Owns no connection (the session is lent). `AttemptOver`: the Backend no longer takes anything of this attempt; whatever
else fails is a `SourceUnavailable` or a `BuildAssetMissing`, or an `UploadFailed` for the artifact.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from pydantic import BaseModel, ValidationError

from pagegate.runtime.build_contract import (
    BuildClaim,
    BuildClaimAnswer,
    BuildClaimed,
    BuildFailure,
    BuildHeartbeat,
    BuildOffer,
    BuildOrders,
    BuildSnapshot,
)
from pagegate.runtime.contract import ErrorBody
from pagegate.runtime.refusals import BuildAssetMissing, SourceUnavailable

_WAIT = aiohttp.ClientTimeout(total=60.0, connect=5.0)
_OFFER_WAIT = aiohttp.ClientTimeout(total=5.0, connect=2.0)
_STREAM_WAIT = aiohttp.ClientTimeout(total=None, connect=5.0, sock_read=120.0)
# The archive is looked at and unpacked before its upload is answered. Who waits is stopped by its lease and deadline.
_UPLOAD_WAIT = aiohttp.ClientTimeout(total=None, connect=5.0)
_CHUNK_BYTES = 256 * 1024
_AT = "/internal/runtime/build-jobs"


class AttemptOver(Exception):
    """The lease is lost, or the token is not good here: stop, and send nothing more."""


class UploadFailed(Exception):
    """The artifact was not taken. `body` is the Backend's reason, if it gave one."""

    def __init__(self, body: ErrorBody) -> None:
        super().__init__(f"{body.code}: {body.message}")
        self.body = body


async def offer_builds(session: aiohttp.ClientSession, url: str, offer: BuildOffer) -> None:
    """Tell a Runtime that there may be builds. Best effort: one that is away hears of the next beat."""
    try:
        async with session.post(f"{url.rstrip('/')}/builds/offers", json=offer.model_dump(), timeout=_OFFER_WAIT):
            return
    except (aiohttp.ClientError, OSError, TimeoutError):
        return


async def claim_build(session: aiohttp.ClientSession, offer: BuildOffer, claim: BuildClaim) -> BuildClaimed | None:
    """A build to make, or None. Raises `SourceUnavailable`."""
    status, body = await _call(session, "POST", offer.backend_url + _AT + "/claim", offer.ticket, claim)
    if status != 200:
        raise SourceUnavailable(f"the Backend answered {status} for a claim")
    return BuildClaimAnswer.model_validate_json(body).claimed


class BuildAttempt:
    """One claimed attempt at its Backend; also the `BuildSource` of its task.

    `pauses_s`: a Backend that is just restarting is asked for its sources again after each of them, so that this costs
    no build. Heartbeats have a rhythm of their own, and so has the upload.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        backend_url: str,
        claimed: BuildClaimed,
        pauses_s: Sequence[float] = (),
    ) -> None:
        self._session, self._token, self._pauses_s = session, claimed.token, pauses_s
        self._base = f"{backend_url.rstrip('/')}{_AT}/{claimed.job_id}/{claimed.attempt}"

    async def snapshot(self) -> BuildSnapshot:
        """See `BuildSource`."""
        status, body = await self._get_snapshot()
        if status != 200:
            raise SourceUnavailable(f"the Backend answered {status} for the snapshot")
        try:
            return BuildSnapshot.model_validate_json(body)
        except ValidationError as error:
            raise SourceUnavailable("the Backend gave a snapshot of another shape") from error

    async def asset(self, name: str) -> AsyncIterator[bytes]:
        """See `BuildSource`."""
        for pause_s in self._pauses_s:
            begun = False
            try:
                async for chunk in self._asset(name):
                    begun = True
                    yield chunk
                return
            except SourceUnavailable:
                if begun:
                    raise
            await asyncio.sleep(pause_s)
        async for chunk in self._asset(name):
            yield chunk

    async def _asset(self, name: str) -> AsyncIterator[bytes]:
        url = f"{self._base}/assets/{quote(name, safe='')}"
        try:
            async with self._session.get(
                url, headers=self._headers(), timeout=_STREAM_WAIT, allow_redirects=False
            ) as got:
                if got.status == 404:
                    raise BuildAssetMissing(f"the asset {name!r} is not there any more")
                if got.status != 200:
                    raise SourceUnavailable(f"the Backend answered {got.status} for an asset")
                async for chunk in got.content.iter_chunked(_CHUNK_BYTES):
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SourceUnavailable(f"an asset cannot be read ({type(error).__name__})") from error

    async def heartbeat(self, beat: BuildHeartbeat) -> BuildOrders:
        """Renew. Raises `AttemptOver` or `SourceUnavailable`."""
        status, body = await self._ask("POST", "/heartbeat", beat)
        if status != 200:
            raise SourceUnavailable(f"the Backend answered {status} for a heartbeat")
        return BuildOrders.model_validate_json(body)

    async def fail(self, failure: BuildFailure) -> None:
        """End the attempt without an artifact. Raises `AttemptOver` or `SourceUnavailable`."""
        status, _ = await self._ask("POST", "/failure", failure)
        if status not in {200, 204}:
            raise SourceUnavailable(f"the Backend answered {status} for a failure")

    async def upload(self, archive: Path) -> None:
        """Send the artifact as a stream. Raises `UploadFailed` or `AttemptOver`."""
        headers = {**self._headers(), "Content-Length": str((await asyncio.to_thread(archive.stat)).st_size)}
        try:
            async with self._session.put(
                f"{self._base}/artifact", data=_read(archive), headers=headers, timeout=_UPLOAD_WAIT
            ) as answer:
                told = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            cut = ErrorBody(
                code="PROJECT_BUILD_UPLOAD_FAILED", message=f"The upload was cut off ({type(error).__name__})."
            )
            raise UploadFailed(cut) from error
        if answer.status == 200:
            return
        refusal = _refusal(told, answer.status)
        if refusal.code in {"BUILD_ATTEMPT_OVER", "TICKET_INVALID"}:
            raise AttemptOver(refusal.code)
        raise UploadFailed(refusal)

    async def _get_snapshot(self) -> tuple[int, bytes]:
        for pause_s in self._pauses_s:
            with contextlib.suppress(SourceUnavailable):
                status, told = await self._ask("GET", "/snapshot")
                if status < 500:
                    return status, told
            await asyncio.sleep(pause_s)
        return await self._ask("GET", "/snapshot")

    async def _ask(self, method: str, path: str, body: BaseModel | None = None) -> tuple[int, bytes]:
        status, told = await _call(self._session, method, self._base + path, self._token, body)
        if status in {401, 409}:
            raise AttemptOver(_refusal(told, status).code)
        return status, told

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}


async def _read(archive: Path) -> AsyncIterator[bytes]:
    with archive.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk


async def _call(
    session: aiohttp.ClientSession, method: str, url: str, token: str, body: BaseModel | None
) -> tuple[int, bytes]:
    sent: dict[str, Any] = {}
    headers = {"Authorization": f"Bearer {token}"}
    if body is not None:
        sent["data"] = body.model_dump_json().encode()
        headers["Content-Type"] = "application/json"
    try:
        async with session.request(
            method, url, headers=headers, timeout=_WAIT, allow_redirects=False, **sent
        ) as answer:
            return answer.status, await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SourceUnavailable(f"the Backend cannot be reached ({type(error).__name__})") from error


def _refusal(told: bytes, status: int) -> ErrorBody:
    try:
        return ErrorBody.model_validate_json(told)
    except ValidationError:
        return ErrorBody(code="PROJECT_BUILD_UPLOAD_FAILED", message=f"The Backend answered {status}.")
