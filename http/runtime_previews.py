"""The Runtime's door for people: previews in a browser (P4, K2, X6).

* `GET /previews/{token}/`: the host, with title, notes and the list of pages;
* `GET /previews/{token}/pages/{part}/{file}`: a page of it, compiled when somebody looks;
* `GET /previews/{token}/pages/{part}/assets/{name}`: an asset, fetched from the Backend with the same token;
* `GET /preview-shell/{file}`: the host's own script and style.

Owns nothing that lasts. The token in the address opens one artifact and is checked against the Backend's keys at each
request; no cookie is set or read. A page is untrusted: it is served sandboxed, as an origin of its own that nothing
else shares, and may load nothing but this preview and the frameworks. What cannot be shown is said in words that a
person can use, with the status that a program expects.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import aiohttp
import structlog
from aiohttp import web

from pagegate.actors.compiling.previews import PreviewPages
from pagegate.actors.compiling.tasks import Compiled
from pagegate.actors.systems.runtime import RuntimeSystem
from pagegate.http.passing_on import asked_part, open_file, pass_on
from pagegate.http.preview_pages import STATIC, Words, errors_page, host_page, words_page
from pagegate.runtime.backends import AnyBackendSource, Backends
from pagegate.runtime.contract import ArtifactManifest
from pagegate.runtime.preview_token import KeySet, KeysUnavailable, PreviewTokenInvalid, verify_preview_token
from pagegate.runtime.refusals import ArtifactGone, CompileUnavailable
from pagegate.runtime.site import SHELL as SITE_SHELL
from pagegate.runtime.sources import HttpModuleSource

log = structlog.get_logger()

_SHELL = Path(__file__).parent / "preview_shell"
_SHELL_FILES = {  # the host's own, and what it has in common with that of a site
    "shell.js": (_SHELL, "text/javascript"),
    "shell.css": (_SHELL, "text/css"),
    "deck.js": (SITE_SHELL, "text/javascript"),
    "keys.js": (SITE_SHELL, "text/javascript"),
}
PAGE_FILES = {"page.js": "text/javascript", "page.css": "text/css"}
_PART = re.compile(r"0|[1-9][0-9]{0,3}")
_TOKEN_CHARS_MAX = 4096
_KEYS_BYTES_MAX = 256 * 1024
_KEYS_WAIT = aiohttp.ClientTimeout(total=5.0, connect=2.0)
_READ_WAIT_S = 20.0

_COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address is the key
    "Cache-Control": "no-store",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=()",
}
_HOST_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
# Scripts of strangers: an origin of their own (`sandbox` without `allow-same-origin`), which can neither read another
# preview nor reach out. What a check allows in a page, a preview allows too.
_PAGE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "media-src 'self' data: blob:; connect-src 'self' data: blob:; frame-src 'self' data: blob:; worker-src 'none'; "
    "base-uri 'none'; form-action 'none'"
)

# Of what a page loads. Its origin is its own, so even its own files are another's to it.
ASSET_HEADERS = {**_COMMON, "Access-Control-Allow-Origin": "*", "Content-Security-Policy": _PAGE_POLICY}

GONE = Words(
    "This preview is gone",
    "Previews are kept for an hour, and for as long as the server keeps them.",
    "Open the preview again; it gets a new address.",
    "PREVIEW_ARTIFACT_UNAVAILABLE",
)

_SYSTEM = web.AppKey("preview_system", RuntimeSystem)
_SESSION = web.AppKey("preview_session", aiohttp.ClientSession)
_KEYS = web.AppKey("preview_keys", KeySet)
_BACKENDS = web.AppKey("preview_backends", Backends)
_PAGES = web.AppKey("preview_pages", PreviewPages)

Show = Callable[[web.Request, str, str], Awaitable[web.StreamResponse]]


def add_preview_routes(app: web.Application, system: RuntimeSystem) -> None:
    """Add the door to the Runtime's application."""
    app[_SYSTEM] = system
    app.cleanup_ctx.append(_parts)
    app.add_routes(
        [
            web.get("/previews/{token}", _with_slash),
            web.get("/previews/{token}/", _for_people(_host)),
            web.get("/previews/{token}/pages/{part}/", _for_people(_page)),
            web.get("/previews/{token}/pages/{part}/{file}", _for_people(_page_file)),
            web.get("/previews/{token}/pages/{part}/assets/{name}", _for_people(_asset)),
            web.get(STATIC + "/{file}", _shell_file),
        ]
    )


async def _parts(app: web.Application) -> AsyncIterator[None]:
    now_s = asyncio.get_running_loop().time
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        app[_SESSION] = session
        app[_KEYS] = KeySet(lambda: _fetch_keys(session, app[_SYSTEM].options.jwks_urls), now_s)
        app[_BACKENDS] = Backends(app[_SYSTEM].options.backend_base_urls)
        app[_PAGES] = PreviewPages(app[_SYSTEM].compile_preview, now_s)
        yield
        await app[_PAGES].close()


async def _fetch_keys(session: aiohttp.ClientSession, urls: Sequence[str]) -> bytes:
    """The key set of the first of these addresses that gives one: all Backends publish the same keys."""
    failed = KeysUnavailable("this Runtime was not told where the keys are")
    for url in urls:
        try:
            async with session.get(url, timeout=_KEYS_WAIT, allow_redirects=False) as answer:
                if answer.status == 200:
                    return await answer.content.read(_KEYS_BYTES_MAX)
                failed = KeysUnavailable(f"a Backend answered {answer.status} for its keys")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failed = KeysUnavailable(f"a Backend does not give its keys ({type(error).__name__})")
    raise failed


