"""What the compile of a component says it takes and offers, and how modules use one (D4), by the real Node worker."""

from typing import Any

import pytest

from .conftest import Compiler

TILE = "components/Tile.vue"
CARD = "components/Card.tsx"


def contract(compiler: Compiler, source: str, path: str = TILE, **others: str) -> Any:
    modules = {f"components/{name}.vue": text for name, text in others.items()}
    answer = compiler.compile(path, {path: source, **modules}, contract=True)
    assert answer["errors"] == []
    return answer["result"]["contract"]


def props(told: Any) -> dict[str, bool]:
    return {prop["name"]: prop["required"] for prop in told["props"]}


def sfc(script: str, template: str = "<p/>", setup: str = ' setup lang="ts"') -> str:
    return f"<script{setup}>\n{script}\n</script>\n<template>{template}</template>\n"


VUE = {
    "types": (
        sfc("interface P { title: string; size?: number }\nconst { title, size = 3 } = defineProps<P>()"),
        {"title": True, "size": False},
    ),
    "with defaults": (
        sfc("withDefaults(defineProps<{ a: string; b?: string[] }>(), { b: () => [] })"),
        {"a": True, "b": False},
    ),
    "run time": (
        sfc("defineProps({ a: String, b: { type: Number, required: true }, 'data-x': null })", setup=" setup"),
        {"a": False, "b": True, "data-x": False},
    ),
    "names": (sfc("defineProps(['a', 'b'])", setup=" setup"), {"a": False, "b": False}),
    "models": (
        sfc("defineModel<string>()\ndefineModel('open', { type: Boolean, required: true })"),
        {"modelValue": False, "open": True},
    ),
    "options": (
        sfc("export default { props: { a: { type: String, required: true, default: 'x' } } }", setup=""),
        {"a": False},
    ),
    "defineComponent": (
        sfc(
            "import { defineComponent } from 'vue'\nconst all = { a: { type: String, required: true } } as const\n"
            "export default defineComponent({ props: all })",
            setup=' lang="ts"',
        ),
        {"a": True},
    ),
    "no script": ("<template><p/></template>", {}),
}


@pytest.mark.parametrize(("source", "expected"), VUE.values(), ids=VUE.keys())
def test_the_props_of_a_vue_component(compiler: Compiler, source: str, expected: dict[str, bool]) -> None:
    told = contract(compiler, source)
    assert props(told) == expected
    assert told["open"] == {"props": False, "events": False, "slots": False}


def test_events_and_slots_of_a_vue_component(compiler: Compiler) -> None:
    script = "defineProps<{ a: string }>()\nconst emit = defineEmits<{ close: [n: number]; open: [] }>()\ndefineModel()"
    template = (
        """<div @click="$emit('pick', 1)"><slot/><slot name="head" :x="1"/><b v-if="a"><slot name="foot"/></b></div>"""
    )
    told = contract(compiler, sfc(script, template))
    assert told["events"] == ["close", "open", "pick", "update:modelValue"]
    assert told["slots"] == ["default", "foot", "head"]
    assert [prop["type"] for prop in told["props"] if prop["name"] == "a"] == ["String"]


def test_slots_that_are_asked_for_by_name_are_named(compiler: Compiler) -> None:
    script = "import { useSlots } from 'vue'\nconst slots = useSlots()\nconst has = slots.foot"
    told = contract(compiler, sfc(script, '<p v-if="$slots.head">time slots</p><slot v-if="$slots.default"/>'))
    assert (told["slots"], told["open"]["slots"]) == (["default", "foot", "head"], False)


def test_events_that_only_the_script_of_an_options_component_sends(compiler: Compiler) -> None:
    told = contract(compiler, sfc("export default { methods: { go() { this.$emit('gone', 1) } } }", setup=""))
    assert told["events"] == ["gone"]


OPEN = {
    "props from elsewhere": (sfc("import { shared } from './Shared.vue'\ndefineProps(shared)"), "props"),
    "a slot named at run time": (sfc("defineProps<{ at: string }>()", '<slot :name="at"/>'), "slots"),
    "all slots, handed on": (sfc("", '<p v-for="(_, name) in $slots" :key="name"/>'), "slots"),
    "slots under another name": (sfc("import { useSlots } from 'vue'\nconst given = useSlots()"), "slots"),
    "all slots, in the script": (
        sfc("import { useSlots } from 'vue'\nconst slots = useSlots()\nconst all = Object.keys(slots)"),
        "slots",
    ),
    "mixins": (sfc("export default { mixins: [window.mixin] }", setup=""), "props"),
}


