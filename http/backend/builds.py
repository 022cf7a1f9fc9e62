"""Builds and releases over HTTP (B1, B3, B5): ask for a build, look at it, download it, choose what the site shows."""

from typing import Any, Literal

import structlog
from aiohttp import web
from pydantic import Field

from pagegate.actors.jobs.build_snapshot import fix_project
from pagegate.actors.queues.control import CancelOneJob
from pagegate.http.backend.auth import project_of
from pagegate.http.backend.errors import ApiError
from pagegate.http.backend.files import send_object
from pagegate.http.backend.models import Id, Params, ProjectParams, Said, Shown, TimeMs, VersionNumber
from pagegate.http.backend.routes import Bytes, Call, Nothing, Noun
from pagegate.storage import builds as storage
from pagegate.storage.objects import ObjectMissing
from pagegate.storage.projects import find_theme
from pagegate.storage.runtime_state import StateUnavailable

log = structlog.get_logger()
builds = Noun("builds")

_LISTED_MAX = 50


class BuildParams(Params):
    build_job_id: Id


class ReleaseParams(ProjectParams):
    number: VersionNumber


class NewBuild(Said):
    routes: Literal["hash", "clean"] = Field(default="hash", description="`/#code`, or a folder for each page.")


class ShownRelease(Said):
    number: VersionNumber = Field(description="A release of the project, an older one too.")


class BuildView(Shown):
    id: int
    project_id: int
    status: str
    routes: str
    pages: int
    runtime_build: str | None = Field(description="The packages and the compiler it was made with.")
    step: str | None = Field(description="How far a running build is; for display only, and may be unknown.")
    log: list[str]
    error: dict[str, Any] | None = Field(description="`code`, `message`, `hint`; `errors` are located in the sources.")
    result: dict[str, Any] | None = Field(description="`release`, `sha256`, `size_bytes`, `files`.")
    created_at_ms: TimeMs
    started_at_ms: TimeMs | None
    finished_at_ms: TimeMs | None
    deadline_at_ms: TimeMs


class BuildList(Shown):
    builds: list[BuildView]


class ReleaseView(Shown):
    number: int
    build_job_id: int
    sha256: str
    size_bytes: int
    created_at_ms: TimeMs
    url: str = Field(description="The address of this release, for ever.")
    shown: bool = Field(description="The site shows it now.")


class ReleaseList(Shown):
    url: str | None = Field(description="The site's address. Who has it may look; null before the first release.")
    releases: list[ReleaseView]


@builds.route(
    "POST",
    "/projects/{project_id}/build-jobs",
    status=202,
    refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED", "PROJECT_EMPTY", "PROJECT_BUILD_JOBS_LIMIT"],
)
async def start_build(call: Call[ProjectParams, NewBuild]) -> BuildView:
    """Build the project as it is now; later edits change nothing in it."""
    limits = call.parts.limits
    async with call.parts.db.write() as tx:
        project = await project_of(tx, call.user, call.params.project_id, need="editor")
        fixed = await fix_project(tx, project, await find_theme(tx, project.id))
        if fixed is None:
            raise ApiError("PROJECT_EMPTY")
        job_id = await storage.submit_build(
            tx,
            workspace_id=project.workspace_id,
            project_id=project.id,
            user_id=call.user.user_id,
            fixed=fixed,
            routes=call.body.routes,
            deadline_ms=int(limits.build_deadline_s * 1000),
            active_jobs_max=limits.build_active_jobs_max,
        )
    log.info("project.build.requested", job_id=job_id, project_id=project.id, pages=len(fixed.pages))
    call.parts.wake_builds()
    return await _look_at(call, job_id)


@builds.route("GET", "/projects/{project_id}/build-jobs", refusals=["PROJECT_NOT_FOUND"])
async def list_build_jobs(call: Call[ProjectParams, Nothing]) -> BuildList:
    """The newest builds of a project."""
    async with call.parts.db.read() as tx:
        project = await project_of(tx, call.user, call.params.project_id)
        rows = await storage.list_builds(tx, project.id, _LISTED_MAX)
    return BuildList(builds=[_view(row, None) for row in rows])


@builds.route("GET", "/build-jobs/{build_job_id}", refusals=["BUILD_JOB_NOT_FOUND"])
async def get_build_job(call: Call[BuildParams, Nothing]) -> BuildView:
    """One build: its state, its log, and why there is no release of it."""
    return await _look_at(call, call.params.build_job_id)


