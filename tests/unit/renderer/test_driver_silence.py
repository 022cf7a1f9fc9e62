"""What a driver that died leaves on the loop: calls that nobody waited for are no news, all else still is."""

import asyncio
from typing import Any

from playwright.async_api import Error as PlaywrightError

from pagegate.renderer.driver import hush


async def test_only_unheard_calls_of_a_dead_driver_are_left_out() -> None:
    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: told.append(context))
    hush(loop)
    hush(loop)  # each start of a driver asks for it
    gone = PlaywrightError("Target page, context or browser has been closed")
    loop.call_exception_handler({"message": "Future exception was never retrieved", "exception": gone})
    assert told == []
    others: list[dict[str, Any]] = [
        {"message": "Future exception was never retrieved", "exception": ValueError("ours")},
        {"message": "Exception in callback", "exception": gone},
        {"message": "Task exception was never retrieved", "exception": gone, "task": asyncio.current_task()},
    ]
    for context in others:
        loop.call_exception_handler(context)
    assert told == others
