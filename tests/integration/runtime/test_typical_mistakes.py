# ruff: noqa: E501 - one slip, one line: the table is read down its columns
"""Slips that models make, each told where it is and what to write instead (V8).

The table is the specification: code, line, and the words that the author must be told. What is around the page is only
named, as a minimal snapshot leaves it (V6), so a hint that names it did not read it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import Compiler, vue

VUE, REACT = "pages/page.vue", "pages/page.tsx"
KNOWN = {
    "modules": [
        "components/SlideFrame.vue",
        "components/StatTile.vue",
        "components/StatTile.tsx",
        "pages/other-page.vue",
    ],
    "assets": ["logo.svg", "map.svg"],
}
STAT_VUE = "<template><p>text</p></template>\n"
STAT_TSX = "export default function StatTile() {\n  return <p>text</p>\n}\n"


@dataclass(frozen=True)
class Slip:
    """`line` in the page; `says` is part of what is told: the message or the hint."""

    source: str
    code: str
    line: int
    says: str
    entry: str = VUE


def react(body: str, head: str = "") -> str:
    """A page whose body starts in line 2 (or behind the head)."""
    return f"{head}export default function Page() {{\n{body}\n}}\n"


def tsx(body: str, code: str, line: int, says: str, head: str = "") -> Slip:
    return Slip(react(body, head), code, line, says, REACT)


SYNTAX, TEMPLATE, STYLE = "PAGE_SCRIPT_SYNTAX", "PAGE_TEMPLATE_SYNTAX", "PAGE_STYLE_SYNTAX"
NOT_ALLOWED, NOT_FOUND, EXPORT = "PAGE_IMPORT_NOT_ALLOWED", "PAGE_IMPORT_NOT_FOUND", "PAGE_EXPORT_NOT_FOUND"

# fmt: off
SLIPS = {
    # -- templates of Vue
    "interpolation with one brace": Slip(vue("const a = 1", "\n<p>{{ a }</p>"), TEMPLATE, 6, "two braces: {{ value }}"),
    "interpolation with three": Slip(vue("const a = 1", "\n<p>{{{ a }}}</p>"), TEMPLATE, 6, "v-html"),
    "quote left open": Slip(vue("", '\n<p class="a>text</p>'), TEMPLATE, 6, "Put the closing quote"),
    "quote of another kind": Slip(vue("", "\n<p class=\"a'>text</p>"), TEMPLATE, 6, "Put the closing quote"),
    "handler cut off": Slip(vue("function f() {}", '\n<b @click="f(">x</b>'), TEMPLATE, 6, "Only one expression"),
    "v-for without a list": Slip(vue("", '\n<p v-for="x of">x</p>'), TEMPLATE, 6, 'v-for="item in items" :key'),
    "v-if without a condition": Slip(vue("", "\n<p v-if>x</p>"), TEMPLATE, 6, 'v-if="visible"'),
    "v-model on a constant": Slip(vue("const a = 'x'", '\n<input v-model="a">'), TEMPLATE, 6, "Make it a ref"),
    "class twice": Slip(vue("", '\n<p class="a" class="b">x</p>'), TEMPLATE, 6, "Merge the two"),
    "key inside v-for": Slip(
        vue("const l = [1]", '\n<template v-for="x in l"><p :key="x">{{ x }}</p></template>'), TEMPLATE, 6, "Move :key"
    ),
    "one end tag too many": Slip(vue("", "\n<p>a</p></p>"), TEMPLATE, 6, "Remove it, or open"),
    "script in the template": Slip(vue("", "\n<script>1</script>"), TEMPLATE, 6, "Move it out of the template"),
    "script without its end": Slip(
        "<script setup>\nconst a = 1\n<template>\n<p>x</p>\n</template>\n", TEMPLATE, 1, "</script>"
    ),
    "cut off in the middle": Slip(
        "<script setup>\nconst a = 1\n</script>\n<template>\n<div><p>x</p>\n", TEMPLATE, 4, "</template>"
    ),
    "two scripts": Slip(
        f"<script setup>\nlet a\n</script>\n<script setup>\nlet b\n</script>\n{STAT_VUE}", TEMPLATE, 4, "Merge the two"
    ),
    "jsx handler": Slip(vue("function f() {}", "\n<b onClick={f}>x</b>"), TEMPLATE, 6, '@click="save"'),
    "jsx style": Slip(vue("", '\n<p style={{color: "red"}}>x</p>'), TEMPLATE, 6, ":style="),
    "jsx loop": Slip(vue("const l = [1]", "\n<ul>{l.map((x) => <li>{x}</li>)}</ul>"), TEMPLATE, 6, "v-for and {{ value }}"),
    "types in a template of JavaScript": Slip(
        "<script setup>\nconst a = 1\n</script>\n<template><p>{{ (a as number) }}</p></template>\n",
        SYNTAX,
        4,
        '<script setup lang="ts">',
    ),
    # -- scripts of Vue
    "types in JavaScript": Slip(
        f"<script setup>\nlet b = 1\nconst a: number = b\n</script>\n{STAT_VUE}", SYNTAX, 3, 'lang="ts"'
    ),
    "interface in JavaScript": Slip(f"<script setup>\ninterface A {{ b: string }}\n</script>\n{STAT_VUE}", SYNTAX, 2, "ts"),
    "export default in setup": Slip(
        f"<script setup>\nexport default {{ name: 'X' }}\n</script>\n{STAT_VUE}", SYNTAX, 2, "defineOptions"
    ),
    "return at the top": Slip(vue("const a = 1\nreturn { a }"), SYNTAX, 3, "there for the template"),
    "typographic quotes": Slip(vue("const a = “hello”"), SYNTAX, 2, "straight quotes"),
    "the rest left out": Slip(vue("const a = ..."), SYNTAX, 2, "Write the whole source"),
    "brace not closed": Slip(vue("const b = 1\nfunction f() {\n  return 1\n\nconst c = 2"), SYNTAX, 7, '"{" in line 3'),
    "await without async": Slip(vue("function f() {\n  await 1\n}"), SYNTAX, 3, "async"),
    "macro twice": Slip(vue("defineEmits(['a'])\ndefineEmits(['b'])"), SYNTAX, 3, "Merge them into one defineEmits()"),
    "hook of React": Slip(vue("import { useState } from 'vue'\nuseState()"), EXPORT, 2, "`ref()`"),
    "name of Vue misspelt": Slip(vue("import { refs } from 'vue'\nrefs()"), EXPORT, 2, "Did you mean ref"),
    # -- scripts of React
    "two roots": tsx("  return (\n    <p>a</p>\n    <p>b</p>\n  )", SYNTAX, 4, "<>…</>"),
    "element not closed": tsx("  return (\n    <div>\n      <p>a</p>\n  )", SYNTAX, 6, "<div> in line 3"),
    "br not closed": tsx("  return (\n    <div>\n      <br>\n    </div>\n  )", SYNTAX, 5, "<br />"),
    "comment of HTML": tsx("  return (\n    <div>\n      <!-- hi -->\n    </div>\n  )", SYNTAX, 4, "{/* … */}"),
    "statement in braces": tsx("  return <p>{if (1) { 'a' }}</p>", SYNTAX, 2, "condition ? a : b"),
    "loop in braces": tsx("  return <ul>{for (const x of [1]) <li/>}</ul>", SYNTAX, 2, "list.map("),
    "sign in text": tsx("  return <p>a > b</p>", SYNTAX, 2, "{'>'}"),
    "less than in text": tsx("  return <p>a < b</p>", SYNTAX, 2, "&lt;"),
    "brace in text": tsx("  return <p>a } b</p>", SYNTAX, 2, "{'}'}"),
    "attribute without quotes": tsx("  return <p className=a>x</p>", SYNTAX, 2, "in quotes or in braces"),
    "parenthesis not closed": tsx("  return (\n    <p>x</p>", SYNTAX, 4, '"(" in line 2'),
    "generic arrow": Slip("const f = <T>(x: T) => x\nexport default () => <p>{f(1)}</p>\n", SYNTAX, 1, "<T,>", REACT),
    "state declared twice": tsx("  const [a, b] = [1, 2]\n  const [a, c] = [1, 2]\n  return <p/>", SYNTAX, 3, "another name"),
    "no default export": Slip("export const Page = () => <p>x</p>\n", EXPORT, 1, "export default function Page()", REACT),
    "hook misspelt": tsx("  useEfect()\n  return <p/>", EXPORT, 1, "useEffect", "import { useEfect } from 'react'\n"),
    "function of Vue": tsx("  ref(1)\n  return <p/>", EXPORT, 1, "`useState`", "import { ref } from 'react'\n"),
    "mounts itself": Slip(
        "import { render } from 'react-dom'\nrender(<p/>, document.body)\nexport default () => <p/>\n",
        EXPORT,
        1,
        "mounted by its host",
        REACT,
    ),
    # -- imports
    "alias of another project": Slip(
        vue("import S from '@/components/StatTile.vue'"), NOT_ALLOWED, 2, "Did you mean @components/StatTile.vue?"
    ),
    "alias of Nuxt": Slip(vue("import S from '~/components/StatTile.vue'"), NOT_ALLOWED, 2, "Did you mean @components/"),
    "all components at once": Slip(vue("import { StatTile } from '@components'"), NOT_ALLOWED, 2, "by its own file"),
    "index of the components": Slip(vue("import { A } from '@components/index'"), NOT_FOUND, 2, "by its own file"),
    "name in other letters": Slip(vue("import S from '@components/statTile.vue'"), NOT_FOUND, 2, "@components/StatTile.vue?"),
    "relative without suffix": Slip(vue("import S from '../components/StatTile'"), NOT_FOUND, 2, "@components/StatTile.vue?"),
    "half of a page's code": Slip(vue("import P from '@pages/other'"), NOT_FOUND, 2, "@pages/other-page.vue?"),
    "file of types": Slip(vue("import type { Row } from './types'"), NOT_FOUND, 2, "put it into this file"),
    "data beside the page": Slip(vue("import rows from './rows.json'"), NOT_ALLOWED, 2, "Put the data into the page"),
    "style sheet": tsx("  return <p/>", NOT_ALLOWED, 1, "Tailwind classes", "import './page.css'\n"),
    "picture beside the page": Slip(vue("import l from './logo.png'"), NOT_ALLOWED, 2, "@assets/logo.svg"),
    "icons": Slip(vue("import { House } from 'lucide-vue-next'"), NOT_ALLOWED, 2, "inline SVG"),
    "charts": tsx("  return <p/>", NOT_ALLOWED, 1, "charts as inline SVG", "import { Line } from 'recharts'\n"),
    "router": Slip(vue("import { useRouter } from 'vue-router'"), NOT_ALLOWED, 2, "no router"),
    "motion": tsx("  return <p/>", NOT_ALLOWED, 1, "with CSS", "import { motion } from 'framer-motion'\n"),
    "kit of components": tsx("  return <p/>", NOT_ALLOWED, 1, "Tailwind classes", "import { B } from '@/components/ui/button'\n"),
    "http": Slip(vue("import axios from 'axios'"), NOT_ALLOWED, 2, "no network"),
    "node": Slip(vue("import fs from 'node:fs'"), NOT_ALLOWED, 2, "no Node"),
    "part of vue": Slip(vue("import { ref } from '@vue/reactivity'"), NOT_ALLOWED, 2, 'from "vue"'),
    "component of the other framework": tsx(
        "  return <S/>", NOT_FOUND, 1, "@components/StatTile.tsx", "import S from '@components/StatTil.tsx'\n"
    ),
    # -- assets
    "asset in a folder": Slip(vue("import l from '@assets/images/logo.svg'"), "PAGE_ASSET_NOT_FOUND", 2, "@assets/logo.svg?"),
    "asset of another kind": Slip(vue("import l from '@assets/logo.png'"), "PAGE_ASSET_NOT_FOUND", 2, "@assets/logo.svg?"),
    "asset inside code": Slip(vue("", "\n<pre><img src='@assets/no.png'></pre>"), "PAGE_ASSET_NOT_FOUND", 6, "known here: logo.svg"),
    "asset by an alias": Slip(vue("", "\n<img src='@/assets/logo.svg'>"), "PAGE_ASSET_NOT_ALLOWED", 6, "@assets/logo.svg?"),
    # -- styles
    "unknown colour": Slip(vue(style=".a {\n  @apply bg-primary-500;\n}"), STYLE, 9, "Tailwind's own colours"),
    "own class applied": Slip(vue(style=".btn { top: 0 }\n.b { @apply btn; }"), STYLE, 9, "repeat its declarations"),
    "group applied": Slip(vue(style=".b { @apply group; }"), STYLE, 8, "on the element"),
    "important applied": Slip(vue(style=".b { @apply flex !important; }"), STYLE, 8, "@apply flex!"),
    "old directives": Slip(vue(style="@tailwind base;"), "PAGE_STYLE_NOT_ALLOWED", 8, "loaded already"),
    "font of the web": Slip(
        vue(style="@import url('https://fonts.example/css2?family=Inter');"), "PAGE_STYLE_NOT_ALLOWED", 8, "@font-face"
    ),
    "screen": Slip(vue(style="@screen md { .a { top: 0 } }"), "PAGE_STYLE_NOT_ALLOWED", 8, "@variant md"),
    "mixin of Sass": Slip(vue(style=".a { @include b; }"), "PAGE_STYLE_NOT_ALLOWED", 8, "not plain CSS"),
    "variable of Sass": Slip(vue(style="\n$c: red;\n.a { color: $c }"), STYLE, 9, "var(--brand)"),
    "comment of Sass": Slip(vue(style="// title\n.a { top: 0 }"), STYLE, 8, "/* … */"),
    "comment of Sass in a rule": Slip(vue(style=".a {\n  // title\n  top: 0;\n}"), STYLE, 9, "/* … */"),
    "semicolon missing": Slip(vue(style=".a {\n  color: red\n  top: 0;\n}"), STYLE, 9, "semicolon"),
}
# fmt: on


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS.keys())
def test_slip_is_told_in_its_place_with_what_to_write(compiler: Compiler, slip: Slip) -> None:
    answer = compiler.compile(slip.entry, {slip.entry: slip.source}, known=KNOWN, assets=())
    assert answer["errors"], "the slip passed"
    first = answer["errors"][0]
    assert (first["code"], first["line"]) == (slip.code, slip.line), answer["errors"]
    assert slip.says in f"{first['message']} {first['hint']}"
    assert slip.source.split("\n")[slip.line - 1].strip() in first["frame"]
    told = json.dumps(answer)
    assert not [
        place for place in (str(compiler.root), "node_modules", str(Path(__file__).parents[3])) if place in told
    ]


@pytest.mark.parametrize(
    ("entry", "source", "says"),
    [
        (VUE, vue("import { StatTile } from '@components/StatTile.vue'\nStatTile"), "import StatTile from"),
        (
            REACT,
            react("  return <StatTile/>", "import { StatTile } from '@components/StatTile.tsx'\n"),
            "import StatTile",
        ),
    ],
)
def test_default_export_imported_by_name_is_shown_as_it_must_be_written(
    compiler: Compiler, entry: str, source: str, says: str
) -> None:
    modules = {entry: source, "components/StatTile.vue": STAT_VUE, "components/StatTile.tsx": STAT_TSX}
    first = compiler.compile(entry, modules)["errors"][0]
    assert first["code"] == EXPORT
    assert says in first["hint"]


GOOD = {
    "dollar in a string": vue(style=".a::before { content: '$price // each' }"),
    "dollar in text": vue("const price = 3", "\n<p>$ {{ price }} — `${a}`</p>"),
    "braces in text": vue("", "\n<pre>{ a: 1 }</pre>\n<p title='{a}'>x</p>"),
    "loop of JSX as code": vue("", "\n<pre>{l.map((x) => x)}</pre>\n<p><code>{l.map(x => x)}</code></p>"),
    "slashes in an address": vue(style=".a { background: url(https://example.org/a.png) }"),
    "greater in a class": vue("", "\n<ul class=\"[&>li]:p-2\" :class=\"1 > 0 ? 'a' : 'b'\"><li>x</li></ul>"),
    "value over lines": vue("", '\n<p class="\n  a\n  b\n">x</p>'),
}


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD.keys())
def test_what_only_looks_like_a_slip_passes(compiler: Compiler, source: str) -> None:
    assert compiler.compile(VUE, {VUE: source})["errors"] == []
