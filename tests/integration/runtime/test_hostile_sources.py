"""A compile reads only its own task (X2): each source below tries to get at a file, a variable or a process beside it.

Canaries lie in the slot's folder, above it, and in the environment of this worker. Whatever a source tries, no output
and no message holds a canary or a path of this machine.
"""

import json
import subprocess

import pytest

from pagegate.runtime.node_worker import find_node, runtime_home

from . import hostile
from .conftest import CANARY, Compiler, vue

REFUSED_SCRIPTS = {
    "raw file": "import s from '../../../secret.txt?raw'; console.log(s)",
    "raw file of a package path": "import s from '/@fs/etc/passwd?raw'; console.log(s)",
    "file url": "import s from 'file:///etc/passwd'; console.log(s)",
    "data url": "import s from 'data:text/javascript,export default 1'; console.log(s)",
    "javascript beside": "import s from '../../secret.js'; console.log(s)",
    "json beside": "import s from '../../secret.json'; console.log(s)",
    "svg as url": "import s from '../../secret.svg?url'; console.log(s)",
    "inline css": "import s from '../../secret.css?inline'; console.log(s)",
    "absolute path": "import s from '/etc/hostname?raw'; console.log(s)",
    "another page's source as text": "import s from '@pages/other.vue?raw'; console.log(s)",
    "its own source as text": "import s from './hostile.vue?raw'; console.log(s)",
    "an asset as text": "import s from '@assets/logo.svg?raw'; console.log(s)",
    "escape through an alias": "import S from '@components/../../../secret.vue'; console.log(S)",
    "a package": "import fs from 'node:fs'; console.log(fs)",
    "a package of the compiler": "import * as v from 'vite'; console.log(v)",
    "the framework's file": "import v from 'vue/package.json'; console.log(v)",
    "a virtual module of the compiler": "import '/@vite/client'",
    "a virtual id": r"import '\0vite/preload-helper.js'",
    "require": "const s = require('../../secret.json'); console.log(s)",
    "dynamic import with a variable": "const n = 'secret'; import(`../../${n}.js`)",
    "dynamic import of a file": "import('../../secret.js')",
    "glob": "console.log(import.meta.glob('../../**/*.txt', { eager: true, query: '?raw' }))",
    "environment of the build": "console.log(import.meta.env.VITE_SECRET, import.meta.env)",
    "new URL": "console.log(new URL('../../secret.txt', import.meta.url).href)",
    "worker": "new Worker(new URL('../../secret.js', import.meta.url))",
    "re-export": "import S from '@components/Thief.vue'; console.log(S)",
    "types of a file beside": "import type { Props } from '../../secret'; defineProps<Props>()",
    "types of a file beside, with its suffix": "import type { Props } from '../../../secret.ts'; defineProps<Props>()",
}

REFUSED_STYLES = {
    "import": "@import '../../secret.css';",
    "import url": "@import url(../../secret.css);",
    "import in a layer": "@import '../../../secret.css' layer(base);",
    "import written with escapes": r"@\69mport '../../secret.css';",
    "url": ".x { background: url(../../secret.svg) }",
    "absolute url": ".x { background: url('/etc/hostname') }",
    "file url": ".x { background: url(file:///etc/hostname) }",
    "url with escapes": r".x { background: u\72l(../../secret.svg) }",
    "url in a custom property": ".x { --y: url(../../secret.svg) }",
    "url in a font": "@font-face { font-family: x; src: url(../../secret.svg) }",
    "image-set": '.x { background: image-set("../../secret.svg" 1x) }',
    "escape through an asset": ".x { background: url(@assets/../../../secret.svg) }",
    "composes": ".x { composes: y from '../../secret.css' }",
    "css module import": ":import('../../secret.css') { a: b }",
    "tailwind plugin": "@plugin '../../secret.js';",
    "tailwind config": "@config '../../secret.js';",
    "tailwind source": "@source '../../secret.txt';",
    "tailwind source inline": '@source inline("p-{1..1000000}");',
    "tailwind reference": "@reference '../../secret.css';",
    "tailwind file import": "@tailwind utilities;",
    "source map": ".x { color: red } /*# sourceMappingURL=../../secret.map */",
}

