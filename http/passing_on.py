"""A file of a Backend, passed on to a browser as it comes: all of it, or the part that was asked for (P4, B5).

Owns nothing: the session is lent. What is passed on of the answer is its bytes, its length, and what a player needs to
seek; every other header is the door's own.
"""

from collections.abc import Collection, Mapping

import aiohttp
import structlog
from aiohttp import web

from pagegate.runtime.refusals import SourceUnavailable

log = structlog.get_logger()

_WAIT = aiohttp.ClientTimeout(total=300.0, connect=5.0, sock_read=30.0)
_CHUNK_BYTES = 64 * 1024
_PASSED_ON = ("Accept-Ranges", "Content-Range", "ETag")


async def open_file(
    session: aiohttp.ClientSession,
    url: str,
    *,
    headers: Mapping[str, str],
    params: Mapping[str, str] | None = None,
    expected: Collection[int] = (200, 206, 404, 416),
) -> aiohttp.ClientResponse:
    """The begun answer of one Backend; the caller closes it. Raises `SourceUnavailable` for one not `expected`."""
    try:
        got = await session.get(url, params=params, headers=headers, timeout=_WAIT, allow_redirects=False)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SourceUnavailable(f"the Backend cannot be read ({type(error).__name__})") from error
    if got.status not in expected:
        got.release()
        raise SourceUnavailable(f"the Backend answered {got.status} for a file")
    return got


async def pass_on(request: web.Request, got: aiohttp.ClientResponse, headers: Mapping[str, str]) -> web.StreamResponse:
    """Answer with these bytes. A file that breaks off breaks the connection: a short body must not look whole."""
    passed = {name: got.headers[name] for name in _PASSED_ON if name in got.headers}
    content_type = got.headers.get("Content-Type", "application/octet-stream")
    answer = web.StreamResponse(status=got.status, headers={**headers, **passed, "Content-Type": content_type})
    answer.content_length = got.content_length
    await answer.prepare(request)
    try:
        async for chunk in got.content.iter_chunked(_CHUNK_BYTES):
            await answer.write(chunk)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        log.warning("runtime.file.cut_off", path=request.path.rpartition("/")[2], reason=type(error).__name__)
        if request.transport is not None:
            request.transport.abort()
        return answer
    await answer.write_eof()
    return answer


def asked_part(request: web.Request) -> dict[str, str]:
    """What of a request says which part is wanted."""
    return {name: request.headers[name] for name in ("Range", "If-Range") if name in request.headers}
