"""What Runtime and Renderer read of a preview artifact: by its ticket only, and never half of it (P1-P3, V7)."""

from dataclasses import dataclass

import pytest

from pagegate.runtime.contract import ArtifactManifest, Canvas, EntryPage
from pagegate.storage.objects import StoredAsset, asset_key, sha256_of
from pagegate.storage.preview_artifacts import ArtifactUnavailable, PreviewArtifacts
from pagegate.storage.runtime_state import MemoryState, StateFull
from tests.integration.http.conftest import Answer, Person, World

LOGO = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
MODULES = {"pages/q3-costs.vue": "<template><p>costs 页</p></template>", "components/StatTile.vue": "<template/>"}


@dataclass
class Preview:
    world: World
    artifact_id: str
    logo: StoredAsset

    @property
    def base(self) -> str:
        return f"/internal/runtime/preview-artifacts/{self.artifact_id}"

    @property
    def runtime(self) -> Person:
        ticket = self.world.parts.tickets.issue(self.artifact_id)
        return Person(self.world.http, self.world.editor.base, 0, ticket)

    async def get(self, path: str) -> Answer:
        return await self.runtime.get(self.base + path)


def manifest(logo: StoredAsset) -> dict[str, object]:
    made = ArtifactManifest(
        artifact_id="",
        entry="pages/q3-costs.vue",
        framework="vue",
        modules=list(MODULES),
        assets={logo.name: {"media_type": logo.media_type, "sha256": logo.sha256, "size_bytes": logo.size_bytes}},
        entry_page=EntryPage(code="q3-costs", title="Costs", speaker_notes="Slowly."),
        canvas=Canvas(width_px=1280, height_px=720),
    )
    return made.model_dump(mode="json")


@pytest.fixture
async def preview(world: World) -> Preview:
    digest = sha256_of(LOGO)
    logo = StoredAsset("logo 1.svg", "image/svg+xml", digest, len(LOGO), asset_key(world.project_id, digest))
    await world.parts.objects.put(logo.key, LOGO)
    artifact_id = await world.parts.artifacts.create(manifest(logo), MODULES, {logo.name: logo})
    return Preview(world, artifact_id, logo)


async def test_the_runtime_reads_all_it_needs_for_a_compile(preview: Preview) -> None:
    read = ArtifactManifest.model_validate((await preview.get("/manifest")).body)
    assert (read.artifact_id, read.entry, read.modules) == (preview.artifact_id, "pages/q3-costs.vue", list(MODULES))
    config = (await preview.get("/config-bundle")).body
    assert config["canvas"] == {"width_px": 1280, "height_px": 720}
    assert config["entry_page"]["title"] == "Costs"
    one = await preview.get("/modules?path=pages/q3-costs.vue")
    assert one.raw.decode() == MODULES["pages/q3-costs.vue"]
    assert one.headers["Content-Type"] == "text/plain; charset=utf-8"
    asset = await preview.get("/assets/logo%201.svg")
    assert (asset.raw, asset.headers["Content-Type"]) == (LOGO, "image/svg+xml")


async def test_modules_are_read_in_batches_and_unknown_ones_are_absent(preview: Preview) -> None:
    path = f"{preview.base}/modules/batch"
    answer = await preview.runtime.post(path, {"paths": [*MODULES, "pages/other.vue", "../../etc/passwd"]})
    assert answer.body == {"modules": MODULES}
    fits = await preview.runtime.post(path, {"paths": ["x"] * 128})
    assert fits.status == 200
    refused = await preview.runtime.post(path, {"paths": ["x"] * 129})
    assert (refused.status, refused.code) == (422, "REQUEST_INVALID")


@pytest.mark.parametrize("path", ["/modules?path=pages/other.vue", "/modules?path=..%2Fx", "/modules?path="])
async def test_a_module_outside_the_artifact_is_not_found(preview: Preview, path: str) -> None:
    answer = await preview.get(path)
    assert (answer.status, answer.code) == (404, "MODULE_NOT_FOUND")
    assert (await preview.get("/assets/other.svg")).code == "ASSET_NOT_FOUND"


async def test_a_ticket_opens_its_own_artifact_only(preview: Preview) -> None:
    other = await preview.world.parts.artifacts.create(manifest(preview.logo), MODULES, {})
    stolen = Person(preview.world.http, preview.world.editor.base, 0, preview.world.parts.tickets.issue(other))
    for path in ("/manifest", "/config-bundle", "/modules?path=pages/q3-costs.vue", "/assets/logo%201.svg"):
        for person in (stolen, preview.world.editor, preview.world.admin):
            answer = await person.get(preview.base + path)
            assert (answer.status, answer.code) == (401, "TICKET_INVALID")
        nobody = await preview.world.nobody.get(preview.base + path)
        assert (nobody.status, nobody.code) == (401, "TOKEN_MISSING")
    batch = await stolen.post(f"{preview.base}/modules/batch", {"paths": []})
    assert batch.code == "TICKET_INVALID"


async def test_a_ticket_is_no_users_token(preview: Preview) -> None:
    assert (await preview.runtime.get("/me")).code == "TOKEN_INVALID"


async def test_an_artifact_that_is_gone_says_what_to_do(preview: Preview) -> None:
    await preview.world.parts.artifacts.delete(preview.artifact_id)
    await preview.world.parts.artifacts.delete(preview.artifact_id)
    for path in ("/manifest", "/config-bundle", "/modules?path=pages/q3-costs.vue", "/assets/logo%201.svg"):
        answer = await preview.get(path)
        assert (answer.status, answer.code) == (404, "PREVIEW_ARTIFACT_UNAVAILABLE")
        assert "again" in answer.body["hint"]
    batch = await preview.runtime.post(f"{preview.base}/modules/batch", {"paths": []})
    assert batch.code == "PREVIEW_ARTIFACT_UNAVAILABLE"


async def test_an_artifact_over_the_limit_is_refused_whole(preview: Preview) -> None:
    state = MemoryState(max_bytes=4000)
    artifacts = PreviewArtifacts(state)
    kept = await artifacts.create({"entry": "a"}, {"pages/a.vue": "x"}, {})
    before = state.bytes_used()
    with pytest.raises(StateFull):
        await artifacts.create({"entry": "b"}, {"pages/a.vue": "x", "pages/b.vue": "x" * 4000}, {})
    assert state.bytes_used() == before
    assert (await artifacts.get_manifest(kept))["entry"] == "a"


async def test_an_artifact_ends_with_its_time_to_live() -> None:
    class Clock:
        ms = 1_000_000

        def now_ms(self) -> int:
            return self.ms

    clock = Clock()
    artifacts = PreviewArtifacts(MemoryState(max_bytes=4000, clock=clock))
    artifact_id = await artifacts.create({"entry": "a"}, {"pages/a.vue": "x"}, {}, ttl_s=60)
    clock.ms += 59_999
    assert await artifacts.read_modules(artifact_id, ["pages/a.vue"]) == {"pages/a.vue": "x"}
    clock.ms += 1
    with pytest.raises(ArtifactUnavailable):
        await artifacts.read_modules(artifact_id, ["pages/a.vue"])


async def test_deleting_one_artifact_leaves_the_others(preview: Preview) -> None:
    other = await preview.world.parts.artifacts.create(manifest(preview.logo), MODULES, {})
    await preview.world.parts.artifacts.delete(other)
    assert (await preview.get("/manifest")).status == 200
