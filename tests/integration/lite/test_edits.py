"""Edits of a saved page through the whole gate, as another machine's editor writes them (CASES 39)."""

import asyncio
from pathlib import Path
from typing import Any

from pagegate.deploy.client import Api
from pagegate.deploy.deck import send_calls
from pagegate.deploy.demo import create_administrator, lite

SOURCE = """<script setup>
const sold = 3
</script>
<template>
  <h1 class="p-8">Sold: {{ sold }}</h1>
</template>
""".replace("\n", "\r\n")


async def outcome(api: Api, project_id: int, call: dict[str, Any], key: str) -> dict[str, Any]:
    run_id = await send_calls(api, project_id, [{"call_id": key, **call}], key=key)
    async with asyncio.timeout(120):
        async for _ in api.events(run_id):
            pass
    (told,) = (await api.call("GET", f"/runs/{run_id}"))["calls"]
    result: dict[str, Any] = told["result"]
    return result


def edit(base_version: int, search: str, replace: str) -> dict[str, Any]:
    edits = [{"search": search, "replace": replace}]
    return {"tool": "apply_page_edits", "arguments": {"page": "sold", "base_version": base_version, "edits": edits}}


async def test_an_edit_with_other_line_ends_is_applied_once_and_one_that_breaks_the_page_saves_nothing(
    tmp_path: Path,
) -> None:
    create = {"tool": "create_project_page", "arguments": {"title": "Sold", "code": "sold", "source": SOURCE}}
    async with lite(tmp_path) as server, Api(server.url, await create_administrator(server)) as api:
        workspace = await api.call("POST", "/workspaces", {"name": "w"})
        project_id = (await api.call("POST", f"/workspaces/{workspace['id']}/projects", {"name": "p"}))["id"]
        assert (await outcome(api, project_id, create, "create"))["success"] is True
        lines = edit(1, "const sold = 3\n</script>\n", "const sold = 4\n</script>\n")
        assert (await outcome(api, project_id, lines, "lines"))["success"] is True
        broken = await outcome(api, project_id, edit(2, "</h1>", ""), "broken")
        assert (broken["success"], broken["code"]) == (False, "PAGE_VALIDATION_FAILED")
        assert [(found["code"], found["line"]) for found in broken["findings"]] == [("PAGE_TEMPLATE_SYNTAX", 5)]

        (page,) = (await api.call("GET", f"/projects/{project_id}/pages"))["pages"]
        assert page["version"] == 2
        saved = await api.call("GET", f"/pages/{page['id']}/versions/2")
        assert saved["source"] == SOURCE.replace("sold = 3", "sold = 4"), "its own line ends stay"
