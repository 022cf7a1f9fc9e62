"""One try of a webhook: which addresses may be asked, the signature, the request (A9, X1).

Owns no state. An address comes from a user, and the Backend stands in a network that the user does not: only `https`
and only the public internet, unless the operator allowed the address (`WEBHOOK_ALLOWED_URLS`). What counts is the
address that a socket is made for, not what a name said when it was saved. Redirects are not followed, proxies of the
environment are not used, and no byte of an answer's body is read.

Signed as Standard Webhooks describes it: HMAC-SHA256 over `id.timestamp.body`, as `v1,` and base64.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
from yarl import URL

from pagegate.actors.public_internet import Names, PublicDoor, is_public

TIMEOUT_S = 10.0
_SECRET_PREFIX = "whsec_"  # noqa: S105  the mark of the kind, not a secret


class WebhookUrlNotAllowed(Exception):
    """WEBHOOK_URL_NOT_ALLOWED: this deployment sends no webhook there. The text is for clients."""


@dataclass(frozen=True)
class Tried:
    """What came of a try: a status of HTTP, or a code and the cause when there was none."""

    status: int | None
    code: str = ""
    message: str = ""


class WebhookAddresses:
    """`allowed`: what may be asked besides the public internet over https, as base URLs; `*` allows anything."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._any = "*" in allowed
        self._allowed = [URL(url) for url in allowed if url != "*"]

    def check(self, url: str) -> None:
        """Raises `WebhookUrlNotAllowed` for what can be known without asking a name server."""
        parts = _parsed(url)
        if self.is_trusted(url):
            return
        if parts.scheme != "https":
            raise WebhookUrlNotAllowed("A webhook's address must begin with https://.")
        try:
            public = is_public(parts.host or "")
        except ValueError:
            return  # a name: what it stands for is looked at when a connection is made
        if not public:
            raise WebhookUrlNotAllowed("A webhook's address must be in the public internet.")

    def is_trusted(self, url: str) -> bool:
        """The operator allowed this address, wherever it leads."""
        parts = _parsed(url)
        return self._any or any(_is_below(parts, base) for base in self._allowed)


def new_secret() -> str:
    """A fresh signing secret, in the form that verifiers take."""
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode("ascii")


def signature_of(secret: str, message_id: str, timestamp_s: int, body: bytes) -> str:
    """The value of `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode("ascii")


async def send(
    addresses: WebhookAddresses, url: str, secret: str, message_id: str, timestamp_s: int, body: bytes, timeout_s: float
) -> Tried:
    """Ask once; never raises for what the other side does. `timestamp_s` is the present, of this try."""
    try:
        addresses.check(url)
    except WebhookUrlNotAllowed as refused:
        return Tried(None, "WEBHOOK_URL_NOT_ALLOWED", str(refused))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "pagegate",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": signature_of(secret, message_id, timestamp_s, body),
    }
    door = PublicDoor(trusted=addresses.is_trusted(url))
    # A connector of its own: what was looked at is the connection that is used, and nothing of it is used again.
    connector = aiohttp.TCPConnector(resolver=Names(), force_close=True, use_dns_cache=False, socket_factory=door.open)
    jar = aiohttp.DummyCookieJar()
    try:
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(connector=connector, cookie_jar=jar, trust_env=False) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            return Tried(answer.status)
    except TimeoutError:
        return Tried(None, "WEBHOOK_TIMEOUT", f"It did not answer within {timeout_s:g} s.")
    except aiohttp.ClientConnectorDNSError:
        return Tried(None, "WEBHOOK_UNREACHABLE", "Its name is not known.")
    except aiohttp.ClientSSLError:
        return Tried(None, "WEBHOOK_UNREACHABLE", "Its certificate, or its TLS, was not accepted.")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if door.refused_all:
            said = "Its name stands for an address that is not in the public internet."
            return Tried(None, "WEBHOOK_ADDRESS_NOT_ALLOWED", said)
        return Tried(None, "WEBHOOK_UNREACHABLE", f"There was no answer ({type(error).__name__}).")


def _parsed(url: str) -> URL:
    """Raises `WebhookUrlNotAllowed`."""
    try:
        parts = URL(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.host) and parts.user is None and not parts.fragment
    except ValueError:
        usable = False
    if not usable:
        raise WebhookUrlNotAllowed("A webhook's address is an https:// address without user name and fragment.")
    return parts


def _is_below(url: URL, base: URL) -> bool:
    return url.origin() == base.origin() and f"{url.path.rstrip('/')}/".startswith(f"{base.path.rstrip('/')}/")
