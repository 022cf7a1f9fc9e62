"""A fresh Chromium per attempt, its private room, and its end (R4, X1).

`BrowserHouse` owns the work folder, the wrapper script that starts a browser in its isolation mode, and the driver
(shared by attempts one after the other); `FreshBrowser` owns one browser process with a context and a page that has
shown nothing yet. A browser is used by one attempt and closed; closing is orderly for as long as the grace allows, then
the process group is killed, and the pid namespace with it. What survives a kill -9 of the Renderer: nothing that runs
(the driver dies with its pipe, the browser with the driver), and a work folder that the next start sweeps.
"""

import asyncio
import contextlib
import os
import select
import signal
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from playwright.async_api import Browser, BrowserContext, CDPSession, Page
from playwright.async_api import Error as PlaywrightError

from pagegate.renderer import isolation
from pagegate.renderer.driver import Driver, DriverLost
from pagegate.renderer.isolation import Mode
from pagegate.renderer.options import AUTO_VIEWPORT_HEIGHT_PX, BrowserOptions
from pagegate.renderer.workfolder import WorkFolder, remove_room

log = structlog.get_logger()

SPARE_VIEWPORT_PX = (1280, AUTO_VIEWPORT_HEIGHT_PX)
LOCALE, TIMEZONE = "en-US", "UTC"

# Playwright's own four, said again because the switch counts once; animated images stay at their first frame.
_BLINK_SETTINGS = (
    "primaryHoverType=2",
    "availableHoverTypes=2",
    "primaryPointerType=4",
    "availablePointerTypes=4",
    "imageAnimationPolicy=2",
)
# Part of the profile digest. Each keeps a picture the same or closes a door; Playwright adds its own.
FLAGS: tuple[str, ...] = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-lcd-text",
    "--disable-checker-imaging",  # a picture waits for decoded images
    "--disable-threaded-animation",  # else a picture may show an opacity that has long ended
    "--disable-crash-reporter",
    "--font-render-hinting=none",
    "--block-new-web-contents",  # window.open answers null
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--blink-settings=" + ",".join(_BLINK_SETTINGS),
)

_KILLED_WITHIN_S = 5.0


class BrowserLost(Exception):
    """The browser would not start, went away, or no longer answers: infrastructure (R9)."""


