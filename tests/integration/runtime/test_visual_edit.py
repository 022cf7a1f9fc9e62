"""Visual edit (V9): each edit changes exactly its own range of the source, and the page then shows what was asked."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .lighting import LightTools

ROOT = Path(__file__).parents[3]
CORPORA = [ROOT / "deploy" / "sample", ROOT / "tests" / "browser" / "diagnosis" / "corpus"]
PAGES = sorted(
    file for corpus in CORPORA for folder in ("pages", "components") for file in (corpus / folder).glob("*.*")
)
HARD_VALUES = ["Plain", "a {{ b }} <i>x</i> {c} \"q\" 's' & &amp; &copy; \\ ` ${d} 世界 🎉 }}{", "one\ntwo"]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LightTools]:
    tools = LightTools(tmp_path_factory.mktemp("light"))
    yield tools
    tools.close()


class Page:
    """A page, listed."""

    def __init__(self, tools: LightTools, source: str, path: str = "pages/page.vue") -> None:
        self.tools, self.source, self.path = tools, source, path
        answer = tools.run("visual-edit", {"action": "list", "path": path, "source": source})
        self.errors = answer["errors"]
        self.nodes: dict[str, dict[str, Any]] = {node["id"]: node for node in answer["result"].get("nodes", [])}
        self.sha256 = answer["result"].get("source_sha256")

    def node(self, ending: str) -> dict[str, Any]:
        (found,) = [node for node in self.nodes.values() if node["id"].endswith(ending)]
        return found

    def edit(self, *edits: dict[str, Any], sha256: str | None = None) -> dict[str, Any]:
        given = {"path": self.path, "source": self.source, "source_sha256": sha256 or self.sha256, "edits": edits}
        return self.tools.run("visual-edit", {"action": "apply", **given})

    def set(self, ending: str, value: str | None, **more: Any) -> str:
        answer = self.edit({"node": self.node(ending)["id"], "value": value, **more})
        assert answer["errors"] == []
        assert answer["result"]["source_sha256"] == sha256_of(answer["result"]["source"])
        return str(answer["result"]["source"])

    def refused(self, *edits: dict[str, Any], **more: Any) -> dict[str, Any]:
        (error,) = self.edit(*edits, **more)["errors"]
        assert error["hint"]
        return dict(error)


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def utf16(text: str, start: int, end: int) -> str:
    """Offsets of a listing count UTF-16 units."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


# -- every page there is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line_ends", ["\n", "\r\n"], ids=["LF", "CRLF and BOM"])
def test_edits_of_every_sample_page_change_their_own_range_only(tools: LightTools, line_ends: str) -> None:
    """Unchanged values give the same bytes; all texts at once give new ones, and the list then shows them."""
    listed = 0
    for file in PAGES:
        text = file.read_text()
        source = text if line_ends == "\n" else "\ufeff" + text.replace("\n", line_ends)
        page = Page(tools, source, f"pages/{file.name}")
        if page.errors:
            assert file.name == "q3-shipped.vue", page.errors
            continue
        may = [node for node in page.nodes.values() if node["can"]][:200]
        listed += len(may)
        for node in may:
            if node["value"] and "&" not in node["value"] and "\n" not in node["value"] and node["kind"] != "text":
                raw = utf16(source, node["range"]["start"], node["range"]["end"])
                assert node["value"] == raw or "&" in raw or "\\" in raw
        same = page.edit(*[change(node, node["value"]) for node in may if node["value"] is not None])
        assert (same["errors"], same["result"]["source"]) == ([], source), file
        value = HARD_VALUES[listed % 3]
        changed = page.edit(*[change(node, value) for node in may])
        assert changed["errors"] == [], file
        assert [(s["start"], s["end"]) for s in changed["result"]["splices"]] == sorted(
            (node["range"]["start"], node["range"]["end"]) for node in may if node["value"] != value
        )
        again = Page(tools, changed["result"]["source"], page.path)
        assert {node["id"]: again.nodes[node["id"]]["value"] for node in may} == {node["id"]: value for node in may}
        back = again.edit(*[change(again.nodes[node["id"]], node["value"]) for node in may if "remove" in node["can"]])
        assert back["errors"] == []
    assert listed > 900


