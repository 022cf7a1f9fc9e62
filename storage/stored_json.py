"""JSON as it comes back from the database: one damaged value fails alone.

A value that is no JSON (a hand in the database, a broken disk) must not raise in the middle of a statement: the claim
that reads it would be rolled back, and with it the whole queue would stop. So it becomes an object that fits no model
and says what it is; whoever needs the value refuses that one job, call or run.
"""

import json
from typing import Any

import structlog

log = structlog.get_logger()

UNREADABLE = "STORED_JSON_UNREADABLE"


def read_json(text: str | bytes) -> Any:
    """The stored value; for a damaged one an object with `code` STORED_JSON_UNREADABLE and nothing of the damage."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        log.warning("storage.json_unreadable", kind=type(error).__name__)
        return {"code": UNREADABLE, "message": "What was stored here cannot be read.", "hint": "Look at the database."}


def write_json(value: Any) -> str | None:
    """The text to store; None stays SQL's NULL."""
    return None if value is None else json.dumps(value)
