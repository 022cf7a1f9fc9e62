"""The Runtime's door for sites: releases, hosted (B5, X6).

* `GET /sites/{site}/…`: the site as it is now. Its hosts are served here and name the files of one release, so that an
  open page goes on with its own files when a newer release is shown; any other file is redirected to.
* `GET /sites/{site}/r/{number}/…`: one release, for ever: immutable, compressed, in parts for who asks for parts.

Owns a bounded cache of compressed texts. Pages are strangers' scripts: served sandboxed at an origin that is not the
API's; only the hosts around them are ours.
"""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
import structlog
from aiohttp import web

from pagegate.actors.systems.runtime import RuntimeSystem
from pagegate.http.passing_on import asked_part, open_file, pass_on
from pagegate.http.preview_pages import Words, words_page
from pagegate.http.runtime_previews import ASSET_HEADERS
from pagegate.runtime.backends import Backends
from pagegate.runtime.refusals import SourceUnavailable

log = structlog.get_logger()

_KEY = re.compile(r"[A-Za-z0-9_-]{10,100}")
_PAGE = re.compile(r"pages/[1-9][0-9]*/")
_WAIT = aiohttp.ClientTimeout(total=10.0, connect=2.0)
_TEXT_BYTES_MAX = 8 * 1024 * 1024  # a larger one is streamed as it is
_CACHE_BYTES_MAX = 32 * 1024 * 1024
_TEXTS = ("text/", "image/svg+xml", "application/json")
_FOREVER = "public, max-age=31536000, immutable"
_HOST_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; frame-src 'self'; base-uri 'self'; "
    "form-action 'none'"
)
_HOST_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": _HOST_POLICY,
}


@dataclass(frozen=True)
class _Text:
    plain: bytes
    packed: bytes
    content_type: str
    etag: str


class _Texts:
    """What was read lately, at most `_CACHE_BYTES_MAX` of it. Files of a release never change."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str], _Text] = {}
        self._bytes = 0

    def find(self, key: tuple[str, int, str]) -> _Text | None:
        text = self._kept.pop(key, None)
        if text is not None:
            self._kept[key] = text  # the newest again
        return text

    def keep(self, key: tuple[str, int, str], text: _Text) -> None:
        if key in self._kept:
            return
        self._kept[key] = text
        self._bytes += len(text.plain) + len(text.packed)
        while self._bytes > _CACHE_BYTES_MAX:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._bytes -= len(oldest.plain) + len(oldest.packed)


_SESSION = web.AppKey("site_session", aiohttp.ClientSession)
_BACKENDS = web.AppKey("site_backends", Backends)
_CACHE = web.AppKey("site_texts", _Texts)
_SYSTEM = web.AppKey("site_system", RuntimeSystem)


def add_site_routes(app: web.Application, system: RuntimeSystem) -> None:
    """Add the door to the Runtime's application."""
    app[_SYSTEM] = system
    app.cleanup_ctx.append(_parts)
    app.add_routes(
        [
            web.get("/sites/{site}", _with_slash),
            web.get(r"/sites/{site}/r/{number:[1-9][0-9]{0,8}}/{path:.*}", _of_release),
            web.get("/sites/{site}/{path:.*}", _of_site),
        ]
    )


async def _parts(app: web.Application) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        app[_SESSION], app[_CACHE] = session, _Texts()
        app[_BACKENDS] = Backends(app[_SYSTEM].options.backend_base_urls)
        yield


async def _with_slash(request: web.Request) -> web.Response:
    return web.Response(status=308, headers={"Location": quote(request.match_info["site"], safe="") + "/"})


async def _of_site(request: web.Request) -> web.StreamResponse:
    """A host of the release that is shown now; any other file is where it never changes."""
    site, path = request.match_info["site"], request.match_info["path"]
    if not _KEY.fullmatch(site):
        return _nothing()
    number = await _shown(request, site)
    if number is None:
        return _nothing()
    at = f"/sites/{site}/r/{number}/"
    if path and not path.endswith("/"):
        # A folder without its slash comes back here with it; everything else is a file of the release.
        if await _text(request, site, number, f"{path}/index.html") is not None:
            return _moved(f"/sites/{site}/{quote(path)}/", 308)
        return _moved(at + quote(path), 302)
    if _PAGE.fullmatch(path):
        return _moved(at + quote(path), 302)
    host = await _text(request, site, number, f"{path}index.html")
    if host is None:
        return _nothing()
    base = f'<head>\n<base href="{at}{quote(path)}">'
    html = host.plain.replace(b"<head>", base.encode(), 1)
    headers = {**_HOST_HEADERS, "Cache-Control": "no-cache", "ETag": f'"{number}-{host.etag}"'}
    if headers["ETag"] in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    answer = web.Response(body=html, content_type="text/html", charset="utf-8", headers=headers)
    answer.enable_compression()
    return answer


