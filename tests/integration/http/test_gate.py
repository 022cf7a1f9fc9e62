"""Tool calls over HTTP, and every kind of bad input (A9, Q9, "Bad input"): a clear code, and nothing half-written."""

import asyncio
import io
import json
from typing import Any

import pytest
from sqlalchemy import func, select

from pagegate.actors import kernel
from pagegate.actors.agents.tools import parse_tool_call
from pagegate.actors.queues.queue import JobsSubmitted
from pagegate.http.backend import routes
from pagegate.storage import runs, schema
from tests.integration.http.conftest import LIMITS, RUN_LIMITS, World

SOURCE = "<template><h1>Costs</h1></template>\n"


def create(call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    given = {"title": "Costs", "source": SOURCE, **arguments}
    return {"call_id": call_id, "tool": "create_project_page", "arguments": given}


def edit(call_id: str = "e1", **arguments: Any) -> dict[str, Any]:
    given = {"page": "q3-costs", "base_version": 1, "edits": [{"search": "a", "replace": "b"}], **arguments}
    return {"call_id": call_id, "tool": "apply_page_edits", "arguments": given}


def step(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"calls": list(calls), **more}


async def rows(world: World) -> dict[str, int]:
    """How many rows each table has that a step writes to."""
    counts: dict[str, int] = {}
    async with world.db.read() as tx:
        for table in (schema.ai_agent_runs, schema.ai_agent_tool_calls, schema.ai_page_mutation_jobs, schema.pages):
            counts[table.name] = (await tx.execute(select(func.count()).select_from(table))).scalar_one()
    return counts


async def test_a_step_is_accepted_as_one_run(world: World) -> None:
    answer = await world.editor.post(
        f"{world.project}/tool-calls",
        step(
            create("c1", code="q3-costs", speaker_notes="Slowly.", canvas={"width_px": 1280, "height_px": None}), edit()
        ),
    )
    assert answer.status == 202, answer.body
    assert answer.body["created"] is True
    run = await world.viewer.get(f"/runs/{answer.body['run_id']}")
    assert (run.body["status"], run.body["finished"]) == ("waiting_external", False)
    assert [(call["call_id"], call["tool"], call["status"]) for call in run.body["calls"]] == [
        ("c1", "create_project_page", "pending"),
        ("e1", "apply_page_edits", "pending"),
    ]
    assert JobsSubmitted() in world.queue_heard


async def test_the_same_key_and_request_answer_the_same_run(world: World) -> None:
    path = f"{world.project}/tool-calls"
    first = await world.editor.post(path, step(create(), idempotency_key="k1"))
    spaced = json.dumps(step(create(), idempotency_key="k1"), indent=3).encode()
    again = await world.editor.ask("POST", path, data=spaced)
    by_header = await world.editor.post(path, step(create()), headers={"Idempotency-Key": "k1"})
    assert (first.status, first.body["created"]) == (202, True)
    for answer in (again, by_header):
        assert (answer.status, answer.body) == (202, {**first.body, "created": False})
    assert (await rows(world))["ai_agent_runs"] == 1


async def test_the_same_key_for_another_request_is_refused(world: World) -> None:
    path = f"{world.project}/tool-calls"
    await world.editor.post(path, step(create(), idempotency_key="k1"))
    for other in (
        step(create(title="Other"), idempotency_key="k1"),
        step(create(), idempotency_key="k1", skip_visual_verification=True),
    ):
        answer = await world.editor.post(path, other)
        assert (answer.status, answer.code) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert (await rows(world))["ai_agent_runs"] == 1
    mine = await world.owner.post(path, step(create(title="Other"), idempotency_key="k1"))
    assert mine.body["created"] is True, "a key is its user's own"


async def test_the_same_request_many_times_at_once_is_one_run(world: World) -> None:
    asked = [world.editor.post(f"{world.project}/tool-calls", step(create(), idempotency_key="k")) for _ in range(8)]
    answers = await asyncio.gather(*asked)
    assert {answer.status for answer in answers} == {202}
    assert len({answer.body["run_id"] for answer in answers}) == 1
    assert sum(answer.body["created"] for answer in answers) == 1


async def test_a_known_key_answers_also_when_the_queue_is_full(world: World) -> None:
    path = f"{world.project}/tool-calls"
    half = [create(f"c{n}") for n in range(RUN_LIMITS.active_jobs_max // 2)]
    first = await world.editor.post(path, step(*half, idempotency_key="k"))
    await world.editor.post(path, step(*half))
    full = await world.editor.post(path, step(create()))
    assert (full.status, full.code) == (429, "AI_PAGE_MUTATION_ACTIVE_JOBS_LIMIT")
    assert int(full.headers["Retry-After"]) > 0
    again = await world.editor.post(path, step(*half, idempotency_key="k"))
    assert again.body == {**first.body, "created": False}
    assert (await rows(world))["ai_agent_runs"] == 2


async def test_what_was_accepted_reads_back_as_the_same_calls(world: World) -> None:
    given = [
        create("c1", code="q3-costs", canvas={"width_px": 800, "height_px": None}, speaker_notes="Slowly."),
        edit("e1", edits=[{"search": "a\r\n", "replace": ""}]),
    ]
    answer = await world.editor.post(f"{world.project}/tool-calls", step(*given))
    async with world.db.read() as tx:
        for call in await runs.list_tool_calls(tx, answer.body["run_id"]):
            stored = parse_tool_call(call.call_id, call.tool_name, await runs.get_arguments(tx, call.id))
            (sent,) = [one for one in given if one["call_id"] == call.call_id]
            assert stored == parse_tool_call(sent["call_id"], sent["tool"], sent["arguments"])


async def test_a_runs_actor_that_does_not_answer_is_told_apart_from_a_refusal(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(routes, "ASK_WAIT_S", 0.01)
    silent = Silent.start()
    async with world.another_door(agent_runs=silent) as base:
        asked = world.http.post(
            f"{base}{world.project}/tool-calls", json=step(create()), headers=world.editor.headers()
        )
        async with asked as answer:
            assert (answer.status, (await answer.json())["code"]) == (503, "BACKEND_BUSY")
    await kernel.stop(silent)


class Silent(kernel.Actor):
    """Hears and never answers."""

    async def on_receive(self, message: Any) -> None:
        self.defer_reply()


LARGE = "x" * (LIMITS.source_bytes_max + 1)
TOO_MANY = step(*(create(f"c{n}") for n in range(LIMITS.batch_size_max + 1)))

REFUSED_AS_A_WHOLE: list[tuple[str, Any, int, str]] = [
    ("no calls", step(), 422, "REQUEST_INVALID"),
    ("not a list", {"calls": create()}, 422, "REQUEST_INVALID"),
    ("nothing", {}, 422, "REQUEST_INVALID"),
    ("a list", [create()], 422, "REQUEST_INVALID"),
    ("null", None, 422, "REQUEST_INVALID"),
    ("too many", TOO_MANY, 422, "AI_PAGE_MUTATION_BATCH_TOO_LARGE"),
    ("an unknown tool", step({**create(), "tool": "delete_everything"}), 422, "TOOL_UNKNOWN"),
    ("no tool", step({"call_id": "c1", "arguments": {}}), 422, "REQUEST_INVALID"),
    ("a call_id twice", step(create("c1"), create("c1", title="Two")), 422, "TOOL_CALL_ID_DUPLICATE"),
    ("no call_id", step({"tool": "create_project_page", "arguments": create()["arguments"]}), 422, "REQUEST_INVALID"),
    ("a call_id with a line break", step(create("c\n1")), 422, "REQUEST_INVALID"),
    ("an unknown argument", step(create(sauce="x")), 422, "REQUEST_INVALID"),
    ("an unknown field", step(create(), idempotency_kee="x"), 422, "REQUEST_INVALID"),
    ("an empty source", step(create(source="")), 422, "PAGE_SOURCE_EMPTY"),
    ("a blank source", step(create(source=" \n ")), 422, "PAGE_SOURCE_EMPTY"),
    ("a large source", step(create(source=LARGE)), 413, "PAGE_SOURCE_TOO_LARGE"),
    ("a source large in UTF-8", step(create(source="页" * (len(LARGE) // 3 + 1))), 413, "PAGE_SOURCE_TOO_LARGE"),
    ("a NUL in the source", step(create(source="a\x00b")), 422, "REQUEST_INVALID"),
    ("a source that is no text", step(create(source=7)), 422, "REQUEST_INVALID"),
    ("no title", step(create(title="")), 422, "REQUEST_INVALID"),
    ("a title of two lines", step(create(title="a\nb")), 422, "REQUEST_INVALID"),
    ("an unknown framework", step(create(framework="svelte")), 422, "REQUEST_INVALID"),
    ("a code with capitals", step(create(code="Q3-Costs")), 422, "PAGE_CODE_INVALID"),
    ("a code with a path", step(create(code="../up")), 422, "PAGE_CODE_INVALID"),
    ("an empty code", step(create(code="")), 422, "PAGE_CODE_INVALID"),
    ("a long code", step(create(code="a" * 81)), 422, "PAGE_CODE_INVALID"),
    ("an edit of a bad code", step(edit(page="a b")), 422, "PAGE_CODE_INVALID"),
    ("half a canvas", step(create(canvas={"width_px": 1280})), 422, "REQUEST_INVALID"),
    ("base version 0", step(edit(base_version=0)), 422, "REQUEST_INVALID"),
    ("a base version in words", step(edit(base_version="1")), 422, "REQUEST_INVALID"),
    ("a huge base version", step(edit(base_version=10**12)), 422, "REQUEST_INVALID"),
    ("no base version", step(edit(base_version=None)), 422, "REQUEST_INVALID"),
    ("no edits", step(edit(edits=[])), 422, "REQUEST_INVALID"),
    ("an edit that searches for nothing", step(edit(edits=[{"search": "", "replace": "x"}])), 422, "REQUEST_INVALID"),
    ("a flag that is no flag", step(create(), skip_visual_verification="yes"), 422, "REQUEST_INVALID"),
    ("an empty key", step(create(), idempotency_key=""), 422, "REQUEST_INVALID"),
    ("a long key", step(create(), idempotency_key="k" * 201), 422, "REQUEST_INVALID"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "code"), [row[1:] for row in REFUSED_AS_A_WHOLE], ids=[row[0] for row in REFUSED_AS_A_WHOLE]
)
async def test_a_bad_request_is_refused_and_writes_nothing(world: World, body: Any, status: int, code: str) -> None:
    answer = await world.editor.ask("POST", f"{world.project}/tool-calls", data=json.dumps(body).encode())
    assert (answer.status, answer.code) == (status, code), answer.body
    assert set((await rows(world)).values()) == {0}


async def test_one_bad_call_is_named_and_its_siblings_are_not_written(world: World) -> None:
    answer = await world.editor.post(f"{world.project}/tool-calls", step(create("good"), create("bad", source="")))
    assert answer.code == "PAGE_SOURCE_EMPTY"
    (problem,) = answer.body["details"]
    assert problem["location"].startswith("calls.1")
    assert problem["location"].endswith("source")
    assert set((await rows(world)).values()) == {0}


MALFORMED: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("cut off", b'{"calls": ['),
    ("words", b"please make a page"),
    ("form", b"calls=1&x=2"),
    ("single quotes", b"{'calls': []}"),
    ("trailing", b'{"calls": []} x'),
    ("not UTF-8", b'{"calls": ["\xff\xfe"]}'),
    ("NaN key", b"{NaN: 1}"),
    ("UTF-16", '{"calls": []}'.encode("utf-16")),
    ("half a surrogate", b'{"calls": ["\\ud800"]}'),
    ("nested for ever", b"[" * 100_000),
    ("nested and closed", b'{"calls":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
]


@pytest.mark.parametrize("body", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
async def test_a_body_that_is_not_json_is_told_so(world: World, body: bytes) -> None:
    answer = await world.editor.ask("POST", f"{world.project}/tool-calls", data=body)
    assert (answer.status, answer.code) == (400, "REQUEST_JSON_INVALID"), answer.body
    assert set((await rows(world)).values()) == {0}


async def test_a_body_over_the_limit_is_refused(world: World) -> None:
    answer = await world.editor.ask(
        "POST", f"{world.project}/tool-calls", data=io.BytesIO(b" " * (LIMITS.step_body_bytes_max() + 1))
    )
    assert (answer.status, answer.code) == (413, "REQUEST_BODY_TOO_LARGE")
    small = await world.editor.ask("POST", "/workspaces", data=b" " * (256 * 1024 + 1))
    assert (small.status, small.code) == (413, "REQUEST_BODY_TOO_LARGE")


async def test_a_full_step_of_the_largest_sources_fits(world: World) -> None:
    source = ('<p class="x">\\ "quoted" 页\n' * LIMITS.source_bytes_max).encode()[: LIMITS.source_bytes_max - 4]
    largest = source.decode(errors="ignore")
    calls = [create(f"c{n}", source=largest) for n in range(LIMITS.batch_size_max)]
    body = json.dumps(step(*calls), ensure_ascii=False).encode()
    answer = await world.editor.ask("POST", f"{world.project}/tool-calls", data=body)
    assert answer.status == 202, answer.body


async def test_who_may_not_write_submits_nothing(world: World) -> None:
    path = f"{world.project}/tool-calls"
    for person, status, code in (
        (world.viewer, 403, "ROLE_REQUIRED"),
        (world.stranger, 404, "PROJECT_NOT_FOUND"),
        (world.admin, 404, "PROJECT_NOT_FOUND"),
        (world.nobody, 401, "TOKEN_MISSING"),
    ):
        answer = await person.post(path, step(create()))
        assert (answer.status, answer.code) == (status, code)
    unknown = await world.editor.post("/projects/999/tool-calls", step(create()))
    assert (unknown.status, unknown.code) == (404, "PROJECT_NOT_FOUND")
    assert set((await rows(world)).values()) == {0}


async def test_a_header_and_a_body_with_different_keys_are_refused(world: World) -> None:
    path = f"{world.project}/tool-calls"
    answer = await world.editor.post(path, step(create(), idempotency_key="a"), headers={"Idempotency-Key": "b"})
    assert answer.code == "REQUEST_INVALID"
    empty = await world.editor.post(path, step(create()), headers={"Idempotency-Key": " "})
    assert empty.code == "REQUEST_INVALID"


async def test_what_was_sent_is_not_echoed_in_an_error(world: World) -> None:
    answer = await world.editor.post(f"{world.project}/tool-calls", step(create(title=["a-secret-value"])))
    assert answer.status == 422
    assert "a-secret-value" not in answer.raw.decode()
