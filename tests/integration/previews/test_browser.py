"""A preview as a person has it, in a real Chromium: pages turn, the canvas fits, a stranger stays inside (P4, X6)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Browser, Frame, Page, async_playwright

from pagegate.renderer.isolation import find_chromium
from tests.integration.previews.conftest import Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")


def page(text: str, script: str = "") -> str:
    return f'<script setup lang="ts">\n{script}\n</script>\n<template><h1 class="p-8">{text}</h1></template>\n'


DECK = {
    "one.vue": page("Erste"),
    "two.tsx": "export default function Two() { return <h1 className='p-8'>Zweite <input id='i' /></h1> }\n",
    "three.vue": page("Dritte"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # The sandbox of this browser is not what is tried here, and a root has none.
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def looker(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context(viewport={"width": 1000, "height": 700})
    context.set_default_timeout(20_000)
    yield await context.new_page()
    await context.close()


async def until(where: Page | Frame, expression: str) -> None:
    """Wait until this is true in the page. Playwright's own way to wait is what the page's policy forbids."""
    async with asyncio.timeout(20):
        while not await where.evaluate(expression):
            await asyncio.sleep(0.02)


async def shows(looker: Page, text: str, place: str) -> None:
    """Wait until this page is the one that is shown."""
    await looker.frame_locator("#frame iframe").get_by_text(text).wait_for()
    assert await looker.locator("#place").text_content() == place


async def test_pages_are_turned_with_the_keyboard(stage: Stage, looker: Page) -> None:
    opened = await stage.open(DECK, page=1)
    await looker.goto(opened.url)
    await shows(looker, "Zweite", "2 / 3")
    for key, text, place in (
        ("ArrowRight", "Dritte", "3 / 3"),
        ("ArrowRight", "Dritte", "3 / 3"),  # the last one stays
        ("Home", "Erste", "1 / 3"),
        ("PageDown", "Zweite", "2 / 3"),
        ("End", "Dritte", "3 / 3"),
        ("ArrowLeft", "Zweite", "2 / 3"),
    ):
        await looker.keyboard.press(key)
        await shows(looker, text, place)
    assert looker.url.endswith("#two")
    assert await looker.title() == "Two · 2/3"
    assert await looker.locator("#spoken").text_content() == "Page 2 of 3: Two"
    await looker.go_back()
    await shows(looker, "Dritte", "3 / 3")
    await looker.reload()
    await shows(looker, "Dritte", "3 / 3")


async def test_keys_turn_pages_also_from_inside_one_but_never_while_somebody_writes(stage: Stage, looker: Page) -> None:
    opened = await stage.open(DECK)
    await looker.goto(opened.url)
    inside = looker.frame_locator("#frame iframe")
    await inside.get_by_text("Erste").click()
    await looker.keyboard.press("ArrowRight")
    await shows(looker, "Zweite", "2 / 3")
    await inside.locator("#i").click()
    await looker.keyboard.type("nl")
    await looker.keyboard.press("ArrowLeft")
    assert await inside.locator("#i").input_value() == "nl"
    await shows(looker, "Zweite", "2 / 3")
    assert not await looker.locator("#list").is_visible()


async def test_list_and_notes_can_be_used_without_a_mouse(stage: Stage, looker: Page) -> None:
    opened = await stage.open(DECK, notes="Slowly, <b>please</b>.")
    await looker.goto(opened.url)
    await shows(looker, "Erste", "1 / 3")
    await looker.keyboard.press("n")
    assert await looker.locator("#text").text_content() == "Slowly, <b>please</b>."
    await looker.keyboard.press("l")
    links = looker.get_by_role("navigation", name="Pages").get_by_role("link")
    assert await links.all_text_contents() == ["1One", "2Two", "3Three"]
    assert await links.nth(0).get_attribute("aria-current") == "page"
    await links.nth(2).focus()
    outline = await links.nth(2).evaluate(
        "(link) => getComputedStyle(link).outlineStyle + getComputedStyle(link).outlineWidth"
    )
    assert outline == "solid2px"
    await looker.keyboard.press("Enter")
    await shows(looker, "Dritte", "3 / 3")
    await looker.keyboard.press("Escape")
    assert not await looker.locator("#list").is_visible()
    assert not await looker.locator("#notes").is_visible()
    names = [
        await button.get_attribute("aria-label") or await button.inner_text()
        for button in await looker.get_by_role("button").all()
    ]
    assert names == ["Pages", "Notes", "Full screen", "Previous page", "Next page"]


async def test_the_canvas_is_fitted_into_any_window(stage: Stage, looker: Page) -> None:
    opened = await stage.open(DECK)
    await looker.goto(opened.url)
    await shows(looker, "Erste", "1 / 3")
    inner = await looker.frames[1].evaluate("[innerWidth, innerHeight]")
    assert inner == [1280, 720]
    for width, height in ((1000, 700), (1900, 1000), (400, 700), (900, 300)):
        await looker.set_viewport_size({"width": width, "height": height})
        await until(
            looker,
            f"[innerWidth, innerHeight].join() === '{width},{height}' && ['right', 'bottom'].every((side) =>"
            " ['frame', 'main'].map((id) => document.getElementById(id).getBoundingClientRect()[side])"
            ".reduce((frame, main) => frame <= main))",
        )
        box, room = await looker.locator("#frame").bounding_box(), await looker.locator("#main").bounding_box()
        assert box is not None
        assert room is not None
        assert box["width"] / box["height"] == pytest.approx(1280 / 720, rel=0.02)
        assert room["x"] <= box["x"]
        assert room["y"] <= box["y"]
        assert box["y"] + box["height"] <= room["y"] + room["height"]
        assert max(box["width"] / room["width"], box["height"] / room["height"]) > 0.8


async def test_a_page_of_its_own_height_is_read_by_scrolling(stage: Stage, looker: Page) -> None:
    tall = (
        '<template><main style="height: 3000px">Lang<p id="end" style="padding-top: 2900px">Ende</p></main></template>'
    )
    opened = await stage.open({"tall.vue": tall, "one.vue": page("Erste")}, height_px=None)
    await looker.goto(opened.url)
    await shows(looker, "Lang", "1 / 2")
    await until(looker, "document.querySelector('iframe').height >= 3000")
    await looker.keyboard.press("PageDown")
    await until(looker, "document.getElementById('main').scrollTop > 100")
    assert await looker.locator("#place").text_content() == "1 / 2"
    await looker.keyboard.press("ArrowRight")
    await shows(looker, "Erste", "2 / 2")


async def test_a_page_that_does_not_compile_is_read_in_its_place(stage: Stage, looker: Page) -> None:
    opened = await stage.open({"broken.vue": "<template><p></template>", "one.vue": page("Erste")})
    await looker.goto(opened.url)
    await shows(looker, "This page does not compile", "1 / 2")
    await looker.keyboard.press("ArrowRight")
    await shows(looker, "Erste", "2 / 2")


HOSTILE = """
const tried: Record<string, string> = {}
const attempt = (name: string, work: () => unknown) => {
  try { tried[name] = String(work()) } catch (error) { tried[name] = 'refused' }
}
attempt('host', () => parent.document.title)
attempt('cookies', () => document.cookie)
attempt('storage', () => localStorage.length)
attempt('leave', () => { top!.location.href = OUTSIDE })
attempt('popup', () => window.open(OUTSIDE) ? 'opened' : 'refused')
attempt('frames', () => parent.postMessage({ pagegate: { key: 'x', height: 'y' } }, '*'))
tried.origin = self.origin
fetch(OUTSIDE).then(() => 'reached', () => 'refused').then((said) => { tried.fetch = said })
const image = new Image()
image.onload = () => { tried.image = 'reached' }
image.onerror = () => { tried.image = 'refused' }
image.src = OUTSIDE
Object.assign(window, { tried })
"""


async def test_a_page_of_a_stranger_stays_inside_its_frame(stage: Stage, looker: Page) -> None:
    asked: list[str] = []

    async def canary(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(text="reached", headers={"Access-Control-Allow-Origin": "*"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", canary)
    outside = TestServer(app)
    await outside.start_server()
    try:
        url = str(outside.make_url("/canary"))
        source = page("Böse", f"const OUTSIDE = {url!r}\n{HOSTILE}")
        opened = await stage.open({"evil.vue": source, "one.vue": page("Erste")})
        await looker.goto(opened.url)
        await shows(looker, "Böse", "1 / 2")
        frame = looker.frames[1]
        await until(frame, "window.tried.fetch && window.tried.image")
        tried = await frame.evaluate("window.tried")
        assert tried.pop("frames") == "undefined"  # it may speak; nobody listens to that
        assert tried.pop("origin") == "null"
        assert set(tried.values()) == {"refused"}, tried
        await frame.evaluate(f"setTimeout(() => {{ location.href = {url!r} }})")
        await looker.keyboard.press("ArrowRight")
        await shows(looker, "Erste", "2 / 2")
        assert looker.url.startswith(opened.url)
        assert len(looker.context.pages) == 1
    finally:
        await outside.close()
    assert asked == []
