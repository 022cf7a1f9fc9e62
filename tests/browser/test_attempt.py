"""One attempt over ordinary pages: what is seen of them, and when they are at rest (R10, R11)."""

import asyncio

import pytest

from pagegate.renderer.attempt import Attempt
from pagegate.renderer.egress import OriginResponse
from pagegate.renderer.settle import VirtualTime
from tests.browser.looking import MOUNTED, Looker, colour_at, outcomes, page, pixels

RED, GREEN, BLUE = (255, 0, 0), (0, 128, 0), (0, 0, 255)


async def test_a_page_is_photographed_at_its_canvas(looker: Looker) -> None:
    seen = await looker.attempt(page("<body style='background:red'>"), width_px=800, height_px=450)
    observation = seen.observation
    assert observation is not None
    assert (observation.mounted, observation.settled, observation.cut) == (True, True, False)
    assert (observation.errors, observation.console, observation.records_dropped) == ([], [], 0)
    assert pixels(observation).size == (800, 450)
    assert pixels(observation).getcolors() == [(800 * 450, RED)]
    assert {"load", "settle", "look", "attempt"} <= seen.timings_ms.keys()


async def test_a_page_that_never_mounts_is_seen_as_that(looker: Looker) -> None:
    observation = await looker.look("<!doctype html><p>the host failed")
    assert (observation.mounted, observation.settled) == (False, True)


async def test_a_page_that_mounts_late_in_its_own_time_is_mounted(looker: Looker) -> None:
    script = "setTimeout(() => document.documentElement.dataset.pagegateMounted = '1', 2000)"
    observation = await looker.look(f"<!doctype html><body><script>{script}</script>")
    assert observation.mounted


async def test_a_module_that_waits_for_a_timer_before_it_mounts_is_mounted(looker: Looker) -> None:
    script = f"await new Promise((done) => setTimeout(done, 500)); await fetch('/data.json'); {MOUNTED}"
    html = f"<!doctype html><body><script type=module>{script}</script>"
    observation = await looker.look(html, {"/data.json": "{}"})
    assert (observation.mounted, observation.settled) == (True, True)


async def test_errors_of_the_first_seconds_are_heard_with_their_places(looker: Looker) -> None:
    observation = await looker.look(
        page("""<body><script>
setTimeout(() => { throw new TypeError("late") }, 2000);
Promise.reject(new Error("nobody cares"));
requestAnimationFrame(() => { throw new Error("in a frame") });
console.warn("[warn] %s of %d", "one", 2, {a: 1});
setTimeout("throw new Error('from a string')", 10);
try { throw new Error("caught") } catch {}
</script>""")
    )
    errors = {error.message: error for error in observation.errors}
    assert set(errors) == {"TypeError: late", "Error: in a frame", "Error: from a string"}
    assert errors["TypeError: late"].line == 2
    assert errors["Error: in a frame"].line == 4
    assert all("pagegate" not in error.stack for error in observation.errors)
    assert [error.message for error in observation.rejections] == ["Error: nobody cares"]
    (message,) = observation.console
    assert (message.type, message.line, message.source) == ("warning", 5, "console")
    assert message.text.startswith("[warn] one of 2 Object")


@pytest.mark.parametrize(
    "style",
    [
        "h1{opacity:0;animation:k .8s .3s forwards}@keyframes k{to{opacity:1}}",
        "h1{opacity:0;transition:opacity 1s}h1.on{opacity:1}",
    ],
    ids=["animation", "transition"],
)
async def test_a_fade_in_has_ended(looker: Looker, style: str) -> None:
    head = f"<style>{style} h1{{margin:0;height:360px;background:green}}</style>"
    body = "<body><h1 id=a></h1><script>setTimeout(() => a.classList.add('on'), 100)</script>"
    assert colour_at(await looker.look(page(body, head=head)), 100, 100) == GREEN


async def test_what_follows_an_animation_is_seen(looker: Looker) -> None:
    head = "<style>h1{animation:k 1s}@keyframes k{from{margin-left:0}to{margin-left:300px}}</style>"
    body = """<body><h1 id=a>x</h1><script>
a.onanimationend = () => setTimeout(() => document.body.style.background = 'blue', 200);
</script>"""
    assert colour_at(await looker.look(page(body, head=head)), 600, 350) == BLUE


