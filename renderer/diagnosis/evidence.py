"""What the rules look at: the observation, and the places in the author's source that it points to.

Owns the reading of probe answers (`Spot`) and the search for a line: by `data-pg-loc`, by the source map, by a piece of
the source's own text. All of it may be missing; then a finding simply has no line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Self

from PIL import Image, UnidentifiedImageError

from pagegate.renderer.contract import Finding, Rect, Severity
from pagegate.renderer.observation import Observation
from pagegate.renderer.probes import PAGE_PROBE
from pagegate.renderer.sourcemap import Position, SourceMap

_LOC = re.compile(r"^((?:pages|components)/.+?):(\d+)(?::(\d+))?$")
_KIT = re.compile(r"\[kit\] (<\w+> .*?)(?: \(((?:pages|components)/[^()\n]+:\d+:\d+)\))?$", re.DOTALL)
_MESSAGE_CHARS_MAX = 600


@dataclass(frozen=True, slots=True)
class Spot:
    """One element as a probe names it (`where.js`)."""

    path: str
    text: str
    rect: Rect
    position: Position | None
    order: int

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Self:
        x, y, width, height = (float(n) for n in answer["rect"])
        return cls(
            path=str(answer["path"]),
            text=str(answer.get("text") or ""),
            rect=Rect(x=x, y=y, width=width, height=height),
            position=read_loc(str(answer.get("loc") or "")),
            order=int(answer.get("order", 0)),
        )

    @property
    def element(self) -> str:
        return f'{self.path} "{self.text}"' if self.text else self.path

    @property
    def at(self) -> str:
        """`pages/x.vue:12`, or nothing: for naming a second element inside a message."""
        return f" ({self.position.file}:{self.position.line})" if self.position else ""


def kebab(name: str) -> str:
    """`StatTile` → `stat-tile`: the other spelling of a tag or a prop in a Vue template."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def read_loc(loc: str) -> Position | None:
    found = _LOC.match(loc)
    return Position(found[1], int(found[2]), int(found[3] or 1)) if found else None


def read_kit(text: str) -> tuple[str, Position | None] | None:
    """What a component of the kit says of how it is used, and where its tag is written; None for anything else."""
    found = _KIT.search(text)
    return (re.sub(r"\s+", " ", found[1]), read_loc(found[2]) if found[2] else None) if found else None


