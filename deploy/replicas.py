"""What several Backends on one database need before the first of them starts (K4, K5).

Owns the refusals, one for each thing that is missing, all told together: what one process can keep to itself (a key it
made, a folder, its memory) would differ between replicas, and the difference would only show later, as a page that one
replica saved and another cannot open.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagegate.deploy.settings import BackendSettings

CREDENTIAL_CHARS_MIN = 32
_DISTINCT_CHARS_MIN = 10
_PLACEHOLDERS = ("change", "placeholder", "example", "secret", "password", "default", "your-", "xxxx", "1234")


def several(settings: "BackendSettings") -> bool:
    """Whether this Backend is, or may be, one of several."""
    return settings.backend_multi_instance or max(settings.web_concurrency, settings.uvicorn_workers) > 1


def refusals(settings: "BackendSettings") -> Iterator[str]:
    """Every reason why this Backend may not be one of several, as `NAME: what to do`."""
    if settings.database_url.startswith("sqlite"):
        workers = max(settings.web_concurrency, settings.uvicorn_workers)
        yield (
            "DATABASE_URL: SQLite serves one process, and this is to be one of several (BACKEND_MULTI_INSTANCE="
            f"{str(settings.backend_multi_instance).lower()}, {workers} workers): use PostgreSQL "
            "(sqlite_single_process=true)"
        )
    if settings.redis_url.startswith("memory:"):
        yield "REDIS_URL: memory:// is one process's own; replicas need a Redis that all of them reach"
    if settings.asset_storage_driver != "s3" and not settings.object_storage_shared_volume:
        yield (
            "ASSET_STORAGE_DRIVER: a local folder is one machine's own; use s3, or set "
            "OBJECT_STORAGE_SHARED_VOLUME=true when ASSET_STORAGE_LOCAL_DIR is a volume that every replica mounts"
        )
    yield from _key_refusals(settings)
    yield from _credential_refusals(settings)
    fernet = settings.ai_secret_encryption_key
    if (trouble := fernet_trouble("" if fernet is None else fernet.get_secret_value())) is not None:
        yield f"AI_SECRET_ENCRYPTION_KEY: {trouble}; replicas need one Fernet key, from `pagegate keys fernet`"


def _key_refusals(settings: "BackendSettings") -> Iterator[str]:
    if settings.runtime_rsa_allow_auto_generate:
        yield "RUNTIME_RSA_ALLOW_AUTO_GENERATE: must not be true for replicas: each would make a key of its own"
    if settings.runtime_rsa_private_key is None and settings.runtime_rsa_private_key_file is None:
        yield (
            "RUNTIME_RSA_PRIVATE_KEY: replicas need one shared key: set it, or RUNTIME_RSA_PRIVATE_KEY_FILE, on all of "
            "them; `pagegate keys new FILE` makes one"
        )


def _credential_refusals(settings: "BackendSettings") -> Iterator[str]:
    if settings.render_service_credential is None and settings.render_service_credential_file is None:
        return  # told already: nobody starts without one
    try:
        weakness = weak_secret(settings.credential())
    except ValueError:
        return  # an unreadable file is told already
    if weakness is not None:
        yield f"RENDER_SERVICE_CREDENTIAL: {weakness}; replicas need a strong one, from `openssl rand -hex 32`"


def weak_secret(secret: str) -> str | None:
    """Why a shared secret is too easy to guess, without showing any of it; None when it is not. Pure."""
    if len(secret) < CREDENTIAL_CHARS_MIN:
        return f"has fewer than {CREDENTIAL_CHARS_MIN} characters"
    if any(word in secret.lower() for word in _PLACEHOLDERS):
        return "looks like a placeholder"
    if len(set(secret)) < _DISTINCT_CHARS_MIN:
        return "repeats few characters"
    return None


def fernet_trouble(key: str) -> str | None:
    """Why this is no Fernet key that protects anything; None when it is one. Pure."""
    if not key:
        return "is not set"
    try:
        raw = base64.urlsafe_b64decode(key.encode())
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 32:
        return "is no Fernet key (32 bytes in URL-safe base64)"
    if len(set(raw)) < _DISTINCT_CHARS_MIN or all(32 <= byte < 127 for byte in raw):
        return "looks like a placeholder"
    return None
