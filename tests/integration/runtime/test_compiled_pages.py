"""What a page that compiles becomes: its files, its styles, its marks and maps (D3, V8, R10)."""

import json
import re
import subprocess
from urllib.parse import unquote

import pytest

from pagegate.runtime.node_worker import find_node, runtime_home

from .conftest import Compiler, sample_modules, vue

TSX = "export default function Page() {\n  return <p className='p-4'>text</p>\n}\n"


def compiled(compiler: Compiler, source: str, path: str = "pages/page.vue", **modules: str) -> dict[str, str]:
    others = {name.replace("__", "/").replace("_vue", ".vue").replace("_tsx", ".tsx"): m for name, m in modules.items()}
    answer = compiler.compile(path, {path: source, **others})
    assert answer["errors"] == []
    return answer["files"]


@pytest.mark.parametrize(("path", "source"), [("pages/page.vue", vue()), ("pages/page.tsx", TSX)])
def test_page_loads_only_root_relative_addresses_of_its_own_origin(compiler: Compiler, path: str, source: str) -> None:
    files = compiled(compiler, source, path)
    assert set(files) == {"index.html", "page.js", "page.js.map", "page.css"}
    named = set(re.findall(r'(?:src|href)="([^"]*)"', files["index.html"]))
    preloaded = {address for address in named if address.startswith("/vendor/")}
    assert named - preloaded == {"/page.js", "/page.css", "data:,"}
    imported = re.findall(r'^import .* from "([^"]*)"', files["page.js"], re.MULTILINE)
    vendor = compiler.vendor
    assert set(imported) <= preloaded, "what the page imports is asked for along with it"
    for address in preloaded:
        assert address.startswith("/vendor/")
        assert (vendor / address.removeprefix("/vendor/")).is_file()


def test_document_tells_title_and_notes_and_cannot_be_broken_by_them(compiler: Compiler) -> None:
    page = {"pages/page.vue": vue()}
    title, notes = '</title><script>alert("1")</script>', '"><img onerror=x>'
    html = compiler.compile("pages/page.vue", page, title=title, notes=notes)["files"]["index.html"]
    assert html.count("<script") == 1
    assert "&lt;/title&gt;" in html
    assert 'name="speaker-notes" content="&quot;&gt;&lt;img' in html


@pytest.mark.parametrize(
    ("text", "language"),
    [("Hello", "en"), ("季度回顾", "zh-CN"), ("四半期のまとめ", "ja"), ("분기 리뷰", "ko")],
)
def test_document_names_the_language_that_decides_the_glyphs(compiler: Compiler, text: str, language: str) -> None:
    assert f'<html lang="{language}">' in compiled(compiler, vue("", text))["index.html"]


def test_percent_heights_work_only_on_a_canvas_with_a_height(compiler: Compiler) -> None:
    page = {"pages/page.vue": vue()}
    assert "height: 100%" in compiler.compile("pages/page.vue", page)["files"]["index.html"]
    assert "height: 100%" not in compiler.compile("pages/page.vue", page, height_px=None)["files"]["index.html"]


def test_style_sheet_has_the_classes_of_this_page_and_of_no_page_before(compiler: Compiler) -> None:
    first = compiled(compiler, vue("", '<p class="pt-[11px] text-lime-300">x</p>'))["page.css"]
    second = compiled(compiler, vue("", '<p class="pt-[12px]">x</p>'))["page.css"]
    assert "11px" in first
    assert "lime" in first
    assert "12px" in second
    assert "11px" not in second
    assert "lime" not in second


def test_style_sheet_has_the_classes_of_used_components_and_not_of_unused_ones(compiler: Compiler) -> None:
    css = compiled(
        compiler,
        vue("import A from '@components/A.vue'", "<A/>"),
        components__A_vue=vue("", '<p class="pt-[13px]">x</p>'),
        components__B_vue=vue("", '<p class="pt-[14px]">x</p>'),
    )["page.css"]
    assert "13px" in css
    assert "14px" not in css


def test_scoped_styles_apply_and_nesting_stay_as_written(compiler: Compiler) -> None:
    css = compiled(
        compiler,
        vue(
            "const c = 'red'",
            '<p class="a" :class="$style?.b">x</p>',
            ".a { @apply p-4 hover:underline; color: v-bind(c); &:hover { top: 1px } }\n"
            '.q::before { content: "\\201C" counter(x) }',
        ),
    )["page.css"]
    assert re.search(r"\[data-v-\w+\]", css)
    assert "padding: calc(var(--spacing" in css
    assert '"\\201C" counter(x)' in css


