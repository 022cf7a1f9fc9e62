"""Who uses a component: pages by what their current versions pin, components by what their sources name (D4).

Reads only, and keeps no index of its own: a pin is written with its page version, and a source is the component's own
word. A page whose references are put together at run time pins all there is, so it may be named without need.
"""

from dataclasses import dataclass

from pagegate.actors.jobs.snapshot import modules_named
from pagegate.storage.component_pins import PinningPage, list_pinning_pages
from pagegate.storage.components import list_current_components
from pagegate.storage.engine import Tx


@dataclass(frozen=True)
class UsedBy:
    """`components` by name, in order; each names the component in its current source."""

    pages: list[PinningPage]
    components: list[str]


async def find_used_by(tx: Tx, project_id: int, name: str) -> UsedBy:
    pages = await list_pinning_pages(tx, project_id, name)
    module = f"components/{name}"
    using = [
        one.name
        for one in await list_current_components(tx, project_id)
        if one.name != name and module in modules_named(f"components/{one.name}", one.source)
    ]
    return UsedBy(pages, using)
