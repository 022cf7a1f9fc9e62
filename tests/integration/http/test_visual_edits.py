"""Visual edits and measured assets over HTTP (V9), with the real tools behind the door."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from sqlalchemy import select

from pagegate.actors.agents.reading import list_workspace_components
from pagegate.actors.jobs.edits import apply_edits
from pagegate.storage import schema
from pagegate.storage.asset_ratios import is_due
from pagegate.storage.pages import NewVersion, add_page_version, insert_page_with_first_version
from tests.integration.http.conftest import Person, World
from tests.integration.runtime.lighting import LightTools

SOURCE = (
    '\ufeff<template>\r\n\t<main>\r\n\t\t<h1 class="a">Costs</h1>\r\n\t\t<p>Costs</p>\r\n\t\t<p>Costs</p>\n'
    '\t\t<li v-for="i in 3">{{ i }}</li>\r\n\t</main>\r\n</template>\r\n'
)
SECOND_P = "template/main[1]/p[2]/text()[1]"
H1 = "template/main[1]/h1[1]"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LightTools]:
    tools = LightTools(tmp_path_factory.mktemp("light"))
    yield tools
    tools.close()


@pytest.fixture
async def page(world: World, tools: LightTools) -> str:
    """The address of a page that can be edited."""
    world.runtimes.tools = tools
    async with world.db.write() as tx:
        page_id = await insert_page_with_first_version(
            tx, world.project_id, code="q3-costs", framework="vue", version=version(world, SOURCE)
        )
    return f"/pages/{page_id}"


def version(world: World, source: str) -> NewVersion:
    return NewVersion(source, "Costs", "", {}, "passed", None, None, None, world.editor.user_id)


def edits(*values: tuple[str, str | None], **more: Any) -> dict[str, Any]:
    return {"base_version": 1, "edits": [{"node": node, "value": value} for node, value in values], **more}


async def test_nodes_of_a_page_are_listed_for_every_member(world: World, page: str) -> None:
    listed = await world.viewer.get(f"{page}/editable-nodes")
    assert (listed.status, listed.body["version"], listed.body["language"]) == (200, 1, "vue")
    nodes = {node["id"]: node for node in listed.body["nodes"]}
    assert nodes[f"{H1}/@class"]["value"] == "a"
    assert nodes[SECOND_P]["range"]["line"] == 5
    assert nodes["template/main[1]/li[1]/{{}}[1]"]["reason"]["code"] == "EXPRESSION"
    assert (await world.viewer.get(f"{page}/editable-nodes?version=2")).code == "PAGE_VERSION_NOT_FOUND"
    assert (await world.stranger.get(f"{page}/editable-nodes")).code == "PAGE_NOT_FOUND"


async def test_visual_edit_goes_through_the_gate_as_edits_that_change_its_bytes_only(world: World, page: str) -> None:
    answer = await world.editor.post(f"{page}/visual-edits", edits((SECOND_P, "R&D {{ 2 }}"), (f"{H1}/@class", 'x"y')))
    assert answer.status == 202, answer.body
    run = await world.viewer.get(f"/runs/{answer.body['run_id']}")
    (call,) = run.body["calls"]
    assert (call["tool"], call["status"]) == ("apply_page_edits", "pending")
    async with world.db.read() as tx:
        made = (await tx.execute(select(schema.ai_agent_tool_calls.c.arguments))).scalar_one()
    assert (made["page"], made["base_version"]) == ("q3-costs", 1)
    changed = apply_edits(SOURCE, [(edit["search"], edit["replace"]) for edit in made["edits"]])
    second = "<p>R&amp;D &#123;{ 2 }}</p>\n"
    assert changed == SOURCE.replace("<p>Costs</p>\n", second).replace('class="a"', 'class="x&quot;y"')


async def test_same_key_answers_the_same_run_also_when_it_was_saved_meanwhile(world: World, page: str) -> None:
    body = edits((SECOND_P, "Again"), idempotency_key="k1")
    first = await world.editor.post(f"{page}/visual-edits", body)
    async with world.db.write() as tx:
        await add_page_version(tx, int(page.rpartition("/")[2]), 1, version(world, SOURCE.replace("Costs", "New")))
    again = await world.editor.post(f"{page}/visual-edits", body)
    assert (again.status, again.body) == (202, {**first.body, "created": False})
    other = await world.editor.post(f"{page}/visual-edits", body | {"idempotency_key": "k2"})
    assert (other.status, other.code) == (409, "VISUAL_EDIT_STALE")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (edits((SECOND_P, "x"), base_version=2), 409, "VISUAL_EDIT_STALE"),
        (edits((SECOND_P, "x"), source_sha256="0" * 64), 409, "VISUAL_EDIT_STALE"),
        (
            {"base_version": 1, "edits": [{"node": SECOND_P, "value": "x", "range": {"start": 1, "end": 2}}]},
            409,
            "VISUAL_EDIT_STALE",
        ),
        (edits((SECOND_P, "Costs")), 422, "VISUAL_EDIT_NO_CHANGE"),
        (edits((SECOND_P, "\x01")), 422, "VISUAL_EDIT_VALUE_INVALID"),
        (edits(("template/x", "y")), 422, "VISUAL_EDIT_NODE_UNKNOWN"),
        (edits(("template/main[1]/li[1]/{{}}[1]", "y")), 422, "VISUAL_EDIT_NOT_EDITABLE"),
        (edits((SECOND_P, "x"), (SECOND_P, "y")), 422, "VISUAL_EDIT_OVERLAP"),
        (edits(), 422, "REQUEST_INVALID"),
        ({"edits": [{"node": SECOND_P, "value": "x"}]}, 422, "REQUEST_INVALID"),
    ],
)
async def test_edits_that_cannot_be_made_are_refused_and_start_no_run(
    world: World, page: str, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await world.editor.post(f"{page}/visual-edits", body)
    assert (answer.status, answer.code) == (status, code)
    assert answer.body["hint"]
    assert world.queue_heard == []
    assert (await world.viewer.post(f"{page}/visual-edits", body)).status in {403, 422}


async def test_runtime_that_is_away_is_no_fault_of_the_page(world: World, page: str) -> None:
    world.runtimes.tools = None
    for answer in (
        await world.viewer.get(f"{page}/editable-nodes"),
        await world.editor.post(f"{page}/visual-edits", edits((SECOND_P, "x"))),
    ):
        assert (answer.status, answer.code) == (503, "RUNTIME_UNREACHABLE")
        assert "10.0.0.9" not in answer.raw.decode()
        assert answer.headers["Retry-After"]


# --- assets ---------------------------------------------------------------------------------------------------------


def png(size: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size).save(file, "png")
    return file.getvalue()


async def test_uploaded_picture_is_measured(world: World, tools: LightTools) -> None:
    world.runtimes.tools = tools
    saved = await world.editor.ask("PUT", f"{world.project}/assets/a.png", data=png((30, 20)))
    assert (saved.body["width_px"], saved.body["height_px"], saved.body["unmeasured"]) == (30, 20, None)
    listed = await world.viewer.get(f"{world.project}/assets")
    assert [(a["name"], a["width_px"], a["height_px"], a["ratio"]) for a in listed.body["assets"]] == [
        ("a.png", 30, 20, 1.5)
    ]
    text = await world.editor.ask("PUT", f"{world.project}/assets/a.txt", data=b"text")
    assert (text.body["width_px"], text.body["unmeasured"]) == (None, None)


async def test_picture_that_cannot_be_measured_is_saved_and_says_why(world: World, tools: LightTools) -> None:
    world.runtimes.tools = tools
    saved = await world.editor.ask("PUT", f"{world.project}/assets/a.svg", data=b"<svg></svg>")
    assert (saved.status, saved.body["width_px"]) == (200, None)
    assert saved.body["unmeasured"]["code"] == "ASSET_HAS_NO_SIZE"
    assert saved.body["unmeasured"]["hint"]
    (listed,) = (await world.viewer.get(f"{world.project}/assets")).body["assets"]
    assert (listed["unmeasured"], listed["ratio"]) == (saved.body["unmeasured"], None)


async def test_what_a_model_is_told_of_a_file_has_its_size_where_it_is_known(world: World, tools: LightTools) -> None:
    world.runtimes.tools = tools
    await world.editor.ask("PUT", f"{world.project}/assets/a.png", data=png((30, 20)))
    await world.editor.ask("PUT", f"{world.project}/assets/b.svg", data=b"<svg></svg>")
    async with world.db.read() as tx:
        told = await list_workspace_components(tx, world.project_id)
    assert told["assets"] == [
        {"import": "@assets/a.png", "media_type": "image/png", "width_px": 30, "height_px": 20, "ratio": 1.5},
        {"import": "@assets/b.svg", "media_type": "image/svg+xml"},
    ]


async def test_a_job_is_looked_for_at_once_only_when_the_file_is_not_at_fault(world: World, tools: LightTools) -> None:
    woken: list[str] = []
    async with world.another_door(wake_ratios=lambda: woken.append("looked")) as url:
        editor = Person(world.http, url, world.editor.user_id, world.editor.token)
        for name, light in (("a.svg", tools), ("b.svg", None), ("c.txt", None)):
            world.runtimes.tools = light
            assert (await editor.ask("PUT", f"{world.project}/assets/{name}", data=b"<svg></svg>")).status == 200
    assert woken == ["looked"]
    async with world.db.read() as tx:
        assert await is_due(tx)


async def test_size_that_was_not_known_is_kept_when_the_same_file_comes_again(world: World, tools: LightTools) -> None:
    first = await world.editor.ask("PUT", f"{world.project}/assets/a.png", data=png((30, 20)))
    assert (first.body["width_px"], first.body["unmeasured"]["code"]) == (None, "RUNTIME_UNREACHABLE")
    assert "10.0.0.9" not in first.raw.decode()
    world.runtimes.tools = tools
    again = await world.editor.ask("PUT", f"{world.project}/assets/a.png", data=png((30, 20)))
    assert (again.body["width_px"], again.body["version"], again.body["added"]) == (30, 1, False)
    assert (await world.viewer.get(f"{world.project}/assets")).body["assets"][0]["height_px"] == 20
