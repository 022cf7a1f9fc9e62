"""Many attempts through the slot while browsers, pages and the driver are killed at random (R4, cases 21 and 22).

30 attempts by default; `KILLED_ATTEMPTS=200 pytest tests/browser/test_random_kills.py` is the long run, `KILLS_SEED`
repeats one. Each attempt ends as a verdict about the page or as infrastructure, never as a fault of the page;
afterwards no process and no folder is left.
"""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil

from pagegate.actors.systems.renderer import RendererOptions, RendererSystem
from pagegate.renderer.contract import PageBases, RenderTask, Viewport
from pagegate.renderer.options import BrowserOptions
from tests.browser.looking import origin_of, page

ATTEMPTS = int(os.environ.get("KILLED_ATTEMPTS", "30"))
SEED = int(os.environ.get("KILLS_SEED", "1"))
KILLS = ("nothing", "browser", "page", "driver", "any", "idle browser", "cancel")
ZOMBIES_PASSING_MAX = 3
GOOD = page("<body style='background:green'><h1>Here</h1><script>setTimeout(() => document.title = 'x', 2000)</script>")
NOWHERE = "https://gate.invalid/"


_THERE_BEFORE: set[int] = set()  # this process's children when the test began


def descendants() -> list[psutil.Process]:
    """Of the slot: databases that other tests have started are neither killed nor looked for."""
    ours: list[psutil.Process] = []
    for child in psutil.Process().children():
        if child.pid not in _THERE_BEFORE:
            with contextlib.suppress(psutil.Error):
                ours += [child, *child.children(recursive=True)]
    return ours


def victims(kind: str) -> list[psutil.Process]:
    """The processes that a kill of this kind may choose from."""
    found = []
    for process in descendants():
        with contextlib.suppress(psutil.Error):
            if kind == "any" or kind.endswith(_role_of(process.cmdline())):
                found.append(process)
    return found


def _role_of(command: list[str]) -> str:
    if "run-driver" in command:
        return "driver"
    if "--type=renderer" in command:
        return "page"
    is_top = any("chrom" in word for word in command[:1]) and not any(word.startswith("--type=") for word in command)
    return "browser" if is_top else "another"


def kill_one(kind: str, chance: random.Random) -> None:
    found = victims(kind)
    if found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(found).pid, signal.SIGKILL)


async def usable(system: RendererSystem) -> None:
    """A slot whose last browser did not come up tries again by itself, a second later and then more slowly."""
    async with asyncio.timeout(60.0):
        while (await system.view()).slot_state == "broken":
            await asyncio.sleep(0.05)


async def one_attempt(system: RendererSystem, number: int, kind: str, chance: random.Random) -> str:
    await usable(system)
    if kind == "idle browser":
        kill_one(kind, chance)
    task = RenderTask(
        attempt_id=f"a{number}",
        request_id=f"r{number}",
        bases=PageBases(navigation_url=NOWHERE, vendor_url=NOWHERE, assets_url=NOWHERE),
        viewport=Viewport(width_px=320, height_px=240),
        deadline_s=30.0,
    )
    running = asyncio.create_task(system.render(task, origin_of(GOOD)))
    await asyncio.sleep(chance.uniform(0.0, 0.25))  # anywhere in the attempt: this is not waiting for anything
    if kind == "cancel":
        await system.drop(task.attempt_id)
    elif kind not in {"nothing", "idle browser"}:
        kill_one(kind, chance)
    result, _ = await running
    if result.error is not None:
        return result.error.code
    assert result.diagnosis is not None
    return result.diagnosis.status


async def test_nothing_is_left_after_attempts_with_random_kills(
    work_folder: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(SEED)
    ended: Counter[str] = Counter()
    _THERE_BEFORE.update(child.pid for child in psutil.Process().children())
    system = RendererSystem(RendererOptions(browser=BrowserOptions(work_folder=work_folder, launch_timeout_s=10.0)))
    await system.start()
    try:
        for number in range(ATTEMPTS):
            kind = KILLS[number % len(KILLS)] if number < len(KILLS) else chance.choice(KILLS)
            outcome = await one_attempt(system, number, kind, chance)
            ended[f"{kind}: {outcome}"] += 1
            # A page is never blamed for what was done to its browser (R9).
            assert outcome == "passed" or outcome.startswith("RENDER_"), (kind, outcome)
            async with asyncio.timeout(20.0):  # one that just died waits for its parent; many would pile up
                while sum(is_zombie(process) for process in descendants()) > ZOMBIES_PASSING_MAX:
                    await asyncio.sleep(0.05)
        assert (await one_attempt(system, ATTEMPTS, "nothing", chance)) == "passed"
    finally:
        await system.stop()
    record_property("table", "\n".join(f"{number:4}  {what}" for what, number in sorted(ended.items())))
    try:
        async with asyncio.timeout(15.0):
            while descendants():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"left: {descendants()}") from None
    assert os.listdir(work_folder) == []  # noqa: PTH208  nothing else runs on this loop any more


def is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