async def _of_release(request: web.Request) -> web.StreamResponse:
    """A file of a release. The page's own files are a stranger's; the hosts are ours."""
    site, number = request.match_info["site"], int(request.match_info["number"])
    path = request.match_info["path"]
    if not _KEY.fullmatch(site):
        return _nothing()
    path = f"{path}index.html" if not path or path.endswith("/") else path
    is_host = path.endswith("index.html") and not path.startswith("pages/")
    headers = {**(_HOST_HEADERS if is_host else ASSET_HEADERS), "Cache-Control": _FOREVER}
    text = await _text(request, site, number, path) if "Range" not in request.headers else None
    if text is None:
        return await _stream(request, site, number, path, headers)
    etag = f'"{text.etag}"'
    headers |= {"ETag": etag, "Vary": "Accept-Encoding", "Content-Type": text.content_type}
    if etag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=text.packed, headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=text.plain, headers=headers)


async def _shown(request: web.Request, site: str) -> int | None:
    """The release that the site shows now; None when there is no such site."""

    async def ask(url: str) -> int | None:
        try:
            async with request.app[_SESSION].get(f"{url}/internal/runtime/sites/{site}", timeout=_WAIT) as answer:
                if answer.status == 404:
                    return None
                if answer.status != 200:
                    raise SourceUnavailable(f"the Backend answered {answer.status} for a site")
                return int((await answer.json())["release"])
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SourceUnavailable(f"the Backend cannot be read ({type(error).__name__})") from error

    return await request.app[_BACKENDS].first(ask)


async def _open(request: web.Request, site: str, number: int, path: str) -> aiohttp.ClientResponse:
    """The begun answer of a Backend, whatever it says but a failure; the caller closes it."""
    session, part = request.app[_SESSION], asked_part(request)

    async def ask(url: str) -> aiohttp.ClientResponse:
        at = f"{url}/internal/runtime/sites/{site}/releases/{number}/file"
        return await open_file(session, at, headers=part, params={"path": path}, expected=range(500))

    return await request.app[_BACKENDS].first(ask)


async def _text(request: web.Request, site: str, number: int, path: str) -> _Text | None:
    """A text of a release, from the cache when it is there; None for what is none, or is not there."""
    cache, key = request.app[_CACHE], (site, number, path)
    if (kept := cache.find(key)) is not None:
        return kept
    got = await _open(request, site, number, path)
    async with got:
        content_type = got.headers.get("Content-Type", "")
        if got.status != 200 or not content_type.startswith(_TEXTS):
            return None
        if got.content_length is None or got.content_length > _TEXT_BYTES_MAX:
            return None
        try:
            plain = await got.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SourceUnavailable(f"a file cannot be read ({type(error).__name__})") from error
    packed = await asyncio.to_thread(gzip.compress, plain, 6, mtime=0)
    text = _Text(plain, packed, content_type, got.headers.get("ETag", "").strip('"'))
    cache.keep(key, text)
    return text


async def _stream(
    request: web.Request, site: str, number: int, path: str, headers: dict[str, str]
) -> web.StreamResponse:
    async with await _open(request, site, number, path) as got:
        return await pass_on(request, got, headers) if got.status in {200, 206, 416} else _nothing()


def _moved(location: str, status: int) -> web.Response:
    headers = {"Location": location, "Cache-Control": "no-cache", "Access-Control-Allow-Origin": "*"}
    return web.Response(status=status, headers=headers)


def _nothing() -> web.Response:
    words = Words("There is nothing here", "This site has no such page or file.", "", "RELEASE_NOT_FOUND")
    headers = {**_HOST_HEADERS, "Cache-Control": "no-cache"}
    return web.Response(text=words_page(words), status=404, content_type="text/html", charset="utf-8", headers=headers)