async def test_a_counter_made_of_frames_has_reached_its_end(looker: Looker) -> None:
    body = """<body><script>
const start = performance.now();
const step = (now) => {
  const share = Math.min(1, (now - start) / 1500);
  document.body.style.background = share === 1 ? 'green' : 'red';
  if (share < 1) requestAnimationFrame(step);
};
requestAnimationFrame(step);
</script>"""
    assert colour_at(await looker.look(page(body)), 10, 10) == GREEN


async def test_timers_fire_in_their_order_and_can_be_cleared_before_they_start(looker: Looker) -> None:
    body = """<body><script>
const said = [];
setTimeout(() => said.push('c'), 30);
setTimeout((x) => said.push(x), 10, 'b');
setTimeout(() => said.push('a'));
clearTimeout(setTimeout(() => said.push('never'), 5));
let n = 0;
const every = setInterval(() => { said.push(++n); if (n === 3) clearInterval(every) }, 100);
cancelAnimationFrame(requestAnimationFrame(() => said.push('never')));
setTimeout(() => console.log(said.join(' ')), 2000);
</script>"""
    observation = await looker.look(page(body))
    assert [message.text for message in observation.console] == ["a b c 1 2 3"]


async def test_waiting_for_the_clock_in_a_loop_ends(looker: Looker) -> None:
    body = """<body><script>
const wait = (ms, now) => { const start = now(); while (now() - start < ms); };
wait(100, Date.now);
setTimeout(() => { wait(100, () => performance.now()); document.body.style.background = 'green' }, 50);
</script>"""
    assert colour_at(await looker.look(page(body)), 10, 10) == GREEN


async def test_polling_and_a_slow_frame_end_by_the_pages_own_signal(looker: Looker) -> None:
    # Case 31: the page polls for ever, and what it frames takes its time.
    body = """<body><iframe src="/slow"></iframe><script>
let n = 0;
setInterval(() => fetch('/poll').then(() => ++n), 200);
setTimeout(() => console.log(n >= 10), 2400);
</script>"""
    observation = await looker.look(page(body), {"/poll": "{}", "/slow": "<body>framed"})
    assert observation.settled
    assert [message.text for message in observation.console] == ["true"]
    assert outcomes(observation) == {"/": "ok", "/slow": "ok", "/poll": "ok"}


async def test_what_waits_to_be_seen_is_seen_before_the_picture(looker: Looker) -> None:
    head = "<style>div{height:500px}section{height:100px}</style>"
    body = """<body><div></div><div></div><div></div><section id=late></section>
<img loading=lazy src=/lazy.png width=10 height=10><script>
new IntersectionObserver(([e]) => { if (e.isIntersecting) setTimeout(() => late.style.background = 'blue', 300) })
  .observe(late);
</script>"""
    observation = await looker.look(page(body, head=head), height_px=None)
    assert outcomes(observation)["/lazy.png"] == "failed 404"
    assert colour_at(observation, 10, 1550) == BLUE
    assert observation.page_height_px == observation.png_height_px >= 1600


async def test_a_page_that_decides_its_height_is_photographed_whole(looker: Looker) -> None:
    bands = "".join(f"<div style='height:500px;background:rgb({n},0,{255 - n})'></div>" for n in range(20))
    observation = await looker.look(page(f"<body>{bands}"), height_px=None)
    assert (observation.png_height_px, observation.cut) == (10_000, False)
    assert [colour_at(observation, 5, 500 * n + 250) for n in range(20)] == [(n, 0, 255 - n) for n in range(20)]


async def test_a_page_beyond_the_limit_is_cut_there_and_flagged(looker: Looker) -> None:
    # Case 25.
    bands = "".join(f"<div style='height:1000px;background:rgb({n},0,{255 - n})'></div>" for n in range(20))
    observation = await looker.look(page(f"<body>{bands}"), height_px=None)
    assert (observation.page_height_px, observation.png_height_px, observation.cut) == (20_000, 16_384, True)
    assert [colour_at(observation, 5, 1000 * n + 250) for n in range(16)] == [(n, 0, 255 - n) for n in range(16)]


async def test_a_hero_keeps_the_viewports_height_above_an_endless_feed(looker: Looker) -> None:
    # Case 27: each time its end is seen the feed grows.
    head = "<style>.hero{height:100vh;background:red}.item{height:900px;background:blue}</style>"
    body = """<body><div class=hero></div><div id=feed></div><div id=end style=height:1px></div><script>
const more = () => feed.insertAdjacentHTML('beforeend', '<div class=item></div>');
new IntersectionObserver(([e]) => e.isIntersecting && more()).observe(end);
window.addEventListener('resize', () => document.body.remove());
</script>"""
    observation = await looker.look(page(body, head=head), height_px=None, picture_height_px_max=4000)
    assert observation.cut
    assert observation.png_height_px == 4000
    assert (colour_at(observation, 5, 719), colour_at(observation, 5, 721)) == (RED, BLUE)
    assert colour_at(observation, 5, 3999) == BLUE


