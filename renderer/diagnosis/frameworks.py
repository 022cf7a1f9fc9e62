"""What vue and react say in their development builds, and what the page itself reports with `console.error` (R10).

Owns the table from a framework's sentence to a stable code and to what the author should do. A sentence that the table
does not know is still told (`FRAMEWORK_WARNING`), advertisements and remarks about the build are not.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from pagegate.renderer.contract import Finding, Severity
from pagegate.renderer.diagnosis.evidence import Evidence, finding, kebab, read_kit, read_loc
from pagegate.renderer.observation import ConsoleMessage
from pagegate.renderer.sourcemap import Position

UNHANDLED = re.compile(r"^\[Vue warn\]: Unhandled error during execution of ([^\n]+)")

_VUE = re.compile(r"^\[Vue warn\]:? ")
_VUE_COMPONENT = re.compile(r"at\s+<(\w+)")
_VUE_TRACE = re.compile(r"\s*\n?\s*at <(?:.|\n)*$")
_HOSTS = {"App", "PageHost", "Anonymous"}  # names of what stands around the page, or of nothing
_REACT_COMPONENT = re.compile(r"render method of `(\w+)`|^\s+(?:at|in) ([A-Z]\w*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rule:
    """`needles` are pieces of the author's source that the sentence is about, made from the pattern's groups."""

    code: str
    pattern: re.Pattern[str]
    hint: str
    needles: Callable[[re.Match[str]], tuple[str, ...]] = lambda _: ()
    severity: Severity = "warning"


def _rule(
    code: str,
    pattern: str,
    hint: str,
    needles: Callable[[re.Match[str]], tuple[str, ...]] = lambda _: (),
) -> Rule:
    return Rule(code, re.compile(pattern, re.DOTALL), hint, needles)


def _tag_of(found: re.Match[str]) -> tuple[str, ...]:
    return (f"<{found[1]}", f"<{kebab(found[1])}")


def _in_template(found: re.Match[str]) -> tuple[str, ...]:
    name = found[1]
    return (f"{{{{ {name}", f"{{{{{name}", f'="{name}"', f"{{{name}}}", f"in {name}", name)


HOOKS_HINT = (
    "Call hooks at the top level of a component, each time in the same order: not in conditions, loops, handlers or "
    "outside of components."
)

_RULES = (
    # vue
    _rule(
        "COMPONENT_UNRESOLVED",
        r"Failed to resolve component: ([\w.-]+)",
        "Import the component in the script (`import Name from '@components/Name.vue'`) or correct the tag's name.",
        _tag_of,
    ),
    _rule(
        "DIRECTIVE_UNRESOLVED",
        r"Failed to resolve directive: ([\w-]+)",
        "Only vue's own directives and those defined in the page (`const vName = …`) exist.",
        lambda m: (f"v-{m[1]}",),
    ),
    _rule(
        "NAME_UNDEFINED",
        r'Property "([^"]+)" was accessed during render but is not defined',
        "The template uses a name that the script does not define: define it, or correct its spelling.",
        _in_template,
    ),
    _rule("PROP_MISSING", r'Missing required prop: "([^"]+)"', "Pass the prop, or give it a default in the component."),
    _rule(
        "PROP_INVALID",
        r'Invalid prop: (?:type check failed|custom validator check failed) for prop "([^"]+)"',
        'Pass a value of the expected type; a number or boolean needs a binding (`:page="3"`, not `page="3"`).',
        lambda m: (f" {m[1]}=", f" {kebab(m[1])}="),
    ),
    _rule(
        "KEY_DUPLICATE",
        r"Duplicate keys found during update:|Encountered two children with the same key",
        "Give every child of a list its own key, for example the item's id.",
        lambda _: (":key=", "key={"),
    ),
    _rule(
        "UPDATE_LOOP",
        r"Maximum recursive updates exceeded|Maximum update depth exceeded",
        "An effect, watcher or render changes what it depends on, again and again: change it only when it differs, or "
        "give the effect its list of dependencies.",
        lambda _: ("useEffect(", "watchEffect(", "watch(", "onUpdated("),
    ),
    _rule(
        "SETUP_ASYNC",
        r"returned a promise, but no <Suspense> boundary",
        "A page's top-level code may not `await`: load the data in `onMounted` and show something until it is there.",
        lambda _: ("await ",),
    ),
    _rule(
        "ATTRIBUTE_LOST",
        r"Extraneous non-(?:props attributes|emits event listeners) \(([^)]+)\)",
        "The component has no single root element that could take these attributes: declare them as props, or give the "
        "component one root.",
    ),
    _rule(
        "VALUE_READONLY",
        r"(?:Write operation failed: computed value is readonly|target is readonly)",
        "A computed value or a prop cannot be assigned: change what it is computed from.",
    ),
    _rule("INJECTION_MISSING", r'injection "([^"]+)" not found', "Nothing provides this; give `inject` a default."),
    # react
    _rule(
        "KEY_MISSING",
        r'Each child in a list should have a unique "key" prop',
        "Give the outermost element inside `.map()` a `key` that is unique in the list.",
        lambda _: (".map(",),
    ),
    _rule(
        "HOOK_INVALID",
        r"(use\w*Effect) must not return anything besides a function",
        "An effect returns nothing, or its clean-up: start asynchronous work in a function inside the effect.",
        lambda m: (f"{m[1]}(async", f"{m[1]}("),
    ),
    _rule(
        "HOOK_INVALID",
        r"change in the order of Hooks|Invalid hook call|The final argument passed to use\w+ changed size",
        HOOKS_HINT,
    ),
    _rule(
        "NESTING_INVALID",
        r"In HTML, .* cannot (?:be a (?:child|descendant) of|contain)",
        "The browser moves or closes such elements: nest as HTML allows (no `div` inside `p`, rows inside `tbody`).",
    ),
    _rule(
        "ATTRIBUTE_UNKNOWN",
        r"Invalid DOM property `([^`]+)`|(?:Unknown|Invalid) event handler property `([^`]+)`"
        r"|React does not recognize the `([^`]+)` prop",
        "JSX has its own names: `className`, `htmlFor`, `strokeWidth`, `onClick`.",
        lambda m: tuple(f" {name}=" for name in m.groups() if name),
    ),
    _rule(
        "FIELD_READ_ONLY",
        r"You provided a `(?:value|checked)` prop to a form field without an `onChange` handler",
        "Use `defaultValue` (or `defaultChecked`), set `readOnly`, or handle `onChange`.",
        lambda _: (" value=", " checked="),
    ),
    _rule(
        "STYLE_INVALID",
        r"Unsupported style property ([\w-]+)|is an invalid value for the `([^`]+)` css style property",
        "Style objects use camelCase names and finite numbers or strings.",
        lambda m: (f"'{m[1]}'", f'"{m[1]}"', f"{m[1] or m[2]}:"),
    ),
    _rule(
        "ATTRIBUTE_INVALID",
        r"Received `?[^`]*`? for (?:a non-boolean|the) (?:attribute )?`([^`]+)`",
        "Compute a finite number or a string for this attribute, or leave it out.",
        lambda m: tuple(f" {name}=" for name in m.groups() if name),
    ),
    _rule(
        "ATTRIBUTE_INVALID",
        r'An empty string \(""\) was passed to the (\w+) attribute',
        "Leave the attribute out until its value is known.",
        lambda m: (f' {m[1]}=""', f" {m[1]}={{"),
    ),
    _rule(
        "CHILD_INVALID",
        r"(?:Functions|Objects|Symbols) are not valid as a React child",
        "Render a text, a number or an element: call the function, or name the field that should show.",
    ),
    _rule(
        "COMPONENT_FAILED",
        r"The above error occurred in|React will try to recreate this component tree",
        "An error boundary shows its replacement, but the component behind it is broken: correct the error.",
    ),
    _rule(
        "TAG_UNKNOWN",
        r"The tag <([^>]+)> is unrecognized|<([\w-]+) /> is using incorrect casing",
        "A component's name begins with a capital letter; an HTML tag is written in small letters.",
        lambda m: tuple(f"<{name}" for name in m.groups() if name),
    ),
)
KIT_HINT = (
    "Give the component of the kit what this names; its other props and their kinds are in the kit's description."
)
_GENERIC_HINT = "Follow what the framework says: what it warns about often shows wrongly or not at all."

# About the build, the tools or an error that is told already; nothing an author could repair.
_REMARKS = re.compile(
    r"React DevTools|Vue Devtools|development (?:build|version)|Feature flags? __VUE|experimental feature"
    r"|An error occurred in the <|Consider adding an error boundary|Active effect was not restored correctly"
)
# What react says before it throws for the very reason.
_LEADS_TO_THROW = re.compile(r"change in the order of Hooks|Invalid hook call|^lazy: Expected the result")


def find(evidence: Evidence) -> list[Finding]:
    """Warnings, and an error for an unhandled framework error whose own report was lost (R10)."""
    thrown = bool(evidence.seen.errors or evidence.seen.rejections)
    found = []
    for message in evidence.seen.console:
        if message.source != "console" or message.type not in {"warning", "error", "assert"}:
            continue
        if _REMARKS.search(message.text) or (thrown and _LEADS_TO_THROW.search(message.text)):
            continue
        if UNHANDLED.search(message.text):
            if not thrown:
                found.append(_mount_failed(evidence, message))
        elif _VUE.match(message.text):
            text = _VUE_TRACE.sub("", _VUE.sub("", message.text))
            found.append(_judge(evidence, message, text, _VUE_COMPONENT))
        elif _is_framework(message):
            found.append(_judge(evidence, message, message.text, _REACT_COMPONENT))
        elif message.type != "warning" and not _is_thrown_too(evidence, message):
            found.append(_console_error(evidence, message))
    return found


def _is_framework(message: ConsoleMessage) -> bool:
    return "/vendor/" in message.url or "/vendor/" in message.stack.partition("\n")[0]


def _is_thrown_too(evidence: Evidence, message: ConsoleMessage) -> bool:
    """An error that is logged and thrown again is told once, as thrown."""
    errors = [*evidence.seen.errors, *evidence.seen.rejections]
    return any(error.message and error.message.partition("\n")[0] in message.text for error in errors)


_MARKED = re.compile(r'data-pg-loc="([^"]+)"')
_VALUE_GOT = re.compile(r'got \w+ with value "?([^"]+?)"?\.?\s*$', re.MULTILINE)
# Is the attribute given where the fault is?
_ATTRIBUTE_CODES = {"PROP_MISSING": False, "PROP_INVALID": True, "ATTRIBUTE_LOST": True}


def _judge(evidence: Evidence, message: ConsoleMessage, text: str, component_in: re.Pattern[str]) -> Finding:
    named = component_in.search(message.text)
    component = next((group for group in named.groups() if group), None) if named else None
    component = None if component in _HOSTS else component
    for rule in _RULES:
        matched = rule.pattern.search(text)
        if matched:
            position = None
            if component and rule.code in _ATTRIBUTE_CODES:
                attribute = matched[1].partition(",")[0]
                got = _VALUE_GOT.search(text)
                position = evidence.from_tag(
                    component, attribute, given=_ATTRIBUTE_CODES[rule.code], value=got[1] if got else ""
                )
            position = position or _position_of(evidence, message, rule.needles(matched), component)
            return finding(rule.code, rule.severity, _sentence(text, component), rule.hint, position=position)
    position = _position_of(evidence, message, (), component)
    return finding("FRAMEWORK_WARNING", "warning", _sentence(text, component), _GENERIC_HINT, position=position)


def _position_of(
    evidence: Evidence, message: ConsoleMessage, needles: tuple[str, ...], component: str | None
) -> Position | None:
    marked = _MARKED.findall(message.text)  # react draws the tree down to the element it means
    return (
        (read_loc(marked[-1]) if marked else None)
        or evidence.from_text(*needles, component=component)
        or evidence.from_stack(message.text)  # an error that react caught is told with its own stack
        or evidence.from_stack(message.stack, message.url, message.line, message.column)
    )


def _sentence(text: str, component: str | None) -> str:
    first = re.split(r"\n\s*\n|\n\s+at |\n\s*If this is", text.strip())[0]
    sentence = re.sub(r"\s+", " ", first.replace("%s", "")).strip()
    return f"{sentence} (in <{component}>)" if component and component not in sentence else sentence


def _mount_failed(evidence: Evidence, message: ConsoleMessage) -> Finding:
    during = UNHANDLED.search(message.text)
    position = evidence.from_stack(message.stack, message.url, message.line, message.column)
    return finding(
        "PAGE_ERROR",
        "error",
        f"The page threw an error during {during[1].strip() if during else 'its start'}.",
        "Correct the cause, or catch the error and show something else instead.",
        position=position,
    )


def _console_error(evidence: Evidence, message: ConsoleMessage) -> Finding:
    if kit := read_kit(message.text):
        return finding("KIT_PROP_INVALID", "warning", kit[0], KIT_HINT, position=kit[1])
    position = evidence.from_stack(message.stack, message.url, message.line, message.column)
    text = re.sub(r"\s+", " ", message.text).strip()
    return finding(
        "CONSOLE_ERROR",
        "warning",
        f"console.error: {text[:400]}",
        "Repair what the page reports here; use console.log for what is no error.",
        position=position,
    )
