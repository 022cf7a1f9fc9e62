"""A session's history as it is stored: what must be true of it before a model may see it again (A1, A7).

Pure, on the messages as Pydantic AI writes them to JSON, so that nothing here needs the library. A run that was stopped
leaves calls without an answer behind; providers refuse such a history, so each gets one: what became of the call.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_CALL_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
STOPPED = "The run was stopped before this call was carried out. Nothing came of it."


def prompt_message(prompt: str) -> dict[str, Any]:
    """A person's words as the history keeps them."""
    return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": prompt}]}


def pending_calls(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tool calls without an answer, in order. Of what cannot be read there are none."""
    calls: dict[str, dict[str, Any]] = {}
    for part in _parts(messages):
        kind, call_id = part.get("part_kind"), part.get("tool_call_id")
        if not isinstance(call_id, str):
            continue
        if kind == "tool-call":
            calls[call_id] = part
        elif kind in {"tool-return", "retry-prompt"}:
            calls.pop(call_id, None)
    return list(calls.values())


def completed(messages: Sequence[Mapping[str, Any]], ends: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages of a run that is over, with an answer for every call. `ends`: what is known, by call id."""
    left = pending_calls(messages)
    if not left:
        return list(messages)
    parts = [
        {
            "part_kind": "tool-return",
            "tool_name": call.get("tool_name", ""),
            "tool_call_id": call["tool_call_id"],
            "content": _end_of(call["tool_call_id"], ends),
        }
        for call in left
    ]
    return [*messages, {"kind": "request", "parts": parts}]


def _end_of(call_id: str, ends: Mapping[str, Any]) -> Any:
    plain = stored_call_id(call_id, 0, [])
    known = [kept for kept in ends if kept == plain or re.fullmatch(rf"s\d+\.{re.escape(plain)}", kept)]
    return ends[known[-1]] if known else STOPPED  # the newest: an id that came twice was answered the first time


def count_answers(messages: Iterable[Mapping[str, Any]]) -> int:
    """How often the model has answered."""
    return sum(message.get("kind") == "response" for message in messages if isinstance(message, Mapping))


def without_pictures(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages for keeping: a picture is looked at once, and its bytes are stored elsewhere."""
    return [{**message, "parts": [_without_bytes(part) for part in message.get("parts", [])]} for message in messages]


def stored_call_id(call_id: str, run_step: int, taken: Iterable[str]) -> str:
    """The id under which a model's call is kept: its own, unless that is no usable name or an earlier step used it."""
    usable = call_id if _CALL_ID.fullmatch(call_id) else "call-" + hashlib.sha256(call_id.encode()).hexdigest()[:24]
    return f"s{run_step}.{usable}" if usable in set(taken) else usable


def results_by_model_id(
    calls: Sequence[Mapping[str, Any]], results: Mapping[str, Any], run_step: int
) -> dict[str, Any]:
    """The results under the ids that the model gave its calls, whatever order they ended in (A4)."""
    found = {}
    for call in calls:
        own = str(call["tool_call_id"])
        plain = stored_call_id(own, run_step, [])
        for kept in (f"s{run_step}.{plain}", plain):
            if kept in results:
                found[own] = results[kept]
                break
    return found


def _parts(messages: Sequence[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    for message in messages:
        parts = message.get("parts") if isinstance(message, Mapping) else None
        for part in parts if isinstance(parts, list) else []:
            if isinstance(part, dict):
                yield part


def _without_bytes(part: Any) -> Any:
    if not isinstance(part, dict) or not isinstance(part.get("content"), list):
        return part
    kept = [
        "(a picture was shown here; get_verdict shows it again)"
        if isinstance(item, dict) and item.get("kind") == "binary"
        else item
        for item in part["content"]
    ]
    return {**part, "content": kept}