def change(node: dict[str, Any], value: str | None) -> dict[str, Any]:
    return {"node": node["id"], "value": value, "range": node["range"], "all_repetitions": True}


# -- odd sources ----------------------------------------------------------------------------------------------------

ODD_VUE = (
    "\ufeff<!-- a comment: 'q' -->\r\n<script setup>\r\nconst a = 1\r\n</script>\r\n<template>\r\n"
    "\t<main class='one  two' >\r\n\t\t<h1 title = bare\tid=x>Hello &amp; <b>bold</b> world&nbsp;!</h1>\r\n"
    "\t\t<p>\r\n\t\t\tfirst line\r\n\t\t\tsecond 🎉 line\r\n\t\t</p><!-- <p>no</p> -->\r\n"
    '\t\t<img src="@assets/a.png"><p v-pre>{{ raw }}</p><pre>\r\n  kept \r\n</pre><span></span>\r\n'
    '\t\t<p :title="a">{{ a }}, <i v-text="a"/></p>\r\n'
    '\t\t<ul><li v-for="i in 3" :key="i" class="row">Row {{ i }}</li></ul>\r\n'
    '\t\t<Card title="Cost" :n="1">inside</Card>\r\n\t</main>\r\n</template>\r\n\r\n<style>p { color: red }</style>\r\n'
)
ODD_TSX = (
    "// 🎉\r\nconst Card = ({ t }: { t: string }) => <b title='x \"y\"'>{t}</b>\r\n"
    "export default function Page() {\r\n\tconst list = ['a']\r\n\treturn <>\r\n"
    '\t\t<h1 className="one" title={"a\\n\\"b\\""}>Hello &amp; {`tick`} {\'str\'} world</h1>\r\n'
    "\t\t<p>\r\n\t\t\tfirst\r\n\t\t\tsecond\r\n\t\t</p>{/* no */}\r\n"
    "\t\t<ul>{list.map((l) => <li key={l}>Row {l}</li>)}</ul>{list.length > 1 ? <i>many</i> : 'one'}\r\n"
    '\t\t<img src="@assets/a.png" /><Card t="Cost" /><p></p><p {...{ a: 1 }}>x</p>\r\n\t</>\r\n}\r\n'
)
ODD = {"pages/odd.vue": ODD_VUE, "pages/odd.tsx": ODD_TSX}


@pytest.mark.parametrize(
    ("ending", "value", "before", "after"),
    [
        ("main[1]/@class", "three \"'", "class='one  two' >", "class='three \"&#39;' >"),
        ("h1[1]/@title", "not bare", "title = bare\tid", 'title = "not bare"\tid'),
        ("h1[1]/text()[1]", "R&D &amp; <x>", "Hello &amp; <b>", "R&amp;D &amp;amp; &lt;x> <b>"),
        ("h1[1]/text()[2]", "there\u00a0!", "world&nbsp;!</h1>", "there&nbsp;!</h1>"),
        ("p[1]/text()[1]", "one\ntwo", "first line\r\n\t\t\tsecond 🎉 line\r\n", "one\r\ntwo\r\n"),
        ("img[1]/@alt", "A {{ cat }}", '<img src="@assets', '<img alt="A {{ cat }}" src="@assets'),
        ("p[2]/text()[1]", "{{{", "<p v-pre>{{ raw }}<", "<p v-pre>&#123;&#123;&#123;<"),
        ("pre[1]/text()[1]", " x\n y\n", "  kept \r\n</pre>", " x\r\n y\r\n</pre>"),
        ("span[1]/text()[1]", "new", "<span></span>", "<span>new</span>"),
        ("p[3]/@class", "big", '<p :title="a">', '<p class="big" :title="a">'),
        ("Card[1]/@title", "5\" of 6'", 'title="Cost"', 'title="5&quot; of 6\'"'),
        ("Card[1]/text()[1]", "within", ">inside<", ">within<"),
        ("p[3]/text()[1]", "and {", "{{ a }}, <i", "{{ a }}and &#123; <i"),
        ("main[1]/@class", None, "<main class='one  two' >", "<main >"),
    ],
)
def test_value_in_a_vue_page_is_written_for_its_place(
    tools: LightTools, ending: str, value: str | None, before: str, after: str
) -> None:
    assert ODD_VUE.count(before) == 1
    page = Page(tools, ODD_VUE)
    changed = page.set(ending, value)
    assert changed == ODD_VUE.replace(before, after)
    shown = Page(tools, changed).nodes.get(page.node(ending)["id"])
    assert shown is None or shown["value"] == value


