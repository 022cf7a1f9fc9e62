"""Two pictures of one page are byte-identical (R11, case 30)."""

import io
from pathlib import Path

import pytest
from PIL import Image

from pagegate.renderer.egress import OriginResponse
from tests.browser.looking import Looker, colour_at, page

VIDEO = (Path(__file__).parent / "media" / "colours.webm").read_bytes()

PAGES = {
    "clock": """<h1 id=a></h1><h2 id=b></h2><script>
b.textContent = new Date() + Date() + performance.now() + new Intl.DateTimeFormat('en', {timeStyle: 'long'}).format();
setInterval(() => a.textContent = new Date().toISOString() + performance.now(), 50)</script>""",
    "chance": """<p id=a></p><script>
a.textContent = Math.random() + crypto.randomUUID() + crypto.getRandomValues(new Uint32Array(4))</script>""",
    "frames": """<h1 id=a></h1><script>
let n = 0; (function f(t) { a.textContent = ++n + ' ' + t; requestAnimationFrame(f) })()</script>""",
    "canvas": """<canvas id=c width=600 height=300></canvas><script>
const x = c.getContext('2d'); let n = 0;
setInterval(() => n++, 33);
(function draw() {
  x.clearRect(0, 0, 600, 300);
  for (let i = 0; i < 600; i++) x.fillRect(i, 150 + 100 * Math.sin(i / 50 + Date.now() / 300), 2, 2 + n);
  requestAnimationFrame(draw);
})()</script>""",
    "endless animation": """<style>@keyframes k{from{margin-left:0;color:red}to{margin-left:300px}}
h1{animation:k 1s infinite alternate}</style><h1>moving</h1>""",
    "animation in a shadow": """<div id=h></div><script>
h.attachShadow({mode: 'closed'}).innerHTML =
  '<style>@keyframes k{to{margin-left:300px}}p{animation:k 1s infinite}</style><p>moving</p>';</script>""",
    "animated svg": """<svg width=300 height=100><rect width=40 height=40>
<animate attributeName=x from=0 to=200 dur=1s repeatCount=indefinite /></rect></svg>""",
    "animated gif": "<img src=/assets/a.gif width=200 height=200>",
    "video": "<video src=/assets/colours.webm autoplay muted loop width=300 height=300></video>",
    "caret": "<input autofocus value=text style='font-size:80px'>",
}


def gif() -> bytes:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "lime", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=40, loop=0)
    return out.getvalue()


ASSETS = {
    "/assets/a.gif": OriginResponse(200, "image/gif", gif()),
    "/assets/colours.webm": OriginResponse(200, "video/webm", VIDEO),
}


@pytest.mark.parametrize("name", PAGES)
async def test_two_looks_give_the_same_bytes(looker: Looker, name: str) -> None:
    html = page(f"<body>{PAGES[name]}")
    first, second = await looker.look(html, ASSETS), await looker.look(html, ASSETS)
    assert first.png is not None
    assert first.png == second.png
    assert first.settled
    assert len(set(first.png)) > 1


async def test_a_video_stands_at_its_beginning_and_a_gif_at_its_first_frame(looker: Looker) -> None:
    html = page(
        """<body style=background:gray><img src=/assets/a.gif width=100 height=100>
<video src=/assets/colours.webm autoplay muted loop width=200 height=200></video>"""
    )
    observation = await looker.look(html, ASSETS)
    assert colour_at(observation, 50, 150) in ((254, 0, 0), (255, 0, 0))
    red, green, blue = colour_at(observation, 200, 100)
    assert (red > 200, green < 80, blue < 80) == (True, True, True)
