"""The token on every call to a Renderer (R6): who may use which worker, until when.

A token is `v1.<audience>.<expiry>.<mac>`: the worker's id (base64url), the expiry in whole seconds of Unix time, and
the HMAC-SHA256 of all before it under `RENDER_SERVICE_CREDENTIAL`, which both sides share. Pure functions; nothing is
kept.
"""

import base64
import binascii
import hashlib
import hmac
import time
from typing import Literal

TOKEN_TTL_MAX_S = 3600
CLOCK_LEEWAY_S = 60  # the signer's clock may run ahead of the worker's
_VERSION = "v1"

TokenErrorCode = Literal["RENDER_TOKEN_INVALID", "RENDER_TOKEN_EXPIRED"]


class TokenRefused(Exception):
    """The call is not authorised. `code` is stable, the message says what to do and never repeats the token."""

    def __init__(self, code: TokenErrorCode, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


def issue_token(credential: str, worker_id: str, *, ttl_s: int = TOKEN_TTL_MAX_S, now_s: float | None = None) -> str:
    """A token for one worker, good for `ttl_s`, at most `TOKEN_TTL_MAX_S`. ValueError for more, or no credential."""
    if not credential:
        raise ValueError("RENDER_SERVICE_CREDENTIAL is empty")
    if not 0 < ttl_s <= TOKEN_TTL_MAX_S:
        raise ValueError(f"a render token lives at most {TOKEN_TTL_MAX_S} s")
    expires_s = int(time.time() if now_s is None else now_s) + ttl_s
    signed = f"{_VERSION}.{_encode(worker_id.encode())}.{expires_s}"
    return f"{signed}.{_mac(credential, signed)}"


def verify_token(credential: str, worker_id: str, token: str, *, now_s: float | None = None) -> None:
    """Return when the token is good for this worker now, else raise `TokenRefused`.

    The signature is checked before anything the token says is believed.
    """
    signed, _, mac = token.rpartition(".")
    expected = _mac(credential, signed) if credential else ""
    # Compared as bytes: a token may hold any character, and compare_digest takes only ASCII text.
    if not expected or not hmac.compare_digest(_bytes(mac), _bytes(expected)):
        raise _invalid("the token was not signed with this worker's credential")
    version, audience, expires_s = _parts(signed)
    if version != _VERSION:
        raise _invalid("the token is of another version")
    if audience != worker_id:
        raise _invalid("the token is for another worker")
    now = time.time() if now_s is None else now_s
    if expires_s <= now:
        raise TokenRefused("RENDER_TOKEN_EXPIRED", "the token has expired", "issue a new token and send the call again")
    if expires_s > now + TOKEN_TTL_MAX_S + CLOCK_LEEWAY_S:
        raise _invalid(f"the token lives longer than {TOKEN_TTL_MAX_S} s")


def _parts(signed: str) -> tuple[str, str, int]:
    pieces = signed.split(".")
    if len(pieces) != 3:
        raise _invalid("the token does not have the shape of one")
    try:
        return pieces[0], _decode(pieces[1]).decode(), int(pieces[2])
    except (ValueError, binascii.Error) as error:
        raise _invalid("the token does not have the shape of one") from error


def _invalid(message: str) -> TokenRefused:
    hint = "RENDER_SERVICE_CREDENTIAL and the worker's id must be the same on both sides"
    return TokenRefused("RENDER_TOKEN_INVALID", message, hint)


def _mac(credential: str, signed: str) -> str:
    return _encode(hmac.new(_bytes(credential), _bytes(signed), hashlib.sha256).digest())


def _bytes(text: str) -> bytes:
    # What came in a header may hold lone surrogates, which stand for bytes that are no text.
    return text.encode("utf-8", "surrogatepass")


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
