"""The wire between Runtimes and Backends, played under the real client and the real routes of builds (B1, B2).

A call travels, reaches a door or not, is served by the process behind it (which may be frozen or be killed meanwhile),
and its answer is heard or not. A stream goes block by block and may stall or be cut; who sends it may be killed, and
then the door hears that at once, later or never. A call may arrive a second time, at once or much later, and its token
may be tried on another job: that must be refused.
"""

import asyncio
import json
import re
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from aiohttp import web

from pagegate.actors.tickets import InvalidTicketError, opens
from pagegate.http.backend.errors import error_answer, refusal_of
from pagegate.http.backend.internal_builds import internal_builds
from pagegate.http.backend.parts import BackendParts
from pagegate.http.backend.routes import Route, serve
from pagegate.runtime.build_contract import BuildOffer
from tests.simulation.virtual_loop import LIFE, Life, LoopClock, VirtualLoop

if TYPE_CHECKING:
    from tests.simulation.builders import Builder
    from tests.simulation.edges import Surroundings

_NEVER_S = 10_000.0
_ROUTES = [
    (route.method, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path) + "$"), route)
    for route in internal_builds.routes
]
_ATTEMPT = re.compile(r"/build-jobs/(\d+)/(\d+)/")


class PlayedTickets:
    """Tickets that nobody signs: their subject, and until when they are good by the clock of who asks."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock

    def issue(self, artifact_id: str, ttl_s: float = 3600.0) -> str:
        return f"{artifact_id}|{self._clock.now_ms() + int(ttl_s * 1000)}"

    def verify(self, token: str, artifact_id: str) -> None:
        subject, _, until_ms = token.partition("|")
        if not until_ms or int(until_ms) <= self._clock.now_ms():
            raise InvalidTicketError("the ticket has expired")
        if not opens(subject, artifact_id):
            raise InvalidTicketError("the ticket is for another artifact")


class Stream:
    """A body on its way: blocks, then its end, or an error when the connection breaks."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._blocks: deque[bytes] = deque()
        self._error: Exception | None = None
        self._wake: asyncio.Future[None] | None = None
        self.over = False

    def feed(self, block: bytes) -> None:
        self._blocks.append(block)
        self._woken()

    def end(self) -> None:
        self.over = True
        self._woken()

    def break_off(self) -> None:
        if not self.over and self._error is None:
            self._error = ConnectionResetError("the connection broke")
            self._woken()

    async def readany(self) -> bytes:
        while not self._blocks and not self.over:
            if self._error is not None:
                raise self._error
            self._wake = self._loop.create_future()
            await self._wake
        return self._blocks.popleft() if self._blocks else b""

    async def iter_any(self) -> AsyncIterator[bytes]:
        while block := await self.readany():
            yield block

    def _woken(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


@dataclass(frozen=True)
class Door:
    """Where a Backend is asked: the process, and the parts that its routes are given."""

    life: Life
    parts: BackendParts


@dataclass(frozen=True)
class Answer:
    """What a client reads of an answer."""

    status: int
    told: bytes

    async def read(self) -> bytes:
        return self.told


@dataclass(eq=False)
class _Connection:
    caller: Life | None
    served_by: Life
    stream: Stream
    answer: "asyncio.Future[Answer]"

    def reset(self) -> None:
        if not self.answer.done():
            self.answer.set_exception(aiohttp.ServerDisconnectedError())
            self.answer.exception()  # seen: a dead caller never looks


@dataclass(frozen=True)
class _Sent:
    """One request as it is sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None = None

    def at(self, path: str) -> "_Sent":
        return _Sent(self.method, path, self.headers, self.body)


@dataclass
class Network:
    """All wires of one world. `claimed`: the attempts that anybody was ever told of."""

    around: "Surroundings"
    doors: dict[str, Door] = field(default_factory=dict)
    builders: dict[str, "Builder"] = field(default_factory=dict)
    claimed: list[tuple[str, str]] = field(default_factory=list)
    _open: set[_Connection] = field(default_factory=set)

    def lost(self, life: Life) -> None:
        """A process was killed: who waits for it hears that; who is sent something by it hears it now, later or never.

        In the order in which they were opened, so that a seed stays a seed.
        """
        loop = self.around.loop
        for connection in sorted(self._open, key=lambda one: self._order[id(one)]):
            if connection.served_by is life:
                loop.call_outside(loop.chance.choice([0.0, 0.3]), connection.reset)
            elif connection.caller is life:
                loop.call_outside(loop.chance.choice([0.0, 2.0, _NEVER_S]), connection.stream.break_off)

    def session(self) -> aiohttp.ClientSession:
        """What the real client takes for its HTTP session."""
        return cast(aiohttp.ClientSession, _Session(self))

    # -- one call -------------------------------------------------------------------------------------------------

    async def exchange(self, sent: _Sent, url: str, body: AsyncIterator[bytes] | None) -> Answer:
        """Send it, and hear the answer. Raises what aiohttp would."""
        around, weather, chance = self.around, self.around.weather, self.around.loop.chance
        await around.travel()
        if around.strikes(weather.wire_refuses):
            await asyncio.sleep(chance.choice([0.0, 4.0]))
            raise aiohttp.ClientConnectionError("nobody answers")
        address, door = self._door_of(url)
        sent = sent.at(url.removeprefix(address))
        stream, whole = Stream(around.loop), list[bytes]()
        connection = self._connect(door, stream)
        self._serve_at(door, sent, stream, connection.answer)
        pump = asyncio.create_task(self._pump(sent, body, whole, connection))
        try:
            answer = await connection.answer
        finally:
            pump.cancel()
            stream.break_off()
            self._close(connection)
        if (known := _claimed_of(sent.path, answer)) is not None:
            self.claimed.append(known)
        self._haunt(door, _Sent(sent.method, sent.path, sent.headers, b"".join(whole)))
        if around.strikes(weather.wire_loses):
            raise aiohttp.ServerDisconnectedError
        return answer

    async def offer(self, url: str, offer: BuildOffer) -> Answer:
        """A Backend's word to a Runtime."""
        await self.around.travel()
        builder = next((one for at, one in self.builders.items() if url.startswith(at)), None)
        if builder is None or self.around.strikes(self.around.weather.wire_refuses):
            raise aiohttp.ClientConnectionError("nobody answers")
        return Answer(202 if await builder.hear(offer) else 429, b"")

    async def _pump(
        self, sent: _Sent, body: AsyncIterator[bytes] | None, whole: list[bytes], connection: _Connection
    ) -> None:
        stream = connection.stream
        around, weather, chance = self.around, self.around.weather, self.around.loop.chance
        if body is None:
            whole.append(sent.body or b"")
            if sent.body:
                stream.feed(sent.body)
            stream.end()
            return
        async for block in body:
            await around.travel()
            if around.strikes(weather.wire_stalls):
                await asyncio.sleep(chance.choice([3.0, 11.0, 61.0]))
            if around.strikes(weather.wire_cuts):
                stream.break_off()
                connection.reset()
                return
            whole.append(block)
            stream.feed(block)
        stream.end()

    def _serve_at(self, door: Door, sent: _Sent, stream: Stream, answer: "asyncio.Future[Answer]") -> None:
        door.life.begin(self._serve(door.parts, sent, stream, answer))

    async def _serve(self, parts: BackendParts, sent: _Sent, stream: Stream, answer: "asyncio.Future[Answer]") -> None:
        route, params = _route_of(sent)
        length = int(sent.headers["Content-Length"]) if "Content-Length" in sent.headers else None
        request = SimpleNamespace(
            match_info=params, query={}, headers=sent.headers, content=stream, content_length=length, path=sent.path
        )
        try:
            served = await serve(route, parts, cast(web.Request, request), None)
        except ConnectionResetError:
            return  # whoever asked is gone in the middle of asking
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                self.around.broken(f"{sent.method} {sent.path} failed: {error!r}")
                return
            served = error_answer(refusal, "played")
        told = cast(web.Response, served).body or b""
        if not answer.done():
            answer.set_result(Answer(served.status, cast(bytes, told)))

    def _haunt(self, door: Door, sent: _Sent) -> None:
        """The same call arrives once more; or its token is tried at another job."""
        around, weather, loop = self.around, self.around.weather, self.around.loop
        if around.strikes(weather.wire_repeats):
            loop.call_outside(loop.chance.choice([0.0, 0.5, 6.0, 12.0, 30.0]), self._again, door, sent)
        others = [one for one in self.claimed if f"/{one[0]}/{one[1]}/" not in sent.path]
        if others and _ATTEMPT.search(sent.path) and around.strikes(weather.wire_strays):
            job, attempt = loop.chance.choice(others)
            stray = sent.at(_ATTEMPT.sub(f"/build-jobs/{job}/{attempt}/", sent.path))
            self._again(door, stray).add_done_callback(self._judge_stray)

    def _again(self, door: Door, sent: _Sent) -> "asyncio.Future[Answer]":
        answer: asyncio.Future[Answer] = self.around.loop.create_future()
        if not door.life.stopped:
            stream = Stream(self.around.loop)
            if sent.body:
                stream.feed(sent.body)
            stream.end()
            self.around.note("wire", "again", call=f"{sent.method} {sent.path.rpartition('/')[2]}")
            self._serve_at(door, sent, stream, answer)
        return answer

    def _judge_stray(self, answer: "asyncio.Future[Answer]") -> None:
        if not answer.cancelled() and answer.result().status not in {401, 503}:
            self.around.broken(f"the token of one build opened another: {answer.result()}")

    def _door_of(self, url: str) -> tuple[str, Door]:
        for address, door in self.doors.items():
            if url.startswith(f"{address}/"):
                return address, door
        raise aiohttp.ClientConnectionError("nobody is there")

    # -- connections ----------------------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        self._order: dict[int, int] = {}
        self._made = 0

    def _connect(self, door: Door, stream: Stream) -> _Connection:
        connection = _Connection(LIFE.get(), door.life, stream, self.around.loop.create_future())
        self._made += 1
        self._order[id(connection)] = self._made
        self._open.add(connection)
        return connection

    def _close(self, connection: _Connection) -> None:
        self._open.discard(connection)
        self._order.pop(id(connection), None)


class _Session:
    """The few words of `aiohttp.ClientSession` that the client of builds uses."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
        allow_redirects: bool,
        data: bytes | None = None,
    ) -> "_Exchange":
        return _Exchange(self._network, _Sent(method, "", headers, data), url, timeout)

    def put(
        self,
        url: str,
        *,
        data: AsyncIterator[bytes],
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> "_Exchange":
        return _Exchange(self._network, _Sent("PUT", "", headers), url, timeout, data)

    def post(self, url: str, *, json: dict[str, Any], timeout: aiohttp.ClientTimeout) -> "_Exchange":
        return _Exchange(self._network, _Sent("POST", "", {}), url, timeout, offer=BuildOffer(**json))


class _Exchange:
    """`async with` it: the call is made, and its answer is there."""

    def __init__(
        self,
        network: Network,
        sent: _Sent,
        url: str,
        limit: aiohttp.ClientTimeout,
        body: AsyncIterator[bytes] | None = None,
        offer: BuildOffer | None = None,
    ) -> None:
        self._network, self._sent, self._url, self._body, self._offer = network, sent, url, body, offer
        self._limit_s = limit.total or limit.sock_read

    async def __aenter__(self) -> Answer:
        async with asyncio.timeout(self._limit_s):
            if self._offer is not None:
                return await self._network.offer(self._url, self._offer)
            return await self._network.exchange(self._sent, self._url, self._body)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """The answer was read whole."""


def _route_of(sent: _Sent) -> tuple[Route, dict[str, str]]:
    for method, pattern, route in _ROUTES:
        if method == sent.method and (found := pattern.match(sent.path)):
            home = sys.modules[route.handler.__module__]  # whoever is there now, a mutant too
            return replace(route, handler=getattr(home, route.handler.__name__)), found.groupdict()
    raise AssertionError(f"{sent.method} {sent.path} is no route")


def _claimed_of(path: str, answer: Answer) -> tuple[str, str] | None:
    if not path.endswith("/claim") or answer.status != 200:
        return None
    with suppress(KeyError, TypeError):
        claimed = json.loads(answer.told)["claimed"]
        return str(claimed["job_id"]), str(claimed["attempt"])
    return None
