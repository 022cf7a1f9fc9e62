"""The Runtime's door for people, over a real compile: shown, refused in words, shut for everything else (P4, X6)."""

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry

from pagegate.actors.signing_keys import VerifyingKey
from pagegate.actors.tickets import Tickets
from pagegate.http.runtime import runtime_app
from tests.integration.previews.conftest import LOGO, Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

COSTS = """<script setup lang="ts">
import logo from '@assets/logo 1.svg'
</script>
<template>
  <main class="p-8 bg"><h1>Costs</h1><img :src="logo" alt=""><img src="@assets/logo 1.svg" alt=""></main>
</template>
<style scoped>.bg { background: url("@assets/logo 1.svg") }</style>
"""
PEOPLE = "export default function People() { return <main className='p-8'><h1>People</h1></main> }\n"
DECK = {"costs.vue": COSTS, "people.tsx": PEOPLE}


def deck_of(text: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="deck">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    deck: list[dict[str, Any]] = json.loads(found[1])
    return deck


class CountingTickets(Tickets):
    """Knows how often its key set was read."""

    reads = 0

    def jwks(self) -> dict[str, Any]:
        self.reads += 1
        return super().jwks()


async def test_a_rotation_is_followed_over_the_wire_and_made_up_keys_cost_the_backend_nothing(
    stage: Stage, rsa_key: rsa.RSAPrivateKey
) -> None:
    """K2, K3, case 47."""
    before = await stage.open(DECK)
    assert (await stage.get(before.url))[0] == 200
    next_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    rotated = CountingTickets(next_key, "k2", previous=[VerifyingKey("k1", rsa_key.public_key(), "")])
    stage.parts.tickets = stage.tickets = rotated
    after = await stage.open({"later.vue": COSTS})
    assert [(await stage.get(opened.url))[0] for opened in (after, before)] == [200, 200]
    assert rotated.reads == 1

    began_s = asyncio.get_running_loop().time()
    url = str(stage.runtime.make_url("/previews/"))
    for number in range(100):
        forged = Tickets(next_key, f"made-up-{number}").issue(after.artifact_id, use="preview")
        assert (await stage.get(f"{url}{forged}/"))[0] == 401
    assert rotated.reads <= 2 + (asyncio.get_running_loop().time() - began_s) / 5
    assert (await stage.get(after.url))[0] == 200


async def test_a_part_of_an_asset_is_sent_to_who_asks_for_one(stage: Stage) -> None:
    """A browser cannot seek in a video otherwise."""
    opened = await stage.open({"film.vue": COSTS})
    url = f"{opened.url}pages/0/assets/logo%201.svg"
    size = len(LOGO)
    for asked, status, told, body in (
        ("bytes=0-", 206, f"bytes 0-{size - 1}/{size}", LOGO),
        ("bytes=5-9", 206, f"bytes 5-9/{size}", LOGO[5:10]),
        ("bytes=-7", 206, f"bytes {size - 7}-{size - 1}/{size}", LOGO[-7:]),
        ("bytes=9999-", 416, f"bytes */{size}", b""),
        ("lines=1-2", 200, None, LOGO),
    ):
        async with stage.http.get(url, headers={"Range": asked}) as answer:
            assert (answer.status, answer.headers.get("Content-Range"), await answer.read()) == (status, told, body)
            etag = answer.headers["ETag"]
            assert answer.headers["Accept-Ranges"] == "bytes"
    for condition, status in ((etag, 206), ('"older"', 200)):
        async with stage.http.get(url, headers={"Range": "bytes=1-2", "If-Range": condition}) as answer:
            assert answer.status == status


async def test_a_person_with_the_link_sees_host_page_script_style_and_asset(stage: Stage) -> None:
    opened = await stage.open(DECK, notes="Slowly.")
    status, headers, text = await stage.get(opened.url)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert [(page["part"], page["code"], page["speaker_notes"]) for page in deck_of(text)] == [
        ("0", "costs", "Slowly."),
        ("2", "people", "Slowly."),
    ]
    page = f"{opened.url}pages/0/"
    status, _, text = await stage.get(page)
    assert (status, 'href="./page.css"' in text, 'src="./page.js"' in text) == (200, True, True)
    assert text.index("/preview-shell/keys.js") < text.index('src="./page.js"')
    for file, kind, inside in (
        ("page.js", "text/javascript", "./assets/logo%201.svg"),
        ("page.css", "text/css", "./assets/logo%201.svg"),
    ):
        status, headers, text = await stage.get(page + file)
        assert (status, headers["Content-Type"], inside in text) == (200, f"{kind}; charset=utf-8", True)
    assert '"/assets/' not in text
    async with stage.http.get(page + "assets/logo%201.svg") as asset:
        assert (asset.status, asset.content_type, await asset.read()) == (200, "image/svg+xml", LOGO)
    assert (await stage.get(f"{opened.url}pages/2/"))[0] == 200
    for file in ("shell.js", "shell.css", "deck.js", "keys.js"):
        assert (await stage.get(str(stage.runtime.make_url(f"/preview-shell/{file}"))))[0] == 200


async def test_a_page_is_served_as_a_stranger_and_its_address_is_told_nobody(stage: Stage) -> None:
    opened = await stage.open(DECK)
    page = f"{opened.url}pages/0/"
    for url in (opened.url, page, page + "page.js", page + "assets/logo%201.svg"):
        _, headers, _ = await stage.get(url)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert ("sandbox allow-scripts;" in policy) is (url != opened.url)
        assert "allow-same-origin" not in policy
        assert (headers["Referrer-Policy"], headers["X-Content-Type-Options"]) == ("no-referrer", "nosniff")
        assert headers["Cache-Control"] == "no-store"
        assert "Set-Cookie" not in headers


async def test_an_address_without_its_slash_leads_to_the_preview(stage: Stage) -> None:
    opened = await stage.open(DECK)
    async with stage.http.get(opened.url.rstrip("/")) as answer:
        assert (answer.status, str(answer.url)) == (200, opened.url)


async def test_a_token_that_is_not_one_opens_nothing_and_an_old_one_says_so(stage: Stage) -> None:
    opened = await stage.open(DECK)
    token = opened.url.rstrip("/").rpartition("/")[2]
    root = str(stage.runtime.make_url("/previews/"))
    expired = stage.tickets.issue(opened.artifact_id, -60, use="preview")
    for wrong, status, code in (
        (token[:-4] + "AAAA", 401, "PREVIEW_TOKEN_INVALID"),
        (opened.artifact_id, 401, "PREVIEW_TOKEN_INVALID"),
        (stage.tickets.issue(opened.artifact_id), 401, "PREVIEW_TOKEN_INVALID"),
        ("x" * 5000, 401, "PREVIEW_TOKEN_INVALID"),
        (expired, 404, "PREVIEW_ARTIFACT_UNAVAILABLE"),
    ):
        for rest in ("/", "/pages/0/", "/pages/0/page.js", "/pages/0/assets/logo%201.svg"):
            got, _, text = await stage.get(root + wrong + rest)
            assert (got, code in text, "Open the preview again" in text) == (status, True, True)


async def test_a_lost_preview_is_an_honest_404_in_words(stage: Stage) -> None:
    opened = await stage.open(DECK)
    await stage.state.delete([f"runtime:artifact:{opened.artifact_id}"])
    for rest in ("", "pages/0/"):
        status, _, text = await stage.get(opened.url + rest)
        assert status == 404
        assert "This preview is gone" in text
        assert "PREVIEW_ARTIFACT_UNAVAILABLE" in text
        assert "Open the preview again; it gets a new address." in text


async def test_a_page_that_does_not_compile_tells_its_author_where(stage: Stage) -> None:
    broken = "<template>\n<p>{{ a <b>\n</template>\n<script setup>\nimport x from 'https://evil/<script>alert(1)</script>'\n</script>"
    opened = await stage.open({"broken.vue": broken, "costs.vue": COSTS})
    status, headers, text = await stage.get(f"{opened.url}pages/0/")
    assert status == 422
    assert "does not compile" in text
    assert re.search(r"pages/broken\.vue:\d+:\d+", text)
    assert "<script>alert" not in text
    assert "sandbox" in headers["Content-Security-Policy"]
    assert (await stage.get(f"{opened.url}pages/2/"))[0] == 200


async def test_what_authors_write_is_text_in_the_host(stage: Stage) -> None:
    opened = await stage.open(DECK, notes="</script><script>alert(1)</script><!--")
    _, _, text = await stage.get(opened.url)
    assert "<script>alert" not in text
    assert deck_of(text)[0]["speaker_notes"] == "</script><script>alert(1)</script><!--"


@pytest.mark.parametrize(
    "rest",
    [
        "pages/1/",
        "pages/9999/",
        "pages/-1/",
        "pages/x/",
        "pages/0/page.js.map",
        "pages/0/index.html",
        "pages/0/assets/none.svg",
        "pages/0/assets/..%2f..%2fmanifest",
        "pages/0%2f..%2f/",
        "other",
    ],
)
async def test_there_is_nothing_else_in_a_preview(stage: Stage, rest: str) -> None:
    opened = await stage.open(DECK)
    assert (await stage.get(opened.url + rest))[0] == 404


async def test_many_who_look_at_once_cause_one_compile(stage: Stage) -> None:
    def compiles() -> float:
        families = {family.name: family.samples for family in stage.system.registry.collect()}
        done = [sample for sample in families["pagegate_vite_tasks"] if sample.name.endswith("_total")]
        return sum(sample.value for sample in done if sample.labels["lane"] == "check")

    opened = await stage.open(DECK)
    before = compiles()
    answers = await asyncio.gather(
        *(stage.get(f"{opened.url}pages/0/{file}") for file in ("", "page.js", "page.css") * 4)
    )
    assert {status for status, _, _ in answers} == {200}
    assert compiles() - before == 1


async def test_a_looker_who_goes_away_leaves_the_others_theirs(stage: Stage) -> None:
    opened = await stage.open(DECK)
    hasty = asyncio.create_task(stage.get(f"{opened.url}pages/0/"))
    patient = asyncio.create_task(stage.get(f"{opened.url}pages/0/"))
    await asyncio.sleep(0)
    hasty.cancel()
    assert (await patient)[0] == 200


async def test_a_backend_that_is_away_is_said_without_blame(stage: Stage) -> None:
    opened = await stage.open(DECK)
    assert (await stage.get(opened.url))[0] == 200  # the keys are known now
    await stage.backend.close()
    for rest, status in (("", 503), ("pages/0/", 503), ("pages/0/assets/logo%201.svg", 503)):
        got, _, text = await stage.get(opened.url + rest)
        assert (got, "RUNTIME_SOURCE_UNAVAILABLE" in text) == (status, True)
        assert "127.0.0.1" not in text


async def test_without_the_keys_nobody_is_let_in(stage: Stage) -> None:
    opened = await stage.open(DECK)
    stage.system.options = replace(stage.system.options, jwks_urls=("http://127.0.0.1:9/keys",))
    status, _, text = await stage.get(opened.url)
    assert (status, "RUNTIME_KEYS_UNAVAILABLE" in text) == (503, True)


async def test_a_backend_that_is_away_is_passed_over_for_one_that_answers(stage: Stage) -> None:
    """K6: with shared state any Backend gives the preview, its keys and its assets."""
    good, keys = stage.system.options.backend_base_urls[0], stage.system.options.jwks_urls[0]
    stage.system.options = replace(
        stage.system.options,
        backend_base_urls=("http://127.0.0.1:9", good),
        jwks_urls=("http://127.0.0.1:9/keys", keys),
    )
    numbers, stage.system.registry = stage.system.registry, CollectorRegistry()
    second = TestServer(runtime_app(stage.system))
    stage.system.registry = numbers
    await second.start_server()
    try:
        opened = await stage.open(DECK)
        base = str(second.make_url("/previews/")) + opened.url.rstrip("/").rpartition("/")[2]
        for rest in ("/", "/pages/0/", "/pages/0/assets/logo%201.svg"):
            assert (await stage.get(base + rest))[0] == 200
    finally:
        await second.close()
