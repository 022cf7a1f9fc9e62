"""Asking a Runtime for a light tool (V9): through the admission of their lane, with one answer for every refusal."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping

import pykka
from pydantic import JsonValue

from pagegate.actors.compiling.admission import ForgetCompile, RunLight
from pagegate.actors.kernel import ask
from pagegate.http.backend.errors import REFUSALS, ApiError
from pagegate.http.backend.parts import BackendParts
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import LIGHT_DEADLINES_S, LightRequest, LightResult, LightTool

RUNTIME_REFUSALS = [code for code in REFUSALS if code.startswith("RUNTIME_") and not code.startswith("RUNTIME_STATE")]
_MARGIN_S = 10.0  # the Runtime's deadline ends first, then the wire's, each with its own code


async def run_light(
    parts: BackendParts,
    tool: LightTool,
    given: Mapping[str, JsonValue],
    file: AsyncIterator[bytes] | None = None,
    *,
    wait_s: float | None = None,
) -> LightResult:
    """The tool's result; `ok=False` is about the input. Raises `ApiError` with one of `RUNTIME_REFUSALS`."""
    request = LightRequest(task_id=uuid.uuid4().hex, input=dict(given))
    limit_s = wait_s or LIGHT_DEADLINES_S[tool] + _MARGIN_S
    try:
        return await ask(parts.admission, RunLight(tool, request, file), timeout_s=limit_s)
    except RuntimeUnavailable as error:
        code = error.code if error.code in RUNTIME_REFUSALS else "RUNTIME_UNAVAILABLE"
        raise ApiError(code, headers={"Retry-After": "2"}) from error
    except (TimeoutError, asyncio.CancelledError) as error:
        if parts.admission.is_alive():
            parts.admission.tell(ForgetCompile(request.task_id))
        if isinstance(error, TimeoutError):
            raise ApiError("RUNTIME_REQUEST_TIMEOUT", headers={"Retry-After": "2"}) from None
        raise
    except pykka.ActorDeadError:
        raise ApiError("SHUTTING_DOWN") from None
