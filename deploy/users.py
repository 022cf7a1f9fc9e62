"""`pagegate user …`: users and tokens of a running server, over its HTTP door only (O8). Owns nothing."""

import sys
from typing import Any

from rich.table import Table

from pagegate.deploy.client import Api
from pagegate.deploy.report import console_of
from pagegate.deploy.talking import Server, talk


def create_user(name: str, *, admin: bool, server: Server) -> int:
    """Print the new user's token on stdout, and nothing else there."""

    async def create(api: Api) -> int:
        made = await api.call("POST", "/users", {"name": name, "is_admin": admin})
        role = "administrator" if made["user"]["is_admin"] else "user"
        sys.stderr.write(f"{role} {name} (id {made['user']['id']}); the token is shown this once:\n")
        sys.stdout.write(made["token"]["token"] + "\n")
        return 0

    return talk("user", server, create)


def list_users(server: Server) -> int:
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

    return talk("user", server, show)


def _rows(user: dict[str, Any], tokens: list[dict[str, Any]]) -> list[list[str]]:
    role = ("administrator" if user["is_admin"] else "user") + (", disabled" if user["disabled"] else "")
    who = [user["name"], str(user["id"]), role]
    rows = [[token["name"], str(token["id"]), "revoked" if token["revoked_at_ms"] else "valid"] for token in tokens]
    return [(who if number == 0 else ["", "", ""]) + row for number, row in enumerate(rows or [["", "", ""]])]


def revoke_token(token_id: int, server: Server) -> int:
    """From the next request on the token is useless."""

    async def revoke(api: Api) -> int:
        await api.call("DELETE", f"/tokens/{token_id}")
        sys.stderr.write(f"token {token_id} is revoked\n")
        return 0

    return talk("user", server, revoke)
