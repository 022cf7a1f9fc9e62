"""`/openapi.json`: the description of every route, made from the route table and the pydantic models (A9).

Owns nothing but the making: it reads `Route` declarations, so a route that is served is described and the other way
round. Error answers are included, with the codes that each status may carry.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pagegate.http.backend.errors import REFUSALS, ErrorAnswer
from pagegate.http.backend.routes import Bytes, Nothing, Route

Schema = dict[str, Any]
Refs = Mapping[Any, Schema]  # (model, validation | serialization) → reference
_REF = "#/components/schemas/{model}"

_CODES_OF_ACCESS: dict[str, tuple[str, ...]] = {
    "public": (),
    "user": ("TOKEN_MISSING", "TOKEN_INVALID", "USER_DISABLED"),
    "admin": ("TOKEN_MISSING", "TOKEN_INVALID", "USER_DISABLED", "ADMIN_REQUIRED"),
    "ticket": ("TICKET_INVALID", "PREVIEW_ARTIFACT_UNAVAILABLE"),
}


def describe(routes: Sequence[Route], version: str) -> Schema:
    """The OpenAPI 3.1 document of these routes."""
    schemas, refs = _schemas(routes)
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pagegate",
            "version": version,
            "summary": "The gate in front of the save.",
            "description": "Nothing an agent writes reaches a page until it was compiled, rendered and judged.",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A user's token, `pg_…`."},
                "ticket": {"type": "http", "scheme": "bearer", "description": "A service ticket for one artifact."},
            },
        },
    }


def _schemas(routes: Sequence[Route]) -> tuple[Schema, Refs]:
    """Every model once, and the reference to it as a request (validation) and as an answer (serialization)."""
    wanted: dict[tuple[type[BaseModel], Any], None] = {(ErrorAnswer, "serialization"): None}
    for route in routes:
        if route.has_json_body:
            wanted[(route.body, "validation")] = None
        if isinstance(route.answer, type) and route.answer is not Nothing:
            wanted[(route.answer, "serialization")] = None
    refs, document = models_json_schema(list(wanted), ref_template=_REF)
    return document.get("$defs", {}), refs


def _operation(route: Route, schemas: Schema, refs: Refs) -> Schema:
    operation: Schema = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "tags": [route.tag],
        "security": _security(route),
        "parameters": _parameters(route, schemas),
        "responses": _answers(route, refs),
    }
    if route.has_json_body:
        content: Schema = {"application/json": {"schema": refs[(route.body, "validation")]}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.upload is not None:
        operation["requestBody"] = {
            "required": True,
            "description": route.upload.description,
            "content": {route.upload.media_type: {}},
        }
    return operation


def _security(route: Route) -> list[Schema]:
    if route.access == "public":
        return []
    return [{"ticket": []}] if route.access == "ticket" else [{"token": []}]


def _parameters(route: Route, schemas: Schema) -> list[Schema]:
    described = route.params.model_json_schema(ref_template=_REF)
    schemas.update(described.get("$defs", {}))
    in_path = route.path_fields()
    parameters: list[Schema] = []
    for name, schema in described.get("properties", {}).items():
        parameter: Schema = {"name": name, "in": "path" if name in in_path else "query", "schema": schema}
        if name in in_path or name in described.get("required", ()):
            parameter["required"] = True
        if "description" in schema:
            parameter["description"] = schema["description"]
        parameters.append(parameter)
    for name, description in route.headers.items():
        parameters.append({"name": name, "in": "header", "schema": {"type": "string"}, "description": description})
    return parameters


def _answers(route: Route, refs: Refs) -> Schema:
    answers: Schema = {str(route.status): _success(route, refs)}
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(_codes(route)):
        by_status.setdefault(REFUSALS[code].status, []).append(code)
    for status, codes in sorted(by_status.items()):
        answers[str(status)] = {
            "description": f"{HTTPStatus(status).phrase}. " + " ".join(f"`{c}`: {REFUSALS[c].meaning}" for c in codes),
            "content": {"application/json": {"schema": refs[(ErrorAnswer, "serialization")]}},
        }
    return answers


def _success(route: Route, refs: Refs) -> Schema:
    if route.answer is Nothing:
        return {"description": HTTPStatus(route.status).phrase}
    content: Schema = {}
    description = HTTPStatus(route.status).phrase
    if isinstance(route.answer, Bytes):
        description = route.answer.description
        content[route.answer.media_type] = {}
    else:
        content["application/json"] = {"schema": refs[(route.answer, "serialization")]}
    for other in route.answer_too:
        content[other.media_type] = {}
        description = f"{description}, or: {other.description}"
    return {"description": description, "content": content}


def _codes(route: Route) -> Iterable[str]:
    yield from _CODES_OF_ACCESS[route.access]
    yield from route.refusals
    if route.params is not Nothing:
        yield "REQUEST_INVALID"
    if route.has_json_body:
        yield from ("REQUEST_JSON_INVALID", "REQUEST_INVALID", "REQUEST_BODY_TOO_LARGE", "REQUEST_TIMEOUT")
    if any(name.endswith("_id") for name in route.path_fields()):
        yield "ROUTE_NOT_FOUND"
    if route.access != "public":
        yield "DATABASE_UNAVAILABLE"
    yield "INTERNAL"