def test_assets_become_addresses_wherever_they_are_named(compiler: Compiler) -> None:
    page = vue(
        "import logo from '@assets/logo.svg'",
        '<img :src="logo"><img src="@assets/logo.svg" srcset="@assets/logo.svg 1x, @assets/logo.svg 2x">'
        '<svg><use href="@assets/logo.svg#mark"/></svg><i style="background: url(@assets/logo.svg)"/>'
        '<p class="bg-[url(@assets/logo.svg)]"/>',
        '.a { background: url(@assets/logo.svg) }\n.b { background: image-set("@assets/logo.svg" 1x) }',
    )
    files = compiled(compiler, page)
    text = files["page.js"] + files["page.css"]
    assert "/assets/logo.svg" in text
    assert " 2x" in text
    assert "/assets/logo.svg#mark" in text
    assert files["page.css"].count('"/assets/logo.svg"') >= 3
    assert "url(@assets" not in text.replace("bg-[url(@assets/logo.svg)]", "")
    assert "pagegate.invalid" not in text


def test_assets_of_jsx_become_addresses(compiler: Compiler) -> None:
    source = (
        "import logo from '@assets/logo.svg'\n"
        "export default () => <p><img src={logo}/><img src='@assets/logo.svg'/></p>"
    )
    assert compiled(compiler, source, "pages/page.tsx")["page.js"].count('"/assets/logo.svg"') == 2


@pytest.mark.parametrize("name", ["季度 📊.png", "C# 50%?.png", "a b&c'd.png", "ü.png"])
def test_asset_with_any_name_has_an_address_that_works(compiler: Compiler, name: str) -> None:
    page = vue(
        f"import a from {json.dumps('@assets/' + name)}",
        f'<img src="@assets/{name.replace("&", "&amp;")}"><img :src="a">',
    )
    answer = compiler.compile("pages/page.vue", {"pages/page.vue": page}, assets=[name])
    assert answer["errors"] == []
    addresses = re.findall(r'"(/assets/[^"]*)"', answer["files"]["page.js"])
    assert len(addresses) == 2
    for address in addresses:
        assert not re.search(r"[#? ]", address)
        assert unquote(address) == f"/assets/{name}"


@pytest.mark.parametrize("suffix", ["vue", "tsx"])
def test_page_with_any_name_compiles_and_is_called_by_it(compiler: Compiler, suffix: str) -> None:
    """Emoji, Chinese, spaces and what an address would read as syntax (cases 35, 36)."""
    path, component = f"pages/季度 📊 C# 50%?.{suffix}", f"components/图表 😀.{suffix}"
    if suffix == "vue":
        page = vue(f"import B from '@{component}'\nconst n: number = 1", "<B/>{{ n }}", "p { color: red }")
        source = vue("", '<p class="pt-[17px]">x</p>')
    else:
        page = f"import B from '@{component}'\nexport default () => <div><B/></div>"
        source = "export default () => <p className='pt-[17px]'>x</p>"
    answer = compiler.compile(path, {path: page, component: source})
    assert answer["errors"] == []
    assert f'"data-pg-loc": "{component}:' in answer["files"]["page.js"]
    assert "17px" in answer["files"]["page.css"]
    assert set(json.loads(answer["files"]["page.js.map"])["sources"]) == {path, component, "pagegate:host"}


def test_every_plain_element_is_marked_with_its_place_and_no_component_is(compiler: Compiler) -> None:
    page = vue(
        "import A from '@components/A.vue'\nconst rows = [1, 2]",
        '\n<A title="x"><b>slot</b></A>\n<li v-for="r in rows" :key="r">{{ r }}</li>'
        '\n<template v-if="rows"><i>y</i></template>'
        '\n<component is="u">z</component>\n<slot name="s"/>\n<svg><path d="M0 0"/></svg>',
    )
    js = compiled(compiler, page, components__A_vue=vue("defineProps<{ title: string }>()", "<slot/>"))["page.js"]
    marks = set(re.findall(r'"data-pg-loc": "([^"]*)"', js))
    assert {m for m in marks if m.startswith("pages/")} == {
        f"pages/page.vue:{place}" for place in ("6:1", "7:14", "8:1", "9:23", "12:1", "12:6")
    }
    assert {m for m in marks if m.startswith("components/")} == {"components/A.vue:5:1"}