@pytest.mark.parametrize(
    ("ending", "value", "before", "after"),
    [
        ("h1[1]/@className", 'it\'s "2"', 'className="one"', 'className="it\'s &quot;2&quot;"'),
        ("h1[1]/@title", 'c "d"\n\\', '{"a\\n\\"b\\""}', '{"c \\"d\\"\\n\\\\"}'),
        ("h1[1]/text()[1]", "{a} <b> &lt; }", "Hello &amp; {", "&#123;a&#125; &lt;b&gt; &amp;lt; &#125; {"),
        ("h1[1]/text()[2]", "`${x}`", "{`tick`}", "{`\\`\\${x}\\``}"),
        ("h1[1]/text()[3]", "it's", "{'str'}", "{'it\\'s'}"),
        ("p[1]/text()[1]", "one\ntwo", "first\r\n\t\t\tsecond\r\n", "one\r\ntwo\r\n"),
        ("b[1]/@title", "'\n'", "title='x \"y\"'", "title='&#39;&#10;&#39;'"),
        ("img[1]/@alt", "A cat", '<img src="@', '<img alt="A cat" src="@'),
        ("/i[1]/text()[1]", "few", "<i>many</i>", "<i>few</i>"),
        ("Card[1]/@t", "Price", 't="Cost"', 't="Price"'),
        ("p[2]/text()[1]", "filled", "<p></p>", "<p>filled</p>"),
    ],
)
def test_value_in_a_react_page_is_written_for_its_place(
    tools: LightTools, ending: str, value: str, before: str, after: str
) -> None:
    assert ODD_TSX.count(before) == 1
    page = Page(tools, ODD_TSX, "pages/page.tsx")
    changed = page.set(ending, value)
    assert changed == ODD_TSX.replace(before, after)
    assert Page(tools, changed, page.path).nodes[page.node(ending)["id"]]["value"] == value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), path=st.sampled_from(sorted(ODD)))
def test_any_text_comes_back_as_it_was_sent(tools: LightTools, data: st.DataObject, path: str) -> None:
    """Several edits at once, with characters that mean something somewhere."""
    page = Page(tools, ODD[path], path)
    may = [node for node in page.nodes.values() if node["can"]]
    chosen = data.draw(st.lists(st.sampled_from(may), min_size=1, max_size=6, unique_by=lambda node: node["id"]))
    texts = st.text(st.sampled_from(list("ab {}<>&;#\"'`$\\/=!-\u00a0é🎉\n@x7")), min_size=1, max_size=12)
    values = {node["id"]: "x" + data.draw(texts).rstrip() for node in chosen}
    answer = page.edit(*[change(node, values[node["id"]]) for node in chosen])
    assert answer["errors"] == []
    again = Page(tools, answer["result"]["source"], path)
    for node_id, node in page.nodes.items():
        assert again.nodes[node_id]["value"] == values.get(node_id, node["value"])
    rest = utf16_without(page.source, [node["range"] for node in chosen if values[node["id"]] != node["value"]])
    assert rest == utf16_without(answer["result"]["source"], written(answer["result"]["splices"]))


