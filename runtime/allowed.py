"""Which Backends a Runtime talks to: those that it was told of, and no other (X1)."""

from urllib.parse import urlsplit


def may_fetch_from(backend_url: str, allowed: tuple[str, ...]) -> bool:
    """True when `backend_url` is one of `allowed`, compared as scheme, host, port and path. Pure."""
    return _identity(backend_url) is not None and _identity(backend_url) in {_identity(url) for url in allowed}


def _identity(url: str) -> tuple[str, str, int, str] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port is None:
        return None
    if parts.username or parts.password or parts.query or parts.fragment:
        return None
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")
