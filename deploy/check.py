"""`pagegate check`: the command around the local gate. Reads its arguments, shows progress, prints, and ends.

Owns the pictures' folder and the exit code: 0 every page may be saved, 1 one was refused, 2 the machine failed (which
outweighs a refusal: the answer is not complete), 130 after Ctrl-C. Pages are judged in the order they were given; the
next one compiles while the last one renders. Ctrl-C or SIGTERM ends Node and browser before the command ends.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from pagegate.actors.systems.renderer import RendererOptions
from pagegate.actors.systems.runtime import RuntimeOptions
from pagegate.deploy.gate import Compiled, LocalGate
from pagegate.deploy.logs import configure_logs
from pagegate.deploy.pages import BadArguments, LocalPage, local_pages, parse_canvas
from pagegate.deploy.report import PageReport, Progressing, console_of, print_findings, summary, verdict_table
from pagegate.renderer.isolation import NoBrowser
from pagegate.renderer.options import BrowserOptions
from pagegate.runtime.contract import Canvas
from pagegate.runtime.node_worker import NodeMissing

log = structlog.get_logger()

EXIT_GOOD, EXIT_REFUSED_PAGE, EXIT_MACHINE, EXIT_INTERRUPTED = 0, 1, 2, 130


def run_check(files: Sequence[Path], *, canvas: str, project: Path | None, pictures: Path | None, as_json: bool) -> int:
    """The whole command; its exit code. Raises `BadArguments` before anything is started."""
    size = parse_canvas(canvas)
    pages = local_pages(files, project)
    if pictures is not None:
        _make_folder(pictures)
    configure_logs("check", level="error", stream=sys.stderr)
    try:
        return asyncio.run(_ending_on_sigterm(_check(pages, size, pictures, as_json)))
    except (NodeMissing, NoBrowser) as missing:
        sys.stderr.write(f"pagegate check: {missing}\n")
        return EXIT_MACHINE
    except (asyncio.CancelledError, KeyboardInterrupt):
        sys.stderr.write("pagegate check: interrupted\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # who read the answers went away (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        return EXIT_INTERRUPTED
    except Exception:  # a fault of ours is no verdict about a page: it must not look like a refusal
        log.exception("check.fault")
        return EXIT_MACHINE


async def _ending_on_sigterm(work: Coroutine[Any, Any, int]) -> int:
    """SIGTERM ends the command like Ctrl-C does: in order, with nothing left behind."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # Ctrl-C reaches the browser's driver too: calls that were under way fail, and nobody waits for them any more.
        if not task.cancelling():
            loop.default_exception_handler(context)

    loop.set_exception_handler(tell)
    return await task


async def _check(pages: Sequence[LocalPage], canvas: Canvas, pictures: Path | None, as_json: bool) -> int:
    reports: list[PageReport] = []
    names = picture_names(pages)
    with Progressing(sys.stderr, len(pages)) as progress:
        progress.doing("starting Vite and Chromium")
        async with LocalGate(canvas, *machine_options()) as gate:
            async for compiled in _compiled(gate, pages, progress):
                report, png = await gate.look(compiled)
                if pictures is not None and png is not None:
                    target = pictures / names[len(reports)]
                    await asyncio.to_thread(target.write_bytes, png)
                    report = replace(report, picture=str(target))
                reports.append(report)
                progress.finished(report)
                if as_json:
                    sys.stdout.write(report.as_json() + "\n")
                    sys.stdout.flush()
    if not as_json:
        _print(reports, pictures)
    return exit_code(reports)


def machine_options() -> tuple[RuntimeOptions, RendererOptions]:
    """Which Node and which Chromium: of all settings the only two that matter without a server."""
    node, chromium = os.environ.get("RUNTIME_NODE"), os.environ.get("RENDERER_CHROMIUM")
    browser = BrowserOptions(chromium_path=Path(chromium) if chromium else None)
    return RuntimeOptions(node=Path(node) if node else None), RendererOptions(browser=browser)


async def _compiled(gate: LocalGate, pages: Sequence[LocalPage], progress: Progressing) -> AsyncIterator[Compiled]:
    """The pages in order; while one is looked at, the next one compiles."""
    following = asyncio.create_task(gate.compile(pages[0]))
    try:
        for number, page in enumerate(pages, start=1):
            progress.doing(f"checking {page.file}")
            compiled = await following
            if number < len(pages):
                following = asyncio.create_task(gate.compile(pages[number]))
            yield compiled
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def exit_code(reports: Sequence[PageReport]) -> int:
    """0, 1 or 2 for these verdicts."""
    statuses = {report.status for report in reports}
    if "unavailable" in statuses:
        return EXIT_MACHINE
    return EXIT_REFUSED_PAGE if "failed" in statuses else EXIT_GOOD


def _print(reports: Sequence[PageReport], pictures: Path | None) -> None:
    console = console_of(sys.stdout)
    console.print(verdict_table(reports))
    print_findings(console, reports)
    console.print()
    console.print(summary(reports))
    if pictures is not None and any(report.picture for report in reports):
        console.print(f"pictures in {pictures}", highlight=False, markup=False)


def picture_names(pages: Sequence[LocalPage]) -> list[str]:
    """`<page>.png`; pages of one name (from several projects, or in both frameworks) get a number, none is lost."""
    names: list[str] = []
    for page in pages:
        name, number = f"{page.code}.png", 1
        while name in names:
            number += 1
            name = f"{page.code}-{number}.png"
        names.append(name)
    return names


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadArguments([f"--pictures {folder}: cannot be made ({error.strerror})"]) from error
