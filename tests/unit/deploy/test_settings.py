"""Settings: profiles, every problem at once, nothing secret in a message, and an example file that is true."""

import re
from pathlib import Path

import pytest

from pagegate.deploy.process_settings import SettingsError, load
from pagegate.deploy.setting_values import PerLane
from pagegate.deploy.settings import (
    PROCESSES,
    BackendSettings,
    RendererSettings,
    RuntimeSettings,
    misspelt,
    setting_names,
)

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "deploy" / ".env.example"
CREDENTIAL = "a-credential-of-thirty-two-chars"
WORKERS = '[{"id": "renderer-1", "base_url": "http://127.0.0.1:8082/"}]'


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine that runs the tests decides about them."""
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def backend_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("RENDER_SERVICE_CREDENTIAL", CREDENTIAL)
    monkeypatch.setenv("RUNTIME_BASE_URLS", "http://127.0.0.1:8081")
    monkeypatch.setenv("RENDER_WORKERS_CONFIG", WORKERS)
    return monkeypatch


def problems_of(kind: type[BackendSettings | RuntimeSettings | RendererSettings], **given: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(kind, **given)
    return caught.value.problems


def test_lite_needs_nothing_but_what_the_supervisor_sets(backend_environment: pytest.MonkeyPatch) -> None:
    settings = load(BackendSettings)
    assert settings.database_url == "sqlite+aiosqlite:///data/pagegate.db"
    assert (settings.ai_page_mutation_concurrency, settings.render_global_concurrency) == (1, 1)


def test_regular_has_its_own_defaults_and_wants_a_database(backend_environment: pytest.MonkeyPatch) -> None:
    backend_environment.setenv("PAGEGATE_PROFILE", "regular")
    assert problems_of(BackendSettings) == ["DATABASE_URL: must be set", "REDIS_URL: must be set"]
    backend_environment.setenv("DATABASE_URL", "postgresql+asyncpg://u:p@db/pagegate")
    backend_environment.setenv("REDIS_URL", "memory://lite")
    settings = load(BackendSettings)
    assert (settings.ai_page_mutation_concurrency, settings.ai_page_mutation_max_active_jobs) == (2, 64)


def test_a_set_variable_wins_over_the_profile(backend_environment: pytest.MonkeyPatch) -> None:
    backend_environment.setenv("RENDER_GLOBAL_CONCURRENCY", "5")
    assert load(BackendSettings).render_global_concurrency == 5


@pytest.mark.parametrize(("urls", "refused"), [("*", False), ("http://hooks:9000, *", False), ("hooks:9000", True)])
def test_allowed_addresses_of_webhooks_are_addresses(
    backend_environment: pytest.MonkeyPatch, urls: str, refused: bool
) -> None:
    backend_environment.setenv("WEBHOOK_ALLOWED_URLS", urls)
    if not refused:
        assert load(BackendSettings).webhook_allowed_urls == urls
    else:
        assert [line.split(":")[0] for line in problems_of(BackendSettings)] == ["WEBHOOK_ALLOWED_URLS"]


def test_every_problem_is_told_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RENDER_QUEUE_SIZE", "-3")
    monkeypatch.setenv("DATABASE_URL", "mysql://x")
    monkeypatch.setenv("RUNTIME_BASE_URLS", "[http://a")
    monkeypatch.setenv("RENDER_WORKERS_CONFIG", '[{"id": "a", "bas_url": "http://x"}]')
    told = problems_of(BackendSettings)
    assert [line.split(":")[0] for line in told] == [
        "DATABASE_URL",
        "RUNTIME_BASE_URLS",
        "RENDER_WORKERS_CONFIG[0][base_url]",
        "RENDER_WORKERS_CONFIG[0][bas_url]",
        "RENDER_QUEUE_SIZE",
        "RENDER_SERVICE_CREDENTIAL",
    ]


def test_a_malformed_setting_hides_no_contradiction_of_the_others(backend_environment: pytest.MonkeyPatch) -> None:
    backend_environment.setenv("BACKEND_MULTI_INSTANCE", "true")
    backend_environment.setenv("RENDER_QUEUE_SIZE", "many")
    backend_environment.setenv("DATABASE_URL", "mysql://x")
    backend_environment.setenv("DURABLE_JOB_LEASE_SECONDS", "-1")
    backend_environment.setenv("DURABLE_JOB_HEARTBEAT_SECONDS", "50")  # too long for 60, and 60 is nobody's wish
    told = [line.split(":")[0] for line in problems_of(BackendSettings)]
    assert told[:3] == ["DATABASE_URL", "DURABLE_JOB_LEASE_SECONDS", "RENDER_QUEUE_SIZE"]
    assert {"REDIS_URL", "ASSET_STORAGE_DRIVER", "RUNTIME_RSA_PRIVATE_KEY", "AI_SECRET_ENCRYPTION_KEY"} <= set(told)
    assert len(told) == len(set(told))
    assert "DURABLE_JOB_HEARTBEAT_SECONDS" not in told


def test_contradictions_are_told_together_too(backend_environment: pytest.MonkeyPatch) -> None:
    backend_environment.setenv("RENDER_SERVICE_CREDENTIAL", "short")
    backend_environment.setenv("ASSET_STORAGE_DRIVER", "s3")
    backend_environment.setenv("DURABLE_JOB_HEARTBEAT_SECONDS", "50")
    told = problems_of(BackendSettings)
    assert [line.split(":")[0] for line in told] == [
        "RENDER_SERVICE_CREDENTIAL",
        "S3_BUCKET",
        "DURABLE_JOB_HEARTBEAT_SECONDS",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RENDER_SERVICE_CREDENTIAL", "s3cret"),
        ("DATABASE_URL", "mysql://root:s3cret@db/x"),
        ("RUNTIME_BASE_URLS", "http://root:s3cret@host"),
        ("RENDER_WORKERS_CONFIG", '{"s3cret"'),
        ("BACKEND_PORT", "s3cret"),
    ],
)
def test_no_message_shows_a_value(backend_environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    backend_environment.setenv(name, value)
    told = problems_of(BackendSettings)
    assert len(told) == 1
    assert told[0].startswith(name)
    assert "s3cret" not in told[0]


def test_the_credential_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credential"
    file.write_text(CREDENTIAL + "\n")
    monkeypatch.setenv("RENDER_SERVICE_CREDENTIAL_FILE", str(file))
    assert load(RendererSettings).credential() == CREDENTIAL


def test_an_unreadable_credential_file_is_a_problem_not_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RENDER_SERVICE_CREDENTIAL_FILE", str(tmp_path / "none"))
    assert problems_of(RendererSettings) == ["RENDER_SERVICE_CREDENTIAL_FILE: cannot be read (FileNotFoundError)"]


def test_a_runtime_does_not_care_about_the_backends_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://of-some-other-program")
    assert load(RuntimeSettings).runtime_vite_task_concurrency.check == 1


def test_lanes_of_the_runtime_are_sized_together_or_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_VITE_TASK_CONCURRENCY", "check=4, build=1,light=2")
    monkeypatch.setenv("RUNTIME_VITE_TASK_QUEUE_SIZE", "8")
    settings = load(RuntimeSettings)
    assert settings.runtime_vite_task_concurrency == PerLane(check=4, build=1, light=2)
    assert settings.runtime_vite_task_queue_size == PerLane(check=8, build=8, light=8)


@pytest.mark.parametrize("value", ["0", "-1", "check=1", "check=1,build=1,light=0", "a=1,build=1,light=1", "x"])
def test_wrong_size_of_a_lane_is_told_with_its_setting(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("RUNTIME_VITE_TASK_QUEUE_SIZE", value)
    assert all(line.startswith("RUNTIME_VITE_TASK_QUEUE_SIZE") for line in problems_of(RuntimeSettings))


def test_addresses_come_with_commas_or_as_json(backend_environment: pytest.MonkeyPatch) -> None:
    backend_environment.setenv("RUNTIME_BASE_URLS", "http://a:1/, https://b")
    assert load(BackendSettings).runtime_base_urls == ["http://a:1", "https://b"]
    backend_environment.setenv("RUNTIME_BASE_URLS", '["http://a:1/", "https://b"]')
    assert load(BackendSettings).runtime_base_urls == ["http://a:1", "https://b"]


def test_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_PORT", "1")
    assert load(RuntimeSettings, runtime_port=2).runtime_port == 2
    assert load(RuntimeSettings, runtime_port=None).runtime_port == 1


def test_a_missing_env_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load(RuntimeSettings, env_file=tmp_path / "none.env")


def test_a_misspelt_name_is_noticed() -> None:
    warnings = misspelt({"RENDER_QEUE_SIZE": "1", "RENDER_QUEUE_SIZE": "1", "HOME": "/", "RENDER_SERVICE_ID": "x"})
    assert warnings == ["RENDER_QEUE_SIZE is no setting; did you mean RENDER_QUEUE_SIZE?"]


def example_lines() -> dict[str, tuple[str, bool]]:
    """Name → (value, commented out) of every setting in the example file."""
    found = re.findall(r"^(#?)([A-Z][A-Z0-9_]+)=(.*)$", EXAMPLE.read_text("utf-8"), re.MULTILINE)
    assert len(found) == len({name for _, name, _ in found}), "a setting is listed twice"
    return {name: (value, comment == "#") for comment, name, value in found}


def test_the_example_file_has_every_setting_and_no_other() -> None:
    assert sorted(example_lines()) == setting_names()


def test_the_example_file_shows_the_defaults(backend_environment: pytest.MonkeyPatch) -> None:
    for kind in PROCESSES:
        assert load(kind, env_file=EXAMPLE) == load(kind)


def test_only_what_has_no_single_default_is_commented_out() -> None:
    shown = {name for name, (_, commented) in example_lines().items() if not commented}
    for kind in PROCESSES:
        for name, field in kind.model_fields.items():
            has_default = field.default not in (None, "") if not field.is_required() else True
            if name.upper() not in shown:
                assert not has_default or name in {"runtime_base_urls", "render_workers_config"}, name


# Settings that act by being checked, or before any process is composed.
NOT_HANDED_ON = {
    "backend_multi_instance",
    "web_concurrency",
    "uvicorn_workers",
    "asset_storage_driver",
    "object_storage_shared_volume",
    "ai_secret_encryption_key",
    "runtime_rsa_private_key",
    "runtime_rsa_private_key_file",
    "runtime_rsa_key_id",
    "runtime_rsa_previous_keys",
    "pagegate_profile",
    "render_service_credential",
    "render_service_credential_file",
}


def test_no_setting_is_without_effect() -> None:
    files = ["process.py", "backend_process.py", "runtime_process.py", "renderer_process.py"]
    source = "\n".join((ROOT / "deploy" / name).read_text("utf-8") for name in files)
    names = {name for kind in PROCESSES for name in kind.model_fields}
    assert sorted(name for name in names - NOT_HANDED_ON if f"settings.{name}" not in source) == []


def test_an_object_store_needs_its_bucket_and_both_keys_or_none(backend_environment: pytest.MonkeyPatch) -> None:
    backend_environment.setenv("ASSET_STORAGE_DRIVER", "s3")
    backend_environment.setenv("S3_ACCESS_KEY_ID", "me")
    assert problems_of(BackendSettings) == [
        "S3_BUCKET: must be set, because ASSET_STORAGE_DRIVER is s3",
        "S3_ACCESS_KEY_ID: set it together with S3_SECRET_ACCESS_KEY, or neither",
    ]
    backend_environment.setenv("S3_BUCKET", "pictures")
    backend_environment.setenv("S3_SECRET_ACCESS_KEY", "hush")
    backend_environment.setenv("S3_ENDPOINT_URL", "https://s3.example.org/")
    settings = load(BackendSettings)
    assert settings.s3_endpoint_url == "https://s3.example.org"
    assert "hush" not in repr(settings)