REFUSED_PAGES = {
    "template src": '<template src="../../secret.txt"></template>',
    "script src": '<script src="../../secret.js"></script><template><p>x</p></template>',
    "style src": '<template><p>x</p></template><style src="../../secret.css"></style>',
    "custom block": "<template><p>x</p></template><docs>{}</docs>",
    "custom block src": '<template><p>x</p></template><i18n src="../../secret.json"></i18n>',
    "template language": '<template lang="pug">\ninclude ../../secret.txt\n</template>',
    "style language": '<template><p>x</p></template><style lang="scss">@use "../../secret";</style>',
    "script language": '<script lang="coffee">x</script><template><p>x</p></template>',
    "attribute as query": "<script raw>export default {}</script><template><p>x</p></template>",
    "image beside": '<template><img src="../../secret.svg"></template>',
    "image set beside": '<template><img srcset="../../secret.svg 2x"></template>',
    "import in a template": "<template><p @click=\"import('../../secret.js')\">x</p></template>",
    "environment in a template": "<template><p>{{ import.meta.env }}</p></template>",
    "class with a file": '<template><p class="bg-[url(/etc/hostname)]">x</p></template>',
    "class with a file beside": "<template><p class=\"bg-[url('../../secret.svg')]\">x</p></template>",
    "class with a set": "<template><p class=\"[background:image-set('../../secret.svg'_1x)]\">x</p></template>",
    "source inside a class": '<template><p class="bg-[url(file:///etc/hostname)]">x</p></template>',
}


def assert_says_nothing(answer: dict, compiler: Compiler) -> None:
    told = json.dumps(answer, ensure_ascii=False)
    assert CANARY not in told
    assert str(compiler.root) not in told
    assert "node_modules" not in told
    assert "root:x:0:0" not in told


def assert_refused(answer: dict, compiler: Compiler) -> None:
    assert_says_nothing(answer, compiler)
    assert answer["errors"], answer["files"].get("page.js", "")[:2000]
    for error in answer["errors"]:
        assert error["file"] in {"pages/hostile.vue", "components/Thief.vue"}
        assert error["line"] >= 1
        assert error["hint"]


@pytest.mark.parametrize("script", REFUSED_SCRIPTS.values(), ids=REFUSED_SCRIPTS.keys())
def test_script_that_reaches_out_is_refused_where_it_does(compiler: Compiler, script: str) -> None:
    thief = vue("export * from '../../../secret.js'").replace(" setup", "")
    modules = {"pages/hostile.vue": vue(script), "pages/other.vue": vue(), "components/Thief.vue": thief}
    assert_refused(compiler.compile("pages/hostile.vue", modules), compiler)


@pytest.mark.parametrize("style", REFUSED_STYLES.values(), ids=REFUSED_STYLES.keys())
@pytest.mark.parametrize("block", ["<style>", "<style scoped>", "<style module>"])
def test_style_that_reaches_out_is_refused_where_it_does(compiler: Compiler, style: str, block: str) -> None:
    page = f"<template>\n<p>x</p>\n</template>\n{block}\n{style}\n</style>\n"
    answer = compiler.compile("pages/hostile.vue", {"pages/hostile.vue": page})
    assert_refused(answer, compiler)
    assert answer["errors"][0]["line"] == 5


@pytest.mark.parametrize("page", REFUSED_PAGES.values(), ids=REFUSED_PAGES.keys())
def test_page_that_reaches_out_is_refused_where_it_does(compiler: Compiler, page: str) -> None:
    assert_refused(compiler.compile("pages/hostile.vue", {"pages/hostile.vue": page}), compiler)


