"""Installing and upgrading: the migrations and `schema.py` must lead to the same database (O7)."""

import asyncio
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect, select, text, update

from pagegate.storage import schema
from pagegate.storage.engine import Database, dialect_of
from pagegate.storage.migrations import SchemaTooNew, SchemaTooOld, _config, check_schema, head_revision, migrate
from tests.services import PostgresServer
from tests.world import World


def empty_database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/new/folder/empty.db"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return empty_database(request.param, request, tmp_path)


@pytest.fixture
def empty_url_beside(database_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of the same kind as `database_url`."""
    return empty_database(dialect_of(database_url), request, tmp_path)


def described(connection: Connection) -> dict[str, object]:
    """Everything of a database that a statement could notice."""
    found: dict[str, object] = {}
    inspector = inspect(connection)
    for table in sorted(schema.metadata.tables):
        found[table] = {
            "columns": [
                (c["name"], str(c["type"]), c["nullable"], str(c.get("default")).strip("'()"))
                for c in inspector.get_columns(table)
            ],
            "checks": sorted((str(c["name"]), c["sqltext"]) for c in inspector.get_check_constraints(table)),
            "uniques": sorted((str(c["name"]), c["column_names"]) for c in inspector.get_unique_constraints(table)),
            "indexes": sorted(
                (
                    str(i["name"]),
                    i["column_names"],
                    i["unique"],
                    [str(v) for v in i.get("dialect_options", {}).values()],
                )
                for i in inspector.get_indexes(table)
            ),
            "keys": sorted(str(key) for key in inspector.get_foreign_keys(table)),
            "primary": inspector.get_pk_constraint(table),
        }
    if connection.dialect.name == "sqlite":
        triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
        counting = "SELECT count(*), '' FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'"
    else:
        triggers = "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname"
        counting = "SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'pagegate%'"
    for name, query in (("triggers", triggers), ("others", counting)):
        found[name] = [tuple(row) for row in connection.execute(text(query))]
    return found


async def test_migrations_and_schema_make_the_same_database(empty_url_beside: str, database_url: str) -> None:
    made, migrated = await Database.open(empty_url_beside), await Database.open(database_url)
    async with made.write() as tx:
        await tx.conn.run_sync(schema.metadata.create_all)
    async with made.read() as by_schema, migrated.read() as by_migration:
        expected = await by_schema.conn.run_sync(described)
        assert await by_migration.conn.run_sync(described) == expected
        assert len(expected["triggers"]) == len(schema.GUARDED)  # type: ignore[arg-type]  # a list

        def difference(connection: Connection) -> object:
            return compare_metadata(MigrationContext.configure(connection), schema.metadata)

        assert await by_migration.conn.run_sync(difference) == []
    await made.close()
    await migrated.close()


async def test_migrating_again_changes_nothing(empty_url: str) -> None:
    assert await migrate(empty_url) == head_revision()
    db = await Database.open(empty_url)
    async with db.write() as tx:
        await tx.insert(schema.users, name="ada", created_at_ms=tx.now)
    assert await migrate(empty_url) == head_revision()
    async with db.read() as tx:
        await check_schema(tx)
        assert (await tx.execute(schema.users.select())).one().name == "ada"
    await db.close()


async def test_a_database_of_the_first_version_is_upgraded_with_what_is_in_it(empty_url: str) -> None:
    db = await Database.open(empty_url)
    world = World(db)

    def install_first(connection: Connection) -> None:
        command.upgrade(_config(connection), "0001")

    async with db.write() as tx:
        await tx.conn.run_sync(install_first)
    await world.settle_in()
    submitted = await world.submit("a", "b")
    with pytest.raises(SchemaTooOld):
        await checked(db)
    await migrate(empty_url)
    await checked(db)
    table = schema.ai_page_mutation_jobs
    failed = {"status": "failed", "finished_at_ms": 1, "attempt": 1}
    async with db.write() as tx:
        await tx.execute(update(table).values(status="running", worker_id="w", lease_expires_at=1))
        await tx.execute(update(table).where(table.c.id == submitted.job_ids[0]).values(**failed))
        tasks = schema.ai_agent_external_tasks
        await tx.execute(update(tasks).where(tasks.c.id == 1).values(state="failed", finished_at_ms=1))
        await tx.execute(update(tasks).where(tasks.c.id == 1).values(state="pending", finished_at_ms=None))
    await db.close()


async def test_files_of_an_older_version_get_the_ratio_that_they_measure_or_wait_for_it(empty_url: str) -> None:
    db = await Database.open(empty_url)
    world = World(db)
    files = [("a.png", "image/png", 3, 2), ("b.png", "image/png", None, None), ("c.txt", "text/plain", None, None)]
    async with db.write() as tx:
        await tx.conn.run_sync(lambda connection: command.upgrade(_config(connection), "0008"))
    await world.settle_in()
    async with db.write() as tx:
        for number, (name, media_type, width_px, height_px) in enumerate(files, 1):
            await tx.conn.exec_driver_sql(
                "INSERT INTO assets (id, project_id, name, current_version_number, created_at_ms) "
                f"VALUES ({number}, {world.projects[0]}, '{name}', 1, 7)"
            )
            sides = f"{width_px or 'NULL'}, {height_px or 'NULL'}"
            await tx.conn.exec_driver_sql(
                "INSERT INTO asset_versions (asset_id, number, object_key, sha256, size_bytes, media_type, width_px, "
                "height_px, created_by, created_at_ms) "
                f"VALUES ({number}, 1, 'k', 's', 1, '{media_type}', {sides}, {world.user_id}, 7)"
            )
    await migrate(empty_url)
    async with db.read() as tx:
        versions = schema.asset_versions
        found = await tx.execute(select(versions.c.ratio, versions.c.measure_at_ms).order_by(versions.c.asset_id))
        assert [tuple(row) for row in found] == [(1.5, None), (None, 7), (None, None)]
    await db.close()


async def test_two_replicas_that_start_at_once_both_find_the_schema(empty_url: str) -> None:
    assert await asyncio.gather(migrate(empty_url), migrate(empty_url)) == [head_revision()] * 2


async def test_a_schema_newer_than_the_code_is_refused(db: Database, database_url: str) -> None:
    async with db.write() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaTooNew, match="newer"):
        await migrate(database_url)
    with pytest.raises(SchemaTooNew):
        await checked(db)


async def test_a_database_without_a_schema_is_refused_until_it_is_migrated(empty_url: str) -> None:
    db = await Database.open(empty_url)
    with pytest.raises(SchemaTooOld, match="None"):
        await checked(db)
    await migrate(empty_url)
    await checked(db)
    await db.close()


async def test_a_migration_that_fails_leaves_nothing_behind(empty_url: str) -> None:
    db = await Database.open(empty_url)
    async with db.write() as tx:
        await tx.execute(text("CREATE TABLE render_attempts (surprise INTEGER)"))
    with pytest.raises(Exception, match="already exists"):
        await migrate(empty_url)
    async with db.read() as tx:
        assert await tx.conn.run_sync(lambda c: inspect(c).get_table_names()) == ["render_attempts"]
    await db.close()


async def checked(db: Database) -> None:
    async with db.read() as tx:
        await check_schema(tx)