def test_every_host_element_of_jsx_is_marked_with_its_place(compiler: Compiler) -> None:
    source = (
        "const A = ({ children }: { children?: unknown }) => <b>{children as string}</b>\n"
        "export default function P() {\n"
        "  return <><A>x</A>{[1].map((n) => <i key={n} {...{ title: 'a' }}>{n}</i>)}\n"
        "    <my-tag className='x'/></>\n"
        "}\n"
    )
    js = compiled(compiler, source, "pages/page.tsx")["page.js"]
    assert set(re.findall(r'"data-pg-loc": "pages/page.tsx:([^"]*)"', js)) == {"1:53", "3:36", "4:5"}


def test_map_leads_back_to_the_line_that_threw(compiler: Compiler) -> None:
    answer = compiler.compile("pages/q3-support.tsx", sample_modules())
    answer_vue = compiler.compile("pages/q3-agenda.vue", sample_modules(), assets=["logo.svg"])
    places = [
        (answer["files"], "getBoundingClientRect", "pages/q3-support.tsx:13"),
        (answer_vue["files"], "window.addEventListener", "pages/q3-agenda.vue:26"),
        (answer_vue["files"], "Math.floor", "pages/q3-agenda.vue:16"),
    ]
    for files, word, expected in places:
        assert original_place(files, word) == expected


def test_map_leads_back_into_a_script_without_setup(compiler: Compiler) -> None:
    page = "<template><p>{{ sum }}</p></template>\n<script>\nexport default {\n  computed: {\n    sum() {\n"
    page += "      return this.missing.reduce()\n    },\n  },\n}\n</script>\n"
    files = compiler.compile("pages/page.vue", {"pages/page.vue": page})["files"]
    assert original_place(files, "missing.reduce") == "pages/page.vue:6"