@pytest.mark.parametrize(
    "source",
    [
        "export default () => <p>{import.meta.env.VITE_SECRET}</p>",
        "import s from '../../secret.txt?raw'\nexport default () => <p>{s}</p>",
        "/** @jsxImportSource ../../secret */\nexport default () => <p>x</p>",
        "/* @jsxRuntime classic */ /* @jsx require('../../secret.js') */\nexport default () => <p>x</p>",
        "import x = require('../../secret.js')\nexport default () => <p>{x}</p>",
    ],
)
def test_tsx_that_reaches_out_is_refused(compiler: Compiler, source: str) -> None:
    answer = compiler.compile("pages/hostile.tsx", {"pages/hostile.tsx": source})
    assert_says_nothing(answer, compiler)
    assert answer["errors"]


@pytest.mark.parametrize(
    "harmless",
    [
        vue(
            "const text = `import.meta.env.VITE_SECRET and new URL('../../secret.txt', import.meta.url)`", "{{ text }}"
        ),
        vue("// new Worker(new URL('../../secret.js', import.meta.url))\n/* require('../../secret.js') */"),
        vue("", "<code>@import '../../secret.css'; import.meta.glob('../../*')</code>"),
        vue("", "<code v-pre>{{ import.meta.env.VITE_SECRET }} process.env.SECRET</code>"),
        vue("const all = typeof process === 'object' ? process.env : {}", "{{ all }}"),
    ],
)
def test_page_that_only_talks_about_such_things_is_compiled_and_leaks_nothing(
    compiler: Compiler, harmless: str
) -> None:
    answer = compiler.compile("pages/talk.vue", {"pages/talk.vue": harmless})
    assert_says_nothing(answer, compiler)
    assert answer["errors"] == []


@pytest.mark.parametrize(
    "path", ["pages/../../evil.vue", "pages/a/b.vue", "pages/a.js", "/etc/evil.vue", "pages/..\\evil.tsx/"]
)
def test_module_path_that_leaves_the_folder_is_malformed_for_the_worker_too(path: str) -> None:
    """The Runtime's own side checks paths; the worker trusts nobody."""
    order = json.dumps({"dir": "/nowhere", "entry": path, "modules": {path: "x"}, "assets": []})
    script = f"import {{ Task }} from './task.mjs'; new Task({order})"
    ended = subprocess.run(
        [find_node(), "--input-type=module", "-e", script], cwd=runtime_home(), capture_output=True, check=False
    )
    assert ended.returncode == 1
    assert b"malformed" in ended.stderr


@pytest.mark.parametrize("script", hostile.SCRIPTS.values(), ids=hostile.SCRIPTS.keys())
@pytest.mark.parametrize("framework", ["vue", "react"])
def test_script_of_either_framework_is_refused(compiler: Compiler, framework: str, script: str) -> None:
    modules = {"components/Thief.vue": vue(), "components/Thief.tsx": "export default () => <p>x</p>"}
    if framework == "vue":
        plain = script.startswith("export")  # in setup it would be refused for being there at all
        source = f"<script{'' if plain else ' setup'} lang='ts'>\n{script}\n</script><template><p>x</p></template>"
        path = "pages/hostile.vue"
    else:
        path = "pages/hostile.tsx"
        source = script.replace("'vue", "'react").replace(".vue", ".tsx") + "\nexport default () => <p>x</p>"
    answer = compiler.compile(path, {path: source, **modules})
    assert_says_nothing(answer, compiler)
    assert answer["errors"], answer["files"].get("page.js", "")[:2000]
    assert answer["errors"][0]["file"] == path
    assert answer["errors"][0]["line"] in {1, 2}
    assert answer["errors"][0]["hint"]


@pytest.mark.parametrize("style", hostile.STYLES.values(), ids=hostile.STYLES.keys())
@pytest.mark.parametrize("block", ["<style>", "<style module>"])
def test_style_that_names_what_is_beside_is_refused(compiler: Compiler, block: str, style: str) -> None:
    page = f"<template>\n<p>x</p>\n</template>\n{block}\n{style}\n</style>\n"
    assert_refused(compiler.compile("pages/hostile.vue", {"pages/hostile.vue": page}), compiler)


