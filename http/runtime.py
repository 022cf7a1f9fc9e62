"""The Runtime's door: parse, ask, respond (V5, V8, O1, O2).

* `POST /compiles` `CompileRequest` → 200 `CompileResult`, or an `ErrorBody` with 429, 403 or 5xx (infrastructure, R9);
* `POST /light/{tool}` `LightRequest` as JSON, or multipart with a file after it → 200 `LightResult`, or an `ErrorBody`;
* `GET /outputs/{id}/{path}`, `DELETE /outputs/{id}`: the compiled page, until the check is over;
* `GET /vendor/{path}`: the frameworks;
* `/previews/…` and `/sites/…`: for people (`runtime_previews.py`, `runtime_sites.py`);
* `POST /builds/offers`: there may be builds to pull (`runtime_builds.py`);
* `/healthz`, `/readyz`, `/metrics`.

Owns the HTTP session that reads sources. A caller that goes away cancels its task; the slot stays taken until the task
has really ended.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import TypeVar

import aiohttp
import structlog
from aiohttp import BodyPartReader, web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ValidationError

from pagegate.actors.compiling.tasks import LightTask
from pagegate.actors.systems.runtime import RuntimeSystem
from pagegate.http.metrics import HttpMetrics, metrics_handler
from pagegate.http.runtime_builds import add_build_routes
from pagegate.http.runtime_previews import add_preview_routes
from pagegate.http.runtime_sites import add_site_routes
from pagegate.runtime.allowed import may_fetch_from
from pagegate.runtime.contract import (
    LIGHT_DEADLINES_S,
    LIGHT_REQUEST_BYTES_MAX,
    CompileRequest,
    ErrorBody,
    LightRequest,
    LightTool,
)
from pagegate.runtime.outputs import CONTENT_TYPES
from pagegate.runtime.refusals import BackendNotAllowed, CompileUnavailable, SourceUnavailable
from pagegate.runtime.sources import HttpModuleSource

T = TypeVar("T")
log = structlog.get_logger()

_LOOK_AT_CALLER_S = 0.5
_REQUEST_BYTES_MAX = 64 * 1024

_SYSTEM = web.AppKey("system", RuntimeSystem)
_SESSION = web.AppKey("session", aiohttp.ClientSession)


def runtime_app(system: RuntimeSystem) -> web.Application:
    """The application over a system that someone else starts and stops."""
    numbers = HttpMetrics(system.registry)
    app = web.Application(middlewares=[numbers.middleware(), _errors], client_max_size=_REQUEST_BYTES_MAX)
    app[_SYSTEM] = system
    app.cleanup_ctx.append(_session)
    app.add_routes(
        [
            web.post("/compiles", _compile),
            web.post("/light/{tool}", _light),
            web.delete("/outputs/{output_id}", _delete_output),
            web.get("/outputs/{output_id}/{path:.*}", _read_output),
            web.get("/vendor/{name}", _read_vendor),
            web.get("/healthz", _healthz),
            web.get("/readyz", _readyz),
            web.get("/metrics", metrics_handler(system.registry)),
        ]
    )
    add_preview_routes(app, system)
    add_build_routes(app, system)
    add_site_routes(app, system)
    return app


async def _session(app: web.Application) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        app[_SESSION] = session
        yield


async def _compile(request: web.Request) -> web.Response:
    asked = CompileRequest.model_validate_json(await request.read())
    system = request.app[_SYSTEM]
    if not may_fetch_from(asked.backend_url, system.options.backend_base_urls):
        raise BackendNotAllowed("this Runtime does not know the Backend of the request")
    source = HttpModuleSource(request.app[_SESSION], asked.backend_url, asked.artifact_id, asked.ticket)
    work = asyncio.create_task(
        system.compile(
            asked.task_id,
            source,
            deadline_s=asked.deadline_s,
            background=asked.background,
            contract=asked.contract,
            uses_of=asked.uses_of,
        )
    )
    return _json(await _while_caller_waits(request, work))


async def _light(request: web.Request) -> web.Response:
    tool = _light_tool(request.match_info["tool"])
    if tool is None:
        known = ", ".join(LIGHT_DEADLINES_S)
        return _error(404, "RUNTIME_LIGHT_TOOL_UNKNOWN", "There is no such light tool.", f"Ask one of: {known}.")
    asked, file = await _light_request(request)
    # The id of the task is the Runtime's own: an id that two callers chose alike would cancel the other's task.
    system = request.app[_SYSTEM]
    bytes_max = system.options.light_file_bytes_max
    task = LightTask(f"{asked.task_id}/{uuid.uuid4()}", tool, asked.input, file, bytes_max)
    work = asyncio.create_task(system.light(task, deadline_s=asked.deadline_s))
    return _json(await _while_caller_waits(request, work))


def _light_tool(name: str) -> LightTool | None:
    return next((tool for tool in LIGHT_DEADLINES_S if tool == name), None)


async def _light_request(request: web.Request) -> tuple[LightRequest, AsyncIterator[bytes] | None]:
    """The request, and its file as it comes in: a slot takes it from the wire when it is the file's turn."""
    if not request.content_type.startswith("multipart/"):
        return LightRequest.model_validate_json(await _bounded(request.content)), None
    parts = await request.multipart()
    part = await parts.next()
    if not isinstance(part, BodyPartReader) or part.name != "request":
        raise web.HTTPBadRequest(reason="The first part must be named request")
    asked = LightRequest.model_validate_json(await _bounded(part))
    return asked, _file_of(parts)


