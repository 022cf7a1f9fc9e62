"""What several Backends need before they start: each thing with its own refusal, all of them at once (K4, K5)."""

import json
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from pagegate.actors.signing_keys import make_key_file
from pagegate.deploy.process_settings import SettingsError, load
from pagegate.deploy.replicas import fernet_trouble, weak_secret
from pagegate.deploy.settings import BackendSettings, setting_names

CREDENTIAL = "c0ffee5e7ab1e0ddba11fade0ff1ce5ca1ab1e0b5e55ed1e"


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "shared.pem"
    assert make_key_file(file)
    return file


@pytest.fixture
def lone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A lite Backend's environment, told that it is one of several."""
    monkeypatch.chdir(tmp_path)
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RENDER_SERVICE_CREDENTIAL", "sixteen-chars-16")
    monkeypatch.setenv("RUNTIME_BASE_URLS", "http://127.0.0.1:8081")
    monkeypatch.setenv("RENDER_WORKERS_CONFIG", '[{"id": "renderer-1", "base_url": "http://127.0.0.1:8082/"}]')
    monkeypatch.setenv("BACKEND_MULTI_INSTANCE", "true")
    return monkeypatch


GOOD = {
    "DATABASE_URL": "postgresql+asyncpg://u:p@db/pagegate",
    "REDIS_URL": "redis://redis:6379/0",
    "OBJECT_STORAGE_SHARED_VOLUME": "true",
    "RENDER_SERVICE_CREDENTIAL": CREDENTIAL,
    "AI_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode(),
}


@pytest.fixture
def shared(lone: pytest.MonkeyPatch, key_file: Path) -> pytest.MonkeyPatch:
    """Everything that replicas must share, set."""
    for name, value in {**GOOD, "RUNTIME_RSA_PRIVATE_KEY_FILE": str(key_file)}.items():
        lone.setenv(name, value)
    return lone


def problems() -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(BackendSettings)
    return caught.value.problems


@pytest.mark.parametrize("how", ["BACKEND_MULTI_INSTANCE", "WEB_CONCURRENCY", "UVICORN_WORKERS"])
def test_everything_that_replicas_lack_is_told_at_once(lone: pytest.MonkeyPatch, how: str) -> None:
    lone.delenv("BACKEND_MULTI_INSTANCE")
    lone.setenv(how, "true" if how == "BACKEND_MULTI_INSTANCE" else "2")
    told = problems()
    assert [line.partition(":")[0] for line in told] == [
        "DATABASE_URL",
        "REDIS_URL",
        "ASSET_STORAGE_DRIVER",
        "RUNTIME_RSA_PRIVATE_KEY",
        "RENDER_SERVICE_CREDENTIAL",
        "AI_SECRET_ENCRYPTION_KEY",
    ]
    assert "sqlite_single_process=true" in told[0]


def test_replicas_that_share_everything_may_start(shared: pytest.MonkeyPatch) -> None:
    assert load(BackendSettings).backend_multi_instance


@pytest.mark.parametrize(
    ("name", "value", "lead"),
    [
        ("DATABASE_URL", "sqlite+aiosqlite:///data/x.db", "DATABASE_URL: SQLite serves one process"),
        ("REDIS_URL", "memory://lite", "REDIS_URL: memory:// is one process's own"),
        ("OBJECT_STORAGE_SHARED_VOLUME", "false", "ASSET_STORAGE_DRIVER: a local folder is one machine's own"),
        ("RUNTIME_RSA_ALLOW_AUTO_GENERATE", "true", "RUNTIME_RSA_ALLOW_AUTO_GENERATE: must not be true"),
        ("RUNTIME_RSA_PRIVATE_KEY_FILE", "", "RUNTIME_RSA_PRIVATE_KEY: replicas need one shared key"),
        (
            "RENDER_SERVICE_CREDENTIAL",
            "change-me-change-me-change-me-change-me",
            "RENDER_SERVICE_CREDENTIAL: looks like",
        ),
        ("AI_SECRET_ENCRYPTION_KEY", "", "AI_SECRET_ENCRYPTION_KEY: is not set"),
        (
            "AI_SECRET_ENCRYPTION_KEY",
            "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
            "AI_SECRET_ENCRYPTION_KEY: looks like",
        ),
    ],
)
def test_each_thing_has_its_own_refusal(shared: pytest.MonkeyPatch, name: str, value: str, lead: str) -> None:
    shared.setenv(name, value)
    (told,) = problems()
    assert told.startswith(lead)
    assert value == "" or value not in told or value in {"true", "false"}


def test_a_single_instance_may_have_all_of_it_to_itself(lone: pytest.MonkeyPatch) -> None:
    lone.setenv("BACKEND_MULTI_INSTANCE", "false")
    assert load(BackendSettings).database_url.startswith("sqlite")


def test_a_key_that_cannot_be_used_is_told_with_the_other_settings(
    shared: pytest.MonkeyPatch, key_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.pem").write_text("s3cret")
    shared.setenv("RUNTIME_RSA_PRIVATE_KEY_FILE", str(tmp_path / "broken.pem"))
    shared.setenv("REDIS_URL", "memory://lite")
    told = problems()
    assert [line.partition(":")[0] for line in told] == ["RUNTIME_RSA_PRIVATE_KEY_FILE", "REDIS_URL"]
    assert "RSA_KEY_MALFORMED" in told[0]
    assert "s3cret" not in told[0]
    shared.setenv("RUNTIME_RSA_PRIVATE_KEY_FILE", str(key_file))
    shared.setenv("REDIS_URL", "redis://redis")
    clash = [{"kid": "default-key-1", "private_key_file": str(key_file)}]
    shared.setenv("RUNTIME_RSA_PREVIOUS_KEYS", json.dumps(clash))
    assert "RSA_KEY_ID_CLASH" in problems()[0]
    shared.setenv("RUNTIME_RSA_PREVIOUS_KEYS", '[{"kid": "a"}]')
    assert problems() == ["RUNTIME_RSA_PREVIOUS_KEYS[0]: needs one of private_key_file, private_key and public_key"]


@pytest.mark.parametrize(
    ("secret", "weak"),
    [
        (CREDENTIAL, False),
        ("a" * 64, True),
        ("0123456789abcdef", True),
        ("please-change-me-to-something-long-and-random", True),
        ("", True),
    ],
)
def test_a_weak_secret_is_recognised(secret: str, weak: bool) -> None:
    assert (weak_secret(secret) is not None) is weak


@pytest.mark.parametrize("key", ["", "x", "é" * 44, "A" * 43 + "=", "a" * 44])
def test_what_is_no_fernet_key_is_recognised(key: str) -> None:
    assert fernet_trouble(key) is not None
    assert fernet_trouble(Fernet.generate_key().decode()) is None
