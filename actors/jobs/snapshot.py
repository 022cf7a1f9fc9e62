"""The minimal snapshot: the candidate page, what it needs, and nothing else (V6).

Pure. References are found in the text, not by parsing: every `@components/…`, `@pages/…`, `@assets/…` and every
relative path between quotes counts, even in a comment, and an asset that exists counts wherever its address stands (in
a `srcset`, in an attribute without quotes). That finds more than the page really uses and never less, so a
snapshot can be too large but not wrong. Where a reference is put together at run time ("@assets/" + name), the text
cannot tell which modules are meant, and the full snapshot is taken. What does not exist is left out: the compile says
so, located.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

# Between quotes a path ends at the quote; in a CSS url() without quotes, at the parenthesis.
_ALIASED = re.compile(r"""(?:["'`]@(components|pages|assets)/([^"'`\r\n]*))|url\(\s*@(assets)/([^"'()\s]*)""")
_ASSET_FOLDER = re.compile("@assets/")
_RELATIVE = re.compile(r"""["'`](\.{1,2}/[^"'`\r\n]+)["'`]""")
_BUILT_AT_RUN_TIME = re.compile(
    r"""@(?:components|pages|assets)/(?:[^"'`\r\n]*\$\{|[^"'`\r\n]*["'`]\s*\+)|import\.meta\.glob"""
)


@dataclass(frozen=True)
class Snapshot:
    """Logical module paths to their source, and the names of the assets; `full` when everything was taken."""

    modules: dict[str, str]
    assets: frozenset[str]
    full: bool = False


def take_snapshot(
    entry: str,
    source: str,
    *,
    read: Callable[[str], str | None],
    every_module: Callable[[], Iterable[str]],
    assets: Collection[str],
) -> Snapshot:
    """The closure of `entry` (V6).

    `read` answers a logical path (`components/Name.vue`) with its source, or None when there is none; `every_module`
    lists the logical paths for the full snapshot; `assets` are the names that exist.
    """
    modules, pending, names = {entry: source}, [entry], set[str]()
    while pending:
        path = pending.pop()
        text = modules[path]
        if _BUILT_AT_RUN_TIME.search(text):
            return _full(entry, source, read, every_module, assets)
        wanted, wanted_assets = _references(path, text)
        names |= wanted_assets | _assets_named(text, assets)
        for dependency in sorted(wanted - modules.keys()):
            found = read(dependency)
            if found is not None:
                modules[dependency] = found
                pending.append(dependency)
    return Snapshot(modules, frozenset(names.intersection(assets)))


def modules_named(path: str, text: str) -> set[str]:
    """The logical paths of the modules that the text of `path` names; see above for what counts."""
    return _references(path, text)[0]


def _references(path: str, text: str) -> tuple[set[str], set[str]]:
    modules, assets = set[str](), set[str]()
    for folder, rest, folder_in_css, rest_in_css in _ALIASED.findall(text):
        name = _without_query(rest or rest_in_css)
        if (folder or folder_in_css) == "assets":
            assets.add(name)
        else:
            modules.add(f"{folder}/{name}")
    for rest in _RELATIVE.findall(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), _without_query(rest)))
        if target.startswith("assets/"):
            assets.add(target.removeprefix("assets/"))
        elif target.startswith(("components/", "pages/")):
            modules.add(target)
    return modules, assets


def _assets_named(text: str, assets: Collection[str]) -> set[str]:
    """The assets whose whole name follows an `@assets/` somewhere in the text."""
    starts = [found.end() for found in _ASSET_FOLDER.finditer(text)]
    return {name for name in assets if any(text.startswith(name, start) for start in starts)}


def _without_query(path: str) -> str:
    return re.split(r"[?#]", path, maxsplit=1)[0].strip()


def _full(
    entry: str,
    source: str,
    read: Callable[[str], str | None],
    every_module: Callable[[], Iterable[str]],
    assets: Collection[str],
) -> Snapshot:
    modules = {path: text for path in every_module() if (text := read(path)) is not None}
    return Snapshot({**modules, entry: source}, frozenset(assets), full=True)