def _for_people(show: Show) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Check the token, and say every refusal in words (X4). `show` gets the token and the artifact that it opens."""

    async def handle(request: web.Request) -> web.StreamResponse:
        token = request.match_info["token"]
        try:
            if len(token) > _TOKEN_CHARS_MAX:
                raise PreviewTokenInvalid("This address is not one that was given out.")
            return await show(request, token, await verify_preview_token(token, request.app[_KEYS]))
        except PreviewTokenInvalid as error:
            return _words(error.status, Words(error.title, str(error), GONE.hint, error.code))
        except ArtifactGone:
            return _words(404, GONE)
        except CompileUnavailable as error:
            log.warning("runtime.preview.unavailable", code=error.code, reason=str(error))
            return unavailable(error.code)
        except KeysUnavailable as error:
            log.warning("runtime.preview.unavailable", code="RUNTIME_KEYS_UNAVAILABLE", reason=str(error))
            return unavailable("RUNTIME_KEYS_UNAVAILABLE")

    return handle


def _busy(code: str) -> Words:
    return Words(
        "This preview cannot be shown now", "The server is busy, or a part of it is away.", "Reload soon.", code
    )


async def _with_slash(request: web.Request) -> web.StreamResponse:
    # Relative, so that it stays below whatever address a person came by.
    location = quote(request.match_info["token"], safe="") + "/"
    return web.Response(status=308, headers={**_COMMON, "Location": location})


def host_answer(manifest: ArtifactManifest) -> web.Response:
    """The host of a preview."""
    return _html(host_page(manifest), 200, _HOST_POLICY)


def page_answer(compiled: Compiled, name: str) -> web.Response:
    """A file of a compiled page (`index.html` for itself), served as a stranger (X6); its errors in its place."""
    if compiled.errors:
        return _html(errors_page(compiled.errors), 422, _PAGE_POLICY)
    content = compiled.files.get(name)
    if content is None:
        return nothing_here()
    if name == "index.html":
        keys = f'<script src="{STATIC}/keys.js"></script>\n<script type="module"'
        return _html(content.decode().replace('<script type="module"', keys, 1), 200, _PAGE_POLICY)
    return web.Response(body=content, content_type=PAGE_FILES[name], charset="utf-8", headers=ASSET_HEADERS)


def nothing_here() -> web.Response:
    """A page or a file that a preview does not have."""
    words = Words("There is nothing here", "This preview has no such page or file.", "", "RUNTIME_FILE_UNKNOWN")
    return _words(404, words)


def unavailable(code: str) -> web.Response:
    """What is not the page's fault, and passes."""
    return _words(503, _busy(code))


async def _host(request: web.Request, token: str, artifact_id: str) -> web.StreamResponse:
    return host_answer(await _source(request, token, artifact_id).manifest())


async def _page(request: web.Request, token: str, artifact_id: str) -> web.StreamResponse:
    return await _compiled_file(request, token, artifact_id, "index.html")


async def _page_file(request: web.Request, token: str, artifact_id: str) -> web.StreamResponse:
    name = request.match_info["file"]
    if name not in PAGE_FILES:
        return nothing_here()
    return await _compiled_file(request, token, artifact_id, name)


async def _compiled_file(request: web.Request, token: str, artifact_id: str, name: str) -> web.StreamResponse:
    part_id = _part_id(request, artifact_id)
    if part_id is None:
        return nothing_here()
    return page_answer(await request.app[_PAGES].get(part_id, _source(request, token, part_id)), name)


async def _asset(request: web.Request, token: str, artifact_id: str) -> web.StreamResponse:
    """An asset's bytes as they come from a Backend, all or the part asked for: its type, its length, nothing else."""
    part_id = _part_id(request, artifact_id)
    if part_id is None:
        return nothing_here()
    session, name = request.app[_SESSION], quote(request.match_info["name"], safe="")
    headers = {**asked_part(request), "Authorization": f"Bearer {token}"}

    async def ask(url: str) -> aiohttp.ClientResponse:
        at = f"{url}/internal/runtime/preview-artifacts/{quote(part_id, safe='')}/assets/{name}"
        return await open_file(session, at, headers=headers)

    async with await request.app[_BACKENDS].first(ask) as got:
        return nothing_here() if got.status == 404 else await pass_on(request, got, ASSET_HEADERS)


async def _shell_file(request: web.Request) -> web.StreamResponse:
    name = request.match_info["file"]
    if name not in _SHELL_FILES:
        return nothing_here()
    folder, content_type = _SHELL_FILES[name]
    content = await asyncio.to_thread((folder / name).read_bytes)
    headers = {**_COMMON, "Cache-Control": "no-cache", "Access-Control-Allow-Origin": "*"}
    return web.Response(body=content, content_type=content_type, charset="utf-8", headers=headers)


def _part_id(request: web.Request, artifact_id: str) -> str | None:
    """The artifact of one page of the preview (`rt_…~3`); None for what cannot be one."""
    part = request.match_info["part"]
    if not _PART.fullmatch(part):
        return None
    return artifact_id if part == "0" else f"{artifact_id}~{part}"


def _source(request: web.Request, token: str, artifact_id: str) -> AnyBackendSource:
    session = request.app[_SESSION]
    return AnyBackendSource(
        request.app[_BACKENDS], lambda url: HttpModuleSource(session, url, artifact_id, token, timeout_s=_READ_WAIT_S)
    )


def _words(status: int, words: Words) -> web.Response:
    return _html(words_page(words), status, _PAGE_POLICY)


def _html(text: str, status: int, policy: str) -> web.Response:
    headers = {**_COMMON, "Content-Security-Policy": policy}
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8", headers=headers)
