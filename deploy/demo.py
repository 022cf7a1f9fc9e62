"""The demo: a server from nothing, a deck of 12 pages through the gate, and whether every verdict is the right one.

Owns a `pagegate lite` on a temporary data folder for as long as it runs, and the folder of pictures it writes. It talks
to the server the way anybody would: over HTTP, with a token from `pagegate user create`. Exit code 0 when each page got
the verdict that deck.json expects, 1 when one did not, 2 when the server could not be started.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pagegate.deploy.client import Api, ApiRefused, ServerUnreachable
from pagegate.deploy.contact_sheet import draw_contact_sheet
from pagegate.deploy.deck import Deck, create_project, report_of_call, send_calls
from pagegate.deploy.lite import ADDRESS_FILE, READY_WORDS
from pagegate.deploy.report import PageReport, Progressing, console_of, print_findings, summary, verdict_table

START_WAIT_S = 120.0
STOP_WAIT_S = 60.0
RUN_PATIENCE_S = 300.0
CLI = [sys.executable, "-P", "-m", "pagegate.deploy.cli"]


class DemoFailed(Exception):
    """The server did not do what the demo needs."""


@dataclass(frozen=True)
class Lite:
    """A running `pagegate lite`."""

    url: str
    data: Path
    pid: int


@contextlib.asynccontextmanager
async def lite(data: Path, port: int = 0, environment: dict[str, str] | None = None) -> AsyncIterator[Lite]:
    """`pagegate lite` on a data folder, ready; stopped in order at the end. Raises `DemoFailed`."""
    process = await asyncio.create_subprocess_exec(
        *CLI,
        *("lite", "--data", str(data), "--port", str(port)),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        start_new_session=True,  # Ctrl-C reaches this program, which then stops the server in order
    )
    assert process.stderr is not None
    told: list[str] = []
    try:
        async with asyncio.timeout(START_WAIT_S):
            while not told or READY_WORDS not in told[-1]:
                line = await process.stderr.readline()
                if not line:
                    raise DemoFailed("pagegate lite did not start:\n" + "".join(told))
                told.append(line.decode(errors="replace"))
        listening = asyncio.create_task(_drain(process.stderr))
        yield Lite((data / ADDRESS_FILE).read_text("utf-8").strip(), data, process.pid)
        listening.cancel()
    except TimeoutError as error:
        raise DemoFailed(f"pagegate lite was not ready within {START_WAIT_S:.0f} s:\n" + "".join(told)) from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_WAIT_S):
                await process.wait()
        except TimeoutError:
            process.kill()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


async def create_administrator(server: Lite, name: str = "ada") -> str:
    """The first administrator's token, made by the command that a person would use."""
    process = await asyncio.create_subprocess_exec(
        *CLI,
        *("user", "create", name, "--admin", "--data", str(server.data)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    if process.returncode != 0:
        raise DemoFailed("pagegate user create failed: " + said.decode(errors="replace"))
    return out.decode().strip()


async def send_deck(api: Api, project_id: int, deck: Deck, progress: Progressing) -> list[PageReport]:
    """The deck as one run of one call a page, followed to its end; a report for each page, in order."""
    run_id = await send_calls(api, project_id, [page.create_call() for page in deck.pages], key="demo")
    begun_s: dict[str, float] = {}
    async for event in api.events(run_id, RUN_PATIENCE_S):
        told = event["data"]
        if event["kind"] == "tool.progress":
            begun_s.setdefault(told["page_code"], time.monotonic())
            progress.doing(f"{told['page_code']}: {told['stage']}")
        elif event["kind"] == "tool.ended":
            elapsed_ms = (time.monotonic() - begun_s.get(told["page_code"], time.monotonic())) * 1000
            status = told.get("status", told["end"])
            progress.finished(PageReport(told["page_code"], status, {}, elapsed_ms=elapsed_ms))
    run = await api.call("GET", f"/runs/{run_id}")
    calls = {call["call_id"]: call for call in run["calls"]}
    return [report_of_call(calls[page.code], page) for page in deck.pages]


async def download_pictures(api: Api, project_id: int, folder: Path) -> dict[str, bytes]:
    """The pictures of everything that was saved, by page code; also written into the folder."""
    pictures: dict[str, bytes] = {}
    listed = await api.call("GET", f"/projects/{project_id}/pages")
    for page in listed["pages"]:
        if page["has_picture"]:
            png = await api.download(f"/pages/{page['id']}/versions/{page['version']}/picture")
            pictures[page["code"]] = png
            await asyncio.to_thread((folder / f"{page['code']}.png").write_bytes, png)
    return pictures


async def run_demo(arguments: argparse.Namespace) -> int:
    deck, console = Deck(), console_of(sys.stdout)
    arguments.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pagegate-demo-") as temporary:
        console.print("demo   starting pagegate lite on an empty data folder", markup=False)
        async with lite(Path(temporary), arguments.port) as server:
            token = await create_administrator(server)
            async with Api(server.url, token) as api:
                project_id = await create_project(api, deck)
                pages = f"{len(deck.pages)} pages in one run"
                console.print(f"demo   sending {pages} through the gate at {server.url}", markup=False)
                started_s = time.monotonic()
                with Progressing(sys.stderr, len(deck.pages)) as progress:
                    reports = await send_deck(api, project_id, deck, progress)
                elapsed_s = time.monotonic() - started_s
                pictures = await download_pictures(api, project_id, arguments.pictures)
            sheet = arguments.pictures / "contact-sheet.png"
            await asyncio.to_thread(draw_contact_sheet(reports, pictures).save, sheet)
            wrong = _conclude(console, deck, reports, elapsed_s, sheet)
            if arguments.keep:
                await _keep(console, server, token)
    return 1 if wrong else 0


def _conclude(console: Console, deck: Deck, reports: Sequence[PageReport], elapsed_s: float, sheet: Path) -> list[str]:
    """Print everything; the codes of the pages whose verdict is not the expected one."""
    console.print()
    console.print(verdict_table(reports))
    print_findings(console, reports)
    console.print()
    console.print(summary(reports))
    console.print(f"{elapsed_s:.1f} s from sending the deck to its last verdict", markup=False)
    console.print(f"contact sheet: {sheet}", markup=False)
    wrong = [page.code for page, report in zip(deck.pages, reports, strict=True) if not page.is_met_by(report)]
    if wrong:
        console.print(f"NOT as deck.json expects: {', '.join(wrong)}", style="bold red", markup=False)
    else:
        console.print("every verdict is the one that deck.json expects", style="green", markup=False)
    return wrong


async def _keep(console: Console, server: Lite, token: str) -> None:
    """Leave the server up until a signal, and say how to speak to it."""
    console.print(
        f"\nThe server stays up. Stop it with Ctrl-C.\n  address  {server.url}\n  token    {token}", markup=False
    )
    console.print(
        f'  curl -H "Authorization: Bearer {token}" {server.url}/projects/1/pages', markup=False, soft_wrap=True
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo.sh", description="Send the sample deck through the gate.")
    parser.add_argument("--keep", action="store_true", help="leave the server up and print its address and token")
    parser.add_argument("--port", type=int, default=0, help="the server's port (default: any free one)")
    parser.add_argument("--pictures", type=Path, default=Path("pictures/demo"), help="where pictures are written")
    try:
        return asyncio.run(run_demo(parser.parse_args()))
    except (DemoFailed, ServerUnreachable, ApiRefused) as error:
        sys.stderr.write(f"demo   {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
