"""What the two sides of the Renderer's wire agree on (R2, R4-R7, R10). `docs/renderer-protocol.md` says it at length.

Backend → Renderer, each call with an HMAC token (R6, `token.py`):

* `GET    /slot`                       → `SlotView`: free or busy, profile.
* `POST   /attempts` `RenderTask`      → 202, or 409 `RENDER_WORKER_BUSY` (no attempt was made, R3). Sent again for a
                                          known attempt it answers 202 and starts nothing.
* `GET    /attempts/{id}?wait_s=20`    → 200 `RenderResult` when it ended, 202 while it runs, 404 when unknown or
                                          expired.
* `GET    /attempts/{id}/picture`      → the PNG.
* `DELETE /attempts/{id}`              → ends it if it runs (kill), forgets its result (R5).

Content and infrastructure are different fields, so they cannot be confused (R9): a result has either a `diagnosis`
(the browser told us about the page) or an `error` (we do not know anything about the page).
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Operation = Literal["page.diagnose", "page.screenshot", "component.diagnose"]  # R7
Severity = Literal["error", "warning"]
RenderStatus = Literal["passed", "warning", "failed"]


class Wire(BaseModel):
    """Both sides may be of different versions during a rolling upgrade: unknown fields are ignored (K6)."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Viewport(Wire):
    """CSS pixels; `height_px` None: the page decides its height, 720 px are shown at first."""

    width_px: int = Field(ge=16, le=8192)
    height_px: int | None = Field(default=None, ge=16, le=8192)


class PageBases(Wire):
    """What the made-up origin's root-relative addresses map to (X1). Each is a URL that ends in `/`.

    `/vendor/…` → vendor, `/assets/…` → assets, everything else → navigation (`/` is index.html there).
    """

    navigation_url: str
    vendor_url: str
    assets_url: str
    ticket: str = ""  # sent as a bearer token to `assets_url` only, by the Renderer's process, never seen by the page


class RenderTask(Wire):
    """`component.diagnose`: the compiled entry is a component, which is shown alone on a neutral stage with `props`."""

    attempt_id: str
    request_id: str
    operation: Operation = "page.diagnose"
    bases: PageBases
    viewport: Viewport
    picture: bool = True
    props: dict[str, Any] = {}  # of `component.diagnose`; plain JSON
    deadline_s: float = Field(default=60.0, gt=0)


class Rect(Wire):
    """In CSS pixels of the page, from its top left corner."""

    x: float
    y: float
    width: float
    height: float


class Finding(Wire):
    """One thing found in the page (R10). `file` is a logical path of the author's source; lines, columns from 1."""

    code: str
    severity: Severity
    message: str
    hint: str
    element: str | None = None  # a short CSS path, with the start of its text
    rect: Rect | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None


class Diagnosis(Wire):
    """`failed` when any finding is an error, `warning` when there are only warnings, else `passed` (R8, R10)."""

    status: RenderStatus
    findings: list[Finding] = []
    page_height_px: int = 0


class Picture(Wire):
    sha256: str
    size_bytes: int
    width_px: int
    height_px: int
    cut: bool = False  # the page is taller than the stated limit and the picture ends there


class AttemptError(Wire):
    """Infrastructure: nothing is known about the page (R9)."""

    code: str
    message: str


class RenderResult(Wire):
    attempt_id: str
    worker_id: str
    profile_digest: str
    diagnosis: Diagnosis | None = None
    picture: Picture | None = None
    picture_error: str | None = None  # a picture that fails leaves the diagnosis as it is (S3)
    error: AttemptError | None = None
    timings_ms: dict[str, float] = {}


class SlotView(Wire):
    """`slot_state`: idle | running | cleaning | broken (R4)."""

    worker_id: str
    slot_state: Literal["idle", "running", "cleaning", "broken"]
    attempt_id: str | None = None
    profile_digest: str
    profile: dict[str, Any] = {}
