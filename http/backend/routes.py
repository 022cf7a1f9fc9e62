"""What a route is: one declaration from which the address, the parsing, the checks and the documentation all come.

Owns the way a request goes through: find out who asks (`auth.py`), parse address, query and body with the route's
models, call the handler with a typed `Call`, turn the model it returns into the answer. Handlers therefore only ask
and respond. `openapi.py` reads the same declarations, so the description cannot drift from what is served.

(aiohttp-pydantic 2.6 was tried first. It writes OpenAPI 3.0 from docstrings, has no place for streamed bodies, for
error answers or for who may call a route, answers every invalid request with its own shape, and is not typed.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args, get_type_hints

import pykka
from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from pagegate.actors.kernel import Asks, ask
from pagegate.http.backend.errors import REFUSALS, ApiError, invalid
from pagegate.http.backend.parts import ApiLimits, BackendParts
from pagegate.storage.users import Caller

JSON_BODY_BYTES_MAX = 256 * 1024
BODY_WAIT_S = 60.0
ASK_WAIT_S = 30.0
_PARSE_IN_THREAD_BYTES = 256 * 1024  # larger bodies would hold the loop for milliseconds

Access = Literal["public", "user", "admin", "ticket"]


class Nothing(BaseModel):
    """The route takes no parameters, or no body."""

    model_config = ConfigDict(frozen=True)


P = TypeVar("P", bound=BaseModel)
B = TypeVar("B", bound=BaseModel)
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Awaitable[BaseModel | web.StreamResponse]])


@dataclass(frozen=True)
class Call(Generic[P, B]):
    """One request, parsed and allowed. `caller` is None on public and ticket routes; elsewhere use `user`."""

    parts: BackendParts
    params: P
    body: B
    request: web.Request
    caller: Caller | None

    @property
    def user(self) -> Caller:
        assert self.caller is not None, "a route without a user asked for its user"
        return self.caller

    async def ask_runs(self, message: Asks[R]) -> R:
        """Ask the AgentRuns actor. Who got no answer in time does not know whether it was done: `BACKEND_BUSY`."""
        return await self._ask(self.parts.agent_runs, message)

    async def ask_jobs(self, message: Asks[R]) -> R:
        """Ask the JobControl actor; the same holds."""
        return await self._ask(self.parts.job_control, message)

    async def _ask(self, actor: pykka.ActorRef[Any], message: Asks[R]) -> R:
        try:
            return await ask(actor, message, timeout_s=ASK_WAIT_S)
        except (TimeoutError, pykka.ActorDeadError):
            raise ApiError("BACKEND_BUSY") from None


@dataclass(frozen=True)
class Bytes:
    """An answer or a request body that is not JSON: its media type, and what the bytes are."""

    media_type: str
    description: str


Handler = Callable[[Call[Any, Any]], Awaitable[BaseModel | web.StreamResponse]]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Route:
    """One address and method.

    `params` holds the fields of the address and of the query, `body` the JSON body (`Nothing`: none is read),
    `refusals` the codes beyond those that every route of its kind has. `answer_too` names other answers of the same
    status.
    """

    method: Method
    path: str
    handler: Handler
    tag: str
    summary: str
    params: type[BaseModel]
    body: type[BaseModel]
    answer: type[BaseModel] | Bytes
    status: int
    access: Access
    upload: Bytes | None
    answer_too: Sequence[Bytes]
    refusals: Sequence[str]
    headers: Mapping[str, str]  # request headers the route understands: name → description
    body_bytes_max: Callable[[ApiLimits], int]

    def path_fields(self) -> list[str]:
        """The names between braces in the address, in order."""
        return [part.split("}")[0] for part in self.path.split("{")[1:]]

    @property
    def has_json_body(self) -> bool:
        return self.body is not Nothing


class Noun:
    """The routes of one noun of the API. Decorate a handler with `@noun.route("GET", "/things/{thing_id}")`.

    Params, body and answer are read from the handler's annotations, the summary from its docstring: what the type
    checker sees, what is parsed and what is documented are one text.
    """

    def __init__(self, tag: str) -> None:
        self.tag, self.routes = tag, list[Route]()

    def route(
        self,
        method: Method,
        path: str,
        *,
        status: int = 200,
        access: Access = "user",
        answer: Bytes | None = None,
        answer_too: Sequence[Bytes] = (),
        upload: Bytes | None = None,
        refusals: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        body_bytes_max: Callable[[ApiLimits], int] = lambda _: JSON_BODY_BYTES_MAX,
    ) -> Callable[[H], H]:
        unknown = [code for code in refusals if code not in REFUSALS]
        assert not unknown, f"{method} {path} names codes that do not exist: {unknown}"

        def add(handler: H) -> H:
            hints = get_type_hints(handler)
            returns = hints.pop("return")
            (call,) = hints.values()
            params, body = get_args(call)
            is_model = isinstance(returns, type) and issubclass(returns, BaseModel)
            assert answer is not None or is_model, f"{method} {path} does not say what it answers"
            summary = (handler.__doc__ or "").strip().split("\n")[0].rstrip(".")
            assert summary, f"{method} {path} has no docstring"
            self.routes.append(
                Route(
                    method,
                    path,
                    handler,
                    self.tag,
                    summary,
                    params,
                    body,
                    answer or returns,
                    status,
                    access,
                    upload,
                    answer_too,
                    refusals,
                    headers or {},
                    body_bytes_max,
                )
            )
            return handler

        return add


async def serve(route: Route, parts: BackendParts, request: web.Request, caller: Caller | None) -> web.StreamResponse:
    """Parse, call the handler, answer. Raises `ApiError`."""
    params = _parse_params(route, request)
    body = await _parse_body(route, parts.limits, request) if route.has_json_body else Nothing()
    answer = await route.handler(Call(parts, params, body, request, caller))
    if isinstance(answer, web.StreamResponse):
        return answer
    if isinstance(answer, Nothing):
        return web.Response(status=204)
    return web.Response(status=route.status, text=answer.model_dump_json(), content_type="application/json")


def _parse_params(route: Route, request: web.Request) -> BaseModel:
    in_path = route.path_fields()
    given: dict[str, str] = {name: value for name, value in request.query.items() if name not in in_path}
    given.update({name: request.match_info[name] for name in in_path})
    try:
        params: BaseModel = route.params.model_validate(given)
    except ValidationError as error:
        wrong = {str(found["loc"][0]) for found in error.errors() if found["loc"]}
        # An address with a malformed id names nothing; only a query or a named file can be invalid.
        if any(name in wrong and name.endswith("_id") for name in in_path):
            raise ApiError("ROUTE_NOT_FOUND") from None
        raise invalid(error) from None
    return params


async def _parse_body(route: Route, limits: ApiLimits, request: web.Request) -> BaseModel:
    raw = await read_body(request, route.body_bytes_max(limits))
    try:
        if len(raw) > _PARSE_IN_THREAD_BYTES:
            return await asyncio.to_thread(_validate, route.body, raw)
        return _validate(route.body, raw)
    except ValidationError as error:
        raise invalid(error) from None


def _validate(model: type[BaseModel], raw: bytes) -> BaseModel:
    return model.model_validate_json(raw)


async def read_body(request: web.Request, bytes_max: int) -> bytes:
    """The whole body. Raises `REQUEST_BODY_TOO_LARGE` as soon as it is known, `REQUEST_TIMEOUT` after a minute."""
    if request.content_length is not None and request.content_length > bytes_max:
        raise _too_large(bytes_max)
    chunks: list[bytes] = []
    size_bytes = 0
    try:
        async with asyncio.timeout(BODY_WAIT_S):
            async for chunk in request.content.iter_any():
                size_bytes += len(chunk)
                if size_bytes > bytes_max:
                    raise _too_large(bytes_max)
                chunks.append(chunk)
    except TimeoutError:
        raise ApiError("REQUEST_TIMEOUT", headers={"Connection": "close"}) from None
    return b"".join(chunks)


def _too_large(bytes_max: int) -> ApiError:
    return ApiError("REQUEST_BODY_TOO_LARGE", f"The body is larger than the {bytes_max} bytes this route accepts.")
