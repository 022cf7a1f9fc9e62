"""Task folders are removed whatever happens, and roots of dead processes too (V3)."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from pagegate.runtime.contract import ArtifactManifest, Canvas, EntryPage
from pagegate.runtime.refusals import SourceUnavailable
from pagegate.runtime.workspace import Workspace, check_artifact


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "node_modules").mkdir(parents=True)
    return tmp_path / "home"


def entries(path: Path) -> list[Path]:
    return list(path.iterdir())


async def test_task_folder_is_gone_after_success_error_and_cancel(tmp_path: Path, home: Path) -> None:
    workspace = Workspace(home, tmp_path / "work")
    slot = workspace.slot()
    async with slot.task() as folder:
        (folder / "file").write_text("x")
    assert entries(slot.tasks) == []

    async def fail() -> None:
        async with slot.task() as folder:
            (folder / "file").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert entries(slot.tasks) == []

    entered = asyncio.Event()

    async def stay() -> None:
        async with slot.task() as folder:
            (folder / "file").write_text("x")
            entered.set()
            await asyncio.Event().wait()

    staying = asyncio.create_task(stay())
    await entered.wait()
    staying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await staying
    assert entries(slot.tasks) == []
    await workspace.remove()
    assert entries(tmp_path / "work") == []


@pytest.mark.parametrize(
    ("entry", "modules"),
    [
        ("pages/a.vue", ["pages/a.vue", "components/../../evil.vue"]),
        ("pages/a.vue", ["pages/a.vue", "/etc/evil.vue"]),
        ("pages/a.vue", ["pages/a.vue", "pages/b/c.vue"]),
        ("pages/a.vue", ["pages/a.vue", "pages/b.js"]),
        ("pages/a.vue", ["pages/a.vue", "pages/..\\evil.vue"]),
        ("pages/a.vue", ["pages/b.vue"]),
    ],
)
def test_artifact_with_paths_that_are_none_is_refused_before_anything_is_written(
    entry: str, modules: list[str]
) -> None:
    with pytest.raises(SourceUnavailable):
        check_artifact(manifest_of(entry, modules))


def test_artifact_with_unusual_names_is_fine() -> None:
    check_artifact(manifest_of("pages/季度 📊 C# 50%?.vue", ["pages/季度 📊 C# 50%?.vue", "components/A.tsx"]))


def manifest_of(entry: str, modules: list[str]) -> ArtifactManifest:
    return ArtifactManifest(
        artifact_id="a",
        entry=entry,
        framework="vue",
        modules=modules,
        entry_page=EntryPage(code="a"),
        canvas=Canvas(width_px=1280),
    )


async def test_two_tasks_never_share_a_folder(tmp_path: Path, home: Path) -> None:
    workspace = Workspace(home, tmp_path / "work")
    slot = workspace.slot()
    async with slot.task() as one, slot.task() as other:
        assert one != other
        assert one.parent == other.parent == slot.path / ".runtime-task"
    await workspace.remove()


async def test_root_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path, home: Path) -> None:
    work = tmp_path / "work"
    living = Workspace(home, work)
    script = (
        "import os, sys; from pathlib import Path; from pagegate.runtime.workspace import Workspace\n"
        "Workspace(Path(sys.argv[1]), Path(sys.argv[2])).slot(); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", script, str(home), str(work)]
    assert await asyncio.to_thread(subprocess.call, command) == -9
    assert len(entries(work)) == 2
    another = Workspace(home, work)
    assert set(entries(work)) == {living.root, another.root}
    await living.remove()
    await another.remove()
