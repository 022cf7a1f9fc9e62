"""Edits of saved pages and of components through the whole gate, over HTTP (CASES 39, A2, D4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pagegate.deploy.client import Api
from pagegate.deploy.deck import send_calls
from pagegate.deploy.demo import create_administrator, lite

pytestmark = pytest.mark.asyncio(loop_scope="module")

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lite")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(folder: Path) -> AsyncIterator[Api]:
    async with lite(folder) as server, Api(server.url, await create_administrator(server)) as api:
        yield api


async def new_project(api: Api, name: str) -> int:
    workspace = await api.call("POST", "/workspaces", {"name": name})
    project: int = (await api.call("POST", f"/workspaces/{workspace['id']}/projects", {"name": name}))["id"]
    return project


async def test_an_edit_with_other_line_ends_is_applied_once_and_one_that_breaks_the_page_saves_nothing(
    api: Api,
) -> None:
    create = {"tool": "create_project_page", "arguments": {"title": "Sold", "code": "sold", "source": SOURCE}}
    project_id = await new_project(api, "edits")
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


async def test_a_page_whose_component_was_refused_in_the_same_step_is_told_to_wait_for_its_repair(api: Api) -> None:
    project_id = await new_project(api, "refused")
    step = [
        {"call_id": "tile", "tool": "create_component", "arguments": {"name": "Tile.vue", "source": TILE + "</p>"}},
        {"call_id": "page", "tool": "create_project_page", "arguments": {"title": "Costs", "source": USING}},
    ]
    run_id = await send_calls(api, project_id, step, key="refused")
    async with asyncio.timeout(120):
        async for _ in api.events(run_id):
            pass
    component, page = [call["result"] for call in (await api.call("GET", f"/runs/{run_id}"))["calls"]]
    assert (component["code"], page["code"]) == ("COMPONENT_VALIDATION_FAILED", "PAGE_VALIDATION_FAILED")
    assert "Tile.vue" in page["next"]
    assert "send this page again as it is" in page["next"]


async def test_a_page_behind_a_refused_picture_of_its_step_is_told_to_see_to_that_first(api: Api) -> None:
    project_id = await new_project(api, "pictures")
    wanted = {"name": "hero.png", "prompt": "a dark field"}
    step = [
        {"call_id": "hero", "tool": "generate_image", "arguments": wanted},
        {"call_id": "page", "tool": "create_project_page", "arguments": {"title": "Hero", "source": GENERATED}},
    ]
    run_id = await send_calls(api, project_id, step, key="pictures")
    async with asyncio.timeout(120):
        async for _ in api.events(run_id):
            pass
    picture, page = [call["result"] for call in (await api.call("GET", f"/runs/{run_id}"))["calls"]]
    assert picture["success"] is False, "this server has no credential for pictures"
    assert page["findings"][0]["code"] == "PAGE_ASSET_NOT_FOUND"
    assert "The picture hero.png" in page["next"]
    assert "send this page again as it is" in page["next"]


async def test_a_page_is_not_told_of_lost_bytes_of_its_asset_and_is_saved_when_they_are_back(
    api: Api, folder: Path
) -> None:
    project_id = await new_project(api, "lost")
    await api.call("PUT", f"/projects/{project_id}/assets/hero.svg", data=HERO)
    (lost,) = (folder / "objects" / "assets" / str(project_id)).iterdir()
    elsewhere = lost.rename(folder / "hero.svg")
    page = {"tool": "create_project_page", "arguments": {"title": "Hero", "source": SHOWING}}
    run_id = await send_calls(api, project_id, [{"call_id": "page", **page}], key="lost")
    waited = []
    async with asyncio.timeout(120):
        async for event in api.events(run_id):
            if event["data"].get("stage") == "waiting":
                waited.append(event["data"]["code"])
                if elsewhere.exists():
                    elsewhere.rename(lost)
    (call,) = (await api.call("GET", f"/runs/{run_id}"))["calls"]
    assert set(waited) == {"OBJECT_STORE_ASSET_MISSING"}
    assert (call["result"]["status"], call["result"]["findings"]) == ("passed", [])


HERO = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 3 2"><rect width="3" height="2" fill="#124"/></svg>'
SHOWING = """<template>
  <main class="h-full bg-white p-16"><img class="w-96" src="@assets/hero.svg" alt="A dark field" /></main>
</template>
"""
GENERATED = SHOWING.replace("hero.svg", "hero.png")
TILE = """<script setup lang="ts">
defineProps<{ label: string; unit?: string }>()
</script>
<template><p class="text-5xl text-stone-900">{{ label }} {{ unit }}</p></template>
"""
USING = """<script setup lang="ts">
import Tile from '@components/Tile.vue'
</script>
<template><main class="h-full bg-white p-16"><Tile label="Costs" unit="EUR" /></main></template>
"""


async def test_a_component_and_the_page_that_uses_it_go_through_in_one_step_and_a_change_names_the_page(
    api: Api,
) -> None:
    project_id = await new_project(api, "components")
    step = [
        {"call_id": "tile", "tool": "create_component", "arguments": {"name": "Tile.vue", "source": TILE}},
        {
            "call_id": "page",
            "tool": "create_project_page",
            "arguments": {"title": "Costs", "code": "costs", "source": USING},
        },
    ]
    run_id = await send_calls(api, project_id, step, key="step")
    stages = []
    async with asyncio.timeout(120):
        async for event in api.events(run_id):
            if event["kind"] == "tool.progress":
                stages.append(
                    (event["data"].get("component_name") or event["data"]["page_code"], event["data"]["stage"])
                )
    calls = (await api.call("GET", f"/runs/{run_id}"))["calls"]
    assert [(call["status"], call["job_kind"]) for call in calls] == [
        ("succeeded", "component_mutation_jobs"),
        ("succeeded", "ai_page_mutation_jobs"),
    ], calls
    assert stages == [("Tile.vue", "compile"), ("costs", "compile"), ("costs", "render")]

    change = {
        "tool": "apply_component_edits",
        "arguments": {
            "component": "Tile.vue",
            "base_version": 1,
            "edits": [{"search": "unit?: string", "replace": "tone: string"}, {"search": "unit", "replace": "tone"}],
        },
    }
    told = await outcome(api, project_id, change, "change")
    assert (told["success"], told["version"]) == (True, 2), told
    (page,) = told["affected"]["pages"]
    assert (page["page"], page["keeps_version"]) == ("costs", 1)
    assert [(one["code"], one["line"]) for one in page["breaks"]] == [
        ("COMPONENT_PROP_REMOVED", 4),
        ("COMPONENT_PROP_REQUIRED", 4),
    ]
    (entry,) = (await api.call("GET", f"/projects/{project_id}/components"))["components"]
    assert (entry["version"], entry["checked"]) == (2, True)
    shown = await api.call("GET", f"/projects/{project_id}/components/Tile.vue")
    assert (shown["number"], shown["versions"], shown["contract"]) == (2, [1, 2], told["contract"])
    assert shown["used_by"] == {"pages": [{"code": "costs", "version": 1, "component_version": 1}], "components": []}

    lanes = {lane["lane"]: lane for lane in (await api.call("GET", "/lanes"))["lanes"]}
    assert lanes["component_mutation_jobs"]["pending"] == 0
    last, first, *_ = (await api.call("GET", "/jobs?lane=component_mutation_jobs"))["jobs"]
    assert (first["component_name"], last["status"]) == ("Tile.vue", "succeeded")