async def _bounded(stream: aiohttp.StreamReader | BodyPartReader) -> bytes:
    body = b""
    while True:
        chunk = await (stream.read_chunk() if isinstance(stream, BodyPartReader) else stream.readany())
        if not chunk:
            return body
        body += chunk
        if len(body) > LIGHT_REQUEST_BYTES_MAX:
            raise web.HTTPRequestEntityTooLarge(LIGHT_REQUEST_BYTES_MAX, len(body))


async def _file_of(parts: aiohttp.MultipartReader) -> AsyncIterator[bytes]:
    part = await parts.next()
    if not isinstance(part, BodyPartReader) or part.name != "file":
        raise SourceUnavailable("the request came without its file")
    try:
        while chunk := await part.read_chunk(256 * 1024):
            yield chunk
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise SourceUnavailable("the file did not arrive whole") from error


async def _while_caller_waits(request: web.Request, work: "asyncio.Task[T]") -> T:
    """Cancels the work when the connection of the caller is gone (V5)."""
    try:
        while True:
            done, _ = await asyncio.wait({work}, timeout=_LOOK_AT_CALLER_S)
            if done:
                return work.result()
            if request.transport is None or request.transport.is_closing():
                raise web.HTTPRequestTimeout(text="the caller went away")
    finally:
        work.cancel()


async def _read_output(request: web.Request) -> web.Response:
    output = request.app[_SYSTEM].outputs.find(request.match_info["output_id"])
    if output is None:
        return _error(404, "RUNTIME_OUTPUT_UNAVAILABLE", "This output is gone.", "Compile the page again.")
    name = request.match_info["path"] or "index.html"
    content = output.files.get(name)
    if content is None:
        return _error(404, "RUNTIME_FILE_UNKNOWN", "The page has no such file.", "")
    return _file(name, content)


async def _delete_output(request: web.Request) -> web.Response:
    request.app[_SYSTEM].outputs.delete(request.match_info["output_id"])
    return web.Response(status=204)  # gone before or gone now: the same to who asks


async def _read_vendor(request: web.Request) -> web.Response:
    folder, name = request.app[_SYSTEM].vendor_dir, request.match_info["name"]
    if folder is None:
        return _error(503, "RUNTIME_NOT_READY", "The frameworks are not bundled yet.", "Try again in a few seconds.")
    if not name.endswith(".js") or "/" in name or "\\" in name or name.startswith("."):
        return _error(404, "RUNTIME_FILE_UNKNOWN", "There is no such file.", "")
    try:
        content = await asyncio.to_thread((folder / name).read_bytes)
    except OSError:
        return _error(404, "RUNTIME_FILE_UNKNOWN", "There is no such file.", "")
    answer = _file(name, content)
    answer.headers["Access-Control-Allow-Origin"] = "*"  # a previewed page is an origin of its own (X6)
    return answer


async def _healthz(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _readyz(request: web.Request) -> web.Response:
    """Ready with the first warm worker (O1); says which walls are around a compile (X2)."""
    if not request.app[_SYSTEM].ready.is_set():
        return _error(503, "RUNTIME_NOT_READY", "The first worker is warming up.", "Try again in a few seconds.")
    system = request.app[_SYSTEM]
    return web.json_response(
        {"status": "ready", "runtime_build": system.runtime_build, "isolation": list(system.isolation)}
    )


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One shape for every refusal; nothing of this machine in any of them (X4)."""
    try:
        return await handler(request)
    except CompileUnavailable as refusal:
        return _json(refusal.body(), status=refusal.status)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
        return _error(422, "RUNTIME_REQUEST_INVALID", f"The request has another shape: {problems}", "")
    except web.HTTPException as refusal:
        return _error(refusal.status, f"HTTP_{refusal.status}", refusal.reason, "")
    except Exception:
        resource = request.match_info.route.resource  # the address itself may hold a token
        log.exception("runtime.request.failed", method=request.method, route=resource and resource.canonical)
        return _error(500, "RUNTIME_FAULT", "The Runtime failed to answer.", "Try again; see the log of the Runtime.")


def _file(name: str, content: bytes) -> web.Response:
    return web.Response(
        body=content,
        content_type=CONTENT_TYPES.get(name.rsplit(".", 1)[-1], "application/octet-stream"),
        charset="utf-8",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def _json(model: BaseModel, status: int = 200) -> web.Response:
    return web.Response(text=model.model_dump_json(), content_type="application/json", status=status)


def _error(status: int, code: str, message: str, hint: str) -> web.Response:
    return _json(ErrorBody(code=code, message=message, hint=hint), status)
