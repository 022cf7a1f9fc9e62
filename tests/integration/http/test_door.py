"""What holds for every route: one shape of error, no leaks, a description that fits, and the operator's endpoints."""

import asyncio
import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from pagegate.http.backend import tool_calls
from pagegate.http.backend.app import all_routes, make_app
from pagegate.http.backend.errors import REFUSALS
from pagegate.storage.engine import Database, DatabaseOptions, DatabaseUnavailable
from tests.integration.http.conftest import World


async def document(world: World) -> dict[str, Any]:
    answer = await world.nobody.get("/openapi.json")
    assert answer.status == 200
    body: dict[str, Any] = answer.body
    return body


async def test_the_description_is_valid_openapi(world: World) -> None:
    OpenAPIV31SpecValidator(await document(world)).validate()


async def test_every_route_is_described_and_nothing_else(world: World) -> None:
    described = {
        (method.upper(), path) for path, methods in (await document(world))["paths"].items() for method in methods
    }
    served = {
        (route.method, route.resource.canonical)
        for route in make_app(replace(world.parts, registry=CollectorRegistry())).router.routes()
        if route.resource is not None
    }
    assert described == served


async def test_operations_have_names_of_their_own_and_say_how_they_fail(world: World) -> None:
    operations = [one for methods in (await document(world))["paths"].values() for one in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        failures = [status for status in operation["responses"] if status.startswith(("4", "5"))]
        assert "500" in failures
        if operation["security"]:
            assert "401" in failures


async def test_every_code_that_a_route_promises_is_in_the_table_and_every_code_is_promised() -> None:
    promised = {code for route in all_routes() for code in route.refusals}
    assert promised <= set(REFUSALS)
    for code, refusal in REFUSALS.items():
        assert re.fullmatch(r"[A-Z][A-Z_]+", code)
        assert refusal.meaning.endswith(".")
        assert refusal.status >= 400


@pytest.mark.parametrize("path", ["/", "/nothing", "/projects", "/projects/1/x", "/%2e%2e/etc/passwd", "/pages//"])
async def test_an_unknown_address_is_told_so(world: World, path: str) -> None:
    answer = await world.editor.get(path)
    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


async def test_an_unknown_method_is_told_which_there_are(world: World) -> None:
    answer = await world.editor.delete("/users")
    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["Allow"].split(",")) == {"GET", "POST"}


async def test_a_request_id_is_taken_over_when_it_is_harmless(world: World) -> None:
    given = await world.editor.get("/me", headers={"X-Request-Id": "abc-123"})
    assert given.headers["X-Request-Id"] == "abc-123"
    odd = await world.editor.get("/me", headers={"X-Request-Id": "<script>"})
    assert re.fullmatch(r"[0-9a-f]{32}", odd.headers["X-Request-Id"])


async def test_a_bug_is_answered_without_a_word_about_it_and_logged_with_its_id(world: World, monkeypatch: Any) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("secret of /srv/pagegate/data/key.pem")

    monkeypatch.setattr(tool_calls, "get_run", fail)
    call = {"call_id": "c", "tool": "create_project_page", "arguments": {"title": "t", "source": "<template/>"}}
    with structlog.testing.capture_logs() as logged:
        answer = await world.editor.post(f"{world.project}/tool-calls", {"calls": [call]})
    assert (answer.status, answer.code) == (500, "INTERNAL")
    for word in ("secret", "key.pem", "Traceback", "RuntimeError", "srv"):
        assert word not in answer.raw.decode()
    (failure,) = [line for line in logged if line["event"] == "api.request.failed"]
    assert failure["exc_info"]


async def test_a_database_that_is_away_is_no_fault_of_the_request(world: World, monkeypatch: Any) -> None:
    def away() -> None:
        raise DatabaseUnavailable("connection to 10.0.0.7 refused")

    monkeypatch.setattr(world.db, "read", away)
    answer = await world.editor.get("/me")
    assert (answer.status, answer.code) == (503, "DATABASE_UNAVAILABLE")
    assert "10.0.0.7" not in answer.raw.decode()
    assert int(answer.headers["Retry-After"]) > 0
    ready = await world.nobody.get("/readyz")
    assert (ready.status, ready.code) == (503, "NOT_READY")
    assert ready.body["details"][0]["code"] == "DATABASE_UNAVAILABLE"
    assert (await world.nobody.get("/healthz")).status == 200


async def test_a_database_that_someone_holds_is_no_fault_of_the_request(world: World, tmp_path: Path) -> None:
    impatient = await Database.open(world.db.url, options=DatabaseOptions(sqlite_busy_timeout_ms=20))
    holder = sqlite3.connect(tmp_path / "pagegate.db", isolation_level=None)
    await world.editor.get("/me")  # notes the token's use, which would have to write too
    async with world.another_door(db=impatient) as base:
        holder.execute("BEGIN IMMEDIATE")
        async with world.http.post(f"{base}/workspaces", json={"name": "x"}, headers=world.editor.headers()) as held:
            assert (held.status, (await held.json())["code"]) == (503, "DATABASE_UNAVAILABLE")
        holder.close()
        async with world.http.post(f"{base}/workspaces", json={"name": "x"}, headers=world.editor.headers()) as free:
            assert free.status == 201
    await impatient.close()


async def test_the_process_is_ready_with_a_database_and_configured_workers(world: World) -> None:
    answer = await world.nobody.get("/readyz")
    assert (answer.status, answer.body) == (200, {"status": "ready", "render_workers": 1, "runtime_state": "memory"})


async def test_the_process_is_not_ready_without_render_workers_or_when_a_part_says_so(world: World) -> None:
    async with (
        world.another_door(render_workers=0, unready=lambda: ["heartbeats fail"]) as base,
        world.http.get(f"{base}/readyz") as answer,
    ):
        body = await answer.json()
    assert answer.status == 503
    assert [problem["location"] for problem in body["details"]] == ["render_workers", "process"]
    assert body["details"][1]["message"] == "heartbeats fail"


async def test_the_keys_of_tickets_are_public(world: World) -> None:
    answer = await world.nobody.get("/.well-known/jwks.json")
    (key,) = answer.body["keys"]
    assert (key["kid"], key["alg"], key["kty"]) == ("test-key", "RS256", "RSA")
    assert not {"d", "p", "q", "dp", "dq", "qi"} & set(key)


async def test_metrics_count_by_route_and_not_by_address(world: World) -> None:
    for number in range(3):
        await world.editor.get(f"/projects/{900 + number}")
        await world.editor.get(f"/made/up/{number}")
    text = (await world.nobody.get("/metrics")).raw.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counted = {
        (sample.labels["route"], sample.labels["status"]): sample.value
        for sample in families["pagegate_http_requests"].samples
        if sample.name.endswith("_total")
    }
    assert counted["/projects/{project_id}", "404"] == 3
    assert counted["unknown", "404"] == 3
    assert "/made/up" not in text


async def test_answers_are_not_cached_or_sniffed(world: World) -> None:
    for answer in (await world.editor.get("/me"), await world.editor.get("/projects/999")):
        assert answer.headers["Cache-Control"] == "no-store"
    assert (await world.editor.get("/me")).headers["X-Content-Type-Options"] == "nosniff"


async def test_a_client_that_hangs_up_disturbs_nobody(world: World) -> None:
    body = json.dumps({"name": "Slow"})
    _, writer = await asyncio.open_connection(world.server.host, world.server.port)
    head = f"POST /workspaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.editor.token}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body[:5]}".encode())
    await writer.drain()
    writer.close()
    assert (await world.editor.get("/workspaces")).status == 200
