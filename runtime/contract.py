"""What the two sides of the Runtime's wire agree on (P1, V5-V8).

Owns the models of these conversations:

* Backend → Runtime: `POST /compiles` with a `CompileRequest`, answered by a `CompileResult` (200) or an `ErrorBody`
  (429 and 5xx, always infrastructure, R9); `DELETE /outputs/{output_id}` when the check is over (V8).
* Backend → Runtime: `POST /light/{tool}` with a `LightRequest`, answered by a `LightResult` or an `ErrorBody` likewise
  (V9). The body is the request as JSON, or `multipart/form-data` with the parts `request` (JSON) and, after it, `file`.
* Runtime → Backend, with the service ticket of the request: manifest, modules and assets of one preview artifact
  (P1, V7).
* Renderer → Runtime: `GET /outputs/{output_id}/{path}` (index.html, page.js, page.js.map, page.css) and
  `GET /vendor/{path}`.

A refused source is a *result* (`ok=False` with located errors); an error body is never about the source.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Framework = Literal["vue", "react"]
FRAMEWORK_OF_SUFFIX: dict[str, Framework] = {".vue": "vue", ".tsx": "react"}


def framework_of(path: str) -> Framework:
    """The framework of a logical path, or of a file's name with its ending."""
    return FRAMEWORK_OF_SUFFIX[path[-4:]]


Lane = Literal["check", "build", "light"]  # V1

MODULE_BATCH_PATHS_MAX = 128  # V7

LightTool = Literal["visual-edit", "asset-ratio"]
LIGHT_DEADLINES_S: dict[LightTool, float] = {"visual-edit": 10.0, "asset-ratio": 40.0}  # V9
LIGHT_REQUEST_BYTES_MAX = 8 * 1024 * 1024  # the JSON; a page's source is at most 1 MiB
LIGHT_FILE_BYTES_MAX = 512 * 1024 * 1024


class Wire(BaseModel):
    """Both sides may be of different versions during a rolling upgrade: unknown fields are ignored (K6)."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Canvas(Wire):
    """The page's canvas in CSS pixels; `height_px` None means the page decides its own height (`1280xauto`)."""

    width_px: int = Field(ge=16, le=8192)
    height_px: int | None = Field(default=None, ge=16, le=8192)


class EntryPage(Wire):
    """All that a single-page artifact tells about its page; no page id is invented (S4)."""

    code: str
    title: str = ""
    speaker_notes: str = ""


class AssetRef(Wire):
    media_type: str
    sha256: str
    size_bytes: int


class DeckEntry(Wire):
    """One page of a preview that a person turns the pages of (P4). Each page is an artifact of its own."""

    artifact_id: str
    code: str
    title: str
    speaker_notes: str = ""
    canvas: Canvas


class ArtifactManifest(Wire):
    """One preview artifact (P1). Paths are logical: `pages/<code>.vue|tsx`, `components/<Name>.vue|tsx`.

    `modules` is the allow-list of what may be read; `assets` maps the file name behind `@assets/<file>` to its content.
    `known_modules` and `known_assets` name what else there is: a minimal snapshot leaves it out, a hint must not (V8).
    """

    artifact_id: str
    entry: str
    framework: Framework
    modules: list[str]
    assets: dict[str, AssetRef] = {}
    known_modules: list[str] = []
    known_assets: list[str] = []
    entry_page: EntryPage
    canvas: Canvas
    base: str = "/"  # what the page's own files are asked for under; "./" where the page has no origin to itself
    pages: list[DeckEntry] = []  # the pages around this one, it among them, where a person looks at it


class ModulesRequest(Wire):
    paths: list[str] = Field(max_length=MODULE_BATCH_PATHS_MAX)


class ModulesAnswer(Wire):
    """Sources by logical path; a path that the artifact does not hold is absent."""

    modules: dict[str, str]


class CompileRequest(Wire):
    """One check compile of the source at `{backend_url}/internal/runtime/preview-artifacts/{artifact_id}/…`."""

    task_id: str
    artifact_id: str
    backend_url: str
    ticket: str
    deadline_s: float = Field(default=120.0, gt=0)  # V5
    background: bool = False  # the check lane's second class: screenshots and previews (V1)
    contract: bool = False  # the entry is a component: tell what it takes and offers (D4)
    uses_of: str | None = None  # a component's logical path: tell how the other modules use it


class LocatedError(Wire):
    """One error in the author's source (V8). `file` is a logical path; line and column count from 1."""

    code: str
    message: str
    hint: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    frame: str | None = None
    plugin: str | None = None


class CompileTimings(Wire):
    wait_ms: float = 0.0
    fetch_ms: float = 0.0
    compile_ms: float = 0.0


class CompileOutput(Wire):
    """Where the kept output is: `navigation_url` is the folder of index.html, `vendor_url` that of the frameworks."""

    output_id: str
    navigation_url: str
    vendor_url: str
    size_bytes: int


class ComponentProp(Wire):
    """`type` is for people: as the source or the framework's compiler writes it."""

    name: str
    required: bool = False
    type: str = ""


class OpenParts(Wire):
    """True: there may be more than is listed; what there is is decided at run time, or in another file."""

    props: bool = False
    events: bool = False
    slots: bool = False


class ComponentContract(Wire):
    """What a component takes and offers (D4). In React an event is a prop, and `children` is the slot `default`."""

    props: list[ComponentProp] = []
    events: list[str] = []
    slots: list[str] = []
    open: OpenParts = OpenParts()


class ComponentUse(Wire):
    """One place where a module uses a component; `open` when it gives more than can be seen (`v-bind="all"`)."""

    file: str
    line: int
    column: int
    props: list[str] = []
    events: list[str] = []
    slots: list[str] = []
    open: bool = False


class CompileResult(Wire):
    """`ok=False` is a content verdict. `runtime_build` names the Runtime's base: lock file, kit, compiler (A11)."""

    ok: bool
    errors: list[LocatedError] = []
    output: CompileOutput | None = None
    runtime_build: str = ""
    timings: CompileTimings = CompileTimings()
    contract: ComponentContract | None = None
    uses: list[ComponentUse] = []


class LightRequest(Wire):
    """One task of a light tool (V9). `input` is the tool's own; `deadline_s` can only shorten the tool's deadline."""

    task_id: str
    input: dict[str, JsonValue] = {}
    deadline_s: float | None = Field(default=None, gt=0)


class LightResult(Wire):
    """`ok=False` is about the input (`errors` say what and where); `result` is the tool's own."""

    ok: bool
    errors: list[LocatedError] = []
    result: dict[str, JsonValue] = {}
    timings: CompileTimings = CompileTimings()


class ErrorBody(Wire):
    """The one shape of every refusal on every wire: a stable code, a cause, the next step."""

    code: str
    message: str
    hint: str = ""
