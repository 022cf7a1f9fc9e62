"""What several folders of tests share: a PostgreSQL for the whole run, and fresh databases of both kinds."""

import asyncio
import gc
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from sqlalchemy.engine import make_url

from pagegate.storage.engine import Database
from pagegate.storage.migrations import migrate
from tests import long_files
from tests.s3_server import S3Server
from tests.services import PostgresServer

_LONGEST_SHOWN = 40
_NEW_CONTAINERS = 10_000  # net, between two collections of the youngest generation

# Where nobody configures logs, a traceback is drawn with the source and all variables of each frame. That takes a
# second, in which every timer of a test is late. The instance is the library's default, so it survives a reset.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


def pytest_addoption(parser: pytest.Parser) -> None:
    simulation = parser.getgroup("simulation")
    simulation.addoption("--seed", type=int, help="replay the simulations with this seed only")
    simulation.addoption("--seeds", type=int, default=3, help="how many seeds to try, from 0 (default 3)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as a `table`: figures that a reader of the run wants to see, also when all is green."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    for report in reports:
        for name, text in getattr(report, "user_properties", ()):
            if name == "table" and report.when == "call":
                terminalreporter.write_sep("-", report.nodeid.rpartition("::")[2])
                terminalreporter.write_line(str(text))
    taken = long_files.longest((one for one in reports if isinstance(one, pytest.TestReport)), _LONGEST_SHOWN)
    if len(taken) == _LONGEST_SHOWN:
        terminalreporter.write_sep("-", "files that took longest, in seconds")
        for name, seconds in taken:
            terminalreporter.write_line(f"{seconds:7.1f}  {name}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the tests, the long files come first."""
    if hasattr(config, "workerinput"):
        long_files.dearest_first(items)


def pytest_collection_finish() -> None:
    """What was imported stays: a collector that walks through it again and again takes a seventh of a run's time.

    Whatever a test leaves behind is still found, as it is by the server's own collector (`deploy/event_loop.py`).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_CONTAINERS, 10, 10)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        one = metafunc.config.getoption("seed")
        seeds = range(metafunc.config.getoption("seeds")) if one is None else [one]
        metafunc.parametrize("seed", seeds, ids=lambda seed: f"seed={seed}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that lives as long as the test run."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server that lives as long as the test run; who uses it asks for a bucket of its own."""
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """The name of a migrated, empty database, to be copied."""
    url = postgres.create_database()
    asyncio.run(migrate(url))
    database = make_url(url).database
    assert database is not None
    return database


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    asyncio.run(migrate(f"sqlite+aiosqlite:///{path}"))
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated, empty SQLite database of this test's own."""
    shutil.copy(sqlite_template, tmp_path / "pagegate.db")
    return f"sqlite+aiosqlite:///{tmp_path / 'pagegate.db'}"


@pytest.fixture
def postgres_url(postgres: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A migrated, empty PostgreSQL database of this test's own."""
    url = postgres.create_database(postgres_template)
    yield url
    postgres.give_back(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated, empty database of this test's own; the test runs once for each kind."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    """`database_url`, opened."""
    opened = await Database.open(database_url)
    yield opened
    await opened.close()
