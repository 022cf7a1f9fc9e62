"""The Backend's side of the Renderer's wire: start an attempt, wait for it, fetch its picture, end it (R2, R5, R6).

Owns no connection (the session is lent) and keeps nothing. A worker that does not answer, or answers with something
else, is a `WorkerUnavailable`: infrastructure (R9).
"""

import aiohttp
from pydantic import ValidationError

from pagegate.renderer.contract import RenderResult, RenderTask, SlotView
from pagegate.renderer.token import issue_token

_CALL_TIMEOUT_S = 10.0
_DELETE_TRIES = 2


class WorkerUnavailable(Exception):
    """This worker said nothing that can be used; another one, or the same one later, may."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class WorkerUnreachable(WorkerUnavailable):
    """No answer was heard. Whether the call arrived is unknown; each may be made again (`contract.py`)."""


class WorkerBusy(Exception):
    """The slot is taken: no attempt was made (R3)."""


class AttemptUnknown(WorkerUnavailable):
    """The worker does not know the attempt (it was restarted, or the result has expired)."""

    def __init__(self) -> None:
        super().__init__("RENDER_ATTEMPT_LOST", "the worker no longer knows the attempt")


class RenderWorker:
    """One Renderer worker, as `RENDER_WORKERS_CONFIG` lists it; with a `profile_digest` it must draw by that."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        worker_id: str,
        base_url: str,
        credential: str,
        *,
        profile_digest: str = "",
        call_timeout_s: float = _CALL_TIMEOUT_S,
    ) -> None:
        self.worker_id, self._call_timeout_s = worker_id, call_timeout_s
        self._session, self._base, self._credential = session, base_url.rstrip("/"), credential
        self._profile_digest = profile_digest

    async def start(self, task: RenderTask) -> None:
        """Start an attempt; started twice it runs once. Raises `WorkerBusy`, `WorkerUnavailable`."""
        if self._profile_digest:
            await self._expect_profile()
        status, _ = await self._call("POST", "/attempts", json=task.model_dump())
        if status == 409:
            raise WorkerBusy(self.worker_id)
        self._expect(status, 202)

    async def is_well(self) -> bool:
        """Whether it answers, draws by the wanted profile, and has a browser. Starts nothing."""
        try:
            slot = await self._view()
            self._check_profile(slot)
        except WorkerUnavailable:
            return False
        return slot.slot_state != "broken"

    async def _expect_profile(self) -> None:
        """Asked before each attempt, so that a worker that was replaced by another kind is not used once (R6)."""
        self._check_profile(await self._view())

    async def _view(self) -> SlotView:
        status, body = await self._call("GET", "/slot")
        self._expect(status, 200)
        try:
            return SlotView.model_validate_json(body)
        except ValidationError as error:
            raise WorkerUnavailable("RENDER_ANSWER_UNREADABLE", "the worker's profile cannot be read") from error

    def _check_profile(self, slot: SlotView) -> None:
        if self._profile_digest and slot.profile_digest != self._profile_digest:
            raise WorkerUnavailable(
                "RENDER_PROFILE_MISMATCH",
                f"the worker draws by {slot.profile_digest}, and RENDER_PROFILE_DIGEST wants {self._profile_digest}",
            )

    async def wait(self, attempt_id: str, wait_s: float) -> RenderResult | None:
        """The result, or None when it has not ended within `wait_s`. Raises `AttemptUnknown`, `WorkerUnavailable`."""
        status, body = await self._call(
            "GET", f"/attempts/{attempt_id}", params={"wait_s": str(wait_s)}, timeout_s=wait_s + self._call_timeout_s
        )
        if status == 202:
            return None
        if status == 404:
            raise AttemptUnknown
        self._expect(status, 200)
        try:
            return RenderResult.model_validate_json(body)
        except ValidationError as error:
            raise WorkerUnavailable("RENDER_ANSWER_UNREADABLE", "the worker's result cannot be read") from error

    async def picture(self, attempt_id: str) -> bytes:
        """The attempt's PNG."""
        status, body = await self._call("GET", f"/attempts/{attempt_id}/picture")
        if status == 404:
            raise AttemptUnknown
        self._expect(status, 200)
        return body

    async def delete(self, attempt_id: str) -> None:
        """End the attempt if it runs, and forget it; a start that comes later starts nothing.

        Best effort, tried twice: its own deadline and TTL do the same later (R5).
        """
        for _ in range(_DELETE_TRIES):
            try:
                await self._call("DELETE", f"/attempts/{attempt_id}")
            except WorkerUnreachable:
                continue
            except WorkerUnavailable:
                return
            return

    async def _call(
        self,
        method: str,
        path: str,
        *,
        json: dict[str, object] | None = None,
        params: dict[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {issue_token(self._credential, self.worker_id)}"}
        limits = aiohttp.ClientTimeout(total=timeout_s or self._call_timeout_s, connect=5.0)
        try:
            async with self._session.request(
                method, self._base + path, json=json, params=params, headers=headers, timeout=limits
            ) as response:
                body = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise WorkerUnreachable(
                "RENDER_SERVICE_UNAVAILABLE", f"the render worker does not answer ({type(error).__name__})"
            ) from error
        if response.status == 401:
            raise WorkerUnavailable(
                "RENDER_CREDENTIAL_REFUSED", "the render worker refuses the token: both sides need the same credential"
            )
        return response.status, body

    def _expect(self, status: int, wanted: int) -> None:
        if status != wanted:
            raise WorkerUnavailable("RENDER_SERVICE_UNAVAILABLE", f"the render worker answered {status}")
