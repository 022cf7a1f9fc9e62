"""What an images API's answer means for a job: a picture, a refusal that is final, or another try (A1, R9). Pure.

Owns the three outcomes and the reading of status, headers and body. Nothing that a provider said is passed on in its
own words: they may contain a piece of the key.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

WAIT_MAX_S = 24 * 3600.0
# In a code or type of the provider's; each names its refusals of a content a little differently.
_CONTENT = ("content_policy", "content_filter", "moderation", "safety")
_MONEY = ("insufficient_quota", "billing")
# Somebody between us and the provider answered: what the provider does meanwhile is not known.
_GATEWAYS = frozenset({408, 409, 502, 504, 520, 521, 522, 523, 524, 598, 599})

LATER = "This says nothing about the prompt: do not change it. Ask for the picture again later."
LATER_CHARGED = (
    "This says nothing about the prompt: do not change it. The picture may have been charged: tell the user before you "
    "ask for it again."
)


@dataclass(frozen=True)
class Made:
    """The bytes of a picture, as the provider sent them."""

    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Elsewhere:
    """The picture is to be fetched."""

    url: str = field(repr=False)  # signed: whoever has it has the picture


@dataclass(frozen=True)
class Declined:
    """Final: asked in the same way, the answer would be the same."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True)
class Failed:
    """Infrastructure. `perhaps_made`: the provider may have made a picture, and charged it, that we do not have.

    `wait_s`: how long the provider wants to be left alone.
    """

    code: str
    message: str
    perhaps_made: bool
    wait_s: float = 0.0


Outcome = Made | Declined | Failed


def read_answer(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Outcome | Elsewhere:
    """What an answer means. `headers` are looked up in lower case; `now` is the present, for a date in Retry-After."""
    if 200 <= status < 300:
        return _picture_of(body)
    said = _words_of(body)
    if any(word in said for word in _CONTENT) and 400 <= status < 500:
        return Declined(
            "IMAGE_PROMPT_REFUSED",
            "The provider makes no picture of this: its content rules forbid it.",
            "Change the prompt, then call generate_image again; the same prompt would be refused again.",
        )
    if status == 402 or (400 <= status < 500 and any(word in said for word in _MONEY)):
        return Declined(
            "IMAGE_QUOTA_EXCEEDED",
            "The provider says that the account's quota or money is used up.",
            "Do not change the prompt. The owner of the credential has to look at the account with the provider.",
        )
    if status in {401, 403}:
        return Declined(
            "AI_CREDENTIAL_REFUSED",
            "The provider does not accept the key for images.",
            "Do not change the prompt. Save the credential again with a key that may make images.",
        )
    if status == 404 or "model_not_found" in said:
        return Declined(
            "AI_MODEL_NOT_FOUND",
            "The provider does not know the credential's image model, or makes no images at this address.",
            "Do not change the prompt. Save the credential again with an image_model that the provider has.",
        )
    if status in {425, 429}:
        wait_s = _wait_of(headers, now)
        return Failed("IMAGE_PROVIDER_RATE_LIMITED", "The provider limits the rate of requests.", False, wait_s)
    if status in _GATEWAYS:
        message = f"No answer of the provider itself came (HTTP {status})."
        return Failed("IMAGE_PROVIDER_UNAVAILABLE", message, True, _wait_of(headers, now))
    if status >= 500:
        message = f"The provider failed (HTTP {status})."
        return Failed("IMAGE_PROVIDER_UNAVAILABLE", message, False, _wait_of(headers, now))
    if 300 <= status < 400:
        message, hint = (
            "The provider's address answers with a redirect.",
            "Save the credential with the right base_url.",
        )
        return Declined("IMAGE_REQUEST_REFUSED", message, hint)
    return Declined(
        "IMAGE_REQUEST_REFUSED",
        f"The provider refused the request (HTTP {status}).",
        "The model may not take this size, quality, background or length of prompt: ask with other ones.",
    )


def invalid(what: str) -> Failed:
    """An answer that claims success and holds no picture; it may have been charged."""
    return Failed("IMAGE_ANSWER_INVALID", f"The provider's answer cannot be used: {what}.", True)


def _picture_of(body: bytes) -> Made | Elsewhere | Failed:
    try:
        answer = json.loads(body)
        first = answer["data"][0]
        content, url = first.get("b64_json"), first.get("url")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return invalid("it is not the JSON of an images API")
    if isinstance(content, str) and content:
        try:
            return Made(base64.b64decode(content, validate=True))
        except (binascii.Error, ValueError):
            return invalid("its base64 is broken")
    if isinstance(url, str) and url:
        return Elsewhere(url)
    return invalid("it holds no picture")


def _words_of(body: bytes) -> str:
    """The code and type of an error, in lower case; empty for what is no error body."""
    try:
        error: Any = json.loads(body)["error"]
        return f"{error.get('code')} {error.get('type')}".lower()
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return ""


def _wait_of(headers: Mapping[str, str], now: datetime) -> float:
    """Retry-After in seconds, said as a number or a date; 0 when it is not said or makes no sense."""
    said = headers.get("retry-after", "").strip()
    try:
        wait_s = float(said)
    except ValueError:
        try:
            then = parsedate_to_datetime(said)
        except ValueError:
            return 0.0
        wait_s = ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds()
    return 0.0 if math.isnan(wait_s) else min(max(wait_s, 0.0), WAIT_MAX_S)
