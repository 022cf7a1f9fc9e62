"""The providers' clients behind Pydantic AI (A10): OpenAI-compatible and Anthropic.

Owns how a client is made and closed, its timeouts, and what a provider's refusal means here. Import it late: the
libraries are large. Nothing that a provider said is passed on: it may contain a piece of the key.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx2
import openai
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from pagegate.actors.agents.brain import RunEnds
from pagegate.actors.agents.models import ModelAccess

CONNECT_S = 10.0
SDK_RETRIES = 2


@asynccontextmanager
async def model_of(access: ModelAccess, stream_s: float) -> AsyncIterator[Model]:
    """A model with a client of its own, closed afterwards: no connection is shared between users."""
    timeout = httpx2.Timeout(stream_s, connect=CONNECT_S)
    if access.provider == "anthropic":
        own = anthropic.AsyncAnthropic(
            api_key=access.key, base_url=access.base_url, timeout=timeout, max_retries=SDK_RETRIES
        )
        try:
            yield AnthropicModel(access.model, provider=AnthropicProvider(anthropic_client=own))
        finally:
            await own.close()
        return
    client = openai.AsyncOpenAI(api_key=access.key, base_url=access.base_url, timeout=timeout, max_retries=SDK_RETRIES)
    try:
        yield OpenAIChatModel(access.model, provider=OpenAIProvider(openai_client=client))
    finally:
        await client.close()


async def ask_once(model: Model) -> None:
    """One short question; raises `RunEnds` with the code of what is wrong."""
    try:
        settings = ModelSettings(max_tokens=16)
        await model_request(model, [ModelRequest.user_text_prompt("Answer with the word ok.")], model_settings=settings)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        end = end_of(error)
        if end is None:
            raise
        raise end from None


_AGAIN = "Retry the run in its session in a while; you are told first what it had already written."


def end_of(error: Exception) -> RunEnds | None:
    """What a failure of the model means for a run; None for one that is nobody's but ours."""
    match error:
        case exceptions.ModelQuotaExceededError():
            return RunEnds("AI_MODEL_QUOTA_EXCEEDED", "The provider says that the quota is used up.", _AGAIN)
        case exceptions.ModelRateLimitError():
            return RunEnds("AI_MODEL_RATE_LIMITED", "The provider limits the rate of requests.", _AGAIN)
        case exceptions.ModelAuthenticationError():
            hint = "Save the credential again with a key that works."
            return RunEnds("AI_CREDENTIAL_REFUSED", "The provider does not accept the key.", hint)
        case exceptions.ModelNotFoundError():
            hint = "Choose a model that the provider has."
            return RunEnds("AI_MODEL_NOT_FOUND", "The provider does not know the model.", hint)
        case exceptions.ModelContextWindowExceededError():
            hint = "Begin a new session, which has no history."
            return RunEnds("AI_MODEL_CONTEXT_FULL", "The history is longer than the model can read.", hint)
        case exceptions.ModelTimeoutError() | exceptions.ModelRequestTimeout() | TimeoutError():
            return RunEnds("AI_MODEL_TIMEOUT", "The model did not answer in time.", _AGAIN)
        case exceptions.ModelRequestRejectedError():
            hint = "Look at the model's name and the credential; begin a new session if that does not help."
            return RunEnds("AI_MODEL_REQUEST_REFUSED", "The provider refused the request.", hint)
        case exceptions.ModelHTTPError(status_code=status) if status in {401, 403}:
            hint = "Save the credential again with a key that works."
            return RunEnds("AI_CREDENTIAL_REFUSED", "The provider does not accept the key.", hint)
        case exceptions.UsageLimitExceeded():
            hint = "Ask for less at a time, or raise AI_RUN_REQUEST_LIMIT."
            return RunEnds("AI_RUN_REQUEST_LIMIT", "The run asked the model as often as it may.", hint)
        case exceptions.UnexpectedModelBehavior():
            hint = "Retry the run, or choose another model."
            return RunEnds("AI_MODEL_OUTPUT_INVALID", "The model's answers cannot be used, also not repeated.", hint)
        case exceptions.ModelAPIError() | httpx2.HTTPError() | openai.APIError() | anthropic.APIError() | OSError():
            return RunEnds("AI_MODEL_UNAVAILABLE", "The provider does not answer, or broke off.", _AGAIN)
    return None


def unwrapped(error: BaseException) -> Exception | None:
    """The first plain error of a group of them."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := unwrapped(one)) is not None), None)
    return error if isinstance(error, Exception) else None


def sees(model: Any) -> bool:
    """Whether pictures may be shown to the model."""
    profile = model.profile
    value = profile.get("supports_image_input", True) if isinstance(profile, dict) else True
    return bool(value)