def utf16_without(text: str, ranges: list[dict[str, int]]) -> bytes:
    raw, kept, at = text.encode("utf-16-le"), b"", 0
    for place in sorted(ranges, key=lambda r: (r["start"], r["end"])):
        kept += raw[2 * at : 2 * place["start"]]
        at = place["end"]
    return kept + raw[2 * at :]


def written(splices: list[dict[str, Any]]) -> list[dict[str, int]]:
    ranges, shift = [], 0
    for splice in splices:
        length = len(splice["text"].encode("utf-16-le")) // 2
        ranges.append({"start": splice["start"] + shift, "end": splice["start"] + shift + length})
        shift += length - (splice["end"] - splice["start"])
    return ranges


# -- what is listed ---------------------------------------------------------------------------------------------------


def test_node_tells_its_element_its_place_and_its_value(tools: LightTools) -> None:
    node = Page(tools, ODD_VUE).node("h1[1]/text()[1]")
    assert node == {
        "id": "template/main[1]/h1[1]/text()[1]",
        "kind": "text",
        "element": {"id": "template/main[1]/h1[1]", "tag": "h1", "line": 7, "column": 3},
        "name": None,
        "value": "Hello &",
        "range": {
            "start": ODD_VUE.index("Hello"),
            "end": ODD_VUE.index(" <b>"),
            "line": 7,
            "column": 25,
            "end_line": 7,
            "end_column": 36,
        },
        "can": ["set"],
        "reason": None,
    }


@pytest.mark.parametrize(
    ("path", "ending", "code"),
    [
        ("pages/odd.vue", "p[3]/{{}}[1]", "EXPRESSION"),
        ("pages/odd.vue", "p[3]/:title", "EXPRESSION"),
        ("pages/odd.vue", "i[1]/v-text", "EXPRESSION"),
        ("pages/odd.vue", "li[1]/text()[1]", "REPEATED"),
        ("pages/odd.vue", "li[1]/@class", "REPEATED"),
        ("pages/odd.vue", "li[1]/{{}}[1]", "EXPRESSION"),
        ("pages/odd.vue", "Card[1]", "COMPONENT"),
        ("pages/odd.tsx", "b[1]/{}[1]", "EXPRESSION"),
        ("pages/odd.tsx", "li[1]/text()[1]", "REPEATED"),
        ("pages/odd.tsx", "Card[1]", "COMPONENT"),
    ],
)
def test_node_that_may_not_be_changed_says_why_and_what_to_do(
    tools: LightTools, path: str, ending: str, code: str
) -> None:
    page = Page(tools, ODD[path], path)
    node = page.node(ending)
    assert node["reason"]["code"] == code
    assert node["reason"]["message"]
    assert node["reason"]["hint"]
    error = page.refused({"node": node["id"], "value": "x"})
    assert error["code"] == "VISUAL_EDIT_NOT_EDITABLE"
    assert node["reason"]["message"] in error["message"]


def test_repeated_text_is_changed_when_every_repetition_is_meant(tools: LightTools) -> None:
    changed = Page(tools, ODD_VUE).set("li[1]/text()[1]", "Line", all_repetitions=True)
    assert changed == ODD_VUE.replace("Row", "Line")


