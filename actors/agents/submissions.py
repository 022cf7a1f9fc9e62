"""What becomes of a step's calls at the door, before any job exists: which page each is about, and which are refused.

Owns the way from parsed calls to rows, the same for every door: HTTP, MCP, the built-in agent (A2, A9). Refused here is
only what a call shows by itself (A11); such a call is answered at once and its siblings go on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pagegate.actors.agents.tools import ApplyPageEditsCall, CreateProjectPageCall, derive_page_code
from pagegate.actors.agents.truncation import Placeholder, find_placeholder
from pagegate.storage import jobs, pages
from pagegate.storage.engine import Tx
from pagegate.storage.runs import CallSubmission

PARSED = CreateProjectPageCall | ApplyPageEditsCall
TRUNCATED = "PAGE_SOURCE_TRUNCATED"


async def prepare_calls(tx: Tx, project_id: int, calls: Sequence[PARSED]) -> list[CallSubmission]:
    """Each call with the page it is about; a new page gets its code here and keeps it (S4)."""
    taken = await pages.list_codes(tx, project_id) | await jobs.list_candidate_codes(tx, project_id)
    # A code that a call names outright is not for another call of the step to derive.
    taken |= {call.arguments.code for call in calls if isinstance(call, CreateProjectPageCall) and call.arguments.code}
    submissions = []
    for call in calls:
        candidate: str | None = None
        refused: dict[str, Any] | None = None
        if isinstance(call, CreateProjectPageCall):
            candidate = call.arguments.code or derive_page_code(call.arguments.title, taken.__contains__)
            taken.add(candidate)
            cut = find_placeholder(call.arguments.source, call.arguments.framework)
            refused = None if cut is None else truncated(candidate, call.arguments.framework, cut)
        submissions.append(
            CallSubmission(
                call_id=call.call_id,
                tool_name=call.tool,
                arguments=call.arguments.model_dump(mode="json"),
                subject=candidate or call.arguments.page,  # type: ignore[union-attr]  # no candidate: an edit
                candidate_code=candidate,
                refused=refused,
            )
        )
    return submissions


def truncated(page_code: str, framework: str, cut: Placeholder) -> dict[str, Any]:
    """What the agent is told of a source that was cut short (A11)."""
    file = f"pages/{page_code}{pages.SUFFIX_OF_FRAMEWORK[framework]}"
    finding = {
        "stage": "compile",
        "code": TRUNCATED,
        "severity": "error",
        "message": f"A placeholder stands here instead of the page: {cut.text!r}.",
        "hint": "Write out what it stands for.",
        "file": file,
        "line": cut.line,
        "column": cut.column,
    }
    message = f"{file}:{cut.line}: a placeholder stands instead of the page: {cut.text!r}."
    hint = "Nothing was saved. Send the whole source without placeholders, or use apply_page_edits for a small change."
    return refusal(TRUNCATED, message, hint, page_code, findings=[finding])


def refusal(code: str, message: str, hint: str, page_code: str, **more: Any) -> dict[str, Any]:
    """The result of a call that was answered without a job."""
    told: Mapping[str, Any] = {"status": "refused", "success": False, "page_code": page_code, "summary": message}
    return {**told, "code": code, "next": hint, **more}
