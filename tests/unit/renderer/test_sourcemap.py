"""From compiled positions to the author's lines."""

import json

import pytest

from pagegate.renderer.sourcemap import Position, SourceMap, read_stack


def parse(mappings: str, sources: tuple[str, ...] = ("pages/x.vue", "pagegate:host")) -> SourceMap:
    decoded = SourceMap.parse(json.dumps({"version": 3, "sources": sources, "mappings": mappings}).encode())
    assert decoded is not None
    return decoded


def test_positions_run_on_from_line_to_line() -> None:
    # line 1: column 1 → 1:1, column 11 → 1:5; line 3: column 3 → 6:3
    decoded = parse("AAAA,UAAI;;EAKF")
    assert decoded.find(1, 1) == Position("pages/x.vue", 1, 1)
    assert decoded.find(1, 14) == Position("pages/x.vue", 1, 5)
    assert decoded.find(3, 3) == Position("pages/x.vue", 6, 3)


@pytest.mark.parametrize(("line", "column"), [(2, 1), (3, 1), (9, 1), (0, 1)])
def test_what_nobody_wrote_has_no_position(line: int, column: int) -> None:
    assert parse("AAAA,UAAI;;EAKF").find(line, column) is None


def test_a_host_module_is_not_an_authors() -> None:
    assert parse("ACAA").find(1, 1) is None


def test_the_innermost_authored_frame_counts() -> None:
    stack = "\n".join(
        (
            "TypeError: no",
            "    at patch (https://gate.test/vendor/vue.js:12:3)",
            "    at https://gate.test/page.js:1:14",
            "    at setup (https://gate.test/page.js?v=1:3:3)",
        )
    )
    assert [frame.line for frame in read_stack(stack)] == [12, 1, 3]
    assert parse("AAAA,UAAI;;EAKF").find_in_stack(stack) == Position("pages/x.vue", 1, 5)


@pytest.mark.parametrize(
    "raw",
    [None, b"", b"{", b"[]", b'{"sources": []}', b'{"sources": ["pages/x.vue"], "mappings": "!!"}', b'{"sources": 3}'],
)
def test_a_missing_or_malformed_map_is_no_map(raw: bytes | None) -> None:
    assert SourceMap.parse(raw) is None
