"""A refused source is told its code, its place in what the author wrote, a frame around it, and what to do (V8)."""

import json
import re
from dataclasses import dataclass, field

import pytest

from .conftest import SAMPLE, Compiler, sample_modules, vue

COMPONENT = "<template><p>text</p></template>\n"


@dataclass(frozen=True)
class Case:
    source: str
    code: str
    line: int
    says: str  # part of the message or of the hint
    column: int | None = None
    file: str = "pages/page.vue"
    modules: dict[str, str] = field(default_factory=dict)


CASES = {
    # -- sources that are none
    "empty": Case("", "PAGE_SOURCE_EMPTY", 1, "empty"),
    "blank": Case("\n  \n", "PAGE_SOURCE_EMPTY", 1, "empty"),
    "fence": Case("```vue\n" + vue() + "```\n", "PAGE_SOURCE_FENCED", 1, "fence", 1),
    "fence after prose": Case("Here it is:\n\n```vue\n" + vue() + "```\n", "PAGE_SOURCE_FENCED", 3, "fence"),
    "fence at the end": Case(vue() + "```\n", "PAGE_SOURCE_FENCED", 7, "fence"),
    "fence around tsx": Case(
        "```tsx\nexport default () => <p/>\n```", "PAGE_SOURCE_FENCED", 1, "fence", file="pages/p.tsx"
    ),
    "prose": Case("I have written the page.", "PAGE_TEMPLATE_SYNTAX", 1, "At least one <template>"),
    "react in vue": Case(
        'import { useState } from "react"\nexport default () => <p/>\n', "PAGE_SOURCE_NOT_ALLOWED", 1, "script alone"
    ),
    "vue in tsx": Case(vue("const a = 1"), "PAGE_SOURCE_NOT_ALLOWED", 1, "Vue component", file="pages/p.tsx"),
    "document": Case(
        "\n<!DOCTYPE html>\n<html><body><p>a</p></body></html>\n", "PAGE_SOURCE_NOT_ALLOWED", 2, "inside <body>"
    ),
    # -- templates
    "unclosed element": Case(vue("", "\n<p>a\n<b>c</b>"), "PAGE_TEMPLATE_SYNTAX", 6, "missing end tag", 1),
    "v-for": Case(vue("", '\n<li v-for="x">a</li>'), "PAGE_TEMPLATE_SYNTAX", 6, "v-for has invalid expression", 5),
    "v-else": Case(vue("", "\n\n<p v-else>a</p>"), "PAGE_TEMPLATE_SYNTAX", 7, "no adjacent v-if"),
    "expression": Case(vue("", '\n<p :class="a b">x</p>'), "PAGE_TEMPLATE_SYNTAX", 6, "Unexpected token", 14),
    "v-model": Case(vue("const a = 1", '\n<input v-model="a">'), "PAGE_TEMPLATE_SYNTAX", 6, "not writable"),
    "script in it": Case(vue("", "\n<script>alert(1)</script>"), "PAGE_TEMPLATE_SYNTAX", 6, "side effect"),
    "two": Case(COMPONENT + COMPONENT, "PAGE_TEMPLATE_SYNTAX", 2, "only one <template>"),
    # -- scripts
    "syntax": Case(vue("const a = 1\nconst b = ;"), "PAGE_SCRIPT_SYNTAX", 3, "Unexpected token", 11),
    "redeclared": Case(vue("const a = 1\nconst a = 2"), "PAGE_SCRIPT_SYNTAX", 3, "already been declared", 7),
    "constant assigned": Case(
        "import { useState } from 'react'\nconst total = 1\nfunction add() {\n  total += 1\n}\n"
        "export default function P() {\n  useState(add)\n  return <p>{total}</p>\n}\n",
        "PAGE_SCRIPT_SYNTAX",
        4,
        "`useState`",
        3,
        file="pages/p.tsx",
    ),
    "constant counted": Case(
        vue("import { ref } from 'vue'\nconst a = ref(0)\nconst n = 0\nfunction add() { a.value = n\nn++ }\nadd()"),
        "PAGE_SCRIPT_SYNTAX",
        6,
        "`ref()`",
        1,
    ),
    "closing tag in a string": Case(
        vue("const a = 1\nconst s = '<b></script>'\n" + "\n" * 30), "PAGE_SCRIPT_SYNTAX", 3, "<\\/script>", 11
    ),
    "export in setup": Case(vue("const a = 1\nexport const b = 2"), "PAGE_SCRIPT_SYNTAX", 3, "ES module exports", 1),
    "unknown type of props": Case(vue("\ndefineProps<Unknown>()"), "PAGE_SCRIPT_SYNTAX", 3, "type reference"),
    "hoisted macro": Case(
        vue("const x = 1\ndefineProps({ a: { default: x1(x) } })\nfunction x1(y) { return y }"),
        "PAGE_SCRIPT_SYNTAX",
        3,
        "hoisted outside",
    ),
    "jsx": Case(
        "export default function P() {\n  return <div>\n    <p>a</div>\n}\n",
        "PAGE_SCRIPT_SYNTAX",
        3,
        "'p'",
        file="pages/p.tsx",
    ),
    "namespace in jsx": Case(
        "export default () => <svg><rect/><svg:rect/></svg>",
        "PAGE_SCRIPT_SYNTAX",
        1,
        "Namespace tags",
        35,
        file="pages/p.tsx",
    ),
    "two defaults": Case(
        "export default () => <p/>\nexport default () => <b/>",
        "PAGE_SCRIPT_SYNTAX",
        2,
        "only one default",
        file="pages/p.tsx",
    ),
    # -- styles
    "unclosed rule": Case(vue(style=".a { color: red;\n.b { color: blue }"), "PAGE_STYLE_SYNTAX", 8, "Unclosed block"),
    "one brace too many": Case(vue(style=".a { color: red }\n}"), "PAGE_STYLE_SYNTAX", 9, "Unexpected }"),
    "no colon": Case(vue(style=".a {\n  color red\n}"), "PAGE_STYLE_SYNTAX", 9, "Unknown word", 3),
    "unknown utility": Case(
        vue(style="\n.a {\n  @apply p-4 text-foo-bar;\n}"), "PAGE_STYLE_SYNTAX", 10, "`text-foo-bar`"
    ),
    "unknown theme value": Case(
        vue(style=".b { top: 0 }\n.a { color: theme(--color-nope-500) }"), "PAGE_STYLE_SYNTAX", 9, "--color-nope-500"
    ),
    "second style block": Case(
        vue(style=".a { top: 0 }") + "<style>\n.b { @apply nope-1; }\n</style>", "PAGE_STYLE_SYNTAX", 11, "`nope-1`"
    ),
    "tailwind imported again": Case(vue(style='@import "tailwindcss";'), "PAGE_STYLE_NOT_ALLOWED", 8, "loaded already"),
    "theme": Case(vue(style="@theme { --color-a: red }"), "PAGE_STYLE_NOT_ALLOWED", 8, "arbitrary value"),
    "utility": Case(vue(style="@utility tab-4 { tab-size: 4 }"), "PAGE_STYLE_NOT_ALLOWED", 8, "arbitrary value"),
    "sass": Case(
        COMPONENT + '<style lang="scss">\na { b { top: 0 } }\n</style>', "PAGE_SOURCE_NOT_ALLOWED", 2, "plain CSS"
    ),
    # -- imports
    "package": Case(
        vue('\nimport _ from "lodash"'), "PAGE_IMPORT_NOT_ALLOWED", 3, "Allowed: vue, @components/<Name>.vue"
    ),
    "unused package": Case(vue('import type { X } from "chart.js"'), "PAGE_IMPORT_NOT_ALLOWED", 2, '"chart.js"'),
    "missing component": Case(
        vue('\nimport B from "@components/B.vue"'), "PAGE_IMPORT_NOT_FOUND", 3, "does not exist", 15
    ),
    "near name": Case(
        vue('import T from "@components/StatTiles.vue"'),
        "PAGE_IMPORT_NOT_FOUND",
        2,
        "Did you mean @components/StatTile.vue?",
        modules={"components/StatTile.vue": COMPONENT},
    ),
    "no suffix": Case(
        vue('import T from "@components/StatTile"'),
        "PAGE_IMPORT_NOT_FOUND",
        2,
        "Did you mean @components/StatTile.vue?",
        modules={"components/StatTile.vue": COMPONENT},
    ),
    "other framework": Case(
        vue('import T from "@components/T.tsx"'),
        "PAGE_IMPORT_NOT_ALLOWED",
        2,
        "made with React",
        modules={"components/T.tsx": "export default () => <p/>"},
    ),
    "vue in react": Case(
        'import { ref } from "vue"\nref()', "PAGE_IMPORT_NOT_ALLOWED", 1, "react, react-dom", file="pages/p.tsx"
    ),
    "style sheet": Case(vue('import "./page.css"'), "PAGE_IMPORT_NOT_ALLOWED", 2, "neither a component nor a page"),
    "kit": Case(vue('import C from "@kit/Chart"'), "PAGE_IMPORT_NOT_FOUND", 2, "Kit 1.0 has Bars, Callout"),
    "kit name": Case(vue('import T from "@kit/table.vue"'), "PAGE_IMPORT_NOT_FOUND", 2, "Write @kit/Table."),
    "kit export": Case(
        vue('import { Bars } from "@kit/Bars"', '<Bars :rows="[]"/>'),
        "PAGE_EXPORT_NOT_FOUND",
        2,
        'import Bars from "@kit/Bars"',
    ),
    "missing page": Case(vue('import P from "@pages/other.vue"'), "PAGE_IMPORT_NOT_FOUND", 2, "Create the page first"),
    "import in a component": Case(
        vue('import B from "@components/B.vue"'),
        "PAGE_IMPORT_NOT_FOUND",
        3,
        '"./C.vue" does not exist',
        modules={"components/B.vue": vue('\nimport C from "./C.vue"')},
    ),
    # -- exports
    "vue name": Case(
        vue("\nimport { ref,\n  onMonted } from 'vue'\nonMonted(ref)"),
        "PAGE_EXPORT_NOT_FOUND",
        4,
        "Did you mean onMounted",
        3,
    ),
    "vue default": Case(vue("import Vue from 'vue'\nVue()"), "PAGE_EXPORT_NOT_FOUND", 2, "no default export", 8),
    "react name": Case(
        "import { useSate } from 'react'\nexport default () => <p>{useSate(1)}</p>",
        "PAGE_EXPORT_NOT_FOUND",
        1,
        "Did you mean useState?",
        10,
        file="pages/p.tsx",
    ),
    "component's name": Case(
        vue("\nimport B, { helper } from '@components/B.vue'\nhelper(B)"),
        "PAGE_EXPORT_NOT_FOUND",
        3,
        'does not export "helper"',
        13,
        modules={"components/B.vue": COMPONENT},
    ),
    "component without default": Case(
        "import B from '@components/B.tsx'\nexport default () => <B/>",
        "PAGE_EXPORT_NOT_FOUND",
        1,
        "import { B } from",
        8,
        file="pages/p.tsx",
        modules={"components/B.tsx": "export const B = () => <p/>"},
    ),
    "page without default": Case(
        "import { useState } from 'react'\n\nexport function Page() { return <p>{useState(1)}</p> }",
        "PAGE_EXPORT_NOT_FOUND",
        3,
        "export default function Page()",
        file="pages/p.tsx",
    ),
    # -- assets
    "asset in a template": Case(
        vue("", '\n<img src="@assets/lago.svg">'), "PAGE_ASSET_NOT_FOUND", 6, "@assets/logo.svg?", 6
    ),
    "asset in an import": Case(vue("import a from '@assets/a.png'"), "PAGE_ASSET_NOT_FOUND", 2, "known here: logo.svg"),
    "asset in a style": Case(
        vue(style=".a {\n  background: url(@assets/a.png);\n}"), "PAGE_ASSET_NOT_FOUND", 9, "a.png"
    ),
    "asset in a class": Case(vue("", '\n<p class="bg-[url(@assets/a.png)]">x</p>'), "PAGE_ASSET_NOT_FOUND", 6, "a.png"),
    "asset in jsx": Case(
        "export default () => (\n  <img src='@assets/a.png'/>\n)",
        "PAGE_ASSET_NOT_FOUND",
        2,
        "a.png",
        file="pages/p.tsx",
    ),
    "file beside": Case(
        vue("", '\n<img src="./a.png">'), "PAGE_ASSET_NOT_ALLOWED", 6, "Reach files with @assets/<file>"
    ),
    "root-relative in a style": Case(
        vue(style=".a { background: url(/a.png) }"), "PAGE_ASSET_NOT_ALLOWED", 8, "@assets/"
    ),
    # -- what a page has not
    "environment": Case(vue("\nconsole.log(import.meta.env.MODE)"), "PAGE_SOURCE_NOT_ALLOWED", 3, "import.meta", 13),
    "require": Case(vue("const v = require('vue')"), "PAGE_SOURCE_NOT_ALLOWED", 2, "require()", 11),
    "dynamic": Case(vue("const n = 'B'\nimport(`@components/${n}.vue`)"), "PAGE_IMPORT_NOT_ALLOWED", 3, "plain string"),
    "jsx in vue": Case(
        f'<script lang="tsx">\nlet a = <p/>\n</script>\n{COMPONENT}', "PAGE_SOURCE_NOT_ALLOWED", 1, "lang="
    ),
    "block": Case(COMPONENT + "<docs>\ntext\n</docs>", "PAGE_SOURCE_NOT_ALLOWED", 2, "<docs> block"),
}


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_error_is_told_where_the_author_made_it(compiler: Compiler, case: Case, line_break: str) -> None:
    sources = {case.file: case.source, **case.modules}
    answer = compiler.compile(case.file, {path: text.replace("\n", line_break) for path, text in sources.items()})
    first = answer["errors"][0]
    assert (first["code"], first["line"]) == (case.code, case.line), answer["errors"]
    assert first["file"] in sources
    assert case.says in f"{first['message']} {first['hint']}"
    assert first["column"] >= 1 if case.column is None else first["column"] == case.column
    assert first["message"].strip()
    assert first["hint"].strip()
    assert "\\u001b" not in json.dumps(answer)
    assert str(compiler.root) not in json.dumps(answer)


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.source.strip()])
def test_frame_shows_the_line_as_the_author_wrote_it(compiler: Compiler, case: Case) -> None:
    sources = {case.file: case.source, **case.modules}
    first = compiler.compile(case.file, sources)["errors"][0]
    line = sources[first["file"]].split("\n")[first["line"] - 1]
    shown = first["frame"].split("\n")
    at = next(index for index, text in enumerate(shown) if text.startswith(">"))
    assert re.fullmatch(rf"> +{first['line']} \| ?{re.escape(line)}", shown[at])
    assert shown[at + 1].index("^") - shown[at].index("|") - 2 == first["column"] - 1
    assert len(shown) <= 6  # five lines and the marker


