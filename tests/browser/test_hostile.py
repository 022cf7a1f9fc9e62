"""Pages that mean harm end within their budget, and the next attempt is unaffected (R9, X3)."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from pagegate.renderer.attempt import Attempt
from pagegate.renderer.browser import BrowserLost
from pagegate.renderer.contract import Viewport
from pagegate.renderer.egress import OriginResponse
from pagegate.renderer.isolation import NOBODY
from pagegate.renderer.observation import RECORDS_MAX
from pagegate.renderer.watch import process_tree
from tests.browser.looking import Looker, origin_of, page

GOOD = page("<body style='background:green'>")


async def works(looker: Looker) -> bool:
    observation = await looker.look(GOOD)
    return observation.mounted and observation.png is not None


@pytest.mark.parametrize(
    ("script", "phase"),
    [
        ("for (;;);", "load"),
        ("setTimeout(() => { for (;;); }, 50)", "settle"),
        ("requestAnimationFrame(() => { for (;;); })", "settle"),
        ("const f = () => { Promise.resolve().then(f) }; setTimeout(f, 1)", "settle"),
    ],
    ids=["at once", "after the load", "in a frame", "microtasks"],
)
async def test_an_endless_loop_is_a_fault_of_the_page(looker: Looker, script: str, phase: str) -> None:
    # Case 23.
    observation = await looker.look(page(f"<body>text<script>{script}</script>"))
    assert (observation.stuck, observation.stuck_phase, observation.png) == (True, phase, None)
    assert await works(looker)


async def test_asking_for_ever_is_a_fault_of_the_page(looker: Looker) -> None:
    observation = await looker.look(page("<body><script>setTimeout(() => { for (;;) alert(1) })</script>"))
    assert observation.stuck
    assert observation.dialogs >= 100


async def test_a_few_dialogs_are_dismissed_and_counted(looker: Looker) -> None:
    body = "<body><script>alert(1); console.log(confirm('?'), prompt('?'))</script>"
    observation = await looker.look(page(body))
    assert (observation.dialogs, observation.settled) == (3, True)
    assert [message.text for message in observation.console] == ["false null"]


@pytest.mark.parametrize(
    "script",
    [
        "const kept = []; setInterval(() => { for (;;) kept.push(new Uint8Array(16e6).fill(1)) }, 1)",
        "const kept = []; for (;;) kept.push(new Array(1e5).fill(kept.length))",
        "setTimeout(() => { for (;;) document.body.append(...Array.from({length: 1e4}, () => new Image)) })",
    ],
    ids=["buffers", "objects", "nodes"],
)
async def test_a_memory_bomb_is_a_fault_of_the_page(looker: Looker, script: str) -> None:
    observation = await looker.look(page(f"<body><script>{script}</script>"), memory_max_mb=500, stuck_after_s=30.0)
    assert observation.killed_by_memory
    assert observation.memory_peak_mb > 250
    assert await works(looker)


async def test_windows_and_downloads_are_counted_and_never_open(looker: Looker) -> None:
    body = """<body><a id=a href=data:text/plain,x download=x.txt>x</a><script>
