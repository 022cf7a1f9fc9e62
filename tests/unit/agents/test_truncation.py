"""Placeholders that stand for a part left out are found, and nothing else is (A11)."""

from pathlib import Path

import pytest

from pagegate.actors.agents.truncation import find_placeholder, is_placeholder

SAMPLE = Path(__file__).parents[3] / "deploy/sample"

LEFT_OUT = [
    "rest unchanged",
    "... existing code ...",
    "… rest of the component …",
    "The rest of the page remains unchanged",
    "other sections unchanged",
    "rest of the code here",
    "remaining slides stay the same",
    " ...rest of template... ",
    "existing styles remain the same",
    "code omitted for brevity",
    "Keep the rest unchanged",
    "no changes below",
    "... (rest of the file) ...",
    "... unchanged ...",
    "previous code here",
    "其余代码保持不变",
    "... 其余内容不变 ...",
]
SAID = [
    "The rest of the code handles resize",
    "Keep prices unchanged until Friday",
    "existing customers",
    "rest of the page",
    "Remaining rows are loaded on scroll",
    "TODO",
    "unchanged since 2019",
    "other components",
    "... and so on we go",
    "Existing code paths use the old API",
    "slide 3 of 12",
    "",
    "...",
]


@pytest.mark.parametrize("comment", LEFT_OUT)
def test_a_comment_that_stands_for_something_left_out_is_a_placeholder(comment: str) -> None:
    assert is_placeholder(comment)


@pytest.mark.parametrize("comment", SAID)
def test_a_comment_that_says_something_is_none(comment: str) -> None:
    assert not is_placeholder(comment)


FOUND = {
    "in a template": ("vue", "<template>\n  <h1>A</h1>\n  <!-- rest unchanged -->\n</template>", 3, 3),
    "in a script": ("vue", "<script setup>\nconst a = 1\n// ... existing code ...\n</script>\n<template/>", 3, 1),
    "in a style": ("vue", "<template/>\n<style>\n.a { color: red }\n/* ... rest of styles ... */\n</style>", 4, 1),
    "behind a statement": ("react", "const a = 1; // ... rest of the code ...\nexport default () => <p/>", 1, 14),
    "between elements": ("react", "export default () => <p>\n  {/* ... existing markup ... */}\n</p>", 2, 4),
}


@pytest.mark.parametrize("where", FOUND)
def test_a_placeholder_is_located(where: str) -> None:
    framework, source, line, column = FOUND[where]
    found = find_placeholder(source, framework)  # type: ignore[arg-type]  # a literal
    assert found is not None
    assert (found.line, found.column) == (line, column)


SHOWN = {
    "a listing in a template": ("vue", "<template><pre>// ... existing code ...</pre></template>"),
    "a string": (
        "vue",
        "<script setup>\nconst text = '<!-- rest unchanged -->'\n</script><template>{{ text }}</template>",
    ),
    "a string of a comment": ("react", 'const code = "// ... existing code ..."\nexport default () => <p>{code}</p>'),
    "a template literal": ("react", "const code = `\n// ... existing code ...\n`\nexport default () => <p>{code}</p>"),
    "an address": ("react", "export default () => <a href='x'>https://rest unchanged</a>"),
    "words of a page": ("vue", "<template><p>The rest of the template remains unchanged.</p></template>"),
}


@pytest.mark.parametrize("what", SHOWN)
def test_what_a_page_shows_is_no_placeholder(what: str) -> None:
    framework, source = SHOWN[what]
    assert find_placeholder(source, framework) is None  # type: ignore[arg-type]  # a literal


def test_no_page_of_the_sample_deck_is_taken_for_a_cut_one() -> None:
    pages = list(SAMPLE.glob("pages/*")) + list(SAMPLE.glob("components/*"))
    assert len(pages) > 12
    for page in pages:
        framework = "vue" if page.suffix == ".vue" else "react"
        found = find_placeholder(page.read_text("utf-8"), framework)  # type: ignore[arg-type]  # a literal
        assert found is None, (page.name, found)
