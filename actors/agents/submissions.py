"""What becomes of a step's calls at the door, before any job exists: what each is about, and which are refused.

Owns the way from parsed calls to rows, the same for every door: HTTP, MCP, the built-in agent (A2, A9). Refused here is
only what a call shows by itself (A11); such a call is answered at once and its siblings go on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pagegate.actors.agents.tools import (
    AnyToolCall,
    ApplyComponentEditsCall,
    CreateComponentCall,
    CreateProjectPageCall,
    GenerateImageCall,
    derive_page_code,
)
from pagegate.actors.agents.truncation import Placeholder, find_placeholder
from pagegate.runtime.contract import framework_of
from pagegate.storage import images, jobs, pages
from pagegate.storage.engine import Tx
from pagegate.storage.runs import CallSubmission

TRUNCATED = "PAGE_SOURCE_TRUNCATED"


async def prepare_calls(tx: Tx, project_id: int, calls: Sequence[AnyToolCall]) -> list[CallSubmission]:
    """Each call with what it is about; a new page gets its code here and keeps it (S4)."""
    taken = await pages.list_codes(tx, project_id) | await jobs.list_candidate_codes(tx, project_id)
    # A code that a call names outright is not for another call of the step to derive.
    taken |= {call.arguments.code for call in calls if isinstance(call, CreateProjectPageCall) and call.arguments.code}
    files: set[str] | None = None  # names that no picture may get; looked up when one is asked for
    submissions = []
    for call in calls:
        match call:
            case CreateProjectPageCall():
                code = call.arguments.code or derive_page_code(call.arguments.title, taken.__contains__)
                taken.add(code)
                file = f"pages/{code}{pages.SUFFIX_OF_FRAMEWORK[call.arguments.framework]}"
                refused = refuse_cut(file, call.arguments.source, {"page_code": code})
                prepared = _submission(call, code, candidate_code=code, refused=refused)
            case CreateComponentCall():
                name = call.arguments.name
                refused = refuse_cut(f"components/{name}", call.arguments.source, {"component_name": name})
                prepared = _submission(call, name, kind=jobs.COMPONENT_MUTATION, refused=refused)
            case ApplyComponentEditsCall():
                prepared = _submission(call, call.arguments.component, kind=jobs.COMPONENT_MUTATION)
            case GenerateImageCall():
                name = call.arguments.name
                if files is None:
                    files = await images.list_taken_names(tx, project_id)
                    files |= await images.list_names_to_come(tx, project_id)
                refused = name_taken(name) if name in files else None
                files.add(name)
                prepared = _submission(call, name, kind=jobs.IMAGE_GENERATION, refused=refused)
            case _:
                prepared = _submission(call, call.arguments.page)
        submissions.append(prepared)
    return submissions


def _submission(call: AnyToolCall, subject: str, **more: Any) -> CallSubmission:
    return CallSubmission(call.call_id, call.tool, call.arguments.model_dump(mode="json"), subject, **more)


def name_taken(name: str) -> dict[str, Any]:
    """What the agent is told of a picture whose name is a file's already, or is going to be one's."""
    message = f"The project has a file {name!r} already, or one is being made; a generated picture replaces no file."
    hint = "Use the file that is there, or call generate_image again with another name."
    return refusal("ASSET_NAME_TAKEN", message, hint, {"asset_name": name})


def refuse_cut(file: str, source: str, about: Mapping[str, str]) -> dict[str, Any] | None:
    """What the agent is told of a source that was cut short (A11); None for a whole one. `file` is its logical path."""
    cut = find_placeholder(source, framework_of(file))
    return None if cut is None else _truncated(file, about, cut)


def _truncated(file: str, about: Mapping[str, str], cut: Placeholder) -> dict[str, Any]:
    noun, tool = ("component", "apply_component_edits") if "component_name" in about else ("page", "apply_page_edits")
    finding = {
        "stage": "compile",
        "code": TRUNCATED,
        "severity": "error",
        "message": f"A placeholder stands here instead of the {noun}: {cut.text!r}.",
        "hint": "Write out what it stands for.",
        "file": file,
        "line": cut.line,
        "column": cut.column,
    }
    message = f"{file}:{cut.line}: a placeholder stands instead of the {noun}: {cut.text!r}."
    hint = f"Nothing was saved. Send the whole source without placeholders, or use {tool} for a small change."
    return refusal(TRUNCATED, message, hint, about, findings=[finding])


def refusal(code: str, message: str, hint: str, about: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """The result of a call that was answered without a job. `about`: `page_code`, or what else it is about."""
    return {"status": "refused", "success": False, **about, "summary": message, "code": code, "next": hint, **more}
