"""What an agent may look at: pages, sources, components, verdicts; written for a model (A1, A11).

Owns the answers of the reading tools, the same for the built-in agent and for MCP. Each is a small object in plain
words; what a call is about and cannot be found is told as `error` with what to do, never raised.
"""

from collections.abc import Mapping
from typing import Any

from pagegate.storage import jobs, pages, tool_calls
from pagegate.storage.assets import AssetVersion, find_asset, list_assets
from pagegate.storage.components import ComponentVersion, find_component, list_current_components
from pagegate.storage.engine import Tx
from pagegate.storage.objects import ObjectMissing, Objects, ObjectStoreUnavailable

_NOT_FOR_MODELS = {"picture_key", "timings_ms"}
_COMPONENT = jobs.SUBJECTS[jobs.COMPONENT_MUTATION]
_ASSET = jobs.SUBJECTS[jobs.IMAGE_GENERATION]


async def list_project_pages(tx: Tx, project_id: int) -> dict[str, Any]:
    listed = await pages.list_pages(tx, project_id)
    return {
        "pages": [
            {
                "page": entry.page.code,
                "title": entry.page.title,
                "framework": entry.page.framework,
                "version": entry.page.number,
                "status": entry.status,
            }
            for entry in listed
        ]
    }


async def get_page_content(tx: Tx, project_id: int, page_code: str) -> dict[str, Any]:
    page = await pages.find_page_by_code(tx, project_id, page_code)
    version = await pages.find_version(tx, page.id, page.number) if page is not None else None
    if page is None or version is None:
        return _unknown_page(page_code)
    return {
        "page": page.code,
        "title": version.title,
        "framework": page.framework,
        "version": version.number,
        "speaker_notes": version.speaker_notes,
        "source": version.source,
    }


async def list_workspace_components(tx: Tx, project_id: int) -> dict[str, Any]:
    found = [_told_component(one) for one in await list_current_components(tx, project_id)]
    assets = [_told_asset(asset) for asset in await list_assets(tx, project_id)]
    return {"components": found, "assets": assets}


async def get_verdict(tx: Tx, project_id: int, run_id: int | None, page_code: str) -> dict[str, Any]:
    """What the gate last said of a page: in this run if it was checked here, else of its current version.

    The picture's key is in `picture_key`; take it out before the rest is shown.
    """
    if run_id is not None:
        calls = [call for call in await tool_calls.list_tool_calls(tx, run_id) if _is_about(call, page_code)]
        if calls and calls[-1].result is None:
            return {"page": page_code, "status": "pending", "next": "Its check has not ended; ask again in a moment."}
        if calls:
            return {"page": page_code, **dict(calls[-1].result or {})}
    page = await pages.find_page_by_code(tx, project_id, page_code)
    version = await pages.find_version(tx, page.id, page.number) if page is not None else None
    if version is None:
        return _unknown_page(page_code)
    return {
        "page": page_code,
        "version": version.number,
        "status": version.status,
        **dict(version.verdict or {}),
        "picture_key": version.picture_key,
    }


async def get_component_verdict(tx: Tx, project_id: int, run_id: int | None, name: str) -> dict[str, Any]:
    """What the gate last said of a component: in this run if it was checked here, else of its current version."""
    if run_id is not None:
        calls = [call for call in await tool_calls.list_tool_calls(tx, run_id) if call.about == {_COMPONENT: name}]
        if calls and calls[-1].result is None:
            return {_COMPONENT: name, "status": "pending", "next": "Its check has not ended; ask again in a moment."}
        if calls:
            return {_COMPONENT: name, **dict(calls[-1].result or {})}
    version = await find_component(tx, project_id, name)
    if version is None:
        return {
            "error": "COMPONENT_NOT_FOUND",
            "message": f"The project has no component {name!r}.",
            "next": "list_workspace_components names the components there are.",
        }
    return {_COMPONENT: name, "status": "passed" if version.contract else "unchecked", **_told_component(version)}


async def get_picture(tx: Tx, project_id: int, run_id: int | None, name: str) -> dict[str, Any]:
    """What became of a picture that was asked for: in this run if it was, else the file that the project has."""
    if run_id is not None:
        calls = [call for call in await tool_calls.list_tool_calls(tx, run_id) if call.about == {_ASSET: name}]
        if calls and calls[-1].result is None:
            return {_ASSET: name, "status": "pending", "next": "It is still being made; ask again in a moment."}
        if calls:
            return {_ASSET: name, **dict(calls[-1].result or {})}
    asset = await find_asset(tx, project_id, name)
    if asset is None:
        return {
            "error": "ASSET_NOT_FOUND",
            "message": f"The project has no file {name!r}.",
            "next": "list_workspace_components names the files there are.",
        }
    return {_ASSET: name, "status": "passed", **_told_asset(asset)}


async def picture_of(objects: Objects, verdict: Mapping[str, Any]) -> bytes | None:
    """The bytes of a verdict's picture; None when there is none, or the store is away: a verdict stands without."""
    key = verdict.get("picture_key")
    if not isinstance(key, str):
        return None
    try:
        return await objects.get(key)
    except (ObjectMissing, ObjectStoreUnavailable):
        return None


def without_keys(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what is ours to know."""
    return {key: value for key, value in result.items() if key not in _NOT_FOR_MODELS}


def told_to_model(result: Mapping[str, Any] | None, state: str) -> dict[str, Any]:
    """A call's result in the words for a model: first whether anything was saved, then why and what to do (A11)."""
    said = without_keys(result or {})
    saved = state == "succeeded"
    if "next" not in said:
        said["next"] = said.pop("hint", "") or ("" if saved else "Nothing was saved by this call.")
    return {"saved": saved, **said}


def _told_asset(asset: AssetVersion) -> dict[str, Any]:
    """With its size where it is known (V9): a model that knows the ratio need not guess a box for a picture."""
    told = {"import": f"@assets/{asset.stored.name}", "media_type": asset.stored.media_type}
    if asset.size is None:
        return told
    return {**told, "width_px": asset.size.width_px, "height_px": asset.size.height_px, "ratio": asset.size.ratio}


def _told_component(version: ComponentVersion) -> dict[str, Any]:
    """`contract` is null for a component that was saved without a check."""
    return {
        "import": f"@components/{version.name}",
        "version": version.number,
        "contract": version.contract,
        "source": version.source,
    }


def _is_about(call: tool_calls.ToolCall, page_code: str) -> bool:
    return page_code in {call.page_code, (call.result or {}).get("page_code")}


def _unknown_page(page_code: str) -> dict[str, Any]:
    return {
        "error": "PAGE_NOT_FOUND",
        "message": f"The project has no page {page_code!r}.",
        "next": "list_project_pages names the pages there are.",
    }
