"""From a position in the compiled page back to the author's line (R10).

Owns decoding a version 3 source map (base64 VLQ) and reading a browser's stack text. Pure and in memory: a map that is
missing or broken costs the location of a finding, never the finding.
"""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Self

_DIGITS = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
_AUTHORED = re.compile(r"(?:^|/)((?:pages|components)/[^?#]+\.(?:vue|tsx))")
_FRAME = re.compile(r"(\S*?)\(?((?:https?|file)://[^\s()]+?):(\d+):(\d+)\)?\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the author's source: a logical path, line and column from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack, as the browser counts: line and column from 1. `path` is the address without its origin."""

    path: str
    line: int
    column: int


def read_stack(stack: str) -> list[Frame]:
    """The frames of a stack text, innermost first; lines that are no frames are skipped."""
    frames = []
    for match in _FRAME.finditer(stack):
        path = "/" + match[2].split("://", 1)[1].partition("/")[2]
        frames.append(Frame(path.partition("?")[0], int(match[3]), int(match[4])))
    return frames


def authored(source: str) -> str | None:
    """The logical path in a map's source name (`pages/x.vue`), or None when an author did not write it."""
    found = _AUTHORED.search(source)
    return found[1] if found else None


@dataclass(slots=True)
class SourceMap:
    """`lines[n]` holds the segments of generated line n+1: (generated column from 0, source index, line, column)."""

    sources: list[str]
    contents: dict[str, str] = field(default_factory=dict)  # by logical path: the author's whole text
    lines: list[list[tuple[int, int, int, int]]] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes | None) -> Self | None:
        """None for a missing or malformed map."""
        if not raw:
            return None
        try:
            data = json.loads(raw)
            sources = [str(source) for source in data["sources"]]
            texts = data.get("sourcesContent") or []
            contents: dict[str, str] = {}
            for source, text in zip(sources, texts, strict=False):
                path = authored(source)
                if path and isinstance(text, str):
                    contents.setdefault(path, text)
            return cls(sources, contents, _decode(data["mappings"]))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return None

    def find(self, line: int, column: int) -> Position | None:
        """The author's position of a generated one (both from 1), or None where nobody wrote anything."""
        if not 0 < line <= len(self.lines):
            return None
        segments = self.lines[line - 1]
        at = bisect_right(segments, (column - 1, 1 << 30, 0, 0)) - 1
        if at < 0:
            return None
        _, source, source_line, source_column = segments[at]
        if not 0 <= source < len(self.sources):
            return None
        path = authored(self.sources[source])
        return Position(path, source_line + 1, source_column + 1) if path else None

    def find_in_stack(self, stack: str) -> Position | None:
        """The innermost frame that an author wrote; a page's own line before a component's only if it is further in."""
        for frame in read_stack(stack):
            if not frame.path.endswith("/page.js"):
                continue
            position = self.find(frame.line, frame.column)
            if position:
                return position
        return None


def _decode(mappings: str) -> list[list[tuple[int, int, int, int]]]:
    """Every field but the generated column runs on from line to line; segments without a source are left out."""
    lines: list[list[tuple[int, int, int, int]]] = []
    source = source_line = source_column = 0
    for line in mappings.split(";"):
        segments: list[tuple[int, int, int, int]] = []
        column = 0
        for text in line.split(",") if line else ():
            numbers = _numbers(text)
            column += numbers[0]
            if len(numbers) < 4:
                continue
            source += numbers[1]
            source_line += numbers[2]
            source_column += numbers[3]
            segments.append((column, source, source_line, source_column))
        segments.sort()
        lines.append(segments)
    return lines


def _numbers(segment: str) -> list[int]:
    numbers = []
    value = shift = 0
    for char in segment:
        digit = _DIGITS[char]
        value |= (digit & 31) << shift
        if digit & 32:
            shift += 5
            continue
        numbers.append(-(value >> 1) if value & 1 else value >> 1)
        value = shift = 0
    return numbers
