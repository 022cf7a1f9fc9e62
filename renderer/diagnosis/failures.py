"""What refuses a page (R8, R9): it throws, it stays blank, it never settles, it eats the machine."""

import re

from pagegate.renderer.contract import Finding
from pagegate.renderer.diagnosis.evidence import Evidence, Spot, finding, position_in, read_kit
from pagegate.renderer.diagnosis.frameworks import HOOKS_HINT, KIT_HINT, UNHANDLED
from pagegate.renderer.diagnosis.pixels import is_blank
from pagegate.renderer.observation import PageError
from pagegate.renderer.sourcemap import Position

_USED_TOO_EARLY = (
    "Something is used before it is defined: either two modules import each other and use each other while they load "
    "(move what both need into a third component), or a line uses a `const` or `let` that is declared below it."
)
_NOTHING_THERE = (
    "The value on this line is null or undefined when it runs: give it a first value, check it before use, or correct "
    "the name or selector that should have found it."
)
_HINTS = (
    (r"\[kit\] <", KIT_HINT),
    (r"before initialization", _USED_TOO_EARLY),
    (
        r"Should have a queue|Rendered (?:more|fewer) hooks|of null \(reading 'use[A-Z]\w*'\)",
        HOOKS_HINT,
    ),
    (r"Cannot (?:read|set) properties of (?:null|undefined)|is (?:null|undefined)", _NOTHING_THERE),
    (r"is not defined", "Import or define this name, or correct its spelling."),
    (r"is not a function", "Check the name and the import: what is called here is no function."),
    (r"is not iterable", "A list was expected here: give it a first value such as []."),
    (
        r"Maximum (?:recursive updates|update depth)",
        "A watcher, effect or render changes what it depends on, again and again: change it only when it differs.",
    ),
    (r"Too many re-renders", "A state is set while rendering: set it in an event handler or an effect instead."),
    (
        r"Maximum call stack",
        "A function calls itself without an end, or a component shows itself, perhaps by way of another one.",
    ),
    (
        r"Element type is invalid",
        "What is rendered here is no component: check the import (default or named?).",
    ),
    (
        r"Objects are not valid as a React child",
        "Render a text or a number: name the field of the object.",
    ),
)
_LOOPS = ("watchEffect(", "watch(", "useEffect(", "onUpdated(")
_ABOUT = (
    (r"Maximum (?:recursive updates|update depth)", _LOOPS),
    (r"Lazy element type must resolve", ("lazy(",)),
)
_REACT_SAYS_WHERE = re.compile(r"An error occurred in the <([\w.]+)> component")
_STUCK_WHERE = {
    "load": "while it loads",
    "settle": "after it has loaded, within its first 2.5 seconds",
    "probe": "when it is measured",
    "picture": "when its picture is taken",
}


def find(evidence: Evidence) -> list[Finding]:
    """R10: every finding of this file is an error."""
    seen = evidence.seen
    if seen.killed_by_memory:
        return [_out_of_memory(evidence)]
    thrown = _thrown(evidence)
    if seen.stuck:
        return [*thrown, _stuck(evidence)]
    if seen.crashed:
        return [*thrown, _crashed()]
    if seen.navigated_away:
        return [*thrown, _left()]
    if thrown or _framework_failed(evidence):
        return thrown  # a page that threw may well be blank too: the throw is what there is to repair
    if not seen.mounted:
        return [_not_mounted(evidence)]
    if evidence.image is not None and is_blank(evidence.image):
        return [_blank(evidence)]
    if not seen.settled and not _waits_in_vain(evidence):
        return [_unsettled()]
    return []


def _waits_in_vain(evidence: Evidence) -> bool:
    """A font, a picture or a call that hangs is a finding of its own (R11), and the page is judged without it."""
    if any(request.outcome == "hanging" for request in evidence.seen.requests):
        return True
    images, fonts = evidence.answers("images"), evidence.answers("fonts")
    return any(each["state"] == "hanging" for each in images) or any(each["state"] == "loading" for each in fonts)


def _thrown(evidence: Evidence) -> list[Finding]:
    found = []
    told: set[str] = set()
    for code, errors in (("PAGE_ERROR", evidence.seen.errors), ("PAGE_REJECTION", evidence.seen.rejections)):
        for error in errors:
            if error.message in told or _is_noise(error):
                continue
            told.add(error.message)
            kit = read_kit(error.message)
            position = (kit[1] if kit else None) or _position_of(evidence, error)
            during = _during(evidence)
            what = "Uncaught" if code == "PAGE_ERROR" else "Nobody handles this rejected promise:"
            said = f"{error.message.partition('[kit]')[0]}{kit[0]}" if kit else re.sub(r"\s+", " ", error.message)
            found.append(
                finding(code, "error", f"{what} {said}{during}", _hint_for(evidence, error), position=position)
            )
    return found


def _is_noise(error: PageError) -> bool:
    """The browser reports a harmless loop of ResizeObserver as an error; nothing is wrong with the page."""
    return "ResizeObserver loop" in error.message


def _position_of(evidence: Evidence, error: PageError) -> Position | None:
    """The author's frame of the stack; else what the sentence is about; else the component that react names."""
    position = evidence.from_stack(error.stack, error.url, error.line, error.column)
    if position:
        return position
    if "Maximum call stack" in error.message:
        return evidence.from_cycle()
    for pattern, needles in _ABOUT:
        if re.search(pattern, error.message):
            return evidence.from_text(*needles) or _root_position(evidence)
    for message in evidence.seen.console:
        named = _REACT_SAYS_WHERE.search(message.text)
        if named:
            name = named[1]
            found = evidence.from_text(f"function {name}(", f"const {name} =", f"<{name}", component=name)
            return found or _root_position(evidence)
    return None


