"""The slips of `written/slips.toml`: each makes one fault in a page that is good without it."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .judging import Project

WRITTEN = Path(__file__).parent / "written"


@dataclass(frozen=True)
class Slip:
    """`at` is (file, line) of the change, or None where no line can be known."""

    name: str
    kind: str
    code: str
    page: str
    at: tuple[str, int] | None
    project: Project


def read_slips() -> list[Slip]:
    """All of them, in the file's order. AssertionError for one that does not fit its page."""
    table = tomllib.loads((WRITTEN / "slips.toml").read_text(encoding="utf-8"))
    return [_slip(number, entry) for number, entry in enumerate(table["slip"], start=1)]


def _slip(number: int, entry: dict[str, object]) -> Slip:
    page = f"pages/{entry['page']}"
    file = str(entry.get("file", page))
    project = Project(WRITTEN)
    changed = {file: _edited(project.read(file), entry, f"slip {number}")}
    also = entry.get("also", [])
    assert isinstance(also, Sequence)
    for edit in also:
        which = page if edit.get("page") else file
        changed[which] = _edited(changed.get(which) or project.read(which), edit, f"slip {number}")
    kind, code = str(entry["kind"]), str(entry["code"])
    changed_project = Project(WRITTEN, changed)
    at = _place(changed_project, page, file, str(entry.get("at", entry["put"])), f"slip {number}")
    return Slip(f"{number:02}-{kind.replace(' ', '-')}", kind, code, page, at, changed_project)


def _edited(text: str, edit: dict[str, object], name: str) -> str:
    find, put = str(edit["find"]), str(edit["put"])
    assert text.count(find) == 1, f"{name}: {find!r} is there {text.count(find)} times"
    return text.replace(find, put)


def _place(project: Project, page: str, file: str, at: str, name: str) -> tuple[str, int] | None:
    if not at:
        return None
    first, _, rest = at.partition(" ")
    if first.startswith(("components/", "pages/")):
        file, at = first, rest
    else:
        file = file if at in project.read(file) else page
    text = project.read(file)
    assert text.count(at) == 1, f"{name}: {at!r} is there {text.count(at)} times"
    return file, text[: text.index(at)].count("\n") + 1


def good_pages() -> Iterator[str]:
    yield from Project(WRITTEN).pages