@pytest.mark.parametrize(("source", "part"), OPEN.values(), ids=OPEN.keys())
def test_what_is_decided_elsewhere_is_told_as_open(compiler: Compiler, source: str, part: str) -> None:
    shared = "<script lang='ts'>\nexport const shared = ['a']\nexport default {}\n</script>\n<template><p/></template>"
    assert contract(compiler, source, Shared=shared)["open"][part] is True


def test_props_by_a_type_of_another_component(compiler: Compiler) -> None:
    shared = "<script lang='ts'>\nexport interface P { a: string; b?: number }\n</script>\n<template><p/></template>"
    source = sfc("import type { P } from '@components/Shared.vue'\ndefineProps<P>()")
    assert props(contract(compiler, source, Shared=shared)) == {"a": True, "b": False}


REACT = {
    "an interface": (
        (
            "interface P { title: string; size?: number; onClose?: () => void }\n"
            "export default function Card({ title, size = 1 }: P) { return <p>{title}{size}</p> }"
        ),
        {"title": True, "size": False, "onClose": False},
        [],
        False,
    ),
    "children": (
        (
            "import type { ReactNode } from 'react'\ntype P = { a: string } & { children?: ReactNode }\n"
            "const Card = (props: P) => <p>{props.children}</p>\nexport default Card"
        ),
        {"a": True},
        ["default"],
        False,
    ),
    "memo of FC": (
        (
            "import { memo } from 'react'\nimport type { FC } from 'react'\n"
            "const Card: FC<{ a: string; b: number }> = ({ a, b = 2 }) => <p>{a}{b}</p>\nexport default memo(Card)"
        ),
        {"a": True, "b": False},
        [],
        False,
    ),
    "no types": (
        "export default function Card({ a, b = 1 }) { return <p>{a}{b}</p> }",
        {"a": False, "b": False},
        [],
        False,
    ),
    "the rest": ("export default ({ a, ...rest }) => <p {...rest}>{a}</p>", {"a": False}, [], True),
    "a type of elsewhere": (
        (
            "import type { ImgHTMLAttributes } from 'react'\ntype P = ImgHTMLAttributes<Element> & { a: string }\n"
            "export default (props: P) => <p {...props}/>"
        ),
        {"a": True},
        [],
        True,
    ),
    "no props": ("export default function Card() { return <p/> }", {}, [], False),
}


@pytest.mark.parametrize(("source", "expected", "slots", "open_"), REACT.values(), ids=REACT.keys())
def test_the_contract_of_a_react_component(
    compiler: Compiler, source: str, expected: dict[str, bool], slots: list[str], open_: bool
) -> None:
    told = contract(compiler, source, CARD)
    assert (props(told), told["slots"], told["open"]["props"]) == (expected, slots, open_)


NO_COMPONENT = {
    "no default export": (CARD, "export const Card = () => <p/>", "COMPONENT_EXPORT_MISSING"),
    "an object": (CARD, "const card = { a: 1 }\nexport default card", "COMPONENT_EXPORT_INVALID"),
    "an element": (CARD, "export default <p/>", "COMPONENT_EXPORT_INVALID"),
    "itself": (TILE, sfc("import Tile from './Tile.vue'", "<Tile/>"), "COMPONENT_CYCLE"),
}


@pytest.mark.parametrize(("path", "source", "code"), NO_COMPONENT.values(), ids=NO_COMPONENT.keys())
def test_what_is_no_component_is_refused_where_it_is_not(compiler: Compiler, path: str, source: str, code: str) -> None:
    answer = compiler.compile(path, {path: source}, contract=True)
    (error,) = answer["errors"]
    assert (error["code"], error["file"]) == (code, path)
    assert error["line"] == (2 if code == "COMPONENT_CYCLE" else 2 if "const card" in source else 1)


