"""Preview tokens as the Runtime checks them: against the keys that the Backend publishes (P4, K2).

Owns the words that signer and checker agree on, and a copy of the key set. A kept set is at most 60 s old. A token of a
key that is not in it has the set fetched again, but at a limited rate: made-up key ids cost the Backend nothing. While
the Backend does not answer, a set that is young enough goes on being used; after that nobody is let in (fail closed).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

ISSUER = "pagegate"
AUDIENCE = "pagegate:preview-artifact"
USE_SERVICE, USE_PREVIEW = "service", "preview"
LEEWAY_S = 30  # a signer's clock may be a little ahead

KEYS_KEPT_S = 60.0
_UNKNOWN_S = 5.0  # at most one fetch for an unknown key in this time, whatever is asked
_RETRY_S = 1.0  # at most one fetch in this time from a Backend that does not answer
_KEYS_MAX = 64


class KeysUnavailable(Exception):
    """The Backend does not give its keys. Infrastructure."""


class PreviewTokenInvalid(Exception):
    """The token is forged, or for something else. Its text may be shown to a person."""

    status, code, title = 401, "PREVIEW_TOKEN_INVALID", "This address opens nothing"


class PreviewTokenExpired(PreviewTokenInvalid):
    """The token was good, and its time is over."""

    status, code, title = 404, "PREVIEW_ARTIFACT_UNAVAILABLE", "This preview is gone"


class KeySet:
    """`fetch` answers the body of the key set's address, or raises `KeysUnavailable`; `now_s` is monotonic."""

    def __init__(self, fetch: Callable[[], Awaitable[bytes]], now_s: Callable[[], float]) -> None:
        self._fetch, self._now_s = fetch, now_s
        self._keys: dict[str, rsa.RSAPublicKey] = {}
        self._fetched_at_s: float | None = None
        self._tried_at_s = self._unknown_at_s = float("-inf")  # the last fetch, and the last for an unknown key
        self._lock = asyncio.Lock()
        self.fetches = 0

    async def find(self, key_id: str) -> rsa.RSAPublicKey | None:
        """The key, or None when the Backend has no such key. Raises `KeysUnavailable`."""
        if key_id in self._keys and not self._is_old():
            return self._keys[key_id]
        async with self._lock:  # those who wait here find what the first one fetched
            now_s = self._now_s()
            if self._is_old():
                if now_s - self._tried_at_s >= _RETRY_S:
                    await self._refetch()
            elif key_id not in self._keys and now_s - self._unknown_at_s >= _UNKNOWN_S:
                self._unknown_at_s = now_s
                await self._refetch()
            if self._is_old():
                raise KeysUnavailable("the keys are too old to trust, and there are no newer ones")
            return self._keys.get(key_id)

    def _is_old(self) -> bool:
        return self._fetched_at_s is None or self._now_s() - self._fetched_at_s >= KEYS_KEPT_S

    async def _refetch(self) -> None:
        self._tried_at_s = asked_at_s = self._now_s()
        self.fetches += 1
        try:
            keys = _parsed(await self._fetch())
        except KeysUnavailable:
            if self._is_old():
                raise
            return
        self._keys, self._fetched_at_s = keys, asked_at_s


async def verify_preview_token(token: str, keys: KeySet) -> str:
    """The artifact that the token opens. Raises `PreviewTokenInvalid` or `KeysUnavailable`."""
    try:
        header = jwt.get_unverified_header(token)
    except jwt.InvalidTokenError as error:
        raise PreviewTokenInvalid("This address is not one that was given out.") from error
    key = await keys.find(str(header.get("kid", "")))
    if key is None:
        raise PreviewTokenInvalid("This address is not one that was given out, or its key is no longer in use.")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=["RS256"],
            audience=AUDIENCE,
            issuer=ISSUER,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "sub"]},
        )
    except jwt.ExpiredSignatureError as error:
        raise PreviewTokenExpired("Its time is over: previews can be looked at for an hour.") from error
    except jwt.InvalidTokenError as error:
        raise PreviewTokenInvalid("This address is not one that was given out.") from error
    if claims.get("use") != USE_PREVIEW:
        raise PreviewTokenInvalid("This address is not one that was given out.")
    return str(claims["sub"])


def _parsed(body: bytes) -> dict[str, rsa.RSAPublicKey]:
    """Keys that are none of ours, or not understood, are left out. Raises `KeysUnavailable` for no set at all."""
    try:
        listed = json.loads(body)["keys"]
        usable = [key for key in listed[:_KEYS_MAX] if key.get("kty") == "RSA" and key.get("alg", "RS256") == "RS256"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise KeysUnavailable("the Backend's keys are not readable") from error
    keys: dict[str, rsa.RSAPublicKey] = {}
    for key in usable:
        try:
            parsed = jwt.PyJWK(key, algorithm="RS256").key
        except (jwt.PyJWKError, jwt.InvalidKeyError, ValueError):
            continue
        if isinstance(parsed, rsa.RSAPublicKey) and isinstance(key.get("kid"), str):
            keys[key["kid"]] = parsed
    return keys