def position_in(path: str, text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(path, before.count("\n") + 1, offset - before.rfind("\n"))


def finding(
    code: str,
    severity: Severity,
    message: str,
    hint: str,
    *,
    spot: Spot | None = None,
    position: Position | None = None,
) -> Finding:
    """A finding at an element, at a line, or at neither."""
    place = position or (spot.position if spot else None)
    return Finding(
        code=code,
        severity=severity,
        message=message[:_MESSAGE_CHARS_MAX],
        hint=hint,
        element=spot.element if spot else None,
        rect=spot.rect if spot else None,
        file=place.file if place else None,
        line=place.line if place else None,
        column=place.column if place else None,
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    seen: Observation
    page: dict[str, Any]  # the probe's answer, empty when there is none
    map: SourceMap | None
    image: Image.Image | None  # the picture, decoded once: decoding costs more than all that is asked of it

    @classmethod
    def of(cls, observation: Observation) -> Self:
        answer = observation.probe.get(PAGE_PROBE)
        return cls(
            observation,
            answer if isinstance(answer, dict) else {},
            SourceMap.parse(observation.source_map),
            _decoded(observation.png),
        )

    def answers(self, name: str) -> list[dict[str, Any]]:
        """One probe's list; a probe that stumbled has an empty one."""
        listed = self.page.get(name)
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []

    def from_stack(self, stack: str, url: str = "", line: int = 0, column: int = 0) -> Position | None:
        if not self.map:
            return None
        return self.map.find_in_stack(stack) or (
            self.map.find(line, column) if url.partition("?")[0].endswith("/page.js") else None
        )

    def from_tag(self, component: str, attribute: str, *, given: bool, value: str = "") -> Position | None:
        """Where a component is used with (or without) an attribute: where a prop is wrong (or missing); of several
        uses, one in whose attribute the `value` can be read."""
        contents = self.map.contents if self.map else {}
        tags = "|".join(re.escape(name) for name in _names_of(component, contents))
        tag = re.compile(rf"<(?:{tags})(?=[\s/>])(?:=>|[^>])*")
        names = rf"[\s:](?:{re.escape(attribute)}|{re.escape(kebab(attribute))})(?=[\s=/]|$)"
        uses = [
            (path, use)
            for path in sorted(contents, key=lambda path: not path.startswith("pages/"))
            for use in tag.finditer(contents[path])
            if bool(re.search(names, use[0])) is given
        ]
        if not uses:
            return None
        with_value = rf"""{names}\s*=\s*["'{{`]*{re.escape(value)}(?!\w)"""
        path, use = next((each for each in uses if value and re.search(with_value, each[1][0])), uses[0])
        return position_in(path, contents[path], use.start())

    def from_cycle(self) -> Position | None:
        """Where a component shows itself, or one that shows it again: the tag that closes the circle."""
        uses = {path: list(_uses_of(path, text)) for path, text in (self.map.contents if self.map else {}).items()}
        for start in sorted(uses, key=lambda path: not path.startswith("pages/")):
            found = _closing_tag(start, uses, (start,))
            if found and self.map:
                return position_in(found[0], self.map.contents[found[0]], found[1])
        return None

    def from_text(self, *needles: str, component: str | None = None) -> Position | None:
        """Where the author wrote one of these, the first that is found; in `component`'s own source if it is named."""
        contents = self.map.contents if self.map else {}
        files = sorted(contents, key=lambda path: (not _is_source_of(path, component), not path.startswith("pages/")))
        for needle in needles:
            for path in files:
                at = contents[path].find(needle)
                if at >= 0:
                    return position_in(path, contents[path], at + len(needle) - len(needle.lstrip("\n")))
        return None


_IMPORT = re.compile(r"""import\s+(\w+)\s+from\s+["']@((?:components|pages)/[\w.-]+?\.(?:vue|tsx))["']""")


def _uses_of(path: str, text: str) -> Iterator[tuple[str, int]]:
    """(module, offset of its tag) of the components a module shows; a Vue component is known to itself by its file."""
    imported = {found[1]: found[2] for found in _IMPORT.finditer(text)}
    if path.endswith(".vue"):
        imported.setdefault(path.rpartition("/")[2].removesuffix(".vue"), path)
    for name, module in imported.items():
        used = re.search(rf"<(?:{re.escape(name)}|{re.escape(kebab(name))})(?=[\s/>])", text)
        if used:
            yield module, used.start()


def _closing_tag(
    path: str, uses: Mapping[str, list[tuple[str, int]]], trail: tuple[str, ...]
) -> tuple[str, int] | None:
    for module, offset in uses.get(path, []):
        if module in trail:
            return path, offset
        found = _closing_tag(module, uses, (*trail, module))
        if found:
            return found
    return None


def _decoded(png: bytes | None) -> Image.Image | None:
    """A picture that is no picture is infrastructure's trouble: it says nothing about the page."""
    if png is None:
        return None
    try:
        return Image.open(BytesIO(png)).convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        return None


def _names_of(component: str, contents: Mapping[str, str]) -> list[str]:
    """The tags a component may be used by: its own name, those it is imported under, and at last `<component :is>`."""
    file = rf"""["']@(?:components|pages)/{re.escape(component)}\.(?:vue|tsx)["']"""
    imported = re.compile(rf"import\s+(\w+)\s+from\s+{file}|(\w+)\s*=[^\n=]*=>\s*import\(\s*{file}")
    names = [component]
    for text in contents.values():
        names += [found[1] or found[2] for found in imported.finditer(text)]
    tags = list(dict.fromkeys(tag for name in names for tag in (name, kebab(name))))
    is_used = re.compile(rf"<(?:{'|'.join(map(re.escape, tags))})[\s/>]")
    return tags if any(is_used.search(text) for text in contents.values()) else [*tags, "component"]


def _is_source_of(path: str, component: str | None) -> bool:
    return component is not None and path.rpartition("/")[2].rpartition(".")[0] == component
