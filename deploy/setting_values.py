"""The values that settings are made of: bounded numbers, and addresses and lists as people write them.

Owns parsing and its words only. Every refusal is a ValueError whose text names no value: it may be a secret.
"""

import json
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

Port = Annotated[int, Field(ge=0, le=65535)]  # 0: any free one
Count = Annotated[int, Field(ge=1, le=100_000)]
DAY_S = 24 * 3600
Seconds = Annotated[float, Field(gt=0, le=7 * DAY_S)]
LongSeconds = Annotated[float, Field(gt=0, le=10 * 365 * DAY_S)]
Bytes = Annotated[int, Field(ge=1024)]


def url_list(value: Any) -> Any:
    """A JSON list, or addresses with commas between."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return parse_json(value)
    return [part.strip() for part in value.split(",") if part.strip()]


def parse_json(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON ({error})") from None


def http_url(value: str) -> str:
    """The address without a closing slash. Raises ValueError when it is none."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// address")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("must be an address with a number as its port") from None
    if parts.query or parts.fragment or parts.username:
        raise ValueError("must be an address without query, fragment or user")
    return value.rstrip("/")