def test_a_circle_of_components_is_told_with_its_way(compiler: Compiler) -> None:
    modules = {
        TILE: sfc("import Row from '@components/Row.vue'", "<Row/>"),
        "components/Row.vue": sfc("import Cell from '@components/Cell.vue'", "<Cell/>"),
        "components/Cell.vue": sfc("import Tile from './Tile.vue'", "<Tile/>"),
    }
    (error,) = compiler.compile(TILE, modules, contract=True)["errors"]
    assert error["message"] == "These use each other in a circle: Tile.vue → Row.vue → Cell.vue → Tile.vue."
    assert (error["code"], error["line"]) == ("COMPONENT_CYCLE", 2)


WIDE = "\n".join(f"type T{n} = T{n + 1} & T{n + 1}" for n in range(40)) + "\ntype T40 = { a: string }\n"
HOSTILE = {
    "constants that name each other": (
        TILE,
        sfc("const a = { ...b }\nconst b = { ...a }\nexport default { props: a }", setup=""),
    ),
    "types that name each other": (
        CARD,
        "interface A extends B {}\ninterface B extends A {}\nexport default (p: A) => <p/>",
    ),
    "types that double": (CARD, WIDE + "export default (p: T0) => <p/>"),
    "more props than anybody gives": (TILE, sfc(f"defineProps({[f'p{n}' for n in range(5000)]})", setup=" setup")),
    "a name without an end": (TILE, sfc(f"defineProps(['{'p' * 5000}', 'a'])", setup=" setup")),
}


@pytest.mark.parametrize(("path", "source"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_contract_that_cannot_be_read_to_its_end_is_open_and_small(
    compiler: Compiler, path: str, source: str
) -> None:
    told = contract(compiler, source, path)
    assert told["open"]["props"] is True
    assert len(told["props"]) <= 200
    assert all(len(prop["name"]) <= 100 for prop in told["props"])


def test_every_use_of_a_component_is_told_with_its_place(compiler: Compiler) -> None:
    page = sfc(
        "import Tile from '@components/Tile.vue'\nconst all = {}",
        """
<Tile title="x" :max-size="3" @close="() => {}" class="p-2"><p>text</p></Tile>
<tile v-model:open="all.open"><template #head="{ x }">{{ x }}</template></tile>
<component :is="Tile" v-bind="all"/>
<Row/>""",
    ).replace("import Tile", "import Row from '@components/Row.vue'\nimport Tile")
    row = sfc("import T from './Tile.vue'", '<T v-slot:foot title="y"/>')
    modules = {"pages/page.vue": page, TILE: sfc("defineProps(['title'])", "<slot/>"), "components/Row.vue": row}
    answer = compiler.compile("pages/page.vue", modules, usesOf=TILE)
    assert answer["errors"] == []
    uses = answer["result"]["uses"]
    assert [(use["file"], use["line"]) for use in uses] == [
        ("pages/page.vue", 7),
        ("pages/page.vue", 8),
        ("pages/page.vue", 9),
        ("components/Row.vue", 4),
    ]
    first, second, _third, fourth = uses
    assert (first["props"], first["events"], first["slots"]) == (["title", "maxSize", "class"], ["close"], ["default"])
    assert (second["props"], second["events"], second["slots"]) == (["open"], ["update:open"], ["head"])
    assert [use["open"] for use in uses] == [False, False, True, False]
    assert (fourth["props"], fourth["slots"]) == (["title"], ["foot"])


def test_uses_in_react_pages(compiler: Compiler) -> None:
    page = (
        "import Card from '@components/Card.tsx'\nconst all = {}\nexport default function Page() {\n"
        "  return <main><Card title='a'>text</Card>\n  <Card {...all} onClose={() => {}}/></main>\n}\n"
    )
    modules = {"pages/page.tsx": page, CARD: REACT["the rest"][0]}
    uses = compiler.compile("pages/page.tsx", modules, usesOf=CARD)["result"]["uses"]
    assert [(use["line"], use["props"], use["slots"], use["open"]) for use in uses] == [
        (4, ["title"], ["default"], False),
        (5, ["onClose"], [], True),
    ]


def test_a_page_is_asked_for_nothing(compiler: Compiler) -> None:
    assert compiler.compile("pages/page.vue", {"pages/page.vue": sfc("")})["result"] == {}