@dataclass(slots=True)
class FreshBrowser:
    """One browser with one page that has shown nothing yet. `pid` leads its process group."""

    browser: Browser
    context: BrowserContext
    page: Page
    cdp: CDPSession
    frame_id: str
    pid: int
    room: Path
    _pidfd: int = field(repr=False)
    _closed: bool = field(repr=False, default=False)
    _told: Callable[[], None] = field(repr=False, default=lambda: None)

    @property
    def alive(self) -> bool:
        """The process is asked too: of a browser that died with its driver Playwright hears nothing."""
        return not self._closed and self.browser.is_connected() and not _has_ended(self._pidfd)

    def kill(self) -> None:
        """End every process of this browser now. Repeating it is harmless."""
        if not self._closed:
            _kill_group(self.pid)

    async def close(self, grace_s: float) -> None:
        """Close orderly within `grace_s`, else kill; then remove the room. Never raises; a second call does nothing."""
        if self._closed:
            return
        try:
            with contextlib.suppress(PlaywrightError, TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.browser.close()
        finally:
            self.kill()  # also after an orderly close: outside a pid namespace helpers may linger
            self._closed = True
            self._told()
            await asyncio.shield(_clear_away(self._pidfd, self.room))


class BrowserHouse:
    """Starts browsers: `open`, then `launch` as often as needed, `rest` while idle, `close` at the end."""

    def __init__(self, options: BrowserOptions, chromium: Path, mode: Mode) -> None:
        self.options, self.chromium, self.mode = options, chromium, mode
        self._folder: WorkFolder | None = None
        self._driver: Driver | None = None
        self._proxy: asyncio.Server | None = None
        self._browsers_open = 0

    async def open(self) -> None:
        """Make the work folder (sweeping those of dead Renderers) and the denying proxy where the mode needs it."""
        self._folder = await asyncio.to_thread(WorkFolder, self.options.work_folder)
        isolation.write_wrapper(self._folder.path / "browser", self.chromium, self.mode)
        self._driver = Driver(self._folder.path, self.options.driver_memory_max_mb)
        if self.mode.network:
            self._proxy = await asyncio.start_server(_deny, "127.0.0.1", 0)

    async def close(self) -> None:
        """Stop the driver and remove the work folder. A browser that is still open is killed by its driver's end."""
        await self.rest()
        if self._proxy is not None:
            self._proxy.close()
            await self._proxy.wait_closed()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.close)
            self._folder = None

    async def rest(self) -> None:
        """Let the driver go; the next launch starts a new one."""
        if self._driver is not None:
            await self._driver.rest()

    @property
    def driver_swollen(self) -> bool:
        """True when no further browser should be started before the open ones are closed."""
        return self._driver is not None and self._driver.swollen

    async def launch(self) -> FreshBrowser:
        """A new browser with context and page. Raises `BrowserLost` when it does not come up in time."""
        assert self._folder is not None, "open() comes first"
        room = self._folder.path / uuid.uuid4().hex
        isolation.make_room(room, self.mode)
        half = _HalfLaunched(room)
        try:
            async with asyncio.timeout(self.options.launch_timeout_s):
                fresh = await self._launch(half)
        except (PlaywrightError, DriverLost, TimeoutError, OSError, ValueError) as error:
            await half.undo()
            if self._browsers_open == 0:
                await self.rest()  # it may be the driver that is ill
            raise BrowserLost(f"the browser did not start ({type(error).__name__})") from error
        except BaseException:
            await asyncio.shield(half.undo())
            raise
        self._browsers_open += 1
        fresh._told = self._browser_gone
        return fresh

    async def _launch(self, half: "_HalfLaunched") -> FreshBrowser:
        assert self._folder is not None
        assert self._driver is not None
        playwright = await self._driver.get(browsers_open=self._browsers_open)
        browser = half.browser = await playwright.chromium.launch(
            executable_path=str(self._folder.path / "browser"),
            args=self._flags(),
            chromium_sandbox=self.mode.sandbox,
            env={**isolation.room_environment(half.room)},
            handle_sighup=False,
            handle_sigint=False,
            handle_sigterm=False,
        )
        pid = int(half.room.joinpath("pid").read_text())
        half.pidfd = os.pidfd_open(pid)
        return FreshBrowser(browser, *await page_in(browser), pid, half.room, half.pidfd)

    def _browser_gone(self) -> None:
        self._browsers_open -= 1

    def _flags(self) -> list[str]:
        flags = list(FLAGS)
        if isolation.shared_memory_is_small():
            flags.append("--disable-dev-shm-usage")
        if self._proxy is not None:
            port = self._proxy.sockets[0].getsockname()[1]
            flags += [
                f"--proxy-server=http://127.0.0.1:{port}",
                "--proxy-bypass-list=<-loopback>",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ]
        return flags


@dataclass(slots=True)
class _HalfLaunched:
    """What a launch has made so far, so that one that fails or is cancelled leaves nothing behind."""

    room: Path
    browser: Browser | None = None
    pidfd: int = -1

    async def undo(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            _kill_group(int(self.room.joinpath("pid").read_text()))
        if self.browser is not None:
            with contextlib.suppress(PlaywrightError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.browser.close()
        await _clear_away(self.pidfd, self.room)


async def page_in(browser: Browser) -> tuple[BrowserContext, Page, CDPSession, str]:
    """A new context with a page that has shown nothing yet, and the id of the page's frame."""
    width, height = SPARE_VIEWPORT_PX
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        accept_downloads=False,
        locale=LOCALE,
        timezone_id=TIMEZONE,
        color_scheme="light",
    )
    page = await context.new_page()
    cdp = await context.new_cdp_session(page)
    tree = await cdp.send("Page.getFrameTree")
    return context, page, cdp, str(tree["frameTree"]["frame"]["id"])


def profile_of_launch(options: BrowserOptions) -> dict[str, Any]:
    """What a picture depends on besides browser, fonts and isolation mode (R6)."""
    ahead_ms = options.settle_ahead_ms if options.settle_virtually else 0
    return {"flags": list(FLAGS), "locale": LOCALE, "timezone": TIMEZONE, "settle_ahead_ms": ahead_ms}


def _kill_group(pid: int) -> None:
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            end(pid, signal.SIGKILL)


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


async def _clear_away(pidfd: int, room: Path) -> None:
    if pidfd >= 0:
        await _ended(pidfd)
        os.close(pidfd)
    await asyncio.to_thread(remove_room, room)


async def _ended(pidfd: int) -> None:
    """Wait until the process behind the descriptor has ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(_KILLED_WITHIN_S):
            await ended.wait()
    except TimeoutError:
        log.exception("renderer.browser_outlived_its_kill")
    finally:
        loop.remove_reader(pidfd)


async def _deny(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What the fallback's proxy says to everything that gets past the interception (X1)."""
    with contextlib.suppress(ConnectionError, TimeoutError, ValueError):
        async with asyncio.timeout(5.0):
            await reader.readline()
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
    writer.close()
