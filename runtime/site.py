"""What a built site is around its pages: the host, its routes, and the zip that it leaves as (B1, B2, case 36).

Pure but for `pack`, which reads the folder of a finished build. A site works below any address of any static server:
everything in it is found by relative addresses. `index.html` shows the pages by hash (`#code`); with clean routes each
page has a folder with a host of its own (`code/`). The pages themselves lie in `pages/<number>/`.
"""

import html
import json
import re
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pagegate.runtime.build_contract import BuildPage, BuildSnapshot

SHELL = Path(__file__).parent / "site_shell"
_SHELL_FILES = ("site.js", "site.css", "deck.js", "keys.js")
_TAKEN = ("pages", "assets", "vendor", "site", "index.html")
_NOT_IN_FOLDERS = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')  # of which some system, or an unpacker, makes something else
_FOLDER_BYTES_MAX = 200
_PACKED_ALREADY = frozenset(
    {".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".woff", ".woff2", ".mp3", ".ogg", ".mp4", ".webm", ".pdf"}
)
_WRITTEN_AT = (1980, 1, 1, 0, 0, 0)  # the same build is the same zip


@dataclass(frozen=True)
class Packed:
    """A zip, by what is in it."""

    size_bytes: int
    files: int


def folders(pages: Sequence[BuildPage]) -> list[str]:
    """The folder of each page for clean routes: its code where a folder may be called so. Pure."""
    taken = {name.casefold() for name in _TAKEN}
    found: list[str] = []
    for page in pages:
        name = unicodedata.normalize("NFC", _NOT_IN_FOLDERS.sub("-", page.code)).strip(". ") or "page"
        while len(name.encode()) > _FOLDER_BYTES_MAX:
            name = name[:-1]
        folder, number = name, 2
        while folder.casefold() in taken:
            folder, number = f"{name}-{number}", number + 1
        taken.add(folder.casefold())
        found.append(folder)
    return found


def shell_files(snapshot: BuildSnapshot, runtime_build: str) -> dict[str, bytes]:
    """The hosts and what they load, by path in the site."""
    names = folders(snapshot.pages)
    files = {f"site/{name}": (SHELL / name).read_bytes() for name in _SHELL_FILES}
    files["index.html"] = _host(snapshot, names, None, runtime_build).encode()
    if snapshot.routes == "clean":
        for number, name in enumerate(names):
            files[f"{name}/index.html"] = _host(snapshot, names, number, runtime_build).encode()
    return files


def _host(snapshot: BuildSnapshot, names: Sequence[str], shown: int | None, runtime_build: str) -> str:
    """The host of a site. `shown` is the page that its address stands for, None: the first, or the one of the hash."""
    clean, up = snapshot.routes == "clean", "" if shown is None else "../"
    pages = [
        {
            "number": number,
            "code": page.code,
            "title": page.title,
            "speaker_notes": page.speaker_notes,
            "canvas": page.canvas.model_dump(),
            "route": f"{quote(name, safe='')}/" if clean else f"#{quote(page.code, safe='')}",
        }
        for number, (page, name) in enumerate(zip(snapshot.pages, names, strict=True), start=1)
    ]
    entries = "".join(
        f'<li><a href="{html.escape((up if clean else "") + str(page["route"]), quote=True)}">'
        f"<span>{page['number']}</span>{html.escape(str(page['title'] or page['code']))}</a></li>"
        for page in pages
    )
    site = {"pages": pages, "name": snapshot.project_name, "clean": clean, "shown": shown, "depth": len(up) // 3}
    # `<` is all that could end the block early, or open another one.
    data = json.dumps(site, ensure_ascii=False).replace("<", "\\u003c")
    first = snapshot.pages[shown or 0]
    title = snapshot.project_name if shown is None else f"{first.title or first.code} · {snapshot.project_name}"
    return f"""<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="pagegate {html.escape(runtime_build, quote=True)}">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{up}site/site.css">
<script type="application/json" id="data">{data}</script>
<script type="module" src="{up}site/site.js"></script>
</head>
<body>
<nav id="list" aria-label="Pages" hidden><ol>{entries}</ol></nav>
<main id="main" tabindex="0" aria-label="Page"><div id="frame" class="frame"></div></main>
<footer>
<button type="button" id="pages" aria-label="Pages" aria-expanded="false" aria-controls="list">☰</button>
<button type="button" id="previous" aria-label="Previous page">‹</button>
<span id="place" role="status"></span>
<button type="button" id="next" aria-label="Next page">›</button>
</footer>
<noscript><p>This site needs JavaScript.</p></noscript>
</body>
</html>
"""


def pack(folder: Path, shell: dict[str, bytes], archive: Path) -> Packed:
    """Write the site of `folder`, and the shell around it, as a zip. Blocks."""
    built = {file.relative_to(folder).as_posix(): file for file in _files_of(folder)}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
        for name in sorted({*built, *shell}):
            entry = zipfile.ZipInfo(name, _WRITTEN_AT)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_STORED if Path(name).suffix in _PACKED_ALREADY else zipfile.ZIP_DEFLATED
            if name in shell:
                made.writestr(entry, shell[name])
                continue
            entry.file_size = built[name].stat().st_size
            with built[name].open("rb") as source, made.open(entry, "w") as target:
                while block := source.read(1024 * 1024):
                    target.write(block)
    return Packed(archive.stat().st_size, len({*built, *shell}))


def _files_of(folder: Path) -> Iterable[Path]:
    """Regular files only: a build makes no links, and one that is there is nobody's that should be followed (X4)."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
