"""Tickets: who holds one may read one preview artifact (P1, P4, K1-K3).

Owns the keys (RS256): one signs, the previous ones still verify. The Backend signs, hands service tickets to the
Runtime with a compile and to the Renderer with a render, preview tickets to a person's browser, and verifies them at
its own internal endpoints; others verify by the set at `/.well-known/jwks.json`.
"""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from pagegate.actors.signing_keys import KeyRing, VerifyingKey
from pagegate.runtime.preview_token import AUDIENCE, ISSUER, LEEWAY_S, USE_PREVIEW, USE_SERVICE

TICKET_TTL_S = 3600  # K3: preview and service tickets
CHECK_TICKET_TTL_S = 900  # K3: of one check

Use = Literal["service", "preview"]


class InvalidTicketError(Exception):
    """The ticket is missing, forged, expired or for another artifact. Its text may be told to the client."""


class Tickets:
    """Signs and verifies. `key_id` names the key in the set (`RUNTIME_RSA_KEY_ID`)."""

    def __init__(
        self,
        private_key: rsa.RSAPrivateKey,
        key_id: str,
        now_s: Callable[[], float] = time.time,
        previous: Sequence[VerifyingKey] = (),
    ) -> None:
        self._private, self._key_id, self._now_s = private_key, key_id, now_s
        self._public = {key_id: private_key.public_key(), **{key.key_id: key.public for key in previous}}

    @classmethod
    def of(cls, ring: KeyRing) -> "Tickets":
        """Tickets of these keys."""
        return cls(ring.signing, ring.current.key_id, previous=ring.previous)

    def issue(self, artifact_id: str, ttl_s: float = TICKET_TTL_S, *, use: Use = "service") -> str:
        """A ticket that opens this one artifact for `ttl_s` seconds, and its pages when it has several."""
        now_s = int(self._now_s())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": artifact_id,
            "use": USE_PREVIEW if use == "preview" else USE_SERVICE,
            "iat": now_s,
            "exp": now_s + int(ttl_s),
        }
        return jwt.encode(claims, self._private, algorithm="RS256", headers={"kid": self._key_id})

    def verify(self, token: str, artifact_id: str) -> None:
        """Raises `InvalidTicketError` unless the ticket is ours, in time, and for this artifact."""
        try:
            key = self._public.get(str(jwt.get_unverified_header(token).get("kid", "")))
            if key is None:
                raise InvalidTicketError("the ticket is signed by a key that is not in use")
            claims = jwt.decode(token, key, algorithms=["RS256"], audience=AUDIENCE, issuer=ISSUER, leeway=LEEWAY_S)
        except jwt.ExpiredSignatureError as error:
            raise InvalidTicketError("the ticket has expired: ask for the preview again") from error
        except jwt.InvalidTokenError as error:
            raise InvalidTicketError("the ticket is not valid here") from error
        if not opens(str(claims.get("sub", "")), artifact_id):
            raise InvalidTicketError("the ticket is for another artifact")

    def jwks(self) -> dict[str, Any]:
        """The key set that others verify by (K2): current and previous, public parts only."""
        keys = [
            {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key)), "kid": key_id, "use": "sig", "alg": "RS256"}
            for key_id, key in self._public.items()
        ]
        return {"keys": keys}


def opens(subject: str, artifact_id: str) -> bool:
    """Whether a ticket for `subject` opens `artifact_id`: that artifact, or a page of it (`rt_…~3`). Pure."""
    return bool(subject) and (artifact_id == subject or artifact_id.startswith(f"{subject}~"))
