"""What did not arrive (R10, R11, X1): blocked and failed requests, broken pictures and fonts, what never answered; and
what a page may not do: dialogs, popups, downloads. All warnings.

One cause is told once: a picture whose address was blocked is a blocked request at the picture's element.
"""

from urllib.parse import urlsplit

from pagegate.renderer.contract import Finding
from pagegate.renderer.diagnosis.evidence import Evidence, Spot, finding
from pagegate.renderer.observation import BlockReason, RequestRecord
from pagegate.renderer.sourcemap import Position

_BRING_IT = "A page reaches nothing outside: bring the file as an asset and use it from `@assets/…`."
_REASONS: dict[BlockReason, tuple[str, str]] = {
    "": ("was blocked", _BRING_IT),
    "other-origin": ("was blocked: it lies outside the page", _BRING_IT),
    "method": (
        "was blocked: a page can only read, there is no server behind it",
        "Show data that is in the page itself.",
    ),
    "navigation": ("was blocked: a page may not leave itself", "Remove the navigation, or do it only after a click."),
    "websocket": ("was blocked: a page has no live connection", "Show data that is in the page itself."),
    "worker": ("was blocked: a page may not start workers", "Do the work in the page itself."),
    "local-file": ("was blocked: it names a file of the machine", _BRING_IT),
    "address": ("was blocked: its path leads out of the page's own files", _BRING_IT),
    "too-large": ("was stopped: it is larger than a page's files may be", "Make the file smaller."),
}
_IMAGES = {
    "broken": (
        "This image cannot be shown",
        "Check its address and that the file is an image; pictures come from `@assets/…`.",
    ),
    "empty": ("This image has no address", "Give it a `src`; a binding that is undefined leaves it out."),
    "media": ("This video or sound cannot be played", "Check its address and its format."),
}


def find(evidence: Evidence) -> list[Finding]:
    return [
        *_blocked(evidence),
        *_missing(evidence),
        *_images(evidence),
        *_fonts(evidence),
        *_hanging(evidence),
        *_intrusions(evidence),
    ]


def _shown(path: str) -> str:
    return path if len(path) <= 120 else path[:117] + "…"


def _spot_of(evidence: Evidence, path: str) -> Spot | None:
    for answer in evidence.answers("asked"):
        if answer["address"] == path or (path.startswith("/") and answer["address"].partition("#")[0] == path):
            return Spot.of(answer)
    return None


def _position_of(evidence: Evidence, path: str) -> Position | None:
    """Where the author wrote an address, whole or without what is computed at its end."""
    bare = path.partition("?")[0]
    return evidence.from_text(path, bare) if len(bare) > 1 else None


def _requests(evidence: Evidence, outcome: str) -> list[RequestRecord]:
    once: dict[str, RequestRecord] = {}
    for request in evidence.seen.requests:
        if request.outcome == outcome and not request.path.endswith("/favicon.ico"):
            once.setdefault(request.path.partition("?")[0] if outcome != "blocked" else request.path, request)
    return list(once.values())


def _blocked(evidence: Evidence) -> list[Finding]:
    found = []
    for request in _requests(evidence, "blocked"):
        what, hint = _REASONS.get(request.reason, _REASONS[""])
        if request.resource_type == "font" or "fonts." in urlsplit(request.path).netloc:
            hint = "Use the fonts that are there, or bring the font file as an asset."
        spot = _spot_of(evidence, request.path)
        position = spot.position if spot and spot.position else _position_of(evidence, request.path)
        message = f"{request.resource_type} {_shown(request.path)} {what}."
        found.append(finding("REQUEST_BLOCKED", "warning", message, hint, spot=spot, position=position))
    return found


def _missing(evidence: Evidence) -> list[Finding]:
    """Failed requests of the page's own origin; pictures and fonts are told by their elements below."""
    found = []
    for request in _requests(evidence, "failed"):
        if request.resource_type in {"font", "image"} and not _spot_of(evidence, request.path):
            continue
        if _is_broken_image(evidence, request.path) or request.resource_type == "font":
            continue
        status = f" (answer {request.status})" if request.status else ""
        spot = _spot_of(evidence, request.path)
        position = spot.position if spot and spot.position else _position_of(evidence, request.path)
        found.append(
            finding(
                "REQUEST_FAILED",
                "warning",
                f"{request.resource_type} {_shown(request.path)} could not be loaded{status}.",
                "There is no server behind a page: put the data into the page, and files into the assets.",
                spot=spot,
                position=position,
            )
        )
    return found


def _is_broken_image(evidence: Evidence, path: str) -> bool:
    return any(answer["address"] == path for answer in evidence.answers("images"))


def _images(evidence: Evidence) -> list[Finding]:
    told = {request.path for request in evidence.seen.requests if request.outcome in {"blocked", "hanging"}}
    found = []
    for answer in evidence.answers("images"):
        if answer["address"] in told or answer["state"] not in _IMAGES:
            continue
        what, hint = _IMAGES[answer["state"]]
        code = "MEDIA_BROKEN" if answer["state"] == "media" else "IMAGE_BROKEN"
        address = f": {_shown(answer['address'])}" if answer["address"] else ""
        found.append(finding(code, "warning", f"{what}{address}.", hint, spot=Spot.of(answer)))
    return found


def _fonts(evidence: Evidence) -> list[Finding]:
    """A face that was asked for and did not load. A family that is not installed falls back, as CSS means it to."""
    fonts = [request for request in evidence.seen.requests if request.resource_type == "font"]
    if any(request.outcome in {"blocked", "hanging"} for request in fonts):
        return []
    lost = {request.path: request for request in fonts if request.outcome == "failed"}
    families = sorted({str(face["family"]) for face in evidence.answers("fonts") if face["state"] == "error"})
    if not families and not lost:
        return []
    position = next((at for at in (_position_of(evidence, path) for path in lost) if at), None)
    position = position or evidence.from_text("@font-face", "new FontFace(")
    named = ", ".join([*families, *(_shown(path) for path in lost)][:4])
    hint = "Check the address and the format of the font file, or use a font that is there."
    return [finding("FONT_BROKEN", "warning", f"A font could not be loaded: {named}.", hint, position=position)]


def _hanging(evidence: Evidence) -> list[Finding]:
    found = []
    for request in _requests(evidence, "hanging"):
        spot = _spot_of(evidence, request.path)
        position = spot.position if spot and spot.position else _position_of(evidence, request.path)
        found.append(
            finding(
                "RESOURCE_HANGING",
                "warning",
                f"{request.resource_type} {_shown(request.path)} never answered; the page was judged without it.",
                "Bring the file as an asset, or do without it.",
                spot=spot,
                position=position,
            )
        )
    return found


def _intrusions(evidence: Evidence) -> list[Finding]:
    seen = evidence.seen
    told = (
        (seen.dialogs, "DIALOG_OPENED", "dialog (alert, confirm, prompt)", ("alert(", "confirm(", "prompt(")),
        (seen.popups, "POPUP_OPENED", "window", ("window.open(",)),
        (seen.downloads, "DOWNLOAD_STARTED", "download", (".download", " download")),
    )
    return [
        finding(
            code,
            "warning",
            f"The page opens {number} {what}{'s' if number > 1 else ''} by itself; it was closed.",
            "Do this only after a click, or show the message in the page.",
            position=evidence.from_text(*needles),
        )
        for number, code, what, needles in told
        if number
    ]