def test_ids_stay_when_values_change(tools: LightTools) -> None:
    page = Page(tools, ODD_VUE)
    changed = page.set("h1[1]/text()[1]", "Something much longer\nthan before")
    assert list(Page(tools, changed).nodes) == list(page.nodes)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_stale_hash_or_range_is_refused(tools: LightTools) -> None:
    page = Page(tools, ODD_VUE)
    node = page.node("h1[1]/text()[1]")
    old = sha256_of(ODD_VUE + " ")
    assert page.refused({"node": node["id"], "value": "x"}, sha256=old)["code"] == "VISUAL_EDIT_STALE"
    moved = {"start": node["range"]["start"] + 1, "end": node["range"]["end"]}
    assert page.refused({"node": node["id"], "value": "x", "range": moved})["code"] == "VISUAL_EDIT_STALE"


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        ([("h1[1]/text()[1]", "a"), ("h1[1]/text()[1]", "b")], "VISUAL_EDIT_OVERLAP"),
        ([("h1[1]/text()[1]", "")], "VISUAL_EDIT_VALUE_INVALID"),
        ([("h1[1]/text()[1]", "nul \0")], "VISUAL_EDIT_VALUE_INVALID"),
        ([("h1[1]/text()[1]", "x" * 100_001)], "VISUAL_EDIT_VALUE_INVALID"),
        ([("h1[1]/text()[1]", None)], "VISUAL_EDIT_NOT_EDITABLE"),
    ],
)
def test_edits_that_make_no_sense_are_refused_together(
    tools: LightTools, edits: list[tuple[str, str | None]], code: str
) -> None:
    page = Page(tools, ODD_VUE)
    fine = {"node": page.node("b[1]/text()[1]")["id"], "value": "fine"}
    told = page.refused(fine, *[{"node": page.node(ending)["id"], "value": value} for ending, value in edits])
    assert told["code"] == code
    assert told["message"].startswith("template/main[1]/h1[1]/text()[1]: ")


def test_string_in_braces_is_text_and_not_emptied_and_a_style_is_no_text(tools: LightTools) -> None:
    source = "export default () => <main><style>{`p { color: red }`}</style><p>{'only'}</p></main>"
    page = Page(tools, source, "pages/page.tsx")
    assert [node["value"] for node in page.nodes.values() if node["kind"] == "text"] == ["only"]
    for value in ("", " "):
        assert page.refused({"node": page.node("p[1]/text()[1]")["id"], "value": value})["code"] == (
            "VISUAL_EDIT_VALUE_INVALID"
        )


def test_unknown_node_is_refused(tools: LightTools) -> None:
    assert Page(tools, ODD_VUE).refused({"node": "x", "value": "y"})["code"] == "VISUAL_EDIT_NODE_UNKNOWN"


def test_page_that_cannot_be_read_is_refused_where_it_is_broken(tools: LightTools) -> None:
    (error,) = Page(tools, "<template>\n<p>text\n</template>\n").errors
    assert (error["code"], error["file"], error["line"]) == ("VISUAL_EDIT_SOURCE_UNREADABLE", "pages/page.vue", 2)
    (error,) = Page(tools, "export default () => <p>x", "pages/page.tsx").errors
    assert (error["code"], error["line"]) == ("VISUAL_EDIT_SOURCE_UNREADABLE", 1)


@pytest.mark.parametrize("count", [10_000, 25_000])
def test_page_of_very_many_nodes_is_listed_or_refused_with_a_size_error(tools: LightTools, count: int) -> None:
    page = Page(tools, f"<template><div>{'<b>x</b>' * count}</div></template>")
    if count < 20_000 // 2:
        assert len(page.nodes) > count
    elif page.errors:
        assert page.errors[0]["code"] == "VISUAL_EDIT_TOO_LARGE"
    else:
        assert len(page.nodes) == 2 * count + 1
    assert Page(tools, ODD_VUE).nodes


def test_deep_page_does_not_end_the_worker(tools: LightTools) -> None:
    for path in ("pages/a.vue", "pages/a.tsx"):
        deep = "<b>" * 30_000 + "x" + "</b>" * 30_000
        source = f"<template>{deep}</template>" if path.endswith(".vue") else f"export default () => {deep}"
        assert Page(tools, source, path).errors[0]["code"] in {"VISUAL_EDIT_TOO_LARGE", "VISUAL_EDIT_SOURCE_UNREADABLE"}
    assert Page(tools, ODD_VUE).nodes
