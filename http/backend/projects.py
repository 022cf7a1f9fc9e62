"""Projects over HTTP (D1): a name and a canvas, in a workspace. Editors write, viewers read."""

from pydantic import Field

from pagegate.actors.agents.arguments import OneLine, WholeCanvas
from pagegate.http.backend.auth import project_of, workspace_of
from pagegate.http.backend.models import (
    DEFAULT_CANVAS,
    ProjectParams,
    Said,
    Shown,
    TimeMs,
    WorkspaceParams,
)
from pagegate.http.backend.routes import Call, Nothing, Noun
from pagegate.runtime.contract import Canvas
from pagegate.storage import projects as storage

projects = Noun("projects")


class NewProject(Said):
    name: OneLine
    canvas: WholeCanvas = Field(
        default=DEFAULT_CANVAS, description="`height_px` null: each page decides its own height."
    )


class ProjectChange(Said):
    """What is left out stays as it is."""

    name: OneLine | None = None
    canvas: WholeCanvas | None = None


class ProjectView(Shown):
    id: int
    workspace_id: int
    name: str
    canvas: Canvas
    created_at_ms: TimeMs


class ProjectList(Shown):
    projects: list[ProjectView]


@projects.route(
    "POST", "/workspaces/{workspace_id}/projects", status=201, refusals=["WORKSPACE_NOT_FOUND", "ROLE_REQUIRED"]
)
async def create_project(call: Call[WorkspaceParams, NewProject]) -> ProjectView:
    """Create a project."""
    canvas = call.body.canvas
    async with call.parts.db.write() as tx:
        await workspace_of(tx, call.user, call.params.workspace_id, need="editor")
        project_id = await storage.create_project(
            tx,
            call.params.workspace_id,
            call.body.name,
            canvas_width_px=canvas.width_px,
            canvas_height_px=canvas.height_px,
        )
        project = await project_of(tx, call.user, project_id)
    return _view(project)


@projects.route("GET", "/workspaces/{workspace_id}/projects", refusals=["WORKSPACE_NOT_FOUND"])
async def list_projects(call: Call[WorkspaceParams, Nothing]) -> ProjectList:
    """List the projects of a workspace."""
    async with call.parts.db.read() as tx:
        await workspace_of(tx, call.user, call.params.workspace_id)
        found = await storage.list_projects(tx, call.params.workspace_id)
    return ProjectList(projects=[_view(project) for project in found])


@projects.route("GET", "/projects/{project_id}", refusals=["PROJECT_NOT_FOUND"])
async def get_project(call: Call[ProjectParams, Nothing]) -> ProjectView:
    """One project."""
    async with call.parts.db.read() as tx:
        return _view(await project_of(tx, call.user, call.params.project_id))


@projects.route("PATCH", "/projects/{project_id}", refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED"])
async def change_project(call: Call[ProjectParams, ProjectChange]) -> ProjectView:
    """Change a project's name or canvas; saved pages stay as they were judged."""
    async with call.parts.db.write() as tx:
        project = await project_of(tx, call.user, call.params.project_id, need="editor")
        canvas = call.body.canvas or _canvas(project)
        await storage.update_project(
            tx,
            project.id,
            name=call.body.name or project.name,
            canvas_width_px=canvas.width_px,
            canvas_height_px=canvas.height_px,
        )
        return _view(await project_of(tx, call.user, project.id))


def _view(project: storage.Project) -> ProjectView:
    return ProjectView(
        id=project.id,
        workspace_id=project.workspace_id,
        name=project.name,
        canvas=_canvas(project),
        created_at_ms=project.created_at_ms,
    )


def _canvas(project: storage.Project) -> Canvas:
    return Canvas(width_px=project.canvas_width_px, height_px=project.canvas_height_px)
