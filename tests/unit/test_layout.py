"""The house's shape: floors, packages and names that ARCHITECTURE promises, checked on the source itself."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Imports run down only: a floor may import those of a smaller number, and itself.
FLOORS = {"deploy": 3, "http": 2, "actors": 1, "storage": 0, "runtime": 0, "renderer": 0}


def sources() -> Iterator[Path]:
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*.py")):
            if "node_modules" not in path.parts:
                yield path


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module name) of every import of a file, also those inside functions."""
    here = ["pagegate", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def climbing_imports(path: Path) -> list[str]:
    floor = path.relative_to(ROOT).parts[0]
    found = []
    for line, module in imported_modules(path):
        parts = module.split(".")
        if parts[0] != "pagegate" or len(parts) < 2 or parts[1] == floor:
            continue
        if FLOORS[parts[1]] >= FLOORS[floor]:
            found.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    return found


def test_http_has_no_init_file_that_would_shadow_the_standard_library() -> None:
    assert not (ROOT / "http" / "__init__.py").exists()


def test_a_python_started_in_the_root_still_finds_the_standard_librarys_http() -> None:
    code = "import http.client, aiohttp, pagegate.http.backend; print(http.client.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.startswith(str(ROOT / "http"))


def test_imports_run_down_only() -> None:
    assert [line for path in sources() for line in climbing_imports(path)] == []


def test_the_import_check_sees_a_climbing_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "storage" / "migrations" / "bad.py"
    file.parent.mkdir(parents=True)
    file.write_text("def f() -> None:\n    from pagegate.actors import kernel\n    from ..engine import x\n")
    assert climbing_imports(file) == [
        "storage/migrations/bad.py:2 imports pagegate.actors",
        "storage/migrations/bad.py:2 imports pagegate.actors.kernel",
    ]


def test_the_package_list_is_the_tree() -> None:
    """A folder that is forgotten in pyproject.toml works in a checkout and is missing once installed."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in sources()} | {ROOT / floor for floor in FLOORS}
    assert sorted(listed) == sorted("pagegate." + ".".join(folder.relative_to(ROOT).parts) for folder in folders)


def test_every_package_but_http_has_an_init_file() -> None:
    """Without one, an installed copy would be a namespace that another distribution could add to."""
    folders = {path.parent for path in sources()} - {ROOT / "http"}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_floor_is_marked_as_typed() -> None:
    assert [floor for floor in FLOORS if not (ROOT / floor / "py.typed").exists()] == []


def test_every_module_opens_by_saying_what_it_owns() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources()
        if (tree := ast.parse(path.read_text("utf-8"))).body and ast.get_docstring(tree) is None
    ]
    assert silent == []


def test_every_promise_that_the_source_names_can_be_looked_up() -> None:
    """A docstring that says `Q3` is worth nothing when docs/behaviour.md does not."""
    promised = set(re.findall(r"^- \*\*([A-Z]\d+)\*\*", (ROOT / "docs/behaviour.md").read_text("utf-8"), re.MULTILINE))
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in sources()
        for name in re.findall(r"[(\s/,]([DQAVRSPBKOX]\d{1,2})[).,:;/\s]", path.read_text("utf-8"))
    }
    assert sorted((path, name) for path, name in named if name not in promised) == []
    assert len(promised) > 80


HEAVY = ("pydantic", "aiohttp", "sqlalchemy", "playwright", "PIL")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("pagegate.deploy.lite", HEAVY),
        ("pagegate.deploy.backend_process", ("playwright", "PIL", "pydantic_ai", "openai", "anthropic", "mcp")),
        ("pagegate.deploy.runtime_process", ("playwright", "PIL", "sqlalchemy")),
        ("pagegate.deploy.renderer_process", ("sqlalchemy", "alembic")),
    ],
)
def test_no_process_carries_another_ones_libraries(module: str, absent: tuple[str, ...]) -> None:
    """R1, and the memory of a small machine: each of these lives as long as the server."""
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