def _during(evidence: Evidence) -> str:
    """Vue says in which hook the error that follows was thrown."""
    for message in evidence.seen.console:
        hook = UNHANDLED.search(message.text)
        if hook and hook[1].strip() != "app errorHandler":
            return f" (during {hook[1].strip()})"
    return ""


def _framework_failed(evidence: Evidence) -> bool:
    return any(UNHANDLED.search(message.text) for message in evidence.seen.console)


def _hint_for(evidence: Evidence, error: PageError) -> str:
    if any("change in the order of Hooks" in message.text for message in evidence.seen.console):
        return HOOKS_HINT  # whatever was thrown then, this is why
    for pattern, hint in _HINTS:
        if re.search(pattern, error.message):
            return hint
    return "Correct the cause on this line, or catch the error and show something else instead."


def _stuck(evidence: Evidence) -> Finding:
    when = _STUCK_WHERE.get(evidence.seen.stuck_phase, "")
    return finding(
        "PAGE_STUCK",
        "error",
        f"The page's script runs without an end {when}".rstrip() + ": the page did not answer for 10 seconds.",
        "Look for a loop whose condition never becomes false, a watcher or effect that triggers itself, or work that "
        "should be done in steps.",
        position=evidence.from_stack(evidence.seen.stuck_stack),
    )


def _out_of_memory(evidence: Evidence) -> Finding:
    peak = f" ({evidence.seen.memory_peak_mb} MB)" if evidence.seen.memory_peak_mb else ""
    return finding(
        "PAGE_OUT_OF_MEMORY",
        "error",
        f"The page used more memory than a page may{peak} and was ended.",
        "Look for a list, string or canvas that grows without a limit, or for far too many elements.",
        position=evidence.from_stack(evidence.seen.stuck_stack),
    )


def _crashed() -> Finding:
    return finding(
        "PAGE_CRASHED",
        "error",
        "The page brought the browser's process for it down.",
        "Look for what is far too large or too deep: elements nested thousands deep, huge canvases or filters.",
    )


def _left() -> Finding:
    return finding(
        "PAGE_NAVIGATED_AWAY",
        "error",
        "The page left itself: it sets `location`, submits a form, or reloads while it starts.",
        "Remove the navigation; a page may only change itself after a click.",
    )


def _not_mounted(evidence: Evidence) -> Finding:
    return finding(
        "PAGE_NOT_MOUNTED",
        "error",
        "The page never came up, and it threw no error.",
        "Check that the page's default export is a component and that nothing at its top level waits for ever.",
        position=evidence.from_text("= await ", "\nawait ") or _root_position(evidence),
    )


def _blank(evidence: Evidence) -> Finding:
    root = evidence.page.get("page", {}).get("root")
    spot = Spot.of(root) if isinstance(root, dict) else None
    texts = int(evidence.page.get("page", {}).get("texts") or 0)
    position = _root_position(evidence) or (spot.position if spot else None)
    condition = _root_condition(evidence, position)
    if texts:
        why = f"It holds {texts} texts, but they have the colour of their ground or lie outside or behind something."
    elif condition:
        why = f"Its outermost element is only rendered when `{condition}` is true, and it never was."
    else:
        why = "It renders nothing that can be seen."
    return finding(
        "PAGE_BLANK",
        "error",
        f"The page stays blank: the picture has one colour only. {why}",
        "Make the content appear without waiting for an event that never comes: check the outermost condition, the "
        "data it depends on, and the colours.",
        spot=spot,
        position=position,
    )


def _unsettled() -> Finding:
    return finding(
        "PAGE_NOT_SETTLED",
        "error",
        "The page never came to rest: it kept loading or working until the time was over.",
        "Bound what the page does when it starts: no endless chain of timers, requests or updates.",
    )


_VUE_TEMPLATE = re.compile(r"^<template\b[^>]*>", re.MULTILINE)
_TAG = re.compile(r"<[A-Za-z][^>]*>", re.DOTALL)
_JSX_RETURN = re.compile(r"(?:return\s*\(?|=>\s*\(?|\?|&&)\s*(<[A-Za-z>])")
_CONDITION = re.compile(r"""v-(?:if|show)="([^"]+)\"""")


def _root_position(evidence: Evidence) -> Position | None:
    """Where the page's outermost element is written: nothing that is not rendered has a `data-pg-loc`."""
    if not evidence.map:
        return None
    contents = evidence.map.contents
    pages = [path for path in contents if path.startswith("pages/")]
    for path in pages or contents:  # a component that is looked at alone has no page around it
        text = contents[path]
        at = _root_offset(path, text)
        if at is not None:
            return position_in(path, text, at)
    return None


def _root_offset(path: str, text: str) -> int | None:
    if path.endswith(".vue"):
        template = _VUE_TEMPLATE.search(text)
        tag = _TAG.search(text, template.end()) if template else None
        return tag.start() if tag else None
    export = text.find("export default")
    returned = _JSX_RETURN.search(text, max(0, export))
    return returned.start(1) if returned else None


def _root_condition(evidence: Evidence, position: Position | None) -> str | None:
    text = evidence.map.contents.get(position.file) if evidence.map and position else None
    if not text or not position:
        return None
    start = sum(len(line) + 1 for line in text.split("\n")[: position.line - 1]) + position.column - 1
    tag = _TAG.match(text, start)
    condition = _CONDITION.search(tag[0]) if tag else None
    return condition[1] if condition else None
