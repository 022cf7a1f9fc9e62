"""Every refusal of the Backend's HTTP door, in one table: code → status, and domain error → code.

Owns the one shape of an error answer: `code` (stable), `message` (the cause), `hint` (the next step), `request_id`, and
`details` when several things are wrong with a request. What is not in the table is a bug: it is logged with its stack
and answered as `INTERNAL`, and nothing of it (a path, a secret, a statement) reaches the client (X4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from pagegate.actors.agents.tools import ToolCallsRefused
from pagegate.http.backend.agent_refusals import AGENT_REFUSALS, CODE_OF_AGENT_ERROR, SPEAKING
from pagegate.storage.builds import BuildLaneFull, ReleaseNotFound
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.external import ResultDelivered
from pagegate.storage.jobs import JobNotFound
from pagegate.storage.objects import ObjectStoreUnavailable
from pagegate.storage.pages import PageChanged
from pagegate.storage.preview_artifacts import ArtifactUnavailable
from pagegate.storage.retries import JobAlreadyRetried, JobNotFailed
from pagegate.storage.runs import BatchTooLarge, IdempotencyKeyReused, JobQueueFull
from pagegate.storage.runtime_state import StateFull, StateUnavailable
from pagegate.storage.screenshots import GroupNotFound, ScreenshotLaneFull
from pagegate.storage.users import LastAdmin, LoginTaken
from pagegate.storage.workspaces import LastOwner


@dataclass(frozen=True)
class Refusal:
    """A row of the table: a code's status, what it means, and the next step when no better is known."""

    status: int
    meaning: str
    hint: str = ""


_ASK_AS_MEMBER = "Ask with a member's token; an owner of the workspace adds members."

