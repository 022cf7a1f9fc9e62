"""Service tickets: who holds one may read one preview artifact (P1, K1-K3).

Owns the signing key (RS256). The Backend signs, hands the ticket to the Runtime with a compile and to the Renderer
with a render, and verifies it at its own internal endpoints; others verify by the set at `/.well-known/jwks.json`.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

TICKET_TTL_S = 3600  # K3: preview and service tickets
_LEEWAY_S = 30  # a signer's clock may be a little ahead
_ISSUER = "pagegate"
_AUDIENCE = "pagegate:preview-artifact"


class InvalidTicketError(Exception):
    """The ticket is missing, forged, expired or for another artifact. Its text may be told to the client."""


class Tickets:
    """Signs and verifies. `key_id` names the key in the set (`RUNTIME_RSA_KEY_ID`)."""

    def __init__(self, private_key: rsa.RSAPrivateKey, key_id: str, now_s: Callable[[], float] = time.time) -> None:
        self._private, self._public, self._key_id, self._now_s = private_key, private_key.public_key(), key_id, now_s

    @classmethod
    def from_file(cls, path: Path, key_id: str = "default-key-1") -> "Tickets":
        """Read the PEM key, or make it when it is missing (K1: the default of a single instance, never of replicas)."""
        if not path.exists():
            _write_new_key(path)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TypeError(f"{path.name} holds no RSA key: remove it, or put a PEM made by `openssl genpkey` there")
        return cls(key, key_id)

    def issue(self, artifact_id: str, ttl_s: float = TICKET_TTL_S) -> str:
        """A ticket that opens this one artifact for `ttl_s` seconds."""
        now_s = int(self._now_s())
        claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": artifact_id, "iat": now_s, "exp": now_s + int(ttl_s)}
        return jwt.encode(claims, self._private, algorithm="RS256", headers={"kid": self._key_id})

    def verify(self, token: str, artifact_id: str) -> None:
        """Raises `InvalidTicketError` unless the ticket is ours, in time, and for this artifact."""
        try:
            claims = jwt.decode(
                token, self._public, algorithms=["RS256"], audience=_AUDIENCE, issuer=_ISSUER, leeway=_LEEWAY_S
            )
        except jwt.ExpiredSignatureError as error:
            raise InvalidTicketError("the ticket has expired: ask for the preview again") from error
        except jwt.InvalidTokenError as error:
            raise InvalidTicketError("the ticket is not valid here") from error
        if claims.get("sub") != artifact_id:
            raise InvalidTicketError("the ticket is for another artifact")

    def jwks(self) -> dict[str, Any]:
        """The key set that others verify by (K2)."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._public))
        return {"keys": [{**public, "kid": self._key_id, "use": "sig", "alg": "RS256"}]}


def _write_new_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written whole or not at all: a process killed here must not leave half a key for the next start.
    unfinished = path.with_suffix(f".{os.getpid()}.new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    unfinished.replace(path)