@pytest.mark.parametrize("page", hostile.VUE.values(), ids=hostile.VUE.keys())
def test_vue_page_that_names_what_is_beside_is_refused(compiler: Compiler, page: str) -> None:
    assert_refused(compiler.compile("pages/hostile.vue", {"pages/hostile.vue": page}), compiler)


@pytest.mark.parametrize("source", hostile.REACT.values(), ids=hostile.REACT.keys())
def test_react_page_that_names_what_is_beside_is_refused(compiler: Compiler, source: str) -> None:
    answer = compiler.compile("pages/hostile.tsx", {"pages/hostile.tsx": source})
    assert_says_nothing(answer, compiler)
    assert answer["errors"], answer["files"].get("page.js", "")[:2000]
    assert (answer["errors"][0]["file"], bool(answer["errors"][0]["line"])) == ("pages/hostile.tsx", True)


@pytest.mark.parametrize("name", hostile.CLASSES.values(), ids=hostile.CLASSES.keys())
def test_class_that_names_what_is_beside_is_refused_in_either_framework(compiler: Compiler, name: str) -> None:
    page = {"pages/hostile.vue": f'<template><p class="{name}">x</p></template>'}
    assert_refused(compiler.compile("pages/hostile.vue", page), compiler)
    source = f'export default () => <p className="{name}">x</p>'
    answer = compiler.compile("pages/hostile.tsx", {"pages/hostile.tsx": source})
    assert_says_nothing(answer, compiler)
    assert [error["line"] for error in answer["errors"]] == [1]


@pytest.mark.parametrize(("kind", "source"), hostile.QUIET.values(), ids=hostile.QUIET.keys())
def test_source_that_reaches_nothing_is_compiled_and_says_nothing(compiler: Compiler, kind: str, source: str) -> None:
    answer = compiler.compile(f"pages/quiet.{kind}", {f"pages/quiet.{kind}": source}, title="%VITE_SECRET%")
    assert_says_nothing(answer, compiler)
    assert answer["errors"] == []


def test_environment_that_a_page_reads_is_located_and_says_what_to_write_instead(compiler: Compiler) -> None:
    answer = compiler.compile("pages/a.vue", {"pages/a.vue": vue("const a =\n  process.env.API_URL + '/x'", "{{ a }}")})
    (error,) = answer["errors"]
    assert (error["code"], error["line"], error["column"]) == ("PAGE_SOURCE_NOT_ALLOWED", 3, 3)
    assert "constant" in error["hint"]


HUGE = 200_000
TIRING = {
    "newlines before a fence that is none": ("pages/hostile.tsx", "export default () => <p/>" + "\n" * HUGE + ";"),
    "spaces in an asset": ("pages/hostile.vue", vue(style=".a { background: url('@assets/" + " " * HUGE + "x') }")),
    "addresses in addresses": ("pages/hostile.vue", vue(style=f".a {{ b: {'url(' * HUGE}{')' * HUGE} }}")),
    "spaces in a source": ("pages/hostile.vue", vue("", f'<img src="@assets/{" " * HUGE}x">')),
    "commas in a set": ("pages/hostile.vue", vue("", f'<img srcset="{", " * HUGE}@assets/x">')),
    "brackets": ("pages/hostile.vue", vue("const a = " + "[" * HUGE + "]" * HUGE)),
    "elements in elements": ("pages/hostile.tsx", "export default () => " + "<p>" * 5000 + "</p>" * 5000),
    "a long sum": ("pages/hostile.tsx", "const a = " + "1+" * 20_000 + "1\nexport default () => <p>{a}</p>"),
    "one long line": ("pages/hostile.vue", vue("", "x" * HUGE * 5)),
}


@pytest.mark.parametrize(("path", "source"), TIRING.values(), ids=TIRING.keys())
def test_source_made_to_tire_the_compiler_ends_and_the_worker_lives(compiler: Compiler, path: str, source: str) -> None:
    """X3. The worker's own socket would time out; a worker that ended would answer nothing."""
    answer = compiler.compile(path, {path: source})
    assert {e["file"] for e in answer["errors"]} <= {path}
    assert compiler.compile("pages/a.vue", {"pages/a.vue": vue()})["errors"] == []


