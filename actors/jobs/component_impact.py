"""Which pages and components use a component, and what they are told about a change of it (D4, A11).

Owns the reading of the saved pages that a change is tried against, and the words about them. Saved pages keep the
version that they were checked with: nothing here refuses a change, it says what comes with it.
"""

from collections.abc import Sequence
from typing import Any

from pagegate.actors.jobs.candidate import Candidate, Material, saved_page
from pagegate.actors.jobs.component_check import Impact, UsingPage
from pagegate.actors.jobs.component_contract import Change
from pagegate.actors.jobs.used_by import UsedBy, find_used_by
from pagegate.storage import pages
from pagegate.storage.component_pins import PinningPage
from pagegate.storage.engine import Tx

_BREAKS_TOLD_MAX = 10  # of one page: more of the same helps nobody

_FRESH = "The component is saved; pages import it as `@components/{name}`. Nothing uses it yet."
_KEPT = (
    "The component is saved. Saved pages keep the version they were checked with, and take this one when they are "
    "checked again; nothing that was tried would break."
)
_BROKEN = (
    "The component is saved, and saved pages keep the version they were checked with. These would break when they are "
    "checked again: {pages}. Change those places with apply_page_edits, or give the component back what they use."
)
_UNTRIED = " {count} more use it and were not tried."


async def read_using(tx: Tx, material: Material, name: str, pages_max: int) -> tuple[UsedBy, list[UsingPage]]:
    """Who uses the component; the first `pages_max` pages among them as they were checked."""
    used_by = await find_used_by(tx, material.project.id, name)
    using = []
    for number, one in enumerate(used_by.pages):
        candidate = await _as_checked(tx, material, one) if number < pages_max else None
        using.append(UsingPage(one.code, one.version, one.component_version, candidate))
    return used_by, using


async def _as_checked(tx: Tx, material: Material, one: PinningPage) -> Candidate | None:
    page = await pages.find_page_by_code(tx, material.project.id, one.code)
    version = await pages.find_version(tx, page.id, one.version) if page is not None else None
    return None if page is None or version is None else await saved_page(tx, material, page, version)


def told_impact(using: Sequence[UsingPage], components: Sequence[str], impact: Impact) -> dict[str, Any]:
    """What the result says of who uses the component."""
    told = []
    for page in using:
        found = impact.breaks.get(page.code, [])
        about: dict[str, Any] = {"page": page.code, "version": page.version, "keeps_version": page.pinned}
        if page.code in impact.not_tried:
            about["not_tried"] = impact.not_tried[page.code]
        else:
            about["breaks"] = [one.told for one in found[:_BREAKS_TOLD_MAX]]
            if len(found) > _BREAKS_TOLD_MAX:
                about["more_breaks"] = len(found) - _BREAKS_TOLD_MAX
        told.append(about)
    return {"pages": told, "components": list(components)}


def next_step(name: str, using: Sequence[UsingPage], components: Sequence[str], impact: Impact) -> str:
    """What to do now that the component is saved (A11)."""
    if not using and not components:
        return _FRESH.format(name=name)
    broken = [code for code, found in impact.breaks.items() if found]
    untried = _UNTRIED.format(count=len(impact.not_tried)) if impact.not_tried else ""
    return (_BROKEN.format(pages=", ".join(broken)) if broken else _KEPT) + untried


def summary(name: str, number: int, changes: Sequence[Change], impact: Impact) -> str:
    """One sentence for a person or a model."""
    broken = sum(bool(found) for found in impact.breaks.values())
    what = f"Version {number} of {name} compiles"
    if changes:
        what += f"; its contract has {len(changes)} change{'s' if len(changes) > 1 else ''}"
    if broken:
        what += f"; {broken} page{'s' if broken > 1 else ''} that use{'' if broken > 1 else 's'} it would break"
    return what + "."
