"""The kit (D3): what of it gets onto a page, in both frameworks, and that its description tells all of it."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pagegate.runtime.node_worker import find_node, runtime_home

from .conftest import Compiler, vue

DESCRIPTION = Path(__file__).parents[3] / "docs" / "pages.md"
TELL = """
import { KIT_NAMES, KIT_VERSION } from './kit.mjs'
const all = {}
for (const name of KIT_NAMES) {
  const { name: called, props, children } = (await import(`./kit/${name}.mjs`)).default
  all[name] = { called, props, children }
}
process.stdout.write(JSON.stringify({ version: KIT_VERSION, all }))
"""


@pytest.fixture(scope="module")
def kit() -> Any:
    told = subprocess.run(
        [find_node(), "--input-type=module", "-e", TELL],
        cwd=runtime_home(),
        capture_output=True,
        check=True,
        timeout=30,
    )
    return json.loads(told.stdout)


def test_description_tells_every_component_with_every_prop_and_what_is_required(kit: Mapping[str, Any]) -> None:
    text = DESCRIPTION.read_text(encoding="utf-8")
    assert f"Version {kit['version']}" in text
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert set(rows) == set(kit["all"])
    for name, component in kit["all"].items():
        assert component["called"] == name
        assert ("children" in rows[name]) == bool(component.get("children")), name
        for prop, rule in component["props"].items():
            assert (f"**`{prop}`**" if rule.get("required") else f"`{prop}`") in rows[name], (name, prop)
            missing = [choice for choice in rule.get("choices", []) if f"`{choice}`" not in text]
            assert not missing, (name, prop, missing)


@pytest.mark.parametrize("framework", ["vue", "react"])
def test_every_component_of_the_kit_compiles_and_brings_its_style(
    compiler: Compiler, kit: Mapping[str, Any], framework: str
) -> None:
    names = list(kit["all"])
    imports = "\n".join(f'import {name} from "@kit/{name}"' for name in names)
    uses = "".join(f"<{name} />" for name in names)
    path, source = "pages/p.vue", vue(imports, uses)
    if framework == "react":
        path, source = "pages/p.tsx", f"{imports}\nexport default function P() {{\n  return <div>{uses}</div>\n}}\n"
    answer = compiler.compile(path, {path: source})
    assert answer["errors"] == []
    files = answer["files"]
    assert ".kit-slide" in files["page.css"]
    before = files["page.css"].partition(".kit-slide")[0]
    assert before.rstrip().endswith("@layer components {"), "below the utilities, which win"
    outside = set(re.findall(r'^import .* from "([^"]*)"', files["page.js"], re.MULTILINE))
    assert outside
    assert all(address.startswith("/vendor/") for address in outside)
    assert files["page.js"].count(f'"data-pg-loc": "{path}:') == len(names) + 1, "each, and the element around them"


def test_page_without_the_kit_has_nothing_of_it_and_a_component_may_bring_it(compiler: Compiler) -> None:
    plain = compiler.compile("pages/p.vue", {"pages/p.vue": vue()})["files"]
    assert ".kit-" not in plain["page.css"]
    used = {
        "pages/p.vue": vue("import A from '@components/A.vue'", "<A/>"),
        "components/A.vue": vue("import I from '@kit/Icon'", '<I name="check"/>'),
    }
    files = compiler.compile("pages/p.vue", used)["files"]
    assert ".kit-icon" in files["page.css"]
    assert "Callout" not in files["page.js"]


def test_maps_name_nothing_of_the_kits_folder(compiler: Compiler) -> None:
    files = compiler.compile("pages/p.vue", {"pages/p.vue": vue("import I from '@kit/Icon'", '<I name="check"/>')})[
        "files"
    ]
    assert set(json.loads(files["page.js.map"])["sources"]) <= {"pages/p.vue", "pagegate:host"}
    assert str(runtime_home()) not in json.dumps(files)


@pytest.mark.parametrize(
    "specifier",
    [
        "@kit",
        "@kit/",
        "@kit//Bars",
        "@kit/./Bars",
        "@kit/../compile",
        "@kit/props",
        "@kit/Bars?raw",
        "@kit/Bars.mjs",
        "@kit/file/props.mjs",
        "@kit/constructor",
        "@kit/__proto__",
        "@KIT/Bars",
        "kit/Bars",
        "./kit/Bars",
        "/@kit/Bars",
    ],
)
def test_nothing_but_the_published_names_leads_into_the_kit(compiler: Compiler, specifier: str) -> None:
    """X2."""
    for path, source in (
        ("pages/p.vue", vue(f"import x from '{specifier}'\nconsole.log(x)")),
        ("pages/p.tsx", f"import x from '{specifier}'\nexport default () => <p>{{String(x)}}</p>\n"),
    ):
        codes = {error["code"] for error in compiler.compile(path, {path: source})["errors"]}
        assert codes, specifier
        assert codes <= {"PAGE_IMPORT_NOT_FOUND", "PAGE_IMPORT_NOT_ALLOWED"}
