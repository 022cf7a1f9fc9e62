"""A component looked at alone, with props (R7): compiled as an entry, shown on a neutral stage, judged like a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pagegate.actors.systems.renderer import RendererOptions, RendererSystem
from pagegate.actors.systems.runtime import RuntimeOptions, RuntimeSystem
from pagegate.renderer.contract import PageBases, RenderResult, RenderTask, Viewport
from pagegate.renderer.egress import MemoryOrigin, OriginResponse
from pagegate.runtime.contract import ArtifactManifest, Canvas, EntryPage
from pagegate.runtime.sources import MemoryModuleSource

VUE = """<script setup lang="ts">
defineProps<{ label: string; values: number[] }>()
</script>

<template>
  <figure class="w-64 rounded-xl border border-slate-300 p-4">
    <figcaption class="text-slate-700">{{ label }}</figcaption>
    <p v-for="value in values" :key="value" class="text-3xl font-bold text-slate-900">{{ value.toFixed(1) }}</p>
  </figure>
</template>
"""
REACT = """type Props = { label: string; values: number[] }

export default function Figure({ label, values }: Props) {
  return (
    <figure className="w-64 rounded-xl border border-slate-300 p-4">
      <figcaption className="text-slate-700">{label}</figcaption>
      {values.map((value) => <p key={value} className="text-3xl font-bold text-slate-900">{value.toFixed(1)}</p>)}
    </figure>
  )
}
"""
GOOD = {"label": "</script><script>throw 1</script>", "values": [1, 2.5]}
SUFFIXES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


async def compiled(runtime: RuntimeSystem, name: str, source: str) -> dict[str, OriginResponse]:
    framework = "vue" if name.endswith(".vue") else "react"
    manifest = ArtifactManifest(
        artifact_id=name,
        entry=name,
        framework=framework,
        modules=[name],
        entry_page=EntryPage(code="stage"),
        canvas=Canvas(width_px=640, height_px=None),
    )
    result = await runtime.compile(name, MemoryModuleSource(manifest, {name: source}))
    assert result.output is not None, result.errors
    output = runtime.outputs.find(result.output.output_id)
    assert output is not None
    assert runtime.vendor_dir is not None
    vendor = {f"vendor/{file.name}": file.read_bytes() for file in runtime.vendor_dir.iterdir() if file.is_file()}
    served = {f"/{path}": _answer(path, body) for path, body in {**output.files, **vendor}.items()}
    return served | {"/": served["/index.html"]}


def _answer(path: str, body: bytes) -> OriginResponse:
    return OriginResponse(200, SUFFIXES.get(Path(path).suffix[1:], "application/json"), body)


async def diagnose(
    renderer: RendererSystem, files: Mapping[str, OriginResponse], props: dict[str, Any]
) -> RenderResult:
    nowhere = "https://gate.invalid/"
    task = RenderTask(
        attempt_id=str(len(props)) + str(props)[:60],
        request_id="r",
        operation="component.diagnose",
        bases=PageBases(navigation_url=nowhere, vendor_url=nowhere, assets_url=nowhere),
        viewport=Viewport(width_px=640),
        props=props,
    )
    result, png = await renderer.render(task, MemoryOrigin(files))
    assert result.error is None
    assert result.diagnosis is not None
    assert (png is None) == (result.picture is None)
    return result


@pytest.mark.parametrize(("name", "source"), [("components/Figure.vue", VUE), ("components/Figure.tsx", REACT)])
async def test_a_component_is_shown_alone_with_its_props_and_judged(name: str, source: str) -> None:
    missing = "PROP_MISSING" if name.endswith(".vue") else "PAGE_ERROR"
    async with RuntimeSystem(RuntimeOptions()) as runtime, RendererSystem(RendererOptions()) as renderer:
        files = await compiled(runtime, name, source)
        good = await diagnose(renderer, files, GOOD)
        assert good.diagnosis is not None
        assert (good.diagnosis.status, good.diagnosis.findings) == ("passed", [])
        assert good.picture is not None

        bad = await diagnose(renderer, files, {"label": "No values"})
        assert bad.diagnosis is not None
        assert bad.diagnosis.status == ("warning" if name.endswith(".vue") else "failed")
        finding = bad.diagnosis.findings[0]
        assert finding.code == missing
        if name.endswith(".tsx"):
            assert (finding.file, finding.line) == (name, 7)

        blank = await diagnose(
            renderer, await compiled(runtime, "components/Void.vue", "<template><i /></template>"), {}
        )
        assert blank.diagnosis is not None
        assert [finding.code for finding in blank.diagnosis.findings] == ["PAGE_BLANK"]
        assert "The component stays blank" in blank.diagnosis.findings[0].message