def test_several_errors_are_told_at_once_in_the_order_of_the_source(compiler: Compiler) -> None:
    page = vue(
        'import _ from "lodash"\nimport A from "@components/A.vue"\nconst x = import.meta.env',
        '\n<img src="@assets/a.png">\n<img src="@assets/b.png">',
        ".x { background: url(/y) }",
    )
    errors = compiler.compile("pages/page.vue", {"pages/page.vue": page})["errors"]
    assert [(e["code"], e["line"]) for e in errors] == [
        ("PAGE_IMPORT_NOT_ALLOWED", 2),
        ("PAGE_IMPORT_NOT_FOUND", 3),
        ("PAGE_SOURCE_NOT_ALLOWED", 4),
        ("PAGE_ASSET_NOT_FOUND", 8),
        ("PAGE_ASSET_NOT_FOUND", 9),
        ("PAGE_ASSET_NOT_ALLOWED", 12),
    ]


def test_all_errors_of_a_template_are_told_at_once(compiler: Compiler) -> None:
    for template in ('\n<p :class="a b">x</p>\n<p>{{ 1 + }}</p>', '\n<p v-for="x">x</p>\n<p v-else>x</p>'):
        errors = compiler.compile("pages/page.vue", {"pages/page.vue": vue("", template)})["errors"]
        assert [e["line"] for e in errors] == [6, 7]


def test_number_of_errors_is_bounded(compiler: Compiler) -> None:
    page = vue("\n".join(f'import a{i} from "x{i}"' for i in range(100)))
    assert len(compiler.compile("pages/page.vue", {"pages/page.vue": page})["errors"]) == 20


@pytest.mark.parametrize("page", json.loads((SAMPLE / "deck.json").read_text())["pages"], ids=lambda page: page["code"])
def test_sample_page_is_refused_exactly_where_its_fault_is(compiler: Compiler, page: dict[str, str]) -> None:
    answer = compiler.compile(page["file"], sample_modules(), assets=["logo.svg", "leaves.svg", "map.svg"])
    places = [f"{e['file']}:{e['line']}" for e in answer["errors"]]
    assert places == ([page["where"].split(" ")[0]] if page["stage"] == "compile" else [])
