"""Statements that were built once: on SQLite they go past SQLAlchemy, with the same rows, errors and transactions."""

import sqlite3

import pytest
from sqlalchemy import Executable, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from pagegate.storage import schema
from pagegate.storage.engine import Database, DatabaseOptions, DatabaseUnavailable, Tx
from pagegate.storage.present import built_once
from tests.world import World

USERS, JOBS = schema.users, schema.ai_page_mutation_jobs


@built_once
def named() -> Executable:
    return select(USERS.c.id, USERS.c.name).where(USERS.c.name == bindparam("name"))


@built_once
def renamed() -> Executable:
    return update(USERS).where(USERS.c.name == bindparam("old")).values(name=bindparam("new")).returning(USERS.c.name)


@built_once
def answered() -> Executable:
    return select(JOBS.c.id, JOBS.c.result, JOBS.c.error).where(JOBS.c.page_code == bindparam("code"))


@built_once
def ill_owned() -> Executable:
    """Breaks a foreign key."""
    values = {"workspace_id": bindparam("workspace"), "name": "p", "canvas_width_px": 1, "created_at_ms": 0}
    return insert(schema.projects).values(values).returning(schema.projects.c.id)


async def test_rows_have_names_and_json_is_read(world: World) -> None:
    await world.submit("page")
    async with world.db.write() as tx:
        await tx.execute(update(JOBS).values(result={"a": [1, None]}))
        (row,) = await tx.run(answered(), code="page")
    assert (row.result, row.error) == ({"a": [1, None]}, None)
    assert row._mapping["result"] == {"a": [1, None]}


async def test_what_is_missing_is_named(world: World) -> None:
    async with world.db.read() as tx:
        with pytest.raises(Exception, match="name"):
            await tx.run(named())


async def test_a_last_statement_is_durable_and_nothing_may_follow_it(world: World) -> None:
    async with world.db.write() as tx:
        assert await tx.run(renamed(), last=True, old="ada", new="eve")
        for again in (tx.run(named(), name="eve"), tx.execute(select(USERS.c.id))):
            with pytest.raises(AssertionError, match="last statement"):
                await again
    async with world.db.read() as tx:
        assert await tx.run(named(), name="eve")


async def test_an_error_is_sqlalchemys_and_undoes_the_transaction(world: World) -> None:
    async def both(tx: Tx) -> None:
        await tx.run(renamed(), old="ada", new="eve")
        await tx.run(ill_owned(), last=True, workspace=10_000)

    with pytest.raises(IntegrityError):
        await world.write(both)
    async with world.db.read() as tx:
        assert await tx.run(named(), name="ada")
        assert not await tx.run(named(), name="eve")


async def test_a_busy_sqlite_file_is_infrastructure(sqlite_url: str) -> None:
    db = await Database.open(sqlite_url, options=DatabaseOptions(sqlite_busy_timeout_ms=1))
    other = sqlite3.connect(db.url.database or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(DatabaseUnavailable):
            async with db.write() as tx:
                await tx.run(renamed(), last=True, old="ada", new="eve")
        other.execute("COMMIT")
        async with db.write() as tx:
            assert not await tx.run(renamed(), last=True, old="ada", new="eve")
    finally:
        other.close()
        await db.close()
