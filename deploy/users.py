"""`pagegate user …`: users and tokens of a running server, over its HTTP door only (O8).

Owns nothing. The server is the given one, else the one whose address `pagegate lite` left in its data folder; the token
is the given one, else the operator's, which the Backend keeps in the same folder.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Table

from pagegate.deploy.client import Api, ApiRefused, ServerUnreachable
from pagegate.deploy.lite import ADDRESS_FILE
from pagegate.deploy.report import console_of

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8080"


class NoToken(Exception):
    """There is no token to speak to the server with; the text says where one comes from."""


def create_user(name: str, *, admin: bool, url: str | None, token: str | None, data: Path) -> int:
    """Print the new user's token on stdout, and nothing else there."""

    async def create(api: Api) -> int:
        made = await api.call("POST", "/users", {"name": name, "is_admin": admin})
        role = "administrator" if made["user"]["is_admin"] else "user"
        sys.stderr.write(f"{role} {name} (id {made['user']['id']}); the token is shown this once:\n")
        sys.stdout.write(made["token"]["token"] + "\n")
        return 0

    return _run(create, url, token, data)


def list_users(*, url: str | None, token: str | None, data: Path) -> int:
    """A table of users and tokens; no secret is in it, the server does not know any."""

    async def show(api: Api) -> int:
        table = Table("user", "id", "role", "token", "token id", "state", box=None, header_style="bold")
        after: int | None = 0
        while after is not None:
            page = await api.call("GET", f"/users?after_id={after}")
            for user in page["users"]:
                answer = await api.call("GET", f"/users/{user['id']}/tokens")
                for cells in _rows(user, answer["tokens"]):
                    table.add_row(*cells)
            after = page["next_after_id"]
        console_of(sys.stdout).print(table)
        return 0

    return _run(show, url, token, data)


def _rows(user: dict[str, Any], tokens: list[dict[str, Any]]) -> list[list[str]]:
    role = ("administrator" if user["is_admin"] else "user") + (", disabled" if user["disabled"] else "")
    who = [user["name"], str(user["id"]), role]
    rows = [[token["name"], str(token["id"]), "revoked" if token["revoked_at_ms"] else "valid"] for token in tokens]
    return [(who if number == 0 else ["", "", ""]) + row for number, row in enumerate(rows or [["", "", ""]])]


def revoke_token(token_id: int, *, url: str | None, token: str | None, data: Path) -> int:
    """From the next request on the token is useless."""

    async def revoke(api: Api) -> int:
        await api.call("DELETE", f"/tokens/{token_id}")
        sys.stderr.write(f"token {token_id} is revoked\n")
        return 0

    return _run(revoke, url, token, data)


def _run(command: Callable[[Api], Awaitable[int]], url: str | None, token: str | None, data: Path) -> int:
    async def speak() -> int:
        async with Api(url or find_url(data) or DEFAULT_URL, token or operator_token(data)) as api:
            return await command(api)

    try:
        return asyncio.run(speak())
    except (ApiRefused, ServerUnreachable, NoToken) as error:
        sys.stderr.write(f"pagegate user: {error}\n")
        return 1


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
