"""The values that settings are made of: bounded numbers, and addresses and lists as people write them.

Owns parsing and its words only. Every refusal is a ValueError whose text names no value: it may be a secret.
"""

import json
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

Port = Annotated[int, Field(ge=0, le=65535)]  # 0: any free one
Count = Annotated[int, Field(ge=1, le=100_000)]
DAY_S = 24 * 3600
Seconds = Annotated[float, Field(gt=0, le=7 * DAY_S)]
LongSeconds = Annotated[float, Field(gt=0, le=10 * 365 * DAY_S)]
Bytes = Annotated[int, Field(ge=1024)]


class PerLane(BaseModel):
    """One number for every lane of the Runtime, or one for each: `2`, or `check=2, build=1, light=1` (V1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: int = Field(ge=1, le=1_000_000)
    build: int = Field(ge=1, le=1_000_000)
    light: int = Field(ge=1, le=1_000_000)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, int):
            return dict.fromkeys(cls.model_fields, value)
        if not isinstance(value, str):
            return value
        if value.strip().isdecimal():
            return dict.fromkeys(cls.model_fields, int(value))
        parts = [part.partition("=") for part in value.split(",")]
        named = {name.strip(): number.strip() for name, _, number in parts}
        if sorted(named) != sorted(cls.model_fields) or len(parts) != len(named):
            raise ValueError("must be one number, or check=N,build=N,light=N")
        return named


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