async def test_a_font_and_an_image_that_never_answer_cost_a_bounded_wait(looker: Looker) -> None:
    # Case 29. The origin gives up, the page goes on, and both are told.
    class Hanging:
        async def get(self, path_and_query: str) -> OriginResponse:
            if path_and_query in ("/assets/font.woff2", "/assets/picture.png"):
                await forever()
            head = "<style>@font-face{font-family:F;src:url(/assets/font.woff2)}p{font-family:F}</style>"
            html = page("<body><p>text<img src=/assets/picture.png>", head=head)
            return OriginResponse(200, "text/html", html.encode())

    observation = await looker.look(Hanging(), origin_timeout_s=1.0)
    found = outcomes(observation)
    assert (found["/assets/font.woff2"], found["/assets/picture.png"]) == ("hanging", "hanging")
    assert observation.settled
    assert observation.png is not None


async def forever() -> bytes:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_in_real_time_a_page_is_looked_at_when_nothing_has_happened_for_a_while(looker: Looker) -> None:
    rule = "h1{opacity:0;height:360px;margin:0;background:green;animation:k .4s .2s forwards}"
    head = f"<style>{rule} @keyframes k{{to{{opacity:1}}}}</style>"
    body = """<body><h1></h1><script>
setTimeout(() => { throw new Error('late') }, 200);
setTimeout(() => fetch('/data').then(() => document.body.append('come')), 350);
</script>"""
    observation = await looker.look(page(body, head=head), {"/data": "{}"}, settle_virtually=False)
    assert (observation.mounted, observation.settled) == (True, True)
    assert [error.message for error in observation.errors] == ["Error: late"]
    assert outcomes(observation)["/data"] == "ok"
    assert colour_at(observation, 100, 100) == GREEN


async def test_in_real_time_a_page_that_never_stops_is_looked_at_in_the_end(looker: Looker) -> None:
    script = "setInterval(() => a.textContent = Date.now(), 20)"
    body = f"<body style='background:green'><b id=a></b><script>{script}</script>"
    observation = await looker.look(page(body), settle_virtually=False, settle_quiet_max_s=1.0)
    assert observation.settled
    assert colour_at(observation, 300, 300) == GREEN


async def test_a_browser_without_virtual_time_is_waited_for_in_real_time(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(self: VirtualTime, start_ms: int) -> bool:
        return False

    monkeypatch.setattr(VirtualTime, "begin", cannot)
    observation = await looker.look(page("<body style='background:green'>"))
    assert (observation.settled, colour_at(observation, 5, 5)) == (True, GREEN)


async def test_a_picture_that_never_comes_leaves_what_is_known_of_the_page(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S3: the picture may take what is left of the deadline, and no more.
    async def never(self: Attempt, height_px: int, *, quick: bool = False) -> bytes:
        return await forever()

    monkeypatch.setattr(Attempt, "_shoot", never)
    seen = await looker.attempt(page("<body>text<script>console.error('told')</script>"), deadline_s=4.0)
    assert seen.error is None
    assert seen.picture_error == "RENDER_PICTURE_FAILED"
    assert seen.observation is not None
    assert [message.text for message in seen.observation.console] == ["told"]


async def test_a_page_cannot_answer_for_itself(looker: Looker) -> None:
    body = """<body><script>
JSON.stringify = () => '{"mounted": true, "height": 1}';
Object.defineProperty(document, 'readyState', {get: () => 'complete'});
Element.prototype.getBoundingClientRect = () => ({});
delete document.documentElement.dataset.pagegateMounted;
window.pagegateSettle = {state: () => 'mine'};
</script><div style=height:900px></div>"""
    observation = await looker.look(page(body))
    assert (observation.mounted, observation.page_height_px) == (False, 900)


async def test_a_large_canvas_is_drawn_where_shared_memory_is_small(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Case 34.
    monkeypatch.setattr("pagegate.renderer.isolation.shared_memory_is_small", lambda: True)
    body = """<body><canvas id=c width=6000 height=5000 style="width:640px;height:360px"></canvas><script>
const x = c.getContext('2d'); x.fillStyle = 'blue'; x.fillRect(0, 0, 6000, 5000);
</script>"""
    assert colour_at(await looker.look(page(body)), 320, 180) == BLUE
