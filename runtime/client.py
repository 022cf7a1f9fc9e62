"""The Backend's side of the Runtime's wire: compiles, the end of their outputs, and light tools (V5, V8, V9).

Owns no connection (the session is lent), keeps nothing. Every failure is a `RuntimeUnavailable` with a stable code:
infrastructure, never a word about the page (R9).
"""

import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError

from pagegate.runtime.contract import CompileRequest, CompileResult, ErrorBody, LightRequest, LightResult, LightTool

M = TypeVar("M", bound=BaseModel)


class RuntimeUnavailable(Exception):
    """No verdict came from this Runtime. `full`: it is there, but its queue is; that costs no retry (Q2)."""

    def __init__(self, code: str, message: str, *, full: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.full = code, message, full


async def compile_page(
    session: aiohttp.ClientSession, base_url: str, request: CompileRequest, *, timeout_s: float
) -> CompileResult:
    """Ask one Runtime for one compile and wait for it, at most `timeout_s` (V5). Cancelling it cancels the compile.

    Raises `RuntimeUnavailable`: `RUNTIME_UNREACHABLE`, `RUNTIME_REQUEST_TIMEOUT`, `RUNTIME_ANSWER_UNREADABLE`, or the
    Runtime's own code.
    """
    return await _ask(session, f"{base_url.rstrip('/')}/compiles", _json_of(request), CompileResult, timeout_s)


async def run_light(
    session: aiohttp.ClientSession,
    base_url: str,
    tool: LightTool,
    request: LightRequest,
    file: AsyncIterator[bytes] | None = None,
    *,
    timeout_s: float,
) -> LightResult:
    """Ask one Runtime to run a light tool (V9). `file` is streamed to it; it is sent once, so a retry needs a new one.

    Raises `RuntimeUnavailable` as `compile_page` does.
    """
    body: aiohttp.Payload | aiohttp.MultipartWriter = _json_of(request)
    if file is not None:
        parts = aiohttp.MultipartWriter("form-data")
        parts.append(body).set_content_disposition("form-data", name="request")
        parts.append(file).set_content_disposition("form-data", name="file", filename="file")
        body = parts
    return await _ask(session, f"{base_url.rstrip('/')}/light/{tool}", body, LightResult, timeout_s)


def _json_of(model: BaseModel) -> aiohttp.Payload:
    return aiohttp.BytesIOPayload(io.BytesIO(model.model_dump_json().encode()), content_type="application/json")


async def _ask(
    session: aiohttp.ClientSession,
    url: str,
    body: aiohttp.Payload | aiohttp.MultipartWriter,
    answer: type[M],
    timeout_s: float,
) -> M:
    limits = aiohttp.ClientTimeout(total=timeout_s, connect=min(5.0, timeout_s))
    try:
        async with session.post(url, data=body, timeout=limits, allow_redirects=False) as response:
            told = await response.read()
    except TimeoutError as error:
        raise RuntimeUnavailable("RUNTIME_REQUEST_TIMEOUT", f"no answer within {timeout_s:.0f} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise RuntimeUnavailable(
            "RUNTIME_UNREACHABLE", f"the Runtime does not answer ({type(error).__name__})"
        ) from error
    try:
        if response.status == 200:
            return answer.model_validate_json(told)
        refusal = ErrorBody.model_validate_json(told)
    except ValidationError as error:
        raise RuntimeUnavailable(
            "RUNTIME_ANSWER_UNREADABLE", f"the Runtime answered {response.status} with something else than an answer"
        ) from error
    raise RuntimeUnavailable(refusal.code, refusal.message, full=response.status == 429)


async def delete_output(
    session: aiohttp.ClientSession, base_url: str, output_id: str, *, timeout_s: float = 2.0
) -> None:
    """Tell the Runtime that nobody needs the output any more (P3). Best effort: after 300 s it is gone anyway."""
    url = f"{base_url.rstrip('/')}/outputs/{output_id}"
    try:
        async with session.delete(url, timeout=aiohttp.ClientTimeout(total=timeout_s)):
            return
    except (aiohttp.ClientError, OSError, TimeoutError):
        return


@dataclass(frozen=True)
class HttpRuntimes:
    """Every Runtime that this session reaches, by its address."""

    session: aiohttp.ClientSession

    async def compile(self, url: str, request: CompileRequest, *, timeout_s: float) -> CompileResult:
        """See `compile_page`."""
        return await compile_page(self.session, url, request, timeout_s=timeout_s)

    async def light(
        self,
        url: str,
        tool: LightTool,
        request: LightRequest,
        file: AsyncIterator[bytes] | None,
        *,
        timeout_s: float,
    ) -> LightResult:
        """See `run_light`."""
        return await run_light(self.session, url, tool, request, file, timeout_s=timeout_s)

    async def delete_output(self, url: str, output_id: str) -> None:
        """See `delete_output`."""
        await delete_output(self.session, url, output_id)
