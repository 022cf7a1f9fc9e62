"""Workspace components of a project over HTTP (D3, D4): pages import them as `@components/<name>`."""

from dataclasses import asdict

from pydantic import Field

from pagegate.actors.agents.arguments import ComponentName, SourceText
from pagegate.actors.jobs.used_by import find_used_by
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.models import Id, Params, ProjectParams, Said, Shown, TimeMs, VersionNumber
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.runtime.contract import ComponentContract
from pagegate.storage import components as storage

components = Noun("components")


class ComponentParams(Params):
    project_id: Id
    name: ComponentName


class ComponentVersionParams(ComponentParams):
    number: VersionNumber


class NewSource(Said):
    source: SourceText


class ComponentVersionView(Shown):
    name: str
    number: int = Field(description="Counts from 1 within the component.")
    source: str
    contract: ComponentContract | None = Field(
        description="The props, events and slots that its check found; null for a version that was put here unchecked."
    )
    created_by: int
    created_at_ms: TimeMs


class UsingPage(Shown):
    """A page whose current version pins the component."""

    code: str
    version: int
    component_version: int = Field(description="The one that the page was checked with, and keeps.")


class Users(Shown):
    pages: list[UsingPage]
    components: list[str] = Field(description="Components whose current source imports it.")


class ComponentView(ComponentVersionView):
    """The current version, and who uses the component. `versions` lists what there ever was."""

    versions: list[int]
    used_by: Users


class SavedComponent(Shown):
    name: str
    number: int
    added: bool = Field(description="False when the source is the current version's: nothing was written.")


class ComponentEntryView(Shown):
    name: str
    version: int
    size_bytes: int
    checked: bool = Field(description="False for a version that was put here without a check.")
    updated_at_ms: TimeMs


class ComponentList(Shown):
    components: list[ComponentEntryView]


class ComponentVersionEntry(Shown):
    number: int
    created_by: int
    created_at_ms: TimeMs


class ComponentVersionList(Shown):
    versions: list[ComponentVersionEntry]


@components.route("GET", "/projects/{project_id}/components", refusals=["PROJECT_NOT_FOUND"])
async def list_components(call: Call[ProjectParams, Nothing]) -> ComponentList:
    """List the components of a project."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
        found = await storage.list_components(tx, call.params.project_id)
    return ComponentList(components=[ComponentEntryView.model_validate(entry) for entry in found])


@components.route(
    "PUT",
    "/projects/{project_id}/components/{name}",
    refusals=[
        "PROJECT_NOT_FOUND",
        "ROLE_REQUIRED",
        "COMPONENT_NAME_INVALID",
        "PAGE_SOURCE_EMPTY",
        "PAGE_SOURCE_TOO_LARGE",
    ],
    body_bytes_max=lambda limits: limits.source_body_bytes_max(),
)
async def put_component(call: Call[ComponentParams, NewSource]) -> SavedComponent:
    """Save a component's next version, unchecked; saved pages keep the version they were checked with.

    The tools `create_component` and `apply_component_edits` check it first: see /projects/{project_id}/tool-calls.
    """
    size_bytes = len(call.body.source.encode())
    if size_bytes > call.parts.limits.source_bytes_max:
        raise ApiError(
            "PAGE_SOURCE_TOO_LARGE",
            f"The source has {size_bytes} bytes, {call.parts.limits.source_bytes_max} are allowed.",
        )
    async with call.parts.db.write() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
        version, added = await storage.put_component(
            tx, call.params.project_id, call.params.name, call.body.source, call.user.user_id
        )
    return SavedComponent(name=version.name, number=version.number, added=added)


@components.route(
    "GET",
    "/projects/{project_id}/components/{name}",
    refusals=["PROJECT_NOT_FOUND", "COMPONENT_NOT_FOUND", "COMPONENT_NAME_INVALID"],
)
async def get_component(call: Call[ComponentParams, Nothing]) -> ComponentView:
    """A component's current version, its contract, and who uses it."""
    project_id, name = call.params.project_id, call.params.name
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, project_id)
        version = await storage.find_component(tx, project_id, name)
        if version is None:
            raise ApiError("COMPONENT_NOT_FOUND")
        numbers = await storage.list_version_numbers(tx, project_id, name)
        used_by = await find_used_by(tx, project_id, name)
    return ComponentView(**asdict(version), versions=numbers, used_by=Users.model_validate(used_by))


@components.route(
    "DELETE",
    "/projects/{project_id}/components/{name}",
    status=204,
    refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED", "COMPONENT_NOT_FOUND", "COMPONENT_NAME_INVALID"],
)
async def delete_component(call: Call[ComponentParams, Nothing]) -> Nothing:
    """Take a component out of what pages may import; its versions stay readable."""
    async with call.parts.db.write() as tx:
        await project_of(tx, call.user, call.params.project_id, need="editor")
        if not await storage.delete_component(tx, call.params.project_id, call.params.name):
            raise ApiError("COMPONENT_NOT_FOUND")
    return Nothing()


@components.route(
    "GET",
    "/projects/{project_id}/components/{name}/versions",
    refusals=["PROJECT_NOT_FOUND", "COMPONENT_NOT_FOUND", "COMPONENT_NAME_INVALID"],
)
async def list_component_versions(call: Call[ComponentParams, Nothing]) -> ComponentVersionList:
    """List the versions of a component, oldest first."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
        found = await storage.list_component_versions(tx, call.params.project_id, call.params.name)
    if not found:
        raise ApiError("COMPONENT_NOT_FOUND")
    return ComponentVersionList(versions=[ComponentVersionEntry.model_validate(version) for version in found])


@components.route(
    "GET",
    "/projects/{project_id}/components/{name}/versions/{number}",
    refusals=["PROJECT_NOT_FOUND", "COMPONENT_NOT_FOUND", "COMPONENT_NAME_INVALID"],
)
async def get_component_version(call: Call[ComponentVersionParams, Nothing]) -> ComponentVersionView:
    """One version of a component; it never changes."""
    async with call.parts.db.read() as tx:
        await project_of(tx, call.user, call.params.project_id)
        version = await storage.find_component_version(tx, call.params.project_id, call.params.name, call.params.number)
    if version is None:
        raise ApiError("COMPONENT_NOT_FOUND", f"{call.params.name} has no version {call.params.number}.")
    return ComponentVersionView.model_validate(version)
