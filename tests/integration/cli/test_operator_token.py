"""How the first administrator comes about: a token file beside the data, written once, readable by its owner."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pagegate.deploy.operator_token import OPERATOR, ensure_operator
from pagegate.storage.engine import Database
from pagegate.storage.migrations import migrate
from pagegate.storage.users import create_user, find_caller, find_user_by_name, set_disabled


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    url = f"sqlite+aiosqlite:///{tmp_path}/pagegate.db"
    await migrate(url)
    database = await Database.open(url)
    yield database
    await database.close()


async def test_the_file_opens_the_door_as_administrator(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "new" / "operator_token"
    await ensure_operator(db, file)
    async with db.read() as tx:
        caller = await find_caller(tx, file.read_text().strip())
    assert caller is not None
    assert (caller.name, caller.is_admin) == (OPERATOR, True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


async def test_a_file_that_is_there_stays_as_it_is(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "operator_token"
    await ensure_operator(db, file)
    before = file.read_text()
    await ensure_operator(db, file)
    assert file.read_text() == before


async def test_a_lost_file_is_written_anew_for_the_same_user(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "operator_token"
    await ensure_operator(db, file)
    before = file.read_text()
    file.unlink()
    await ensure_operator(db, file)
    async with db.read() as tx:
        old, new = await find_caller(tx, before.strip()), await find_caller(tx, file.read_text().strip())
    assert old is not None
    assert new is not None
    assert old.user_id == new.user_id
    assert old.token_id != new.token_id


async def test_a_disabled_operator_gets_no_new_token(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "operator_token"
    await ensure_operator(db, file)
    file.unlink()
    async with db.write() as tx:
        await create_user(tx, "another administrator", is_admin=True)
        operator = await find_user_by_name(tx, OPERATOR)
        assert operator is not None
        await set_disabled(tx, operator.id, True)
    await ensure_operator(db, file)
    assert not file.exists()


async def test_somebody_who_is_merely_called_operator_does_not_become_one(db: Database, tmp_path: Path) -> None:
    async with db.write() as tx:
        await create_user(tx, OPERATOR)
    await ensure_operator(db, tmp_path / "operator_token")
    assert not (tmp_path / "operator_token").exists()
