"""The Renderer's door: parse, check the token, ask, respond (R4-R6, O1, O2). The paths are in `renderer/contract.py`.

Owns nothing but the check of tokens. A caller that goes away stops no attempt: only `DELETE`, the attempt's deadline
and the end of the process do (Q10).
"""

from typing import Final

import pykka
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ValidationError

from pagegate.actors.rendering.slot import AttemptDropped, AttemptUnknown, SlotBroken, SlotBusy
from pagegate.actors.systems.renderer import RendererSystem
from pagegate.http.metrics import HttpMetrics, metrics_handler
from pagegate.renderer.contract import RenderTask
from pagegate.renderer.egress import BaseRefused
from pagegate.renderer.token import TokenRefused, verify_token

log = structlog.get_logger()

WAIT_S_MAX: Final = 60.0
_REQUEST_BYTES_MAX = 256 * 1024
_OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_SYSTEM = web.AppKey("system", RendererSystem)


class _Problem(BaseModel):
    code: str
    message: str
    hint: str = ""


def renderer_app(system: RendererSystem) -> web.Application:
    """The application over a system that someone else starts and stops. ValueError without a credential."""
    if not system.options.credential:
        raise ValueError("a Renderer with a door needs RENDER_SERVICE_CREDENTIAL")
    numbers = HttpMetrics(system.registry)
    app = web.Application(middlewares=[numbers.middleware(), _errors, _tokens], client_max_size=_REQUEST_BYTES_MAX)
    app[_SYSTEM] = system
    app.add_routes(
        [
            web.get("/slot", _view_slot),
            web.post("/attempts", _start),
            web.get("/attempts/{attempt_id}", _wait),
            web.get("/attempts/{attempt_id}/picture", _picture),
            web.delete("/attempts/{attempt_id}", _drop),
            web.get("/healthz", _healthz),
            web.get("/readyz", _readyz),
            web.get("/metrics", metrics_handler(system.registry)),
        ]
    )
    return app


async def _view_slot(request: web.Request) -> web.Response:
    return _json(await request.app[_SYSTEM].view())


async def _start(request: web.Request) -> web.Response:
    task = RenderTask.model_validate_json(await request.read())
    await request.app[_SYSTEM].start_attempt(task)
    return web.json_response({"attempt_id": task.attempt_id}, status=202)


async def _wait(request: web.Request) -> web.Response:
    attempt_id = request.match_info["attempt_id"]
    performed = await request.app[_SYSTEM].wait(attempt_id, wait_s=_wait_s(request))
    if performed is None:
        return web.json_response({"attempt_id": attempt_id}, status=202)
    return _json(performed.result)


async def _picture(request: web.Request) -> web.Response:
    performed = await request.app[_SYSTEM].wait(request.match_info["attempt_id"], wait_s=0.0)
    if performed is None or performed.png is None:
        return _problem(404, "RENDER_PICTURE_UNAVAILABLE", "This attempt has no picture.", "")
    return web.Response(body=performed.png, content_type="image/png", headers={"Cache-Control": "no-store"})


async def _drop(request: web.Request) -> web.Response:
    await request.app[_SYSTEM].drop(request.match_info["attempt_id"])
    return web.Response(status=204)  # gone before or gone now: the same to who asks


async def _healthz(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _readyz(request: web.Request) -> web.Response:
    """Ready while a browser comes up here (O1)."""
    slot = await request.app[_SYSTEM].view()
    if slot.slot_state == "broken":
        return _problem(503, "RENDER_BROWSER_LOST", "No browser comes up here.", "See the Renderer's log.")
    return web.json_response({"status": "ready", "slot_state": slot.slot_state, "profile_digest": slot.profile_digest})


def _wait_s(request: web.Request) -> float:
    """`?wait_s=`, from 0 (the default) to `WAIT_S_MAX`."""
    try:
        wait_s = float(request.query.get("wait_s", "0"))
    except ValueError:
        wait_s = -1.0
    if not 0.0 <= wait_s < float("inf"):
        raise web.HTTPBadRequest(reason="wait_s is a number of seconds from 0")
    return min(wait_s, WAIT_S_MAX)


@web.middleware
async def _tokens(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every call but the three for operators carries a token for this worker (R6)."""
    if request.path not in _OPEN_PATHS:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        options = request.app[_SYSTEM].options
        verify_token(options.credential, options.worker_id, token.strip() if scheme.lower() == "bearer" else "")
    return await handler(request)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One shape for every refusal; nothing of this machine in any of them (X4)."""
    try:
        return await handler(request)
    except TokenRefused as refused:
        return _problem(401, refused.code, refused.message, refused.hint)
    except SlotBusy:
        return _problem(409, "RENDER_WORKER_BUSY", "The slot is taken; no attempt was made.", "Ask again shortly.")
    except SlotBroken:
        return _problem(503, "RENDER_SERVICE_UNAVAILABLE", "No browser comes up here.", "Try another worker, or later.")
    except AttemptUnknown:
        return _problem(404, "RENDER_ATTEMPT_UNKNOWN", "This attempt is not known here.", "Start it again.")
    except AttemptDropped:
        return _problem(410, "RENDER_ATTEMPT_DROPPED", "This attempt was dropped before.", "Start another attempt.")
    except BaseRefused as refused:
        return _problem(403, refused.code, str(refused), refused.hint)
    except (pykka.ActorDeadError, TimeoutError):
        return _problem(503, "RENDER_SERVICE_UNAVAILABLE", "The Renderer is stopping or restarting.", "Try again.")
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
        return _problem(422, "RENDER_REQUEST_INVALID", f"The request has another shape: {problems}", "")
    except web.HTTPException as refused:
        return _problem(refused.status, f"HTTP_{refused.status}", refused.reason, "")
    except Exception:
        log.exception("renderer.request.failed", method=request.method, path=request.path)
        return _problem(500, "RENDER_FAULT", "The Renderer failed to answer.", "Try again; see the Renderer's log.")


def _json(model: BaseModel, status: int = 200) -> web.Response:
    return web.Response(text=model.model_dump_json(), content_type="application/json", status=status)


def _problem(status: int, code: str, message: str, hint: str) -> web.Response:
    return _json(_Problem(code=code, message=message, hint=hint), status)
