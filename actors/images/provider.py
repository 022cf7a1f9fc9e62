"""One request to an OpenAI-compatible images API (A10, X1): sent, heard to its end, and understood.

Owns the request and its bounds: one timeout over everything, a limit of bytes that is kept while reading, no redirects,
no proxy of the environment, a connection of its own. A picture that the answer only names is fetched from the
provider's own origin, or over https from the public internet, and from nowhere else. Keeps nothing. Cancelled, it
closes the connection.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import aiohttp
from yarl import URL

from pagegate.actors.images.answers import Declined, Elsewhere, Failed, Made, Outcome, invalid, read_answer
from pagegate.actors.images.pictures import BYTES_MAX, too_large
from pagegate.actors.public_internet import Names, PublicDoor

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_S = 10.0
ANSWER_BYTES_MAX = BYTES_MAX * 4 // 3 + 1024 * 1024  # a picture in base64, and the words around it
_FETCHES = 3
_FETCH_AGAIN_S = 1.0


@dataclass(frozen=True)
class ImageAccess:
    """How to reach a model that makes pictures. `keys_honoured`: the same idempotency key is never charged twice."""

    credential_id: int
    base_url: str
    model: str
    keys_honoured: bool
    key: str = field(repr=False)

    @property
    def sent_to(self) -> dict[str, Any]:
        """What a job keeps of where its request went."""
        kept = ("credential_id", "base_url", "model", "keys_honoured")
        return {name: getattr(self, name) for name in kept}


@dataclass(frozen=True)
class Wanted:
    """A picture that is asked for, in the words of the API; None: not said, so that any provider understands it."""

    prompt: str = field(repr=False)
    size: str
    quality: str | None = None
    background: str | None = None
    output_format: str | None = None


class ImageProvider(Protocol):
    """What a job asks for its picture."""

    async def make(self, access: ImageAccess, wanted: Wanted, idempotency_key: str) -> Outcome:
        """Ask once. Never raises for what the other side does; a cancelled call lets go of the connection."""
        ...


class HttpImageProvider:
    """`timeout_s` bounds a whole try: the connection, the answer, and a picture that is fetched elsewhere."""

    def __init__(self, timeout_s: float = 180.0) -> None:
        self._timeout_s = timeout_s

    async def make(self, access: ImageAccess, wanted: Wanted, idempotency_key: str) -> Outcome:
        """See `ImageProvider`."""
        heard = False
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._ask(access, wanted, idempotency_key)
                heard = True
                if isinstance(answer, Elsewhere):
                    return await self._fetch(answer.url, access.base_url)
                return answer
        except TimeoutError:
            what = "Its picture could not be fetched" if heard else "The provider did not answer"
            message = f"{what} within {self._timeout_s:g} s."
            return Failed("IMAGE_PROVIDER_UNAVAILABLE", message, perhaps_made=True)

    async def _ask(self, access: ImageAccess, wanted: Wanted, idempotency_key: str) -> Outcome | Elsewhere:
        headers = {
            "Authorization": f"Bearer {access.key}",
            "Idempotency-Key": idempotency_key,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "pagegate",
        }
        url = f"{access.base_url.rstrip('/')}/images/generations"
        try:
            async with (
                _session(aiohttp.TCPConnector(force_close=True)) as session,
                session.post(url, json=_body(access, wanted), headers=headers, allow_redirects=False) as answer,
            ):
                body = await _read(answer, ANSWER_BYTES_MAX)
                said = {name.lower(): value for name, value in answer.headers.items()}
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            message = f"The provider cannot be reached ({type(error).__name__})."
            return Failed("IMAGE_PROVIDER_UNAVAILABLE", message, perhaps_made=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            message = f"The connection to the provider broke ({type(error).__name__})."
            return Failed("IMAGE_PROVIDER_UNAVAILABLE", message, perhaps_made=True)
        if body is None:
            return too_large(f"it has more than {ANSWER_BYTES_MAX // 2**20} MB")
        return await asyncio.to_thread(read_answer, answer.status, said, body, datetime.now(UTC))

    async def _fetch(self, url: str, base_url: str) -> Outcome:
        """The picture at an address that an answer named; it is paid for, so it is fetched with some patience."""
        refused = refuse_address(url, base_url)
        if refused is not None:
            return refused
        trusted = URL(url).origin() == URL(base_url).origin()
        found: Outcome = invalid("its picture cannot be fetched")
        for number in range(_FETCHES):
            if number:
                await asyncio.sleep(_FETCH_AGAIN_S)
            found = await _get(url, PublicDoor(trusted=trusted))
            if not isinstance(found, Failed):
                return found
        return found


async def try_key(base_url: str, key: str, timeout_s: float = 20.0) -> Declined | Failed | None:
    """Ask for the list of models, which costs nothing: why the key cannot be used, or None.

    Not every server of an images API has such a list; what is no refusal of the key is no reason against it.
    """
    headers = {"Authorization": f"Bearer {key}", "Accept-Encoding": "identity", "User-Agent": "pagegate"}
    try:
        async with (
            asyncio.timeout(timeout_s),
            _session(aiohttp.TCPConnector(force_close=True)) as session,
            session.get(f"{base_url.rstrip('/')}/models", headers=headers, allow_redirects=False) as answer,
        ):
            found = read_answer(answer.status, {}, b"", datetime.now(UTC))
            return found if isinstance(found, Declined) and found.code == "AI_CREDENTIAL_REFUSED" else None
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
        message = f"The provider cannot be reached ({type(error).__name__})."
        return Failed("IMAGE_PROVIDER_UNAVAILABLE", message, perhaps_made=False)


def refuse_address(url: str, base_url: str) -> Declined | None:
    """Why a picture's address is not asked at all, as far as its text tells. Pure."""
    hint = "Do not change the prompt. Use a provider or model that answers with the picture itself (b64_json)."
    try:
        parts = URL(url)
        usable = bool(parts.host) and parts.user is None and parts.scheme in {"http", "https"}
        if usable and (parts.scheme == "https" or parts.origin() == URL(base_url).origin()):
            return None
    except ValueError:
        pass
    return Declined("IMAGE_ADDRESS_NOT_ALLOWED", "The provider names an address that no picture is fetched from.", hint)


