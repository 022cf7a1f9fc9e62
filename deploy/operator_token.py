"""The operator's token: how the first administrator comes about without anyone touching the database file (O8, K5).

Owns the user `operator` and a file with one of its tokens, written by the running Backend and readable by its own user
only. `pagegate user create` uses it over HTTP. Who can read the file could read the database beside it, so it opens
nothing that was closed. Survives: a lost file is written anew at the next start, with a new token; a disabled operator
stays disabled.
"""

import asyncio
import os
from pathlib import Path

import structlog

from pagegate.storage.engine import Database
from pagegate.storage.users import LoginTaken, create_user, find_user_by_name, issue_token

log = structlog.get_logger()

OPERATOR = "operator"


async def ensure_operator(db: Database, file: Path) -> None:
    """Make sure that the file holds a token of the operator."""
    if await asyncio.to_thread(file.exists):
        return
    async with db.write() as tx:
        try:
            user_id = await create_user(tx, OPERATOR, is_admin=True)
        except LoginTaken:
            user = await find_user_by_name(tx, OPERATOR)
            if user is None or user.disabled or not user.is_admin:
                log.warning("operator.token.refused", cause="the user `operator` is disabled or no administrator")
                return
            user_id = user.id
        token = await issue_token(tx, user_id, "operator token file")
    await asyncio.to_thread(_write, file, token.secret)
    log.info("operator.token.written", file=file.name)


def _write(file: Path, secret: str) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
        writing.write(secret + "\n")
    unfinished.replace(file)
