"""What a person reads of a preview: the host around the page, and words in a page's place (P4, S4, X4).

Owns the markup. Everything that an author or a compiler said is escaped; nothing of it is ever a script here.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pagegate.runtime.contract import ArtifactManifest, LocatedError

STATIC = "/preview-shell"

_ICONS = {
    "pages": "M4 6h16M4 12h16M4 18h16",
    "notes": "M5 4h14v12l-4 4H5zM9 9h6M9 13h4",
    "full": "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
    "previous": "M15 5l-7 7 7 7",
    "next": "M9 5l7 7-7 7",
}


@dataclass(frozen=True)
class Words:
    """What is said in a page's place: what happened, and what to do."""

    title: str
    text: str
    hint: str = ""
    code: str = ""


def host_page(manifest: ArtifactManifest) -> str:
    """The host of a preview: title, page list, notes, and the frame that `shell.js` puts the page into."""
    first = manifest.entry_page.title or manifest.entry_page.code
    pages = [
        {
            "part": part_of(page.artifact_id),
            "code": page.code,
            "title": page.title,
            "speaker_notes": page.speaker_notes,
            "canvas": page.canvas.model_dump(),
        }
        for page in manifest.pages
    ]
    entries = "".join(
        f'<li><a href="#{html.escape(page.code, quote=True)}"><span aria-hidden="true">{number}</span>'
        f"{html.escape(page.title or page.code)}</a></li>"
        for number, page in enumerate(manifest.pages, start=1)
    )
    # `<` is all that could end the block early, or open another one.
    deck = json.dumps(pages, ensure_ascii=False).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(first)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{STATIC}/shell.css">
<script type="application/json" id="deck">{deck}</script>
<script type="module" src="{STATIC}/shell.js"></script>
</head>
<body>
<header>
{_button("pages", "Pages", "pages", 'aria-expanded="false" aria-controls="list"', "l")}
<h1 id="title">{html.escape(first)}</h1>
<span id="place" class="place"></span>
{_button("speaker", "Notes", "notes", 'aria-expanded="false" aria-controls="notes"', "n")}
{_button("full", "", "full", 'aria-label="Full screen"', "f")}
{_button("previous", "", "previous", 'aria-label="Previous page"', "ArrowLeft")}
{_button("next", "", "next", 'aria-label="Next page"', "ArrowRight")}
</header>
<nav id="list" aria-label="Pages" hidden><ol>{entries}</ol></nav>
<main id="main" tabindex="0" aria-label="Page"><div id="frame" class="frame" aria-busy="true"></div></main>
<aside id="notes" aria-label="Speaker notes" hidden><h2>Speaker notes</h2><p id="text"></p></aside>
<p id="spoken" class="spoken" role="status"></p>
<noscript><p>A preview needs JavaScript.</p></noscript>
</body>
</html>
"""


def part_of(artifact_id: str) -> str:
    """Which page of its preview an artifact is, as it stands in an address: `rt_x` → 0, `rt_x~3` → 3. Pure."""
    return artifact_id.partition("~")[2] or "0"


def words_page(words: Words) -> str:
    """Words in a page's place."""
    code = f"<p><code>{html.escape(words.code)}</code></p>" if words.code else ""
    return _message(words.title, f"<p>{html.escape(words.text)}</p>{_paragraph(words.hint)}{code}")


def errors_page(errors: Sequence[LocatedError]) -> str:
    """The errors of a page that does not compile, as its author can use them."""
    count = "This page does not compile" if len(errors) == 1 else f"This page does not compile: {len(errors)} errors"
    return _message(count, "".join(map(_problem, errors)))


def _problem(error: LocatedError) -> str:
    where = ":".join(str(part) for part in (error.file, error.line, error.column) if part is not None)
    frame = f"<pre><code>{html.escape(error.frame)}</code></pre>" if error.frame else ""
    hint = f'<p class="hint">{html.escape(error.hint)}</p>' if error.hint else ""
    place = " · ".join(filter(None, (html.escape(where), html.escape(error.code))))
    heading = f"<h2>{html.escape(error.message)}</h2><code class='where'>{place}</code>"
    return f'<section class="problem">{heading}{frame}{hint}</section>'


def _message(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{STATIC}/shell.css">
<script src="{STATIC}/keys.js"></script>
</head>
<body class="message"><div role="alert"><h1>{html.escape(title)}</h1>{body}</div></body>
</html>
"""


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>" if text else ""


def _button(name: str, label: str, icon: str, attributes: str, shortcut: str) -> str:
    text = f'<span class="label">{label}</span>' if label else ""
    return (
        f'<button type="button" id="{name}" {attributes} aria-keyshortcuts="{shortcut}">'
        f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{_ICONS[icon]}"/></svg>{text}</button>'
    )
