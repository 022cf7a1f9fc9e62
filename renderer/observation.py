"""What one attempt saw of a page, before anybody judges it (R9-R11).

Owns the plain records that `attempt.py` fills and `diagnosis.diagnose(observation) -> Diagnosis` judges, and the
shape of a probe step. The judge is a pure function of an `Observation`: it sees no browser, no clock and no network,
so a verdict can be replayed from a stored observation. Nothing here survives the attempt.

Everything in an observation is said by the page or about the page, so it is hostile text of bounded size: lists stop
at `RECORDS_MAX` (and count what they dropped), texts at `TEXT_CHARS_MAX`.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

RECORDS_MAX = 500
TEXT_CHARS_MAX = 4000

RequestOutcome = Literal["ok", "blocked", "failed", "hanging"]
StuckPhase = Literal["", "load", "settle", "probe", "picture"]

# Why a request was blocked; a finding's message is made from these.
BlockReason = Literal[
    "",
    "other-origin",  # anything that is not the page's own made-up origin
    "method",  # only GET is answered
    "navigation",  # the page tried to leave itself or to reload
    "websocket",
    "worker",
    "local-file",
    "address",  # a path that tries to climb out of its base
    "too-large",  # over the size cap
]


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One script of the diagnosis, evaluated in an isolated world after the page has settled and time stands still.

    `script` is the source of one JavaScript function `(input) => string` (or a promise of a string); the string is
    JSON and ends up parsed in `Observation.probe[name]`. `input` is `{viewport: {width, height, auto}, page: {width,
    height}}` in CSS pixels. With `shot`, a picture of the page is taken right after the script and kept in
    `Observation.shots[name]`: that is how a step hides all text and looks at what is behind it. A step that changes
    the page is followed by one that undoes it. The page's main picture (`Observation.png`) is taken before the first
    step.
    """

    name: str
    script: str
    shot: bool = False
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class ConsoleMessage:
    """One message. `source` is `console` (the page's own call) or the browser's log: `security`, `rendering`,
    `worker`, …

    `type` is the console method's name (`log`, `warning`, `error`, `assert`, …). `text` has format specifiers (`%s`)
    already filled in. `url`, `line`, `column` are where it was called, counted from 1 (0: unknown). `stack` is one
    `at name (url:line:column)` per line. The browser's own "Failed to load resource" lines are left out:
    `Observation.requests` says it better.
    """

    type: str
    text: str
    url: str = ""
    line: int = 0
    column: int = 0
    stack: str = ""
    source: str = "console"


@dataclass(frozen=True, slots=True)
class PageError:
    """An uncaught error, or a rejection that nobody handled.

    `message` starts with the error's class; `stack` is as the browser tells it.
    """

    message: str
    stack: str = ""
    url: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request of the page. `path` begins with `/` at the page's own origin, and is the whole address elsewhere.

    `failed`: the origin answered with `status` (404, …) for something that the page itself asked for. `hanging`: no
    answer within the origin's time limit. `resource_type` as Playwright names it: image, font, stylesheet, script,
    fetch, xhr, media, document, websocket, ….
    """

    path: str
    outcome: RequestOutcome
    resource_type: str = "other"
    reason: BlockReason = ""
    status: int | None = None


@dataclass(slots=True)
class Observation:
    """Filled in by one attempt. Sizes in CSS pixels (device scale factor 1, so PNG pixels are CSS pixels)."""

    viewport_width_px: int
    viewport_height_px: int  # what is shown at first; 720 when the page decides its own height
    height_auto: bool = False  # `1280xauto`: the page may be taller than the viewport, that is no overflow

    console: list[ConsoleMessage] = field(default_factory=list)
    errors: list[PageError] = field(default_factory=list)  # uncaught
    rejections: list[PageError] = field(default_factory=list)  # unhandled
    requests: list[RequestRecord] = field(default_factory=list)
    records_dropped: int = 0  # over RECORDS_MAX, all lists together

    dialogs: int = 0
    popups: int = 0
    downloads: int = 0

    mounted: bool = False  # the host set data-pagegate-mounted
    settled: bool = False  # loaded, fonts and images in, and 2.5 s of the page's time have passed (R11)
    navigated_away: bool = False  # the document that was loaded is gone
    stuck: bool = False  # the browser answered, the page's thread did not for 10 s (R9): no probe, no picture
    stuck_phase: StuckPhase = ""
    stuck_stack: str = ""  # where the thread was when it was stuck or took too much memory, one
    # `at name (url:line:column)` per line; empty when unknown
    killed_by_memory: bool = False  # ended by the memory watch (R9): no probe, no picture
    memory_peak_mb: int = 0
    crashed: bool = False  # the page brought its own process down while the browser lives on: no probe, no picture

    page_width_px: int = 0  # scroll size of the document after settling
    page_height_px: int = 0
    png: bytes | None = None  # of the viewport, or of the whole page when `height_auto`; None when stuck or killed
    png_height_px: int = 0
    cut: bool = False  # the page goes on below the picture
    shots: dict[str, bytes] = field(default_factory=dict)  # by step name, same rectangle as `png`
    probe: dict[str, Any] = field(default_factory=dict)  # by step name: the parsed JSON; absent when the step failed
    source_map: bytes | None = None  # /page.js.map, when the origin has one