@builds.route(
    "DELETE",
    "/build-jobs/{build_job_id}",
    status=202,
    refusals=["BUILD_JOB_NOT_FOUND", "ROLE_REQUIRED", "BACKEND_BUSY"],
)
async def cancel_build_job(call: Call[BuildParams, Nothing]) -> BuildView:
    """Cancel a build; one that has ended stays as it is."""
    async with call.parts.db.read() as tx:
        row = await storage.find_build(tx, call.params.build_job_id)
        if row is None:
            raise ApiError("BUILD_JOB_NOT_FOUND")
        await project_of(tx, call.user, row.project_id, need="editor", not_found="BUILD_JOB_NOT_FOUND")
    await call.ask_jobs(CancelOneJob(storage.PROJECT_BUILD, row.id, call.user.user_id))
    return await _look_at(call, row.id)


@builds.route("GET", "/projects/{project_id}/releases", refusals=["PROJECT_NOT_FOUND"])
async def list_releases(call: Call[ProjectParams, Nothing]) -> ReleaseList:
    """The releases of a project, newest first, and the address of its site."""
    async with call.parts.db.read() as tx:
        project = await project_of(tx, call.user, call.params.project_id)
        return await _releases(call, tx, project.id)


@builds.route(
    "PUT", "/projects/{project_id}/site", refusals=["PROJECT_NOT_FOUND", "ROLE_REQUIRED", "RELEASE_NOT_FOUND"]
)
async def choose_release(call: Call[ProjectParams, ShownRelease]) -> ReleaseList:
    """Let the site show another release; older ones are never gone."""
    async with call.parts.db.write() as tx:
        project = await project_of(tx, call.user, call.params.project_id, need="editor")
        await storage.show_release(tx, project.id, call.body.number)
        return await _releases(call, tx, project.id)


@builds.route(
    "GET",
    "/projects/{project_id}/releases/{number}/archive",
    answer=Bytes("application/zip", "The site; any static server can serve it."),
    refusals=["PROJECT_NOT_FOUND", "RELEASE_NOT_FOUND", "OBJECT_STORE_UNAVAILABLE"],
    headers={"Range": "A part of it: a download that was cut off goes on."},
)
async def download_release(call: Call[ReleaseParams, Nothing]) -> web.StreamResponse:
    """A release as a zip."""
    async with call.parts.db.read() as tx:
        project = await project_of(tx, call.user, call.params.project_id)
        release = await storage.get_release(tx, project.id, call.params.number)
    try:
        return await send_object(
            call.request,
            call.parts.objects,
            release.object_key,
            media_type="application/zip",
            sha256=release.sha256,
            name=f"{project.name.replace('/', '-')} {release.number}.zip",
        )
    except ObjectMissing:
        raise ApiError("RELEASE_NOT_FOUND", "The release's bytes are missing.", "Build it again.") from None


async def _releases(call: Call[Any, Any], tx: Any, project_id: int) -> ReleaseList:
    site = await storage.find_site(tx, project_id)
    rows = await storage.list_releases(tx, project_id)
    url = f"{call.parts.sites_url.rstrip('/')}/sites/{site.site_key}/" if site is not None else None
    return ReleaseList(
        url=url,
        releases=[
            ReleaseView(
                number=row.number,
                build_job_id=row.job_id,
                sha256=row.sha256,
                size_bytes=row.size_bytes,
                created_at_ms=row.created_at_ms,
                url=f"{url}r/{row.number}/",
                shown=site is not None and site.release_number == row.number,
            )
            for row in rows
        ],
    )


async def _look_at(call: Call[Any, Any], job_id: int) -> BuildView:
    async with call.parts.db.read() as tx:
        row = await storage.find_build(tx, job_id)
        if row is None:
            raise ApiError("BUILD_JOB_NOT_FOUND")
        await project_of(tx, call.user, row.project_id, not_found="BUILD_JOB_NOT_FOUND")
    step: bytes | None = None
    try:
        if row.status == "running":
            step = ((await call.parts.state.read(progress_key(job_id), ["step"])) or {}).get("step")
    except StateUnavailable:  # display only (B4)
        log.warning("project.build.progress_unknown", job_id=job_id)
    return _view(row, step.decode() if step else None)


def progress_key(job_id: int) -> str:
    """Where the progress of a build is shown, while it is (B4)."""
    return f"runtime:build:{job_id}"


def _view(row: Any, step: str | None) -> BuildView:
    return BuildView(
        id=row.id,
        project_id=row.project_id,
        status=row.status,
        routes=row.routes,
        pages=len(row.snapshot["pages"]),
        runtime_build=row.runtime_build,
        step=step,
        log=row.log or [],
        error=row.error,
        result=row.result,
        created_at_ms=row.created_at_ms,
        started_at_ms=row.started_at_ms,
        finished_at_ms=row.finished_at_ms,
        deadline_at_ms=row.deadline_at,
    )
