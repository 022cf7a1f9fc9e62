"""A page that misses a component or a picture of its own step is not at fault: what to do first (A11)."""

from pagegate.actors.jobs.page_mutation import repair_first
from pagegate.actors.jobs.verdict import PageFinding, Stages, Verdict


def verdict(code: str, message: str) -> Verdict:
    finding = PageFinding(stage="compile", code=code, severity="error", message=message)
    return Verdict(
        status="failed", success=False, stages=Stages(compile="failed", render="skipped"), findings=[finding]
    )


MISSING = verdict("PAGE_IMPORT_NOT_FOUND", '"@components/Tile.vue" does not exist.')


def test_the_component_that_was_refused_before_is_to_be_repaired_first() -> None:
    told = repair_first(MISSING, ["Row.vue", "Tile.vue"])
    assert told is not None
    assert "The component Tile.vue" in told
    assert "send this page again as it is" in told


def test_a_page_with_a_fault_of_its_own_is_to_be_repaired_itself() -> None:
    assert repair_first(MISSING, []) is None
    assert repair_first(MISSING, ["Row.vue"]) is None
    assert repair_first(verdict("PAGE_TEMPLATE_SYNTAX", "components/Tile.vue is wrong"), ["Tile.vue"]) is None


def test_the_picture_that_was_refused_before_is_to_be_seen_to_first() -> None:
    for address in ("@assets/hero.png", "@assets/hero.png?raw", "@assets/hero.png#a"):
        missing = verdict("PAGE_ASSET_NOT_FOUND", f'The asset "{address}" does not exist.')
        told = repair_first(missing, ["Tile.vue"], ["a.png", "hero.png"])
        assert told is not None
        assert "The picture hero.png" in told
        assert "send this page again as it is" in told


def test_a_page_that_misses_another_asset_than_the_refused_picture_is_to_be_repaired_itself() -> None:
    missing = verdict("PAGE_ASSET_NOT_FOUND", 'The asset "@assets/hero.png.svg" does not exist.')
    assert repair_first(missing, [], ["hero.png", "png.svg"]) is None
    assert repair_first(missing, [], []) is None
