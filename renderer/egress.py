"""The made-up origin: what the page's requests are answered from (X1).

Owns the mapping of root-relative addresses to the three bases of a task, and the fetching behind it: GET only, no
redirects, a size cap, a time limit, the ticket to the asset base only and never seen by the page. Which requests get
here at all is decided in `gate.py`. Keeps nothing.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote

import aiohttp
from yarl import URL

from pagegate.renderer.contract import PageBases

ORIGIN = "https://gate.test"


@dataclass(frozen=True, slots=True)
class OriginResponse:
    status: int
    content_type: str = "application/octet-stream"
    body: bytes = field(default=b"", repr=False)


class OriginUnreachable(Exception):
    """Nobody answers behind the origin, or what answers is broken: infrastructure, unless the page made it up."""


class OriginBodyTooLarge(Exception):
    """The answer is over the size cap."""


class AddressRefused(Exception):
    """The path tries to climb out of its base."""


class BaseRefused(Exception):
    """A base of the task is not on the allow-list: the task is refused before any browser sees it."""

    code = "RENDER_BASE_NOT_ALLOWED"
    hint = (
        "set RENDER_RUNTIME_NAVIGATION_BASE_URL, RENDER_RUNTIME_ASSET_BASE_URL and RENDER_PLATFORM_ASSET_BASE_URL "
        "to where this deployment's Runtime and Backend are"
    )

    def __init__(self, which: str) -> None:
        super().__init__(f"{which} is outside the addresses that this Renderer may reach")


class Origin(Protocol):
    async def get(self, path_and_query: str) -> OriginResponse:
        """Answer one GET. Raises `OriginUnreachable`, `OriginBodyTooLarge`, `AddressRefused`, TimeoutError."""
        ...


@dataclass(frozen=True, slots=True)
class AllowedBases:
    """Where the three bases of a task may lie; each list holds URL prefixes that end in `/`."""

    navigation: tuple[str, ...]
    vendor: tuple[str, ...]
    assets: tuple[str, ...]

    def admit(self, bases: PageBases) -> None:
        """Raises `BaseRefused` for the first base that lies under none of its prefixes."""
        for which, url, allowed in (
            ("navigation_url", bases.navigation_url, self.navigation),
            ("vendor_url", bases.vendor_url, self.vendor),
            ("assets_url", bases.assets_url, self.assets),
        ):
            if not url.endswith("/") or not any(lies_under(url, prefix) for prefix in allowed):
                raise BaseRefused(which)


def lies_under(url: str, prefix: str) -> bool:
    """Whether `url` is at `prefix` or below it: same scheme, host and port, and the path goes on from there."""
    try:
        have, allowed = URL(url), URL(prefix)
        port_have, port_allowed = have.port, allowed.port
    except ValueError:
        return False
    if have.scheme not in ("http", "https") or have.user or have.password or have.query_string or have.fragment:
        return False
    same_place = (have.scheme, have.host, port_have) == (allowed.scheme, allowed.host, port_allowed)
    try:
        check_path(have.raw_path)
    except AddressRefused:
        return False
    return same_place and have.raw_path.startswith(allowed.raw_path.rstrip("/") + "/")


def check_path(raw_path: str) -> None:
    """Raise `AddressRefused` for a path that is not what it seems, however often it was encoded."""
    path = raw_path
    for _ in range(4):
        if "\\" in path or ".." in path.split("/") or "//" in path or any(ord(sign) < 32 for sign in path):
            raise AddressRefused("the path leaves its folder")
        decoded = unquote(path)
        if decoded == path:
            return
        path = decoded
    raise AddressRefused("the path is encoded too often")


class MemoryOrigin:
    """An origin in a dictionary, path → response. An address that is not in it is a 404."""

    def __init__(self, files: Mapping[str, OriginResponse]) -> None:
        self._files = dict(files)

    async def get(self, path_and_query: str) -> OriginResponse:
        path = path_and_query.partition("?")[0]
        check_path(path)
        return self._files.get(path) or self._files.get(unquote(path)) or OriginResponse(404)


class HttpOrigin:
    """The origin behind a task's three bases. The session is lent, and keeps no cookies."""

    def __init__(
        self, session: aiohttp.ClientSession, bases: PageBases, *, timeout_s: float, body_bytes_max: int
    ) -> None:
        self._session, self._bases = session, bases
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._body_bytes_max = body_bytes_max

    async def get(self, path_and_query: str) -> OriginResponse:
        address, headers = self._address(path_and_query)
        try:
            async with self._session.get(
                address, headers=headers, timeout=self._timeout, allow_redirects=False
            ) as response:
                body = await self._read(response)
                content_type = response.headers.get("Content-Type", "application/octet-stream")
                return OriginResponse(response.status, content_type, body)
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:  # RuntimeError: the session is closed
            raise OriginUnreachable(type(error).__name__) from error

    def _address(self, path_and_query: str) -> tuple[URL, dict[str, str]]:
        path, mark, query = path_and_query.partition("?")
        check_path(path)
        headers: dict[str, str] = {}
        if path.startswith("/vendor/"):
            address = self._bases.vendor_url + path.removeprefix("/vendor/")
        elif path.startswith("/assets/"):
            address = self._bases.assets_url + path.removeprefix("/assets/")
            if self._bases.ticket:
                headers["Authorization"] = f"Bearer {self._bases.ticket}"
        else:
            address = self._bases.navigation_url + ("index.html" if path == "/" else path.removeprefix("/"))
        return URL(address + mark + query, encoded=True), headers

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        if (response.content_length or 0) > self._body_bytes_max:
            raise OriginBodyTooLarge
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_chunked(1 << 16):
            size += len(piece)
            if size > self._body_bytes_max:
                raise OriginBodyTooLarge
            pieces.append(piece)
        return b"".join(pieces)


async def fetch_all(origin: Origin, paths: Iterable[str]) -> dict[str, OriginResponse]:
    """What answers of these paths there are, together; what fails is left out."""
    wanted = list(paths)
    answers = await asyncio.gather(*(origin.get(path) for path in wanted), return_exceptions=True)
    return {
        path: answer
        for path, answer in zip(wanted, answers, strict=True)
        if isinstance(answer, OriginResponse) and answer.status == 200
    }
