"""Builds of a project end to end: asked for, pulled, built with Vite, uploaded, promoted, hosted (B1-B5, X4, X6)."""

import io
import zipfile
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.async_api import async_playwright

from pagegate.renderer.isolation import find_chromium
from pagegate.storage import builds, schema
from tests.integration.builds.conftest import LOGO, NAME, Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = '<script setup lang="ts">\nconst n = await Promise.resolve(1)\n</script>\n'
VUE = SCRIPT + '<template><h1 class="p-8">{} {{{{ n }}}}</h1></template>'
TSX = "export default function Page() {{ return <h1 className='p-4'>{}<img src='@assets/logo.svg' /></h1> }}\n"


async def site_of(stage: Stage) -> dict[str, Any]:
    _, found = await stage.call("GET", f"/projects/{stage.project_id}/releases")
    answer: dict[str, Any] = found
    return answer


def at(stage: Stage, address: str) -> str:
    return address.replace("http://sites.test", stage.runtime)


async def test_a_project_of_both_frameworks_is_built_hosted_downloaded_and_rolled_back(stage: Stage) -> None:
    await stage.put_asset("logo.svg", LOGO)
    page_id = await stage.save("one", VUE.format("first words"))
    await stage.save("two", TSX.format("second page"), "react")
    first = await stage.ended(await stage.start(routes="clean"))
    assert first["status"] == "succeeded", first
    assert first["result"]["release"] == 1
    assert first["runtime_build"].startswith("vite-")
    assert any("2 pages" in line for line in first["log"])

    await change(stage, page_id, VUE.format("new words"))
    second = await stage.ended(await stage.start(routes="clean"))
    assert second["result"]["release"] == 2
    found = await site_of(stage)
    assert [(release["number"], release["shown"]) for release in found["releases"]] == [(2, True), (1, False)]

    # The host, at the stable address, names the files of release 2; a page of release 1 is as it was.
    site = at(stage, found["url"])
    status, headers, host = await stage.get(site + "two/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert '/r/2/two/">' in host.decode()
    assert "C# 50%? 图表😀" in host.decode()
    old, new = (at(stage, release["url"]) for release in reversed(found["releases"]))
    for release, words in ((old, b"first words"), (new, b"new words")):
        status, headers, script = await stage.get(release + "pages/1/page.js")
        assert (status, words in script) == (200, True)
        assert headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "sandbox allow-scripts" in headers["Content-Security-Policy"]
        status, _, _ = await stage.get(release + "pages/1/page.js", **{"If-None-Match": headers["ETag"]})
        assert status == 304
    status, headers, _ = await stage.get(new + "vendor/vue.js", **{"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip"
    assert (await stage.get(new + "assets/logo.svg"))[2] == LOGO
    status, headers, _ = await stage.get(site + "pages/2/page.js")
    assert (status, urljoin(site, headers["Location"])) == (302, new + "pages/2/page.js")
    assert (await stage.get(new + "nothing.js"))[0] == 404

    # Back to the older one, and the zip in two parts.
    status, shown = await stage.call("PUT", f"/projects/{stage.project_id}/site", {"number": 1})
    assert [release["number"] for release in shown["releases"] if release["shown"]] == [1]
    assert "/r/1/" in (await stage.get(site))[2].decode()
    assert (await stage.call("PUT", f"/projects/{stage.project_id}/site", {"number": 9}))[0] == 404
    archive = f"{stage.backend}/projects/{stage.project_id}/releases/1/archive"
    mine = {"Authorization": f"Bearer {stage.token}"}
    _, headers, head = await stage.get(archive, **mine, Range="bytes=0-999")
    _, _, tail = await stage.get(archive, **mine, Range="bytes=1000-")
    assert headers["Content-Range"].startswith("bytes 0-999/")
    with zipfile.ZipFile(io.BytesIO(head + tail)) as whole:
        assert whole.testzip() is None
        assert "two/index.html" in whole.namelist()
    assert NAME not in str(stage.left_objects())


async def test_later_edits_change_nothing_in_a_build_that_was_asked_for(stage: Stage) -> None:
    page_id = await stage.save("one", VUE.format("as asked"))
    async with stage.db.write() as tx:
        await tx.execute(schema.projects.update().values(theme={"accent": "green"}))
    job = await stage.start()
    async with stage.db.write() as tx:
        await tx.execute(schema.projects.update().values(theme={"accent": "red"}))
        fixed = await builds.find_build(tx, job["id"])
        assert fixed is not None
        assert fixed.snapshot["theme"] == {"accent": "green"}
        await tx.execute(schema.pages.update().where(schema.pages.c.id == page_id).values(deleted_at_ms=1))
    assert (await stage.ended(job))["status"] == "succeeded"
    status, refusal = await stage.call("POST", f"/projects/{stage.project_id}/build-jobs", {})
    assert (status, refusal["code"]) == (422, "PROJECT_EMPTY")


async def test_failures_are_told_apart_and_leave_nothing_in_the_store(stage: Stage) -> None:
    page_id = await stage.save("one", "<template><p>a<div></template>")
    broken = await stage.ended(await stage.start())
    assert (broken["status"], broken["error"]["code"]) == ("failed", "PROJECT_BUILD_SOURCE_ERROR")
    assert broken["error"]["errors"][0]["file"] == "pages/one.vue"
    assert broken["error"]["errors"][0]["line"] == 1
    await change(stage, page_id, '<template><img src="@assets/lost.svg"></template>')
    missing = await stage.ended(await stage.start())
    assert missing["error"]["code"] == "PROJECT_BUILD_ASSET_MISSING"
    await stage.put_asset("lost.svg", LOGO)
    await stage.objects.delete_older("assets", -3600)
    lost = await stage.ended(await stage.start())
    assert lost["error"]["code"] == "PROJECT_BUILD_ASSET_MISSING"
    await change(stage, page_id, VUE.format("fine again"))
    assert (await stage.ended(await stage.start()))["status"] == "succeeded"
    assert len((await site_of(stage))["releases"]) == 1
    numbers = stage.parts.registry.get_sample_value
    counted = {
        code: numbers("pagegate_build_ends_total", {"outcome": code})
        for code in ("released", "PROJECT_BUILD_SOURCE_ERROR", "PROJECT_BUILD_ASSET_MISSING")
    }
    assert counted == {"released": 1, "PROJECT_BUILD_SOURCE_ERROR": 1, "PROJECT_BUILD_ASSET_MISSING": 2}
    assert (numbers("pagegate_build_upload_bytes_total") or 0) > 1000


async def change(stage: Stage, page_id: int, source: str) -> None:
    versions = schema.page_versions
    async with stage.db.write() as tx:
        await tx.execute(versions.update().where(versions.c.page_id == page_id).values(source=source))


async def test_a_stranger_sees_neither_build_nor_release(stage: Stage) -> None:
    await stage.save("one", VUE.format("mine"))
    job = await stage.ended(await stage.start())
    async with stage.db.write() as tx:
        await tx.execute(schema.members.delete())
    refused = (await stage.call("GET", f"/build-jobs/{job['id']}"))[1]
    assert refused["code"] == "BUILD_JOB_NOT_FOUND"
    assert "/build-jobs" in refused["hint"]
    assert (await stage.call("GET", f"/projects/{stage.project_id}/releases"))[0] == 404


async def test_a_person_turns_the_pages_of_a_site_and_its_address_follows(stage: Stage) -> None:
    await stage.save("one", VUE.format("first words"))
    await stage.save("two", TSX.format("second page").replace("<img src='@assets/logo.svg' />", ""), "react")
    assert (await stage.ended(await stage.start(routes="clean")))["status"] == "succeeded"
    site = at(stage, (await site_of(stage))["url"])
    async with async_playwright() as playwright:
        # The sandbox of this browser is not what is tried here, and a root has none.
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        looker = await browser.new_page()
        wrong: list[str] = []
        looker.on("pageerror", lambda error: wrong.append(str(error)))
        looker.on("requestfailed", lambda request: wrong.append(request.url))
        await looker.goto(site)
        await looker.frame_locator("#frame iframe").get_by_text("first words").wait_for()
        await looker.keyboard.press("ArrowRight")
        inside = looker.frame_locator("#frame iframe").get_by_text("second page")
        await inside.wait_for()
        assert looker.url == f"{site}two/"
        assert await looker.locator("#place").text_content() == "2 / 2"
        await inside.click()  # the page has the focus now, and its keys turn pages all the same
        await looker.keyboard.press("Home")
        await looker.frame_locator("#frame iframe").get_by_text("first words").wait_for()
        assert looker.url == f"{site}one/"
        await looker.go_back()
        await inside.wait_for()
        await looker.goto(f"{site}two")  # somebody left the slash out
        await inside.wait_for()
        assert looker.url == f"{site}two/"
        await browser.close()
        assert wrong == []