REFUSALS: dict[str, Refusal] = {
    # the request itself
    "REQUEST_JSON_INVALID": Refusal(400, "The body is not JSON.", "Send one JSON object in UTF-8."),
    "REQUEST_INVALID": Refusal(
        422, "The request does not fit its description.", "Correct what `details` names; /openapi.json describes it."
    ),
    "REQUEST_BODY_TOO_LARGE": Refusal(413, "The body is larger than this route accepts.", "Send less at a time."),
    "REQUEST_TIMEOUT": Refusal(408, "The body did not arrive in time.", "Send the request again."),
    "ROUTE_NOT_FOUND": Refusal(404, "There is nothing at this address.", "/openapi.json lists every route."),
    "METHOD_NOT_ALLOWED": Refusal(405, "This address does not know this method.", "/openapi.json lists every route."),
    # who asks
    "TOKEN_MISSING": Refusal(401, "The request carries no token.", "Send `Authorization: Bearer pg_…`."),
    "TOKEN_INVALID": Refusal(401, "The token is unknown, revoked or malformed.", "Ask an administrator for a new one."),
    "USER_DISABLED": Refusal(403, "This user is disabled.", "Ask an administrator to enable the user."),
    "ADMIN_REQUIRED": Refusal(403, "Only an administrator may do this.", "Ask an administrator."),
    "ROLE_REQUIRED": Refusal(403, "Your role in the workspace does not allow this.", "Ask an owner of the workspace."),
    "TICKET_INVALID": Refusal(
        401, "The service ticket is missing, expired or for another artifact.", "Ask for a new one."
    ),
    # what is asked for
    "USER_NOT_FOUND": Refusal(404, "There is no such user."),
    "TOKEN_NOT_FOUND": Refusal(404, "There is no such token."),
    "WORKSPACE_NOT_FOUND": Refusal(404, "There is no such workspace, or you are not a member of it.", _ASK_AS_MEMBER),
    "MEMBER_NOT_FOUND": Refusal(404, "This user is not a member of the workspace."),
    "PROJECT_NOT_FOUND": Refusal(
        404, "There is no such project, or you are not a member of its workspace.", _ASK_AS_MEMBER
    ),
    "COMPONENT_NOT_FOUND": Refusal(
        404, "The project has no such component.", "`GET /projects/{id}/components` lists them."
    ),
    "ASSET_NOT_FOUND": Refusal(404, "The project has no such asset.", "`GET /projects/{id}/assets` lists them."),
    "PAGE_NOT_FOUND": Refusal(404, "There is no such page, or you are not a member of its workspace.", _ASK_AS_MEMBER),
    "PAGE_VERSION_NOT_FOUND": Refusal(404, "The page has no such version."),
    "PICTURE_NOT_FOUND": Refusal(404, "This version has no picture.", "It may still be pending; ask again later."),
    "RUN_NOT_FOUND": Refusal(404, "There is no such run, or you are not a member of its workspace.", _ASK_AS_MEMBER),
    "RUN_EVENT_NOT_FOUND": Refusal(404, "The run has no event with this index.", "Follow from an index that exists."),
    "PREVIEW_ARTIFACT_UNAVAILABLE": Refusal(
        404,
        "This preview is gone: previews are kept for a short time.",
        "Open the preview again; it gets a new address.",
    ),
    "MODULE_NOT_FOUND": Refusal(404, "The artifact has no such module."),
    # what may not be done
    "LOGIN_TAKEN": Refusal(409, "There is already a user with this name.", "Choose another name."),
    "LAST_OWNER": Refusal(409, "A workspace keeps at least one owner.", "Make someone else owner first."),
    "LAST_ADMIN": Refusal(
        409, "The last enabled administrator cannot be disabled.", "Make another administrator first."
    ),
    "ASSET_TYPE_NOT_ALLOWED": Refusal(415, "Files of this kind are not accepted.", "/openapi.json lists the endings."),
    "ASSET_NAME_INVALID": Refusal(
        422, "This is not a usable file name.", "Use one name without folders, like `logo.svg`."
    ),
    "ASSET_TOO_LARGE": Refusal(413, "The file is larger than the limit for assets.", "Make the file smaller."),
    "ASSET_EMPTY": Refusal(422, "The file is empty.", "Send the file's bytes as the body."),
    "COMPONENT_NAME_INVALID": Refusal(
        422, "This is not a component's file name.", "Use PascalCase and .vue or .tsx, like `StatTile.vue`."
    ),
    "PAGE_CODE_INVALID": Refusal(422, "This is not a page code.", "Use 1 to 80 of a-z, 0-9 and '-', like `q3-costs`."),
    "PAGE_SOURCE_EMPTY": Refusal(422, "The source is empty.", "Send the whole source of the page."),
    "PAGE_SOURCE_TOO_LARGE": Refusal(
        413, "The source is larger than the limit.", "Move data and repeated markup into assets and components."
    ),
    "PAGE_CHANGED": Refusal(
        409, "The page has changed in the meantime.", "Read the page again and start from that version."
    ),
    # visual edits
    "VISUAL_EDIT_STALE": Refusal(
        409, "The page is not the one that the edits were made for.", "List its nodes again, and make the edits again."
    ),
    "VISUAL_EDIT_NODE_UNKNOWN": Refusal(422, "The page has no such node.", "Use an id as the list names it."),
    "VISUAL_EDIT_NOT_EDITABLE": Refusal(422, "This value may not be changed here.", "Use apply_page_edits."),
    "VISUAL_EDIT_OVERLAP": Refusal(422, "Two edits change the same place.", "Send one edit for each node."),
    "VISUAL_EDIT_VALUE_INVALID": Refusal(422, "This value cannot stand there.", "Send another value."),
    "VISUAL_EDIT_NO_CHANGE": Refusal(422, "The page has these values already.", "Send edits that change something."),
    "VISUAL_EDIT_BREAKS_PAGE": Refusal(
        422,
        "The page could not be read any more after the edit.",
        "Make the edit in the source, with apply_page_edits.",
    ),
    "VISUAL_EDIT_SOURCE_UNREADABLE": Refusal(422, "The page's source cannot be read.", "Correct the source first."),
    "VISUAL_EDIT_TOO_LARGE": Refusal(422, "The page is too large for this.", "Split it into components."),
    # the Runtime's light tools
    "RUNTIME_ADMISSION_FULL": Refusal(429, "Every Runtime has its limit in flight.", "Try again in a few seconds."),
    "RUNTIME_VITE_QUEUE_FULL": Refusal(429, "The Runtime's queue is full.", "Try again in a few seconds."),
    "RUNTIME_VITE_QUEUE_TIMEOUT": Refusal(429, "The Runtime had no slot in time.", "Try again in a few seconds."),
    "RUNTIME_UNREACHABLE": Refusal(503, "The Runtime does not answer.", "Try again in a few seconds."),
    "RUNTIME_REQUEST_TIMEOUT": Refusal(504, "The Runtime did not answer in time.", "Try again in a few seconds."),
    "RUNTIME_LIGHT_TIMEOUT": Refusal(504, "The tool did not end in time.", "Try again later; nothing was changed."),
    "RUNTIME_WORKER_LOST": Refusal(503, "The tool's process ended before it answered.", "Try again later."),
    "RUNTIME_UNAVAILABLE": Refusal(503, "The Runtime could not do it.", "Try again in a few seconds."),
    # runs
    "TOOL_UNKNOWN": Refusal(422, "There is no such tool.", "/openapi.json names the tools."),
    "TOOL_CALL_ID_DUPLICATE": Refusal(422, "Two calls have the same call_id.", "Give each call of a step its own."),
    "AI_PAGE_MUTATION_BATCH_TOO_LARGE": Refusal(422, "Too many calls in one step.", "Split it into several requests."),
    "AI_PAGE_MUTATION_ACTIVE_JOBS_LIMIT": Refusal(
        429, "Too many page jobs are waiting or running.", "Send the same request again in a while."
    ),
    "COMPONENT_MUTATION_ACTIVE_JOBS_LIMIT": Refusal(
        429, "Too many component jobs are waiting or running.", "Send the same request again in a while."
    ),
    "IMAGE_GENERATION_ACTIVE_JOBS_LIMIT": Refusal(
        429, "Too many pictures are waiting or being made.", "Send the same request again in a while."
    ),
    "IDEMPOTENCY_KEY_REUSED": Refusal(
        409, "This idempotency key was used for another request.", "Use a new key for a new request."
    ),
    # screenshots
    "SCREENSHOT_GROUP_NOT_FOUND": Refusal(
        404,
        "There is no such group of screenshots, or you are not a member of its workspace.",
        "Old ones are pruned; ask for the screenshots again.",
    ),
    "SCREENSHOT_NOT_FOUND": Refusal(404, "There is no such picture, or you are not a member of its workspace."),
    "PAGE_SCREENSHOT_GROUP_TOO_LARGE": Refusal(
        422, "Too many pictures in one request.", "Ask for fewer pages or viewports at a time."
    ),
    "PAGE_SCREENSHOT_ACTIVE_JOBS_LIMIT": Refusal(
        429, "Too many screenshots are waiting or running.", "Send the same request again in a while."
    ),
    # builds and releases
    "PROJECT_EMPTY": Refusal(422, "The project has no page to build.", "Save a page first."),
    "PROJECT_BUILD_JOBS_LIMIT": Refusal(
        429, "Too many builds are waiting or running.", "Send the same request again when one has ended."
    ),
    "BUILD_JOB_NOT_FOUND": Refusal(
        404,
        "There is no such build, or you are not a member of its workspace.",
        "`GET /projects/{project_id}/build-jobs` lists those of a project; old ones are pruned.",
    ),
    "RELEASE_NOT_FOUND": Refusal(404, "The project has no such release.", "List its releases."),
    "BUILD_ATTEMPT_OVER": Refusal(409, "This attempt of the build is over.", "Stop it; nothing of it is kept."),
    "PROJECT_BUILD_ARTIFACT_TOO_LARGE": Refusal(413, "The site is larger than allowed.", "Use smaller assets."),
    "PROJECT_BUILD_ARCHIVE_REFUSED": Refusal(422, "The archive cannot be served.", "Build it again."),
    "PROJECT_BUILD_UPLOAD_FAILED": Refusal(400, "The upload did not arrive whole.", "Start the build again."),
    # jobs and lanes
    "LANE_NOT_FOUND": Refusal(404, "There is no such lane.", "`pagegate lanes` and `GET /lanes` name them."),
    "JOB_NOT_FOUND": Refusal(
        404, "There is no such job, or you are not a member of its workspace.", "Old jobs are pruned after a while."
    ),
    "JOB_NOT_FAILED": Refusal(409, "Only a failed job can be retried.", "Look at the job's status."),
    "JOB_ALREADY_RETRIED": Refusal(
        409, "The job was retried already.", "Look at the job it was retried as; retry that one if it failed too."
    ),
    "JOB_RESULT_DELIVERED": Refusal(
        409, "The agent was already told what became of the call.", "Submit the call again as a new one."
    ),
    "TOO_MANY_STREAMS": Refusal(429, "Too many streams are open.", "Close some, or poll with format=json."),
    # not the client's fault
    "RUNTIME_STATE_FULL": Refusal(503, "The store for previews is full.", "Try again in a minute."),
    "RUNTIME_STATE_UNAVAILABLE": Refusal(503, "The store for previews does not answer.", "Try again in a few seconds."),
    "DATABASE_UNAVAILABLE": Refusal(503, "The database cannot be reached.", "Try again in a few seconds."),
    "OBJECT_STORE_UNAVAILABLE": Refusal(
        503, "The object store does not answer.", "Send the same request again in a few seconds."
    ),
    "BACKEND_BUSY": Refusal(
        503,
        "The request was not answered in time; it may still be carried out.",
        "Send it again with the same idempotency key.",
    ),
    "NOT_READY": Refusal(503, "The process is not ready.", "Look at `details`."),
    "SHUTTING_DOWN": Refusal(503, "The process is shutting down.", "Try again in a few seconds."),
    "INTERNAL": Refusal(500, "Something went wrong here.", "Report the request_id to the operator."),
}