for (let i = 0; i < 200; i++) window.open('about:blank');
a.click();
</script>"""
    async with looker.stage() as stage:
        attempt = Attempt(
            stage, origin_of(page(body)), Viewport(width_px=640, height_px=360), options=looker.house.options
        )
        seen = await attempt.run(60.0)
        assert len(stage.fresh.context.pages) == 1
    assert seen.observation is not None
    assert seen.observation.popups == 200
    assert seen.observation.downloads == 1
    assert seen.observation.settled


@pytest.mark.parametrize(
    "script",
    ["location.reload()", "location.href = '/other'", "location.href = 'https://example.com/'"],
)
async def test_a_page_that_tries_to_leave_stays(looker: Looker, script: str) -> None:
    observation = await looker.look(page(f"<body style='background:green'>text<script>{script}</script>"))
    assert observation.mounted
    assert observation.png is not None
    assert not observation.navigated_away


@pytest.mark.parametrize("script", ["setTimeout(() => location.href = 'about:blank', 10)", "history.back()"])
async def test_a_page_that_left_is_seen_as_that_and_as_no_fault_of_ours(looker: Looker, script: str) -> None:
    observation = await looker.look(page(f"<body><script>{script}</script>"))
    assert observation.navigated_away


async def test_a_console_flood_is_bounded(looker: Looker) -> None:
    body = "<body><script>for (let i = 0; i < 20000; i++) console.log('x'.repeat(1000), i)</script>"
    observation = await looker.look(page(body), stuck_after_s=60.0)
    assert len(observation.console) == RECORDS_MAX
    assert observation.records_dropped == 20_000 - RECORDS_MAX
    assert observation.settled


async def test_an_endless_console_flood_is_a_fault_of_the_page(looker: Looker) -> None:
    observation = await looker.look(page("<body><script>for (;;) console.log('x'.repeat(1000))</script>"))
    assert observation.stuck or observation.killed_by_memory
    assert await works(looker)


@pytest.mark.parametrize(
    "script",
    [
        "const c = new MessageChannel(); c.port1.onmessage = () => c.port2.postMessage(0); c.port2.postMessage(0);",
        "addEventListener('message', () => postMessage(0)); postMessage(0);",
        "const again = () => scheduler.postTask(again); again();",
    ],
    ids=["channel", "window", "scheduler"],
)
async def test_a_page_that_posts_tasks_to_itself_for_ever_is_looked_at(looker: Looker, script: str) -> None:
    observation = await looker.look(page(f"<body style='background:green'><script>{script}</script>"))
    assert observation.png is not None
    assert (observation.stuck, observation.settled) == (False, True)


async def test_a_browser_killed_in_the_middle_is_infrastructure(looker: Looker) -> None:
    # Case 22, busy.
    asked = asyncio.Event()

    class Slow:
        async def get(self, path_and_query: str) -> OriginResponse:
            asked.set()
            await asyncio.sleep(60)
            return OriginResponse(200)

    async with looker.stage() as stage:
        attempt = Attempt(stage, Slow(), Viewport(width_px=640, height_px=360), options=looker.house.options)
        running = asyncio.create_task(attempt.run(60.0))
        await asked.wait()
        stage.fresh.kill()
        seen = await running
    assert seen.observation is None
    assert seen.error is not None
    assert seen.error.code == "RENDER_BROWSER_LOST"
    assert await works(looker)


async def test_a_page_whose_process_is_killed_is_infrastructure(looker: Looker) -> None:
    asked = asyncio.Event()

    class Slow:
        async def get(self, path_and_query: str) -> OriginResponse:
            if path_and_query == "/":
                return OriginResponse(200, "text/html", page("<body><img src=/slow.png>").encode())
            asked.set()
            return await asyncio.Future()

    async with looker.stage() as stage:
        attempt = Attempt(stage, Slow(), Viewport(width_px=640, height_px=360), options=looker.house.options)
        running = asyncio.create_task(attempt.run(60.0))
        await asked.wait()
        for pid in process_tree(stage.fresh.pid):
            if "--type=renderer" in psutil.Process(pid).cmdline():
                os.kill(pid, signal.SIGKILL)
        seen = await running
    assert seen.error is not None
    assert seen.error.code == "RENDER_BROWSER_LOST"


async def test_a_page_that_brings_its_own_process_down_is_a_fault_of_the_page(looker: Looker) -> None:
    body = """<body><script>
let inner = document.body;
for (let i = 0; i < 5000; i++) inner = inner.appendChild(document.createElement('div'));
inner.textContent = 'deep';
</script>"""
    observation = await looker.look(page(body))
    assert observation.crashed
    assert await works(looker)


async def test_a_dead_driver_is_replaced(looker: Looker) -> None:
    assert await works(looker)
    (driver,) = [child for child in psutil.Process().children() if "run-driver" in child.cmdline()]
    driver.kill()
    async with asyncio.timeout(30.0):
        while True:  # the death may be noticed by a launch that fails, and by no more than that
            try:
                assert await works(looker)
                break
            except BrowserLost:
                continue
    (another,) = [child for child in psutil.Process().children() if "run-driver" in child.cmdline()]
    assert another.pid != driver.pid


async def test_an_attempt_over_its_deadline_is_infrastructure(looker: Looker) -> None:
    seen = await looker.attempt(page("<body><script>for (;;);</script>"), deadline_s=1.0)
    assert seen.error is not None
    assert seen.error.code == "RENDER_TIMEOUT"
    assert await works(looker)


async def test_forced_kills_leave_no_process_and_no_folder(looker: Looker, house_folder: Path) -> None:
    # Case 21; `test_random_kills.py` has the same for whole attempts.
    for round_ in range(6):
        stage = await looker.house.launch()
        tree = process_tree(stage.pid)
        assert len(tree) >= 4
        assert os.geteuid() != 0 or {owner(pid) for pid in tree[1:]} == {NOBODY}
        if round_ % 3 == 0:
            stage.kill()
        await stage.close(0.0 if round_ % 3 == 1 else 2.0)
        await gone(tree)
    assert left_in(house_folder) <= {"lock", "browser"}
    assert [child.name() for child in psutil.Process().children(recursive=True) if "chrom" in child.name()] == []


def owner(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def left_in(work_folder: Path) -> set[str]:
    return {entry.name for house in work_folder.iterdir() for entry in house.iterdir()}


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def gone(pids: list[int]) -> None:
    """Wait until the kernel has forgotten the processes."""
    async with asyncio.timeout(10.0):
        while any(map(exists, pids)):
            await asyncio.sleep(0.01)
