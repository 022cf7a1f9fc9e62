"""The minimal snapshot: never less than the page uses."""

from pagegate.actors.jobs.snapshot import Snapshot, take_snapshot

FILES = {
    "components/Frame.vue": "import logo from '@assets/logo.svg'\nimport Inner from './Inner.vue'",
    "components/Inner.vue": "<template><i/></template>",
    "components/Unused.vue": "<template><b/></template>",
    "pages/other.vue": "import Frame from '@components/Frame.vue'",
}
ASSETS = {"logo.svg", "map.svg", "a (1).png", "bg.png"}


def snapshot(source: str, entry: str = "pages/p.vue") -> Snapshot:
    return take_snapshot(entry, source, read=FILES.get, every_module=lambda: FILES, assets=ASSETS)


def test_only_what_the_page_reaches_is_taken() -> None:
    taken = snapshot("import Frame from '@components/Frame.vue'")
    assert set(taken.modules) == {"pages/p.vue", "components/Frame.vue", "components/Inner.vue"}
    assert taken.assets == {"logo.svg"}
    assert not taken.full


def test_pages_may_be_imported_and_cycles_end() -> None:
    taken = snapshot("import O from '@pages/other.vue'\nimport me from '@pages/p.vue'")
    assert set(taken.modules) == {"pages/p.vue", "pages/other.vue", "components/Frame.vue", "components/Inner.vue"}


def test_assets_are_found_in_markup_script_and_styles() -> None:
    taken = snapshot(
        """<img src="@assets/map.svg"><img src="@assets/a (1).png">
        <style>.a { background: url(@assets/bg.png) } .b { background: url('@assets/logo.svg?x#y') }</style>"""
    )
    assert taken.assets == ASSETS


def test_assets_are_found_where_no_quote_stands_before_their_address() -> None:
    taken = snapshot('<img src=@assets/map.svg><img srcset="@assets/bg.png 1x, @assets/logo.svg 2x" style="x">')
    assert taken.assets == {"map.svg", "bg.png", "logo.svg"}


def test_what_does_not_exist_is_left_to_the_compile() -> None:
    taken = snapshot("import X from '@components/Missing.vue'; import y from '@assets/none.svg'")
    assert set(taken.modules) == {"pages/p.vue"}
    assert taken.assets == frozenset()


def test_a_reference_built_at_run_time_takes_everything() -> None:
    for source in ("const a = `@assets/${name}.svg`", "import('@components/' + name)", "import.meta.glob('./*.vue')"):
        taken = snapshot(source)
        assert taken.full
        assert set(taken.modules) == {"pages/p.vue", *FILES}
        assert taken.assets == ASSETS


def test_the_candidate_replaces_the_saved_page() -> None:
    assert snapshot("new", entry="pages/other.vue").modules["pages/other.vue"] == "new"