REFUSALS |= {code: Refusal(*said) for code, said in AGENT_REFUSALS.items()}


class Problem(BaseModel):
    """One of several things that are wrong with a request."""

    location: str = Field(description="Where in the request, like `calls.0.arguments.title`.")
    code: str
    message: str


class ErrorAnswer(BaseModel):
    """The one shape of every error answer."""

    code: str = Field(description="Stable; programs may decide by it.")
    message: str = Field(description="The cause, for a person or a model.")
    hint: str = Field(description="The next step.")
    request_id: str = Field(description="The same as in the X-Request-Id header and in the server's log.")
    details: list[Problem] = []


class ApiError(Exception):
    """A refusal with its code; raise it anywhere in a handler. Message and hint default to those of the table."""

    def __init__(
        self,
        code: str,
        message: str | None = None,
        hint: str | None = None,
        details: Sequence[Problem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        refusal = REFUSALS[code]
        super().__init__(code)
        self.code, self.status = code, refusal.status
        self.message, self.hint = message or refusal.meaning, refusal.hint if hint is None else hint
        self.details, self.headers = list(details), dict(headers or {})


def refusal_of(error: Exception) -> ApiError | None:
    """The answer for an error that is expected somewhere below, None for a bug."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ToolCallsRefused):
        return ApiError(error.code, error.message, error.hint or None, headers=_retry_after(error.code))
    if isinstance(error, web.HTTPMethodNotAllowed):
        return ApiError("METHOD_NOT_ALLOWED", headers={"Allow": ",".join(sorted(error.allowed_methods))})
    if isinstance(error, JobQueueFull):
        return ApiError(error.code, headers=_retry_after(error.code))
    code = next((code for kind, code in _CODE_OF_ERROR.items() if isinstance(error, kind)), None)
    if code is None:
        return None
    said = str(error) if isinstance(error, _SPEAKS_FOR_ITSELF) else None
    return ApiError(code, said, headers=_retry_after(code))


def _retry_after(code: str) -> dict[str, str]:
    return {"Retry-After": "2"} if REFUSALS[code].status in {429, 503} else {}


# Errors of other modules that need nothing but their code.
_CODE_OF_ERROR: dict[type[Exception], str] = {
    **CODE_OF_AGENT_ERROR,
    web.HTTPNotFound: "ROUTE_NOT_FOUND",
    web.HTTPRequestEntityTooLarge: "REQUEST_BODY_TOO_LARGE",
    DatabaseUnavailable: "DATABASE_UNAVAILABLE",
    ObjectStoreUnavailable: "OBJECT_STORE_UNAVAILABLE",
    StateFull: "RUNTIME_STATE_FULL",
    StateUnavailable: "RUNTIME_STATE_UNAVAILABLE",
    ArtifactUnavailable: "PREVIEW_ARTIFACT_UNAVAILABLE",
    IdempotencyKeyReused: "IDEMPOTENCY_KEY_REUSED",
    BatchTooLarge: "AI_PAGE_MUTATION_BATCH_TOO_LARGE",
    PageChanged: "PAGE_CHANGED",
    JobNotFound: "JOB_NOT_FOUND",
    GroupNotFound: "SCREENSHOT_GROUP_NOT_FOUND",
    ScreenshotLaneFull: "PAGE_SCREENSHOT_ACTIVE_JOBS_LIMIT",
    BuildLaneFull: "PROJECT_BUILD_JOBS_LIMIT",
    ReleaseNotFound: "RELEASE_NOT_FOUND",
    JobNotFailed: "JOB_NOT_FAILED",
    JobAlreadyRetried: "JOB_ALREADY_RETRIED",
    ResultDelivered: "JOB_RESULT_DELIVERED",
    LoginTaken: "LOGIN_TAKEN",
    LastAdmin: "LAST_ADMIN",
    LastOwner: "LAST_OWNER",
}


# Their text was written for clients; any other's may name what they should not know (X4).
_SPEAKS_FOR_ITSELF = (JobNotFailed, JobAlreadyRetried, ResultDelivered, *SPEAKING)


def invalid(error: ValidationError) -> ApiError:
    """What pydantic found, as an answer. A code that a validator named leads; the input is not echoed (X4)."""
    problems: list[Problem] = []
    lead: str | None = None
    for found in error.errors(include_url=False, include_input=False, include_context=False):
        kind = found["type"]
        if kind == "json_invalid":
            return ApiError("REQUEST_JSON_INVALID", f"The body is not JSON: {found['msg']}.")
        code = _CODE_OF_PYDANTIC.get(kind, kind)
        code = code if code in REFUSALS else "REQUEST_INVALID"
        lead = lead or (code if code != "REQUEST_INVALID" else None)
        location = ".".join(str(part) for part in found["loc"]) or "body"
        problems.append(Problem(location=location, code=code, message=found["msg"]))
    first = next((p for p in problems if p.code == lead), problems[0])
    return ApiError(lead or "REQUEST_INVALID", f"{first.location}: {first.message}", details=problems[:50])


_CODE_OF_PYDANTIC = {"union_tag_invalid": "TOOL_UNKNOWN", "union_tag_not_found": "REQUEST_INVALID"}


def error_answer(error: ApiError, request_id: str) -> web.Response:
    body = ErrorAnswer(
        code=error.code, message=error.message, hint=error.hint, request_id=request_id, details=error.details
    )
    headers = {**error.headers, "X-Request-Id": request_id, "Cache-Control": "no-store"}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    text = body.model_dump_json(exclude={"details"} if not error.details else None)
    return web.Response(status=error.status, text=text, content_type="application/json", headers=headers)
