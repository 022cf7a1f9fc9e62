"""How a command speaks to a running server: which one, as whom, and how failures are told (O8).

Owns nothing. The server is the given one, else the one whose address `pagegate lite` left in its data folder; the token
is the given one, else the operator's, which the Backend keeps in the same folder. No command opens the database.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pagegate.deploy.client import Api, ApiRefused, ServerUnreachable
from pagegate.deploy.lite import ADDRESS_FILE

DEFAULT_URL = "http://127.0.0.1:8080"
_OF_MEMBERS = {"PROJECT_NOT_FOUND", "RUN_NOT_FOUND"}  # both also mean: not a member of its workspace


@dataclass(frozen=True)
class Server:
    """As the command line names it; `data` is the folder of `pagegate lite`."""

    url: str | None
    token: str | None
    data: Path


class NoToken(Exception):
    """There is no token to speak to the server with; the text says where one comes from."""


def talk(command: str, server: Server, say: Callable[[Api], Awaitable[int]]) -> int:
    """Run `say` with a client of the server; the exit code. A refusal is told on stderr and is 1."""

    async def speak() -> int:
        url = server.url or find_url(server.data) or DEFAULT_URL
        async with Api(url, server.token or operator_token(server.data)) as api:
            return await say(api)

    try:
        return asyncio.run(speak())
    except (ApiRefused, ServerUnreachable, NoToken) as error:
        tell_refusal(command, server, error)
        return 1


def tell_refusal(command: str, server: Server, error: Exception) -> None:
    """On stderr. Who gave no token is told as whom it was asked: the operator sees no project of others."""
    sys.stderr.write(f"pagegate {command}: {error}\n")
    if isinstance(error, ApiRefused) and error.code in _OF_MEMBERS and server.token is None:
        sys.stderr.write("The operator's token asked, as none was given; --token or PAGEGATE_TOKEN asks as a member.\n")


def find_url(data: Path) -> str | None:
    """The address that `pagegate lite` left, if one runs on this folder."""
    try:
        return (data / ADDRESS_FILE).read_text("utf-8").strip() or None
    except OSError:
        return None


def operator_token(data: Path) -> str:
    """Raises `NoToken`."""
    try:
        return (data / "operator_token").read_text("utf-8").strip()
    except OSError as error:
        raise NoToken(
            f"no token: give one with --token, or --data with the folder of the running server ({data} has none: "
            f"{error.strerror})"
        ) from error
