"""The settings of the built-in agent (A7, A10, A11): names, limits and defaults. `BackendSettings` includes them."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from pagegate.actors.agents.secrets import SecretKeyInvalid, check_key
from pagegate.deploy.setting_values import Count, Seconds, http_url


class AgentSettings(BaseSettings):
    """Lists are text with commas between."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    ai_run_concurrency: Count = 4
    ai_run_request_limit: Count = 50
    ai_run_repair_budget: Count = 8
    ai_run_idle_timeout_seconds: Seconds = 300
    ai_model_stream_idle_timeout_seconds: Seconds = 120
    ai_tool_stream_idle_timeout_seconds: Seconds = 120
    ai_model_base_urls: str = ""
    image_generation_concurrency: Count
    image_generation_max_active_jobs: Count = 16
    image_generation_timeout_seconds: Seconds = 180
    webhook_allowed_urls: str = ""
    ai_secret_encryption_key: SecretStr | None = None
    ai_secret_encryption_key_file: Path = Path("data/ai_secret_encryption_key")
    ai_secret_encryption_previous_keys: SecretStr | None = None

    def agent_contradictions(self, *, current_key_too: bool) -> Iterator[str]:
        """Problems as `NAME: what to do`: a malformed key refuses the start (CASES 49)."""
        for url in listed(self.webhook_allowed_urls):
            try:
                _ = url == "*" or http_url(url)
            except ValueError as error:
                yield f"WEBHOOK_ALLOWED_URLS: {error}"
        given = {"AI_SECRET_ENCRYPTION_PREVIOUS_KEYS": listed(self.ai_secret_encryption_previous_keys)}
        if current_key_too:
            given["AI_SECRET_ENCRYPTION_KEY"] = listed(self.ai_secret_encryption_key)
        for name, keys in given.items():
            for key in keys:
                try:
                    check_key(key)
                except SecretKeyInvalid as error:
                    yield f"{name}: {str(error).partition(': ')[2]}"


def listed(text: str | SecretStr | None) -> list[str]:
    """The parts of a text with commas between."""
    said = text.get_secret_value() if isinstance(text, SecretStr) else text or ""
    return [part.strip() for part in said.split(",") if part.strip()]
