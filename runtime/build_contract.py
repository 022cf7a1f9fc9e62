"""What the two sides of a build agree on (B1-B3).

Owns the models of these calls, all of them the Runtime's to the Backend under `/internal/runtime/build-jobs`:

* `POST …/claim` with the ticket of an offer: `BuildClaimAnswer`;
* with the build token, which opens one attempt of one job: `GET …/{job}/{attempt}/snapshot`, `GET …/assets/{name}`,
  `POST …/heartbeat` (`BuildHeartbeat` → `BuildOrders`), `PUT …/artifact` (the zip, streamed) and `POST …/failure`.

And one call of the Backend to the Runtime: `POST /builds/offers` with a `BuildOffer` says that there may be work. It is
a hint with a ticket; who has a slot pulls.
"""

from typing import Literal

from pydantic import Field

from pagegate.runtime.contract import AssetRef, Canvas, ErrorBody, Framework, LocatedError, Wire

Routes = Literal["hash", "clean"]
BuildFault = Literal[
    "PROJECT_BUILD_SOURCE_ERROR",
    "PROJECT_BUILD_ASSET_MISSING",
    "PROJECT_BUILD_RUNTIME_UNAVAILABLE",
    "PROJECT_BUILD_UPLOAD_FAILED",
    "PROJECT_BUILD_ARTIFACT_TOO_LARGE",
    "PROJECT_BUILD_DEADLINE_EXCEEDED",
    "PROJECT_BUILD_CANCELLED",
    "PROJECT_BUILD_INTERRUPTED",
]
OFFER_SUBJECT = "project-builds"  # what the ticket of an offer opens
LOG_LINES_MAX = 200


class BuildPage(Wire):
    """One page of a site. `modules`: logical path → the digest of its source, as this page was checked with it (D4)."""

    code: str
    title: str = ""
    speaker_notes: str = ""
    framework: Framework
    entry: str
    modules: dict[str, str]
    assets: list[str] = Field(default_factory=list)
    canvas: Canvas


class BuildSnapshot(Wire):
    """All that a build reads, fixed when it was asked for (B1). `sources` by digest; `pages` in their order."""

    project_name: str
    routes: Routes = "hash"
    pages: list[BuildPage]
    sources: dict[str, str]
    assets: dict[str, AssetRef] = Field(default_factory=dict)


class BuildOffer(Wire):
    """There may be builds to claim at this Backend."""

    backend_url: str
    ticket: str


class BuildClaim(Wire):
    """`runtime_build` names the packages and the compiler that the build will be made with."""

    worker_id: str
    runtime_build: str


class BuildClaimed(Wire):
    """One claim. `deadline_s`: seconds until the job's total deadline; the token is good for as long."""

    job_id: int
    attempt: int
    token: str
    deadline_s: float
    heartbeat_s: float
    artifact_bytes_max: int


class BuildClaimAnswer(Wire):
    """`claimed` None: there is nothing to do."""

    claimed: BuildClaimed | None = None


class BuildHeartbeat(Wire):
    """Where the build is, for who looks on (B4), and the summary so far, which is kept (B3)."""

    step: Literal["fetching", "compiling", "packing", "uploading"] = "fetching"
    log: list[str] = Field(default_factory=list, max_length=LOG_LINES_MAX)


class BuildOrders(Wire):
    cancel: bool = False


class BuildFailure(Wire):
    """Why there is no artifact. `errors` are located (V8) when it is about the source."""

    code: BuildFault
    error: ErrorBody
    errors: list[LocatedError] = Field(default_factory=list)
    log: list[str] = Field(default_factory=list, max_length=LOG_LINES_MAX)
