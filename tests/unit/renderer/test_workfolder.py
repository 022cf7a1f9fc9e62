"""The work folder, and what a kill -9 leaves of it."""

import os
from pathlib import Path

from pagegate.renderer.workfolder import PREFIX, WorkFolder, sweep


def test_a_folder_in_use_is_left_alone_and_one_whose_owner_died_is_removed(tmp_path: Path) -> None:
    living = WorkFolder(tmp_path)
    dead = tmp_path / f"{PREFIX}dead"
    (dead / "room" / "home").mkdir(parents=True)
    (dead / "lock").touch()
    assert sweep(tmp_path) == 1
    assert living.path.exists()
    assert not dead.exists()
    living.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_just_being_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}new").mkdir()
    assert sweep(tmp_path) == 0


def test_the_lock_goes_with_its_process(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        WorkFolder(tmp_path)
        os._exit(0)  # no tidying, as after a kill -9
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    assert sweep(tmp_path) == 1