DEEP = 20_000
NESTED = {
    "elements": "export default () => " + "<b>" * DEEP + "</b>" * DEEP,
    "arrows": "export default " + "a=>" * DEEP + "1",
    "conditions": "export default " + "a?b:" * DEEP + "1",
    "assignments": "export default a" + "=a" * DEEP,
    "type arguments": "type A = " + "B<" * DEEP + "1" + ">" * DEEP,
    "loops": "for(;;)" * DEEP + ";",
    "negations": "export default " + "!" * 6 * DEEP + "1",
    "casts that do not parse": "export default " + "<any>" * DEEP + "1",
    "far too many": "export default " + "a=>" * 20 * DEEP + "1",
}


@pytest.mark.parametrize("source", NESTED.values(), ids=NESTED.keys())
@pytest.mark.parametrize("framework", ["vue", "react"])
def test_script_that_overflows_a_parser_is_refused_and_the_worker_lives(
    compiler: Compiler, framework: str, source: str
) -> None:
    """Case 41, X3. The parser is recursive and not written in JavaScript: its overflow would end the process."""
    path = "pages/hostile.vue" if framework == "vue" else "pages/hostile.tsx"
    page = f'<script lang="ts">\n{source}\n</script><template><p>x</p></template>' if framework == "vue" else source
    answer = compiler.compile(path, {path: page})
    assert {e["code"] for e in answer["errors"]} <= {"PAGE_SOURCE_TOO_LARGE", "PAGE_SCRIPT_SYNTAX"}
    assert answer["errors"][0]["file"] == path
    assert compiler.compile("pages/a.vue", {"pages/a.vue": vue()})["errors"] == []


@pytest.mark.parametrize("style", ["@media print{", "a{", "a{width:calc("])
def test_style_that_is_nested_without_end_is_refused(compiler: Compiler, style: str) -> None:
    closing = "".join({"{": "}", "(": ")"}.get(char, "") for char in reversed(style))
    page = vue(style=style * 50_000 + closing * 50_000)
    (error,) = compiler.compile("pages/hostile.vue", {"pages/hostile.vue": page})["errors"]
    assert (error["code"], error["file"]) == ("PAGE_SOURCE_TOO_LARGE", "pages/hostile.vue")


LARGE = {
    "svg": '<svg viewBox="0 0 9 9">' + '<path d="M0 0h9v9H0z" fill="#123456"/>' * 130_000 + "</svg>",
    "svg in one path": '<svg viewBox="0 0 9 9"><path d="M0 0' + "h1v1H0z" * 750_000 + '"/></svg>',
    "nodes": "<i>x</i>" * 10_000,
    "styled nodes": '<i class="p-4 text-red-500" style="top: 1px">{{ 1 }}</i>'.replace("{{ 1 }}", "x") * 10_000,
}


@pytest.mark.parametrize("markup", LARGE.values(), ids=LARGE.keys())
@pytest.mark.parametrize("framework", ["vue", "react"])
def test_very_large_page_compiles_or_is_refused_for_its_size(compiler: Compiler, framework: str, markup: str) -> None:
    """Case 41: an inline SVG of 5 MB, 10,000 nodes."""
    path, page = "pages/large.vue", f"<template><div>{markup}</div></template>"
    if framework == "react":
        plain = markup.replace("class=", "className=").replace('style="top: 1px"', "style={{ top: 1 }}")
        path, page = "pages/large.tsx", f"export default () => <div>{plain}</div>"
    answer = compiler.compile(path, {path: page})
    assert {e["code"] for e in answer["errors"]} <= {"PAGE_SOURCE_TOO_LARGE", "PAGE_OUTPUT_TOO_LARGE"}
    if "svg" not in markup:
        assert answer["errors"] == []
    assert compiler.compile("pages/a.vue", {"pages/a.vue": vue()})["errors"] == []
