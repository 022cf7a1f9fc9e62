"""What a component would be after a call: the plan that a component mutation checks and commits (A2, D3, D4).

Owns the reading of a stored call against the project as it is now. Writes nothing. What cannot be done is a `Refused`:
content, final at once, with the next step. Nothing is kept; a plan that no longer fits is refused at the commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pagegate.actors.agents.tools import (
    ApplyComponentEdits,
    ApplyComponentEditsCall,
    CreateComponent,
    CreateComponentCall,
)
from pagegate.actors.jobs.call_job import Refused, read_call, unreadable
from pagegate.actors.jobs.candidate import Candidate, Material, load_material
from pagegate.actors.jobs.edits import EditRefused, apply_edits
from pagegate.runtime.contract import Canvas, ComponentContract, EntryPage, framework_of
from pagegate.storage import components
from pagegate.storage.components import ComponentVersion
from pagegate.storage.engine import Tx
from pagegate.storage.jobs import ClaimedJob


@dataclass(frozen=True)
class ComponentPlan:
    """A component as it would be saved. `base` is the version that the call starts from; None for a new component."""

    call_id: str
    name: str
    source: str
    base: ComponentVersion | None
    material: Material

    @property
    def about(self) -> dict[str, str]:
        return {"component_name": self.name}

    @property
    def entry(self) -> str:
        return f"components/{self.name}"

    @property
    def base_contract(self) -> ComponentContract | None:
        """What the base's check found; None for a base that nobody checked."""
        told = self.base.contract if self.base is not None else None
        return None if told is None else ComponentContract.model_validate(told)

    def candidate(self, source: str | None = None) -> Candidate:
        """The component alone, to be compiled as an entry; `source` is another one for it, as its base's."""
        project = self.material.project
        modules = {
            **{f"components/{name}": text for name, (_, text) in self.material.components.items()},
            **{f"pages/{name}": text for name, text in self.material.pages.items()},
        }
        own = self.source if source is None else source
        return Candidate(
            workspace_id=project.workspace_id,
            entry=self.entry,
            framework=framework_of(self.name),
            source=own,
            entry_page=EntryPage(code=self.name, title=self.name),
            canvas=Canvas(width_px=project.canvas_width_px, height_px=project.canvas_height_px),
            modules=modules | {self.entry: own},
            assets=self.material.assets,
            theme=self.material.theme,
        )

    def in_page(self, page: Candidate) -> Candidate:
        """A saved page as it would be with this component in the place of the version that it pins."""
        modules: Mapping[str, str] = {**page.modules, self.entry: self.source}
        return replace(page, modules=modules)


async def plan_component(tx: Tx, job: ClaimedJob, source_bytes_max: int) -> ComponentPlan | Refused:
    """Read the job's call against the project as it is now."""
    stored = await read_call(tx, job)
    if isinstance(stored, Refused):
        return stored
    match stored.call:
        case CreateComponentCall(arguments=arguments):
            made = await _new(tx, job, arguments)
        case ApplyComponentEditsCall(arguments=arguments):
            made = await _edited(tx, job, arguments)
        case _:
            return unreadable("The stored call is none about a component.")
    if isinstance(made, Refused):
        return made
    name, source, base = made
    if (size_bytes := len(source.encode())) > source_bytes_max:
        return Refused(
            "PAGE_SOURCE_TOO_LARGE",
            f"The component would have {size_bytes} bytes, {source_bytes_max} are allowed.",
            "Move data into assets, and repeated markup into components of its own.",
        )
    return ComponentPlan(stored.call_id, name, source, base, await load_material(tx, stored.project))


_Made = tuple[str, str, ComponentVersion | None]


async def _new(tx: Tx, job: ClaimedJob, arguments: CreateComponent) -> _Made | Refused:
    if await components.find_component(tx, job.row.project_id, arguments.name) is not None:
        return name_taken(arguments.name)
    return arguments.name, arguments.source, None


async def _edited(tx: Tx, job: ClaimedJob, arguments: ApplyComponentEdits) -> _Made | Refused:
    name = arguments.component
    current = await components.find_component(tx, job.row.project_id, name)
    if current is None:
        return Refused(
            "COMPONENT_NOT_FOUND",
            f"There is no component {name!r}.",
            "list_workspace_components names the components there are; create_component makes a new one.",
        )
    # A later edit of one step builds on what the earlier one wrote, whatever base it names (A2).
    earlier = await components.find_version_of_step(tx, job.row.batch_id, name, job.row.position)
    base = earlier or arguments.base_version
    if base != current.number:
        return stale_base(name, base, current.number)
    try:
        edits = [(edit.search, edit.replace) for edit in arguments.edits]
        return name, apply_edits(current.source, edits, "component"), current
    except EditRefused as refusal:
        return Refused(refusal.code, refusal.message, refusal.hint)


def name_taken(name: str) -> Refused:
    return Refused(
        "COMPONENT_NAME_TAKEN",
        f"The project already has a component {name!r}.",
        "Change that one with apply_component_edits, or choose another name.",
    )


def stale_base(name: str, base: int, current: int | None) -> Refused:
    now = f"version {current}" if current else "deleted"
    return Refused(
        "COMPONENT_BASE_STALE",
        f"The call is based on version {base} of {name!r}, which is now {now}.",
        "Read the component's current source (list_workspace_components) and make the edits again from there.",
    )