async def _get(url: str, door: PublicDoor) -> Outcome:
    connector = aiohttp.TCPConnector(resolver=Names(), force_close=True, use_dns_cache=False, socket_factory=door.open)
    try:
        async with (
            _session(connector) as session,
            session.get(url, headers={"User-Agent": "pagegate"}, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                return invalid(f"its picture's address answers with HTTP {answer.status}")
            body = await _read(answer, BYTES_MAX)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if door.refused_all:
            hint = "Do not change the prompt. Use a provider or model that answers with the picture itself (b64_json)."
            message = "The provider names an address that is not in the public internet."
            return Declined("IMAGE_ADDRESS_NOT_ALLOWED", message, hint)
        return invalid(f"its picture cannot be fetched ({type(error).__name__})")
    return too_large(f"it has more than {BYTES_MAX // 2**20} MB") if body is None else Made(body)


def _session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)  # the whole is bounded by who asks
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, timeout=timeout
    )


async def _read(answer: aiohttp.ClientResponse, bytes_max: int) -> bytes | None:
    """The body; None as soon as it is too large, and the rest of it is never read."""
    if (answer.content_length or 0) > bytes_max:
        return None
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > bytes_max:
            return None
    return bytes(body)


def _body(access: ImageAccess, wanted: Wanted) -> dict[str, Any]:
    said = {name: value for name, value in vars(wanted).items() if value is not None}
    body = {"model": access.model, "n": 1, **said}
    if access.model.startswith("dall-e"):
        body["response_format"] = "b64_json"  # only these take it, and only these answer with an address otherwise
    return body