def original_place(files: dict[str, str], word: str) -> str:
    """Where the first use of `word` in the compiled script was written, as a debugger would find it."""
    before = files["page.js"].split(word)[0].split("\n")
    script = (
        "import { SourceMapConsumer } from 'source-map-js'; import fs from 'node:fs';"
        "const c = new SourceMapConsumer(JSON.parse(fs.readFileSync(0, 'utf8')));"
        f"const o = c.originalPositionFor({{ line: {len(before)}, column: {len(before[-1])} }});"
        "console.log(`${o.source}:${o.line}`)"
    )
    command = [str(find_node()), "--input-type=module", "-e", script]
    told = subprocess.run(
        command, cwd=runtime_home(), input=files["page.js.map"], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def test_development_code_of_the_frameworks_is_used(compiler: Compiler) -> None:
    """Production builds hide what a check must see: unresolved components, missing keys, wrong nesting (R10)."""
    vendor = compiler.vendor
    assert "Failed to resolve ${type" in (vendor / "vue.js").read_text()
    react = "".join(path.read_text() for path in vendor.glob("*.js"))
    assert "Each child in a list should have a unique" in react
    js = compiled(compiler, vue("const a = 1", "<Unknown :a='a'/>"))["page.js"]
    assert 'resolveComponent("Unknown")' in js
    assert '["__file", "pages/page.vue"]' in js
    assert "jsxDEV" in compiled(compiler, TSX, "pages/page.tsx")["page.js"]


def test_frameworks_are_not_inside_the_page(compiler: Compiler) -> None:
    assert len(compiled(compiler, vue())["page.js"]) < 3000
    assert len(compiled(compiler, TSX, "pages/page.tsx")["page.js"]) < 3000


def test_top_level_await_compiles_and_a_setup_that_awaits_gets_its_boundary(compiler: Compiler) -> None:
    """Case 43."""
    assert "Suspense" in compiled(compiler, vue("const a = await Promise.resolve(1)", "{{ a }}"))["page.js"]
    assert "Suspense" not in compiled(compiler, vue("const f = async () => { await 1 }", "{{ f }}"))["page.js"]
    nested = compiled(
        compiler,
        vue("import A from '@components/A.vue'", "<A/>"),
        components__A_vue=vue("const a = await 1", "{{ a }}"),
    )
    assert "Suspense" in nested["page.js"]
    assert "= await Promise" in compiled(
        compiler, "const a = await Promise.resolve(1)\nexport default () => <p>{a}</p>", "pages/page.tsx"
    )["page.js"].replace("\n", " ")


def test_two_modules_that_use_each_other_at_load_fail_in_the_browser_as_written(compiler: Compiler) -> None:
    """Case 61: the bundle keeps `const`, so that the use comes too early there too."""
    js = compiled(
        compiler,
        "import { b } from '@components/B.tsx'\nexport const a = b + 1\nexport default () => <p>{a}</p>",
        "pages/page.tsx",
        components__B_tsx="import { a } from '@pages/page.tsx'\nexport const b = a + 1",
    )["page.js"]
    assert js.index("const b = a + 1") < js.index("const a = b + 1")


@pytest.mark.parametrize(
    "script",
    [
        "import type { Props } from '@components/B.vue'\ndefineProps<Props>()",
        "import { type Props } from '../components/B.vue'\ndefineProps<Props>()",
        "import { Props } from '@components/B.vue'\ndefineProps<Props & { x?: 1 }>()",
    ],
)
def test_types_of_another_module_become_props(compiler: Compiler, script: str) -> None:
    other = "<script lang='ts'>\nexport interface Props { fromOther?: string }\n</script>\n<template><p/></template>"
    assert "fromOther" in compiled(compiler, vue(script), components__B_vue=other)["page.js"]


def test_names_that_are_only_types_are_no_wrong_names(compiler: Compiler) -> None:
    compiled(
        compiler,
        vue("import { ref, Ref, type ComputedRef } from 'vue'\nconst a: Ref<number> | ComputedRef = ref(1)\na"),
    )
    compiled(
        compiler,
        "import React, { FC, ReactNode, useState } from 'react'\nimport { createPortal } from 'react-dom'\n"
        "const A: FC<{ a?: ReactNode }> = ({ a }) => <>{a}{String(createPortal)}</>\n"
        "export default () => <React.Fragment><A a={useState(1)[0]}/></React.Fragment>",
        "pages/page.tsx",
    )


@pytest.mark.parametrize(
    "source",
    [
        "<script>\nexport default { data: () => ({ a: 1 }) }\n</script>\n<template><p>{{ a }}</p></template>",
        "<template><p>text</p></template>",
        "<script>\nexport const x = 1\n</script>\n<script setup>\nx\n</script>\n<template>{{ x }}</template>",
        "<script setup lang='ts' generic='T extends string'>\ndefineProps<{ a?: T }>()</script><template>a</template>",
        "<script setup>\nconst A = () => import('@components/A.vue')\n</script><template>{{ A }}</template>",
        "<!-- a comment -->\n<template>\n<pre>```js\ncode\n```</pre>\n</template>",
        "<template><p :class='$style.a'>x</p></template>\n<style module>\n.a { color: red }\n</style>",
        "<script setup>\nconst a = '<\\/script>'\n</script>\n<template>{{ a }}</template>",
        "<template><div v-html=\"'<b>x</b>'\"/><textarea>a</textarea><p v-once>x</p><p v-memo='[1]'>y</p></template>",
    ],
)
def test_ways_to_write_a_vue_page(compiler: Compiler, source: str) -> None:
    compiled(compiler, source, components__A_vue=vue())


def test_style_that_is_css_under_another_name_is_css(compiler: Compiler) -> None:
    page = "<template><p/></template>\n<style lang='postcss' scoped type='text/css'>\n.a { @apply pt-[19px] }\n</style>"
    assert "19px" in compiled(compiler, page)["page.css"]


def test_component_alone_can_be_compiled(compiler: Compiler) -> None:
    assert compiler.compile("components/A.vue", {"components/A.vue": vue()})["errors"] == []


def test_large_pages_are_compiled_or_refused_and_the_worker_lives(compiler: Compiler) -> None:
    """Case 41: a 5 MB inline SVG, ten thousand nodes."""
    drawing = "M0 0" + " L1 1" * 1_000_000
    answer = compiler.compile("pages/page.vue", {"pages/page.vue": vue("", f'<svg><path d="{drawing}"/></svg>')})
    assert [e["code"] for e in answer["errors"]] == ["PAGE_SOURCE_TOO_LARGE"]
    nodes = compiler.compile("pages/page.vue", {"pages/page.vue": vue("", "<p><b>x</b></p>" * 5000)})
    assert nodes["errors"] == []
    assert compiled(compiler, vue())
