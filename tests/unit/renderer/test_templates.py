"""What a Vue template says and the framework does not: undefined handlers, nesting that HTML undoes (R10)."""

import pytest

from pagegate.renderer.diagnosis import templates
from pagegate.renderer.diagnosis.evidence import Evidence
from pagegate.renderer.observation import Observation
from pagegate.renderer.sourcemap import SourceMap

SETUP = "<script setup>\nimport { ref } from 'vue'\nconst n = ref(0)\nfunction save() {}\n</script>\n\n"


def codes(source: str, path: str = "pages/x.vue") -> list[tuple[str, int | None]]:
    seen = Observation(viewport_width_px=640, viewport_height_px=360)
    evidence = Evidence(seen, {}, SourceMap([], {path: source}), None)
    return [(finding.code, finding.line) for finding in templates.find(evidence)]


def page(markup: str, script: str = SETUP) -> str:
    return f"{script}<template>\n  <main>\n    {markup}\n  </main>\n</template>\n"


@pytest.mark.parametrize(
    "handler",
    [
        "remove",
        "remove()",
        "remove(n)",
        "store.add",
        "open = true",
        "open++",
        "list[0]()",
        " remove ",
        "form?.submit()",
    ],
)
def test_a_handler_that_nothing_defines_is_told_at_its_line(handler: str) -> None:
    assert codes(page(f'<button @click="{handler}">x</button>')) == [("NAME_UNDEFINED", 9)]


@pytest.mark.parametrize(
    "markup",
    [
        '<button @click="save">x</button>',
        '<button @click="save()" @blur="n++">x</button>',
        '<button @click="n > 1 ? save() : gone()">x</button>',
        '<button @click="() => gone()">x</button>',
        '<button @click="$emit(1)" @focus="$refs.a.focus()">x</button>',
        '<button v-for="(item, i) in []" :key="i" @click="item.run(i)">x</button>',
        '<Panel v-slot="{ close }"><button @click="close">x</button></Panel>',
        '<Panel><template #foot.left="{ close: shut }"><button @click="shut">x</button></template></Panel>',
        '<form @submit.prevent @keydown.enter="console.log(1)"></form>',
        '<!-- <button @click="gone">x</button> -->',
        '<button title="@click=gone">x</button>',
    ],
)
def test_what_the_script_or_the_template_introduces_is_no_finding(markup: str) -> None:
    assert codes(page(markup)) == []


@pytest.mark.parametrize(
    "script",
    [
        "<script>\nexport default { setup: () => ({ ...useCart() }) }\n</script>\n",
        "<script>\nexport default {\n  setup() {\n    return useCart()\n  },\n}\n</script>\n",
        "<script setup lang='ts'>\nimport type { Props } from '@components/P.vue'\ndefineProps<Props>()\n</script>\n",
    ],
)
def test_names_that_may_come_from_elsewhere_are_no_finding(script: str) -> None:
    assert codes(page('<button @click="remove">x</button>', script)) == []


@pytest.mark.parametrize(
    "markup",
    [
        "<p><div>x</div></p>",
        "<p>a <span><ul><li>x</li></ul></span></p>",
        "<a href='#a'><b><a href='#b'>x</a></b></a>",
        "<button><span><button>x</button></span></button>",
    ],
)
def test_nesting_that_html_undoes_is_told_at_its_line(markup: str) -> None:
    assert codes(page(markup)) == [("NESTING_INVALID", 9)]


@pytest.mark.parametrize(
    "markup",
    [
        "<p>a <b>b</b><br>c <img src='x'> <button>d</button></p>",
        "<p>one</p><div>two</div>",
        "<a href='#a'><div><p>x</p></div></a>",
        "<p><Card><div>x</div></Card></p>",
        "<p><my-card><p>x</p></my-card></p>",
        "<ul><li><p>x</p><ul><li>y</li></ul></li></ul>",
        "<p>{{ a > b ? '<div>' : '' }}</p>",
        '<p :title="`<div>`">x</p>',
    ],
)
def test_nesting_that_html_allows_is_no_finding(markup: str) -> None:
    assert codes(page(markup)) == []


def test_files_that_are_no_vue_pages_are_left_alone() -> None:
    assert codes("export default () => <p><div /></p>", "pages/x.tsx") == []
